//! The data that every part of admission shares. What is done with it stands in the file that does it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, RwLock, Semaphore};
use uuid::Uuid;

use super::plan::Planner;
use super::slots::TakeSlot;
use super::under_way::UnderWay;
use super::unreadable::Unreadable;
use hooklatch_core::logging::Lines;
use hooklatch_core::types::Clock;
use hooklatch_outbox::traces::Traces;
use hooklatch_store::Store;

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
    pub slots: Box<dyn TakeSlot>,
    /// Wakes the worker after a commit that wrote messages for which no slot was taken.
    pub wake_outbox: Box<dyn Fn() + Send + Sync>,
    /// Start of the shared batch that is under way.
    pub under_way: UnderWay,
    /// Sizes of batches, in events.
    pub batch_events: metrics::Histogram,
    /// Where spans of the work are recorded.
    pub traces: Traces,
    /// Notified when an event may be due that was not due before.
    pub wake_retries: Notify,
    /// Held for reading from the decision that an event queues behind those that waited for the end of a pause until its
    /// commit; for writing when that ends.
    pub queue_gate: RwLock<()>,
    /// Notified when an operator may have paused or resumed a provider.
    pub wake_pauses: Notify,
}

impl AdmitContext {
    /// Waits for the turn to run handlers in a transaction.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}
