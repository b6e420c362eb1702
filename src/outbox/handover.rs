//! Hand-over in memory: a message that admission has just committed is in its sender's hands without a question to
//! the database, if there is a slot for it and nothing older waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::mpsc;

use super::node::Shared;
use crate::config::UnknownPolicy;
use crate::store::{BornLease, LeasedMessage};
use crate::types::Name;

/// How busy one destination is on this node.
#[derive(Default)]
pub(super) struct Load {
    /// Messages in hand.
    pub(super) taken_n: Arc<AtomicU32>,
    /// Whether the last look found less than there were slots for: then nothing older waits, and new messages
    /// may be taken over from admission.
    pub(super) is_drained: AtomicBool,
}

impl Load {
    pub(super) fn take(&self) -> Slot {
        self.taken_n.fetch_add(1, Ordering::Relaxed);
        Slot(Arc::clone(&self.taken_n))
    }
}

/// A running task's place among its destination's `concurrency_n`; free again when dropped, panics included.
pub(super) struct Slot(Arc<AtomicU32>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A message on its way from admission, in its slot.
pub(super) type Handed = (LeasedMessage, Slot);

/// Takes over new messages from admission, without a look at the database.
pub struct Handover {
    shared: Arc<Shared>,
    sender: mpsc::UnboundedSender<Handed>,
}

impl Handover {
    pub(super) fn new(shared: Arc<Shared>, sender: mpsc::UnboundedSender<Handed>) -> Self {
        Self { shared, sender }
    }

    /// A free slot of `destination`, if it has one: the lease that a new message is to be written with, and what
    /// starts its call once that is committed. Dropping the latter gives the slot back.
    ///
    /// None with `hold`: a commit whose answer is lost would leave a person to decide about what was never sent.
    pub fn take(&self, destination: &str) -> Option<(BornLease, impl FnOnce(LeasedMessage) + Send + use<>)> {
        let name = Name::parse(destination).ok()?;
        let (load, destination) = (self.shared.loads.get(&name)?, self.shared.destinations.get(&name)?);
        if destination.config.unknown == UnknownPolicy::Hold || !destination.gate.is_wide_open() {
            return None;
        }
        if !load.is_drained.load(Ordering::Relaxed) {
            return None;
        }
        let slot = load.take();
        if load.taken_n.load(Ordering::Relaxed) > destination.gate.in_hand_n() {
            // Others will have to wait in the database; whoever comes later waits behind them.
            load.is_drained.store(false, Ordering::Relaxed);
            return None;
        }
        let now_ms = self.shared.clock.steady_ms();
        let lease = BornLease {
            node: Arc::clone(&self.shared.node),
            from_ms: now_ms,
            until_ms: now_ms.saturating_add(i64::try_from(self.shared.config.lease_ms).unwrap_or(i64::MAX)),
            key_valid_until_ms: now_ms.saturating_add(destination.key_valid_for_ms()),
            taken_at_ms: self.shared.store.is_own_clock().then_some(now_ms),
        };
        let sender = self.sender.clone();
        // An error means that the worker has stopped: the lease ends by itself.
        Some((lease, move |message| drop(sender.send((message, slot)))))
    }
}
