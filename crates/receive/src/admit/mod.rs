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

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// The batches that are under way. A plain handler that does not return blocks its batch for good, and it cannot be
/// ended: it can only be reported.
#[derive(Default)]
pub struct UnderWay {
    /// Starts of the batches, with numbers that tell them apart.
    starts: Mutex<BTreeMap<u64, Instant>>,
    next: AtomicU64,
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
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.values().any(|since| since.elapsed() > STUCK_AFTER)
    }

    /// Notes that a batch begins. It ends when the answer is dropped.
    #[must_use]
    pub(crate) fn begin(&self, is_large: bool) -> BatchUnderWay<'_> {
        let (n, since) = (self.next.fetch_add(1, Ordering::Relaxed), Instant::now());
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).insert(n, since);
        BatchUnderWay { all: self, n, since, is_large }
    }

    /// The batches of small requests that ended so far.
    pub fn times(&self) -> BatchTimes {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One batch that is under way.
pub(crate) struct BatchUnderWay<'a> {
    all: &'a UnderWay,
    n: u64,
    since: Instant,
    is_large: bool,
}

impl Drop for BatchUnderWay<'_> {
    fn drop(&mut self) {
        self.all.starts.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.n);
        if !self.is_large {
            let mut ended = self.all.ended.lock().unwrap_or_else(PoisonError::into_inner);
            *ended = BatchTimes { n: ended.n + 1, took: ended.took + self.since.elapsed() };
        }
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
    /// The batches that are under way.
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
        let (small, large) = (under_way.begin(false), under_way.begin(true));
        tokio::time::advance(STUCK_AFTER).await;
        assert!(!under_way.is_stuck(), "it may take as long as that");
        tokio::time::advance(Duration::from_millis(1)).await;
        drop(large);
        assert!(under_way.is_stuck(), "another one ended");
        let second = under_way.begin(false);
        drop(small);
        assert!(!under_way.is_stuck(), "what is left began just now");
        drop(second);
        let times = under_way.times();
        assert_eq!((times.n, times.took), (2, STUCK_AFTER + Duration::from_millis(1)), "not the large one");
        assert_eq!((times.mean_ms(), times.since(times).mean_ms()), (Some(5_000.5), None));
    }
}
