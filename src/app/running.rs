//! A running app: its handles, its stop, the life of a process that is only Hooklatch, and its tasks.
//!
//! A stop signal makes `/readyz` fail at once. For `server.stop_delay_ms` nothing else happens: a load balancer goes on
//! sending until its next health check. Then the listeners close, and requests in progress are finished.
//!
//! Tasks are spawned in one place, so that a stop can wait for each; restarted after a panic ([`Parts`]); watched for
//! readiness, which is false while one of them is down. One of them writes the witness file beside an SQLite database
//! for as long as the database may change.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout, timeout_at};
use tracing::{debug, error, info, warn};

use super::App;
use super::gauges::NodeActivity;
use super::reload::Reload;
use hooklatch_core::stop;
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::Clock;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_operator::service::{Manager, Sockets};
use hooklatch_outbox::traces::SpanExporter;
use hooklatch_receive::admit::{AdmitContext, Admitter};
use hooklatch_receive::handler::panic_text;
use hooklatch_receive::idempotency::{IdempotencyLayer, RequestRules};
use hooklatch_store::Store;

/// Time that a stop may take beyond `stop_timeout_ms`: results that are written, commits that are confirmed.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// Time that a stop may take for the last spans: longer than they need.
const EXPORT_MARGIN: Duration = Duration::from_secs(3);

/// Time that a stop may take to save what was counted: one short transaction.
const SAVE_MARGIN: Duration = Duration::from_secs(2);

/// The task that exports spans.
pub(super) struct Exporting {
    stop: Stopper,
    task: JoinHandle<()>,
}

impl Exporting {
    pub(super) fn start(parts: &Parts, mut exporter: SpanExporter) -> Self {
        let (stop, stopping) = Stop::channel();
        let run = async move |stop| exporter.run(stop).await;
        Self { stop, task: spawn(parts.keep("traces", &stopping, run)) }
    }
}

/// A running Hooklatch. Dropping it signals its parts to stop and waits for none of them: see [`Running::stop`].
pub struct Running {
    /// Address where senders reach the receiver.
    pub receiver_addr: SocketAddr,
    /// Address where operators reach it.
    pub admin_addr: SocketAddr,
    pub(super) readiness: watch::Receiver<Readiness>,
    pub(super) watched: ReadinessSources,
    pub(super) background: Background,
    /// Reads the configuration again.
    pub(super) reload: Option<Box<Reload>>,
}

impl Running {
    /// Stops accepting, answers what is under way, commits what waits, finishes or hands back what is being
    /// sent, closes the database. Ends within `stop_timeout_ms` for calls and requests under way, the time that
    /// their results may take to be written, and the seconds of closing, whatever the database does: a part that does
    /// not end by itself is given up, and what it had not confirmed is sent again.
    pub async fn stop(self) {
        // A reload could admit events.
        drop(self.reload);
        self.background.stop().await;
    }
}

/// Everything of a Hooklatch that runs besides a receiver: admission, calls, retries, retention. Dropping it signals
/// its parts to stop, as soon as its router is dropped too, and waits for none of them: see [`Background::stop`].
pub struct Background {
    pub(super) stop: Stopper,
    /// Empty where the receiver is mounted into another server.
    pub(super) listeners: Vec<JoinHandle<()>>,
    pub(super) admitter: Admitter,
    pub(super) admission: Vec<JoinHandle<()>>,
    pub(super) workers: Vec<JoinHandle<()>>,
    /// Saved after all that is counted.
    pub(super) activity: Arc<NodeActivity>,
    /// Stopped after every part whose spans it exports.
    pub(super) exporting: Option<Exporting>,
    /// Stopped after every task that writes.
    pub(super) witnessing: Witnessing,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) stop_timeout: Duration,
}

impl Background {
    /// A layer for your own routes that executes each request under an `Idempotency-Key` once, and answers its
    /// repetitions with the first answer: see [`idempotency`](crate::idempotency).
    ///
    /// `principal` names whose key it is, as your authentication stored it in the request; `None` is answered with 401.
    /// The routes belong to the router that is dropped before [`Background::stop`].
    pub fn idempotency(
        &self,
        principal: impl Fn(&http::request::Parts) -> Option<String> + Send + Sync + 'static,
    ) -> IdempotencyLayer {
        let rules = RequestRules::new(self.store.clone(), self.clock.clone(), "app", Arc::new(principal));
        // A stop waits for everything that could admit events, which includes requests in progress.
        IdempotencyLayer::from(rules.keeping(Arc::new(self.admitter.clone())))
    }

    /// Commits what waits, finishes or hands back what is being sent, closes the database. Stop the server that the
    /// receiver is mounted into first, and drop its router: what it takes meanwhile is waited for. Ends as
    /// [`Running::stop`] does.
    pub async fn stop(self) {
        self.stop.stop();
        let until = Instant::now() + self.stop_timeout + STOP_MARGIN;
        join("listeners", self.listeners, until).await;
        drop(self.admitter);
        join("admission", self.admission, until).await;
        join("workers", self.workers, until).await;
        let saved = timeout(SAVE_MARGIN, self.activity.save(&self.store, self.clock.now_ms())).await;
        if saved.is_err() {
            warn!("could not save the counts of the last minute in time");
        }
        if let Some(exporting) = self.exporting {
            exporting.stop.stop();
            join("traces", vec![exporting.task], Instant::now() + EXPORT_MARGIN).await;
        }
        self.witnessing.stop().await;
        self.store.close().await;
    }
}

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

