//! Notifications to the service manager, by the protocol of systemd's `sd_notify`.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use sd_notify::NotifyState;
use tracing::{debug, warn};

use hooklatch_core::config::Environment;

/// Variable with the socket of the manager.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Most notifications that wait for a manager that does not read them; further ones are dropped.
const WAITING_N_MAX: usize = 16;

/// Part of the time that the watchdog allows between two signs of life, in which one is given: a few may be missed.
const BEAT_PART: u32 = 4;

/// The manager of this process; sends nothing where there is none.
#[derive(Debug)]
pub struct Manager {
    beat: Option<Duration>,
    /// Queue of the notifier thread: a manager that does not read would otherwise block the sender, and with it the
    /// stop.
    queue: Option<SyncSender<String>>,
}

impl Manager {
    /// The manager that started this process.
    pub fn of_process() -> Self {
        let mut allowed_us = 0;
        // The variables stay: we start no process, and to change them is not safe beside other threads.
        let is_watched = sd_notify::watchdog_enabled(false, &mut allowed_us) && allowed_us > 0;
        let is_there = Environment::of_process().get(SOCKET).is_some_and(|socket| !socket.is_empty());
        Self {
            beat: is_watched.then(|| Duration::from_micros(allowed_us) / BEAT_PART),
            queue: is_there.then(start_notifier).flatten(),
        }
    }

    /// Interval of the signs of life that it wants; `None` when it wants none.
    pub fn beat(&self) -> Option<Duration> {
        self.beat
    }

    /// Sends the state of the server, in a line for people.
    pub fn status(&self, text: &str) {
        self.send(&[NotifyState::Status(text)]);
    }

    /// Notifies that the start is over: units that wait for us may begin.
    pub fn ready(&self, text: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(text)]);
    }

    /// Gives a sign of life.
    pub fn alive(&self) {
        self.send(&[NotifyState::Watchdog]);
    }

    /// Notifies that the stop has begun, and within which time it ends: we may not be killed sooner.
    pub fn stopping(&self, text: &str, within: Duration) {
        let within_us = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
        self.send(&[
            NotifyState::Stopping,
            NotifyState::Status(text),
            NotifyState::ExtendTimeoutUsec(within_us),
        ]);
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        let Some(queue) = &self.queue else { return };
        let text = states.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        if queue.try_send(text).is_err() {
            debug!("the service manager ({SOCKET}) does not read notifications");
        }
    }
}

/// Starts the notifier thread, which ends when the queue is closed.
fn start_notifier() -> Option<SyncSender<String>> {
    let (queue, waiting) = sync_channel(WAITING_N_MAX);
    let started =
        std::thread::Builder::new().name("manager".to_owned()).spawn(move || send_all(&waiting)).map(drop);
    if let Err(error) = &started {
        warn!(%error, "could not start the thread that notifies the service manager");
    }
    started.ok().map(|()| queue)
}

/// Sends all queued notifications, and warns once of a manager that is not there.
fn send_all(waiting: &Receiver<String>) {
    let mut is_there = true;
    for text in waiting {
        let sent = sd_notify::notify(false, &[NotifyState::Custom(&text)]);
        if let (Err(error), true) = (&sent, is_there) {
            warn!(%error, "could not tell the service manager ({SOCKET}) how it goes");
        }
        is_there = sent.is_ok();
    }
}
