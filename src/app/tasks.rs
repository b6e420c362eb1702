//! The tasks of the app: spawned in one place, so that a stop can wait for each; restarted after a panic ([`Parts`]);
//! watched for readiness, which is false while one of them is down; and the one that writes the witness file beside an
//! SQLite database for as long as the database may change.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, error, warn};

use hooklatch_core::stop;
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::Clock;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_receive::admit::AdmitContext;
use hooklatch_receive::handler::panic_text;
use hooklatch_store::{SchemaState, Store};

/// The one place that spawns the app's tasks, so that a stop can wait for each.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task)
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

/// Pause between two probes of the database.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

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

    fn are_parts_running(&self) -> bool {
        self.parts.are_running() && !self.admission.under_way.is_stuck()
    }
}

/// Keeps `readiness` up to date until the stop.
pub(super) async fn watch_readiness(
    readiness: watch::Sender<Readiness>,
    watched: ReadinessSources,
    mut stop: Stop,
) {
    let store = &watched.admission.store;
    let mut is_schema_current = false;
    while !stop.is_set() {
        let is_database_there = store.probe().await.is_ok();
        if is_database_there && !is_schema_current {
            is_schema_current = store.schema_state().await.is_ok_and(SchemaState::is_usable);
        }
        readiness.send_replace(Readiness {
            is_database_there,
            is_schema_current,
            is_outbox_running: watched.is_outbox_running.load(Ordering::Relaxed),
            are_parts_running: watched.are_parts_running(),
            is_accepting: !stop.leaving().has_begun(),
        });
        stop.pause(HEALTH_EVERY).await;
    }
    readiness.send_modify(|state| state.is_accepting = false);
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
                debug!(%error, "the witness was not told");
                FAILED_PAUSE
            }
        };
        stop.pause(pause).await;
    }
    let is_due = store.witness_works_n() != Some(seen_n);
    if let Err(error) = store.witness_end(clock.now_ms(), is_due).await {
        debug!(%error, "the witness was not told of the end");
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
