//! Works off what operators ordered to be done to many messages or events: a batch of each operation in turn, in short
//! transactions with pauses between, so that admission hardly notices. On every node: the node that locks the
//! operation's row makes a batch, and the first to lock it again makes the next one.
//!
//! What a batch does, and that it does it once, is the store's part (`crates/store/src/operations/`).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use hooklatch_core::stop::Stop;
use hooklatch_core::types::Clock;
use hooklatch_store::{OperationStep, Store, StoreError};

/// Batches that take longer get smaller; those that take less than the other get larger.
const SLOW: Duration = Duration::from_millis(50);
const FAST: Duration = Duration::from_millis(15);
/// What is this slow has rows with much behind each: their number has no floor.
const HEAVY: Duration = Duration::from_millis(500);
/// Most rows of a batch.
const ROWS_N_MAX: u32 = 200;
/// Fewest rows that a slow batch leads to; one that is heavy or fails leads to 1.
const ROWS_N_MIN: u32 = 20;
/// Longest and shortest pause between two batches.
const PAUSE_MAX: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// The pace of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperationPace {
    rows_n: u32,
    /// True when the next row alone is what the database refuses.
    is_culprit_alone: bool,
}

impl Default for OperationPace {
    fn default() -> Self {
        Self { rows_n: ROWS_N_MAX, is_culprit_alone: false }
    }
}

impl OperationPace {
    /// Returns how many rows the next batch has.
    pub(crate) fn rows_n(self) -> u32 {
        self.rows_n
    }

    /// True when the next row is to be passed by.
    pub(super) fn is_passing_by(self) -> bool {
        self.is_culprit_alone
    }

    /// Takes in how long a batch took.
    pub(crate) fn took(&mut self, elapsed: Duration) {
        self.is_culprit_alone = false;
        if elapsed > HEAVY {
            self.rows_n = (self.rows_n / 2).max(1);
        } else if elapsed > SLOW {
            self.rows_n = (self.rows_n / 2).max(ROWS_N_MIN.min(self.rows_n));
        } else if elapsed < FAST {
            self.rows_n = (self.rows_n + self.rows_n / 2 + 1).min(ROWS_N_MAX);
        }
    }

    /// Takes in that the database refused a batch: it is halved until the culprit stands alone.
    pub(crate) fn refused(&mut self) {
        self.is_culprit_alone = self.rows_n == 1;
        self.rows_n = (self.rows_n / 2).max(1);
    }

    /// Takes in that a batch failed for no row's sake: a smaller one may be done in the time that there is, or get past
    /// what is locked.
    pub(crate) fn failed(&mut self) {
        self.is_culprit_alone = false;
        self.rows_n = (self.rows_n / 2).max(1);
    }

    /// Time for which others work after a batch: as long as it took.
    pub(crate) fn pause(elapsed: Duration) -> Duration {
        elapsed.clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

/// Pause between two looks for operations that were ordered at other nodes, or left by those that died; longer while the
/// node's looks find none.
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
        let mut looks = self.store.node().subscribe();
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
                    () = looks.until(LOOK_EVERY, |look| look.operation_due) => {}
                    () = stop.wait() => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_when_they_are_slow_and_grow_when_they_are_fast_within_bounds() {
        let mut pace = OperationPace::default();
        let mut after = |ms: u64, times: u32| {
            (0..times).for_each(|_| pace.took(Duration::from_millis(ms)));
            pace.rows_n()
        };
        assert_eq!(after(1, 3), ROWS_N_MAX);
        assert_eq!(after(51, 1), 100);
        assert_eq!(after(30, 5), 100, "neither slow nor fast");
        assert_eq!(after(400, 20), ROWS_N_MIN);
        assert_eq!(after(1, 1), 31);
        assert_eq!(after(501, 20), 1, "much behind each row");
        assert_eq!(OperationPace::pause(Duration::from_millis(30)), Duration::from_millis(30));
        assert_eq!(OperationPace::pause(Duration::from_secs(9)), PAUSE_MAX);
    }

    #[test]
    fn a_batch_that_is_refused_is_halved_until_one_row_is_passed_by() {
        let (mut pace, mut sizes) = (OperationPace::default(), Vec::new());
        while !pace.is_passing_by() {
            sizes.push(pace.rows_n());
            pace.refused();
        }
        assert_eq!(sizes, [200, 100, 50, 25, 12, 6, 3, 1]);
        pace.took(Duration::from_millis(1));
        assert_eq!((pace.rows_n(), pace.is_passing_by()), (2, false));
    }

    #[test]
    fn a_batch_that_has_no_time_or_waits_for_others_gets_smaller_and_passes_nothing_by() {
        let mut pace = OperationPace::default();
        let sizes: Vec<u32> = std::iter::repeat_with(|| {
            pace.failed();
            assert!(!pace.is_passing_by());
            pace.rows_n()
        })
        .take(9)
        .collect();
        assert_eq!(sizes, [100, 50, 25, 12, 6, 3, 1, 1, 1]);
    }
}
