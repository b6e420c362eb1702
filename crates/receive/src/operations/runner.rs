//! The loop that makes batches of whatever operations run.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::pace::OperationPace;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::Clock;
use hooklatch_store::{OperationStep, Store, StoreError};

/// Pause between two looks for operations that were ordered at other nodes, or left by those that died.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Works off operations on one node.
pub struct OperationRunner {
    store: Store,
    clock: Clock,
    /// Called when a batch may have made something due.
    wake: Box<dyn Fn() + Send + Sync>,
    paces: BTreeMap<String, OperationPace>,
}

impl OperationRunner {
    /// Calls `wake` after each batch that changed something.
    pub fn new(store: Store, clock: Clock, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { store, clock, wake, paces: BTreeMap::new() }
    }

    /// Makes batches until the stop.
    pub async fn run(&mut self, mut stop: Stop) {
        while !stop.is_set() {
            let is_any_done = match self.store.operations_running(self.clock.now_ms()).await {
                Ok(running) => self.round(&running, &mut stop).await,
                Err(error) => {
                    warn!(%error, "could not look for operations; it is tried again");
                    false
                }
            };
            if !is_any_done {
                tokio::select! {
                    () = self.store.operation_ordered() => {}
                    _ = stop.pause(LOOK_EVERY) => {}
                }
            }
        }
    }

    /// A batch of each, so that none waits for another to end. False when there was nothing to do.
    async fn round(&mut self, running: &[String], stop: &mut Stop) -> bool {
        self.paces.retain(|operation_id, _| running.contains(operation_id));
        let mut is_any_done = false;
        for operation_id in running {
            if stop.is_set() {
                break;
            }
            let started = Instant::now();
            is_any_done |= self.batch(operation_id).await;
            stop.pause(OperationPace::pause(started.elapsed())).await;
        }
        is_any_done
    }

    async fn batch(&mut self, operation_id: &str) -> bool {
        let (started, now_ms) = (Instant::now(), self.clock.now_ms());
        let pace = self.paces.entry(operation_id.to_owned()).or_default();
        let step = self.store.operation_step(operation_id, pace.rows_n(), pace.is_passing_by(), now_ms).await;
        match step {
            Ok(Some(OperationStep { changed_n, skipped_n, is_over, stopped })) => {
                // One that waits for its calls or for its rate says nothing about the database.
                let is_any_done = changed_n + skipped_n > 0;
                if is_any_done {
                    pace.took(started.elapsed());
                }
                if changed_n > 0 {
                    (self.wake)();
                }
                let rows = |outcome: &'static str| metrics::counter!("hooklatch_operation_rows_total", "outcome" => outcome);
                rows("changed").increment(changed_n);
                rows("skipped").increment(skipped_n);
                if is_over {
                    info!(operation.id = operation_id, "an operation is over");
                }
                if let Some(why) = stopped {
                    warn!(
                        operation.id = operation_id,
                        why, "operation stopped: too many of its calls failed"
                    );
                }
                is_any_done
            }
            Ok(None) => false,
            Err(error) => {
                if matches!(error, StoreError::Query { .. } | StoreError::Inconsistent { .. }) {
                    pace.refused();
                } else {
                    pace.failed();
                }
                warn!(%error, operation.id = operation_id, "a batch of an operation was not made; it is tried again");
                false
            }
        }
    }
}
