//! The life of a process that is only Hooklatch: started, reported to its service manager, stopped in order.
//!
//! A stop signal makes `/readyz` fail at once. For `server.stop_delay_ms` nothing else happens: a load balancer goes on
//! sending until its next health check. Then the listeners close, and requests in progress are finished.

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::builder::App;
use super::running::{Running, STOP_MARGIN};
use super::tasks::spawn;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_operator::service::{Manager, Sockets};

/// Time that a stop may take beyond its time-outs and their margin: it closes the last connections to the database.
const CLOSE_MARGIN: Duration = Duration::from_secs(5);

impl App {
    /// Runs until SIGTERM or SIGINT, then stops in order; a second one ends the delay that `server.stop_delay_ms` puts
    /// before the stop. Takes the sockets that a service manager opened, and reports its status to it. Installs
    /// neither a log nor a panic hook: see [`App::install_log`].
    ///
    /// At SIGHUP it reloads its configuration, completely or not at all: see `docs/operating.md`.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let hangup = match self.hangup.take() {
            Some(hangup) => hangup,
            None => signal(SignalKind::hangup()).context("could not listen for SIGHUP")?,
        };
        let (server, outbox) = (&self.config.server, &self.config.outbox);
        let delay = Duration::from_millis(server.stop_delay_ms);
        let stop_timeout = Duration::from_millis(outbox.stop_timeout_ms);
        let (name, is_test) = (server.name.clone(), server.is_test);
        let manager = Manager::of_process();
        let sockets = Sockets::of_process(server.listen, self.config.admin.listen)?;
        let mut signals = StopSignals::of_process()?;
        manager.status("starting: database, migrations, providers");
        let mut running = tokio::select! {
            running = self.start_on(sockets) => running?,
            () = signals.next() => {
                info!("stopped before the start was over");
                return Ok(());
            }
        };
        info!(receiver.addr = %running.receiver_addr, admin.addr = %running.admin_addr, server.name = name, "started");
        if is_test {
            warn!(
                "this is a test server (server.test): it says so to everybody, and `hooklatch send` sends it fake events"
            );
        }
        let reloads = running.reload.take().map(|reload| spawn(reload.run(hangup)));
        report_until_stop(&running, &manager, &mut signals).await;
        if let Some(reloads) = reloads {
            reloads.abort();
            // A reload could admit events: it must end before the stop.
            drop(reloads.await);
        }
        info!(?delay, "stopping");
        running.background.stop.announce();
        let within = delay + stop_timeout + STOP_MARGIN + CLOSE_MARGIN;
        manager.stopping("stopping: takes what still comes, then ends what is under way", within);
        if timeout(delay, signals.next()).await.is_ok() {
            info!("stopping without further delay");
        }
        running.stop().await;
        info!("stopped");
        Ok(())
    }
}

/// Reports readiness to the service manager until a stop signal arrives.
async fn report_until_stop(running: &Running, manager: &Manager, signals: &mut StopSignals) {
    let mut readiness = running.readiness.clone();
    let mut reported = ManagerStatus::default();
    let mut beats = manager.beat().map(|beat| {
        let mut beats = interval(beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats
    });
    loop {
        let now = readiness.borrow_and_update().clone();
        reported.update(manager, &now, running);
        tokio::select! {
            () = signals.next() => return,
            () = changed(&mut readiness) => {}
            () = beat(beats.as_mut()) => {
                if running.watched.are_running() {
                    manager.alive();
                }
            }
        }
    }
}

/// Waits until readiness changes; forever once its sender is gone.
async fn changed(readiness: &mut watch::Receiver<Readiness>) {
    if readiness.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn beat(beats: Option<&mut Interval>) {
    match beats {
        Some(beats) => drop(beats.tick().await),
        None => std::future::pending().await,
    }
}

/// What was reported to the service manager so far.
#[derive(Default)]
struct ManagerStatus {
    was_ready: bool,
    status: String,
}

impl ManagerStatus {
    /// Reports what changed. `READY` is reported once, when traffic may arrive.
    fn update(&mut self, manager: &Manager, now: &Readiness, running: &Running) {
        let away: Vec<&str> =
            now.parts().into_iter().filter_map(|(name, _, is_there)| (!is_there).then_some(name)).collect();
        let status = if away.is_empty() {
            format!("ready: receiver on {}, operators on {}", running.receiver_addr, running.admin_addr)
        } else {
            format!("not ready: {} away", away.join(", "))
        };
        if now.is_ready() && !self.was_ready {
            self.was_ready = true;
            manager.ready(&status);
        } else if status != self.status {
            manager.status(&status);
        }
        self.status = status;
    }
}

/// The signals that stop the process.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From here on the signals no longer end the process by default; as process 1 of a container they never did.
    fn of_process() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("could not listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("could not listen for SIGINT")?,
        })
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
