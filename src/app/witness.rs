//! Writes the witness file beside an SQLite database for as long as the database may change.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::debug;

use super::parts::Parts;
use super::tasks::{join, spawn};
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::Clock;
use hooklatch_store::Store;

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
        let run = async move || keep(&store, &clock, stopping.clone()).await;
        Self { stop, task: spawn(parts.clone().keep("witness", run)) }
    }

    /// Writes the last step, if something has changed.
    pub(super) async fn stop(self) {
        self.stop.stop();
        join("witness", vec![self.task], Instant::now() + LAST_MARGIN).await;
    }
}

async fn keep(store: &Store, clock: &Clock, mut stop: Stop) {
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
