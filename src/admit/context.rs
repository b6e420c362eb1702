//! The data that every part of admission shares. What is done with it stands in the file that does it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, RwLock, Semaphore};
use uuid::Uuid;

use super::plan::Planner;
use super::slots::TakeSlot;
use super::under_way::UnderWay;
use super::unreadable::Unreadable;
use crate::logging::Lines;
use crate::store::Store;
use crate::traces::Traces;
use crate::types::Clock;

/// The things that every part of admission shares.
pub(crate) struct AdmitContext {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Part of every idempotency key.
    pub(crate) installation_id: Uuid,
    /// Turns what handlers answered into rows and messages.
    pub(crate) planner: Planner,
    /// Bounds how much is kept of what could not be read.
    pub(crate) unreadable: Unreadable,
    /// Bounds the log lines about failed dispatches.
    pub(crate) lines: Arc<Lines>,
    /// Longest time that the transactional handlers of one request may take together.
    pub(crate) handler_timeout: Duration,
    /// Turns of those that run handlers in a transaction, at admission or again. There are fewer turns than
    /// connections, so that nobody else waits for handlers; on SQLite, whose only writer they hold, there is one.
    pub(crate) turns: Arc<Semaphore>,
    /// The outbox, which is asked for slots before messages are committed.
    pub(crate) slots: Box<dyn TakeSlot>,
    /// Wakes the worker after a commit that wrote messages for which no slot was taken.
    pub(crate) wake_outbox: Box<dyn Fn() + Send + Sync>,
    /// Start of the shared batch that is under way.
    pub(crate) under_way: UnderWay,
    /// Sizes of batches, in events.
    pub(crate) batch_events: metrics::Histogram,
    /// Where is told what was done and when.
    pub(crate) traces: Traces,
    /// Told when an event may be due that was not due before.
    pub(crate) wake_retries: Notify,
    /// Held for reading from the decision that an event queues behind those that waited for the end of a pause until its
    /// commit; for writing when that ends.
    pub(crate) queue_gate: RwLock<()>,
    /// Told when an operator may have paused or resumed a provider.
    pub(crate) wake_pauses: Notify,
}

impl AdmitContext {
    /// Waits for the turn to run handlers in a transaction.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}
