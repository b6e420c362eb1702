//! Admission: from read events to one commit, and the answer that it allows.
//!
//! A request hands its events to a queue and awaits a one-shot answer; it never touches the database itself, because a
//! client that hangs up cancels it. P1 (a 2xx only after the commit) and P2 (one effect for any number of copies) are
//! kept here. Start at `admitter.rs`, the entrance. Three tasks stand behind it:
//!
//! - `committer.rs` commits what waits, together; `commit.rs` is one pass;
//! - `transactional.rs` admits events whose handlers write in the same transaction, each request in one of its own;
//! - `retry.rs` dispatches again what failed for now, and what waited while its provider was paused.
//!
//! They share: `decision.rs` and `plan.rs` decide, without I/O, what becomes of an event; `dispatch.rs` runs handlers;
//! `handover.rs` starts calls right after the commit. `entry.rs` is one provider, `room.rs` memory, `bodies.rs` large
//! and unreadable bodies, `templates.rs` the bodies that destinations want. `what_if/` runs handlers without writing.
//!
//! Not here: what a statement looks like (`store/`), and how a message is sent (`outbox/`).

mod admitter;
mod bodies;
mod commit;
mod committer;
mod decision;
mod dispatch;
mod entry;
mod handover;
mod health;
mod plan;
mod retry;
mod room;
mod templates;
mod transactional;
mod what_if;

pub use admitter::{AdmitError, AdmitTasks, AdmittedEvents, Admitter, admitter};
pub use bodies::Unreadable;
pub use entry::{CallerRules, ProviderEntry, ProviderTable, Providers, load_pauses, run_pauses};
pub use handover::{StartCall, TakeSlot};
pub use health::AdmissionHealth;
pub use plan::Planner;
pub use retry::run_retries;
pub use room::{HeldMemory, LARGE_BYTES, MemoryRoom};
pub use templates::{TemplateError, Templates};
pub use what_if::{ShownBytes, WhatIf, WhatIfParts};

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, RwLock, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use hooklatch_core::logging::Lines;
use hooklatch_core::types::Clock;
use hooklatch_outbox::traces::Traces;
use hooklatch_store::Store;

/// After how long a batch is one that does not end: every sender in it, and behind it, has long been asked to send
/// again.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The starts of the batches that are under way, one of small requests and one of a large one. A plain handler that
/// does not return blocks every request behind it, and it cannot be ended: it can only be reported.
#[derive(Default)]
pub struct UnderWay {
    batches: [Mutex<Option<Instant>>; 2],
    /// Batches of small requests that ended.
    ended: Mutex<BatchTimes>,
}

/// How many batches ended, and the sum of their times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchTimes {
    pub n: u64,
    pub took: Duration,
}

impl BatchTimes {
    /// Those that are not among `earlier` ones.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { n: self.n.saturating_sub(earlier.n), took: self.took.saturating_sub(earlier.took) }
    }

    /// Mean time of a batch; `None` where there is none. Milliseconds.
    pub fn mean_ms(self) -> Option<f64> {
        let n = u32::try_from(self.n).unwrap_or(u32::MAX);
        (n > 0).then(|| self.took.as_secs_f64() * 1_000.0 / f64::from(n))
    }
}

impl UnderWay {
    /// True when a batch is under way that should have ended long ago.
    pub fn is_stuck(&self) -> bool {
        self.batches.iter().any(|batch| {
            let since = batch.lock().unwrap_or_else(PoisonError::into_inner);
            since.is_some_and(|since| since.elapsed() > STUCK_AFTER)
        })
    }

    /// Notes that a batch begins, or with `None` that it ended.
    pub fn note(&self, is_large: bool, since: Option<Instant>) {
        let [small, large] = &self.batches;
        let batch = if is_large { large } else { small };
        let begun = std::mem::replace(&mut *batch.lock().unwrap_or_else(PoisonError::into_inner), since);
        if let (false, Some(begun), None) = (is_large, begun, since) {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            *ended = BatchTimes { n: ended.n + 1, took: ended.took + begun.elapsed() };
        }
    }

    /// The batches of small requests that ended so far.
    pub fn times(&self) -> BatchTimes {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The things that every part of admission shares.
pub struct AdmitContext {
    pub store: Store,
    pub clock: Clock,
    /// Part of every idempotency key.
    pub installation_id: Uuid,
    /// Turns what handlers answered into rows and messages.
    pub planner: Planner,
    /// Bounds how much is kept of what could not be read.
    pub unreadable: Unreadable,
    /// Bounds the log lines about failed dispatches.
    pub lines: Arc<Lines>,
    /// Longest time that the transactional handlers of one request may take together.
    pub handler_timeout: Duration,
    /// Turns of those that run handlers in a transaction, at admission or again. There are fewer turns than
    /// connections, so that only handlers wait for handlers; on SQLite, whose only writer they hold, there is one.
    pub turns: Arc<Semaphore>,
    /// The outbox, which is asked for slots before messages are committed.
    pub slots: TakeSlot,
    /// Wakes the worker after a commit that wrote messages for which no slot was taken.
    pub wake_outbox: Box<dyn Fn() + Send + Sync>,
    /// Start of the shared batch that is under way.
    pub under_way: UnderWay,
    /// Whether the database takes events.
    pub health: AdmissionHealth,
    /// Sizes of batches, in events.
    pub batch_events: metrics::Histogram,
    /// Where spans of the work are recorded.
    pub traces: Traces,
    /// Notified when an event may be due that was not due before.
    pub wake_retries: Notify,
    /// Held for reading from the decision that an event queues behind those that waited for the end of a pause until
    /// its commit; for writing when that ends.
    pub queue_gate: RwLock<()>,
    /// Notified when an operator may have paused or resumed a provider.
    pub wake_pauses: Notify,
}

impl AdmitContext {
    /// Waits for the turn to run handlers in a transaction.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_stuck_after_its_time_and_only_while_it_lasts() {
        let under_way = UnderWay::default();
        assert!(!under_way.is_stuck());
        under_way.note(false, Some(Instant::now()));
        tokio::time::advance(STUCK_AFTER).await;
        assert!(!under_way.is_stuck(), "it may take as long as that");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(under_way.is_stuck());
        under_way.note(true, None);
        assert!(under_way.is_stuck(), "another one ended");
        under_way.note(false, None);
        assert!(!under_way.is_stuck());
        let times = under_way.times();
        assert_eq!((times.n, times.took), (1, STUCK_AFTER + Duration::from_millis(1)), "not the large one");
        assert_eq!((times.mean_ms(), times.since(times).mean_ms()), (Some(10_001.0), None));
    }
}
