//! Hand-over in memory: a message that admission has just committed is called at once, without a question to the
//! database, if there is a slot for it and nothing older waits.
//!
//! Admission asks for a slot *before* its commit ([`Handover::take`]); the slot is reserved then. The message is
//! inserted as `leased` by this node, with its first claim counted, so that no other worker can take it, not even in
//! the moment between the commit and the call. After the commit admission starts the call; whatever else happens, it
//! drops the slot.
//!
//! Nothing depends on that start. If the commit fails, there is no message. If the process dies after the commit, or
//! the answer to the commit is lost, the lease ends by itself and the ordinary claim finds the message, whose call then
//! counts as unknown (P3). So the hand-over is never the only way, only the short one.
//!
//! It must not overtake: `is_drained` is true only while the last look found fewer messages than it had slots for. The
//! first message that finds no slot sets it to false, and everything after it goes through the table until a look has
//! caught up. Messages of a lane are never handed over: their order is the table's affair (P5).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::OutboxState;
use hooklatch_core::config::UnknownPolicy;
use hooklatch_store::{InitialLease, LeasedMessage};

/// Takes over new messages from admission, without a look at the database.
pub struct Handover(Arc<OutboxState>);

impl Handover {
    pub fn new(shared: Arc<OutboxState>) -> Self {
        Self(shared)
    }

    /// A free slot of `destination`, if it has one: the lease that a new message is to be written with, and what
    /// starts its call once that is committed. Dropping the latter gives the slot back.
    ///
    /// None with `hold`: a commit whose answer is lost would leave a person to decide about what was never sent.
    pub fn take(
        &self,
        destination: &str,
    ) -> Option<(InitialLease, impl FnOnce(LeasedMessage) + Send + use<>)> {
        let shared = &self.0;
        let posts = shared.posts.get();
        let post = posts.get(destination)?;
        let destination = &post.destination;
        if destination.config.unknown == UnknownPolicy::Hold || !destination.gate.is_wide_open() {
            return None;
        }
        if !post.is_drained.load(Ordering::Relaxed) {
            return None;
        }
        let (free_bytes_n, slot) = (post.free_bytes_n(), post.take());
        let taken_n = post.taken_n();
        if taken_n > destination.gate.slots_n() || (free_bytes_n == 0 && taken_n > 1) {
            // Others will have to wait in the database, and later ones wait behind them.
            post.is_drained.store(false, Ordering::Relaxed);
            return None;
        }
        let now_ms = shared.clock.steady_ms();
        let lease = InitialLease {
            node: Arc::clone(&shared.node),
            from_ms: now_ms,
            until_ms: now_ms.saturating_add(shared.lease_ms()),
            key_valid_until_ms: now_ms.saturating_add(destination.key_valid_for_ms()),
            taken_at_ms: shared.store.is_own_clock().then_some(now_ms),
        };
        let shared = Arc::clone(shared);
        Some((lease, move |message| shared.start(message, slot)))
    }
}