/// The one place that spawns the app's tasks, so that a stop can wait for each.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    // One type of task for all parts.
    tokio::spawn(Box::pin(task) as BoxFuture<'static, ()>)
}

/// Waits for tasks until the deadline, and aborts those that are left.
pub(super) async fn join(part: &'static str, tasks: Vec<JoinHandle<()>>, until: Instant) {
    for mut task in tasks {
        match timeout_at(until, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, part, "a task of the app ended badly"),
            Err(_) => {
                warn!(
                    part,
                    "did not end in time and was given up: what it had not confirmed will be sent again"
                );
                task.abort();
            }
        }
    }
}

/// Pause before a part is restarted after a panic, so that one that panics at once does not loop.
const AWAY: Duration = Duration::from_millis(200);

/// The parts that are down. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Parts(Arc<Mutex<BTreeSet<&'static str>>>);

impl Parts {
    /// True when every part runs.
    pub(super) fn are_running(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Runs a part until it ends by itself, again after every panic.
    pub(super) fn keep<F: AsyncFnMut(Stop)>(
        &self,
        part: &'static str,
        stop: &Stop,
        mut run: F,
    ) -> impl Future<Output = ()> + use<F> {
        let (parts, stop) = (self.clone(), stop.clone());
        async move {
            loop {
                parts.note(part, true);
                let Err(panic) = AssertUnwindSafe(run(stop.clone())).catch_unwind().await else { break };
                parts.note(part, false);
                metrics::counter!("hooklatch_panics_total", "part" => part).increment(1);
                let reason = panic_text(panic.as_ref());
                error!(part, reason, "a part of the app panicked and is started again");
                stop::pass(AWAY).await;
            }
            parts.note(part, false);
        }
    }

    fn note(&self, part: &'static str, is_running: bool) {
        let mut away = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_running {
            away.remove(part);
        } else {
            away.insert(part);
        }
    }
}

/// Runs `task` and records its end, also by a panic.
pub(super) async fn noted(task: impl Future<Output = ()>, is_running: Arc<AtomicBool>) {
    struct Note(Arc<AtomicBool>);
    impl Drop for Note {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    let _note = Note(is_running);
    task.await;
}

/// The parts that readiness checks.
#[derive(Clone)]
pub(super) struct ReadinessSources {
    pub(super) is_outbox_running: Arc<AtomicBool>,
    pub(super) parts: Parts,
    pub(super) admission: Arc<AdmitContext>,
}

impl ReadinessSources {
    /// True while no part of this process is down or hangs; the database does not count.
    pub(super) fn are_running(&self) -> bool {
        self.is_outbox_running.load(Ordering::Relaxed) && self.are_parts_running()
    }

    pub(super) fn are_parts_running(&self) -> bool {
        self.parts.are_running() && !self.admission.under_way.is_stuck()
    }
}

/// Pause between two steps. The first change after a pause is witnessed at once.
const STEP_EVERY: Duration = Duration::from_secs(1);
/// Pause after a step that the database did not take.
const FAILED_PAUSE: Duration = Duration::from_secs(10);
/// Time that a stop may take for the last step.
const LAST_MARGIN: Duration = Duration::from_secs(3);

/// The task that writes the witness. It is stopped after every task that writes to the database.
pub(super) struct Witnessing {
    stop: Stopper,
    task: JoinHandle<()>,
}

impl Witnessing {
    pub(super) fn start(parts: &Parts, store: &Store, clock: &Clock) -> Self {
        let (stop, stopping) = Stop::channel();
        let (store, clock) = (store.clone(), clock.clone());
        let run = async move |stop| write_witness(&store, &clock, stop).await;
        Self { stop, task: spawn(parts.keep("witness", &stopping, run)) }
    }

    /// Writes the last step, if something has changed.
    pub(super) async fn stop(self) {
        self.stop.stop();
        join("witness", vec![self.task], Instant::now() + LAST_MARGIN).await;
    }
}

async fn write_witness(store: &Store, clock: &Clock, mut stop: Stop) {
    // Changes of the start are witnessed, too.
    let mut seen_n = 0;
    while !stop.is_set() {
        let Some(now_n) = store.witness_works_n() else {
            stop.wait().await;
            return;
        };
        if now_n == seen_n {
            tokio::select! {
                () = store.witness_changed() => {}
                () = stop.wait() => {}
            }
            continue;
        }
        let pause = match store.witness_step(clock.now_ms()).await {
            Ok(()) => {
                seen_n = now_n;
                STEP_EVERY
            }
            Err(error) => {
                debug!(%error, "could not write the witness");
                FAILED_PAUSE
            }
        };
        stop.pause(pause).await;
    }
    let is_due = store.witness_works_n() != Some(seen_n);
    if let Err(error) = store.witness_end(clock.now_ms(), is_due).await {
        debug!(%error, "could not write the end into the witness");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_panics_is_started_again_and_missed_meanwhile() {
        let (parts, mut runs_n) = (Parts::default(), 0);
        let seen = parts.clone();
        parts
            .keep("test", &Stop::channel().1, async |_| {
                runs_n += 1;
                assert!(seen.are_running());
                assert!(runs_n >= 3, "not yet");
            })
            .await;
        assert_eq!(runs_n, 3);
        assert!(!seen.are_running(), "it has ended");
    }
}
