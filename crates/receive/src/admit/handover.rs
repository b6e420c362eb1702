//! Hand-over in memory: a message for which this node has a free slot is written as leased to this node, and its call
//! starts right after the commit, without another question to the database.
//!
//! The slot is taken before the commit, because the lease is part of the row: a message must never be in the table as
//! free for any worker while this node already calls. So there are three moments at which things can go wrong:
//!
//! - The commit fails, or it is unknown whether it happened: the reserved slots are dropped, which frees them. If the
//!   row is there after all, it holds a lease that ends by itself, and any worker then takes the message.
//! - The process dies after the commit: the lease ends by itself in the same way. The call is late, but not lost, and
//!   it has the same idempotency key.
//! - The destination was paused in the meantime: the commit says so (`paused`), and its messages were written without
//!   their lease. Their slots are given back here, and they wait in the table until an operator resumes the
//!   destination.
//!
//! Messages without a slot, and those in a lane, are not handed over: the worker is woken and finds them in the table.

use std::collections::{HashMap, HashSet};

use tokio::sync::RwLockReadGuard;

use super::context::AdmitContext;
use super::entry::ProviderEntry;
use super::failures::{is_undone, log_undone};
use super::slots::{Reserved, StartCall, TakeSlot};
use hooklatch_core::types::{IncomingEvent, MessageId};
use hooklatch_store::{AdmissionTx, EventUpdate, NewMessage, StoreError, Writes};

/// Before an event may be found to queue behind those that waited for the end of a pause: until this is dropped, no
/// later event is found not to.
pub(crate) async fn queue_gate<'a>(
    context: &'a AdmitContext,
    mut of: impl Iterator<Item = &ProviderEntry>,
) -> Option<RwLockReadGuard<'a, ()>> {
    let is_queueing = of.any(|entry| entry.pause.is_queueing());
    if is_queueing { Some(context.queue_gate.read().await) } else { None }
}

/// After a commit: events that queue behind those that waited for the end of a pause are dispatched at once.
pub(super) fn wake_queue<'a>(context: &AdmitContext, mut of: impl Iterator<Item = &'a ProviderEntry>) {
    if of.any(|entry| entry.pause.is_queueing()) {
        context.wake_retries.notify_one();
    }
}

/// Messages that are there with the commit, and what is to be done about them after it.
#[derive(Default)]
pub(super) struct Committed {
    pub messages: Vec<NewMessage>,
    pub reserved: Reserved,
    /// Names of the destinations whose messages were written without their lease.
    pub paused: HashSet<String>,
    /// Events whose dispatch failed, or that a handler ignored.
    pub(super) undone: Vec<EventUpdate>,
}

/// Writes what was planned in an open transaction. With `slots`, what there are slots for is written as leased,
/// and must be handed over after the commit.
pub(crate) async fn write(
    tx: &mut AdmissionTx,
    mut writes: Writes,
    slots: Option<&dyn TakeSlot>,
) -> Result<Committed, StoreError> {
    let reserved = slots.map_or_else(Reserved::default, |slots| Reserved::take(slots, &mut writes.messages));
    let paused = tx.write(&writes).await?;
    let undone = writes.updates.into_iter().filter(is_undone).collect();
    Ok(Committed { messages: writes.messages, reserved, paused, undone })
}

/// After the commit: starts what has a slot, wakes the worker for the rest, and logs what failed. `event_of` finds an
/// event of the batch by its number.
pub(crate) fn hand_over<'a>(
    context: &AdmitContext,
    committed: Committed,
    event_of: impl Fn(i64) -> Option<&'a IncomingEvent>,
) {
    let Committed { messages, reserved, paused, undone } = committed;
    log_undone(&context.lines, &undone);
    let mut starts: HashMap<MessageId, Box<dyn StartCall>> = reserved.0.into_iter().collect();
    // Not by counts: slots may have been taken for messages of events that were not new.
    let is_any_left = messages.iter().any(|message| !starts.contains_key(&message.message_id));
    for message in &messages {
        let Some(start) = starts.remove(&message.message_id) else { continue };
        // Those to a paused destination were written without their lease.
        if paused.contains(&message.destination) {
            continue;
        }
        let event = event_of(message.message_id.event_seq());
        if let Some(leased) = event.and_then(|event| message.to_leased(event, &context.installation_id)) {
            start.start(leased);
        }
    }
    if is_any_left {
        (context.wake_outbox)();
    }
}
