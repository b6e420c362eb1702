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

use std::collections::HashMap;

use tokio::sync::RwLockReadGuard;

use super::AdmitContext;
use super::dispatch::{is_undone, log_undone};
use super::entry::ProviderEntry;
use hooklatch_core::types::{IncomingEvent, MessageId};
use hooklatch_store::{
    AdmissionTx, EventUpdate, InitialLease, LeasedMessage, NewMessage, Queued, StoreError, Writes,
};

/// Starts the call of one message whose slot was taken, once that is committed. Dropping it gives the slot back.
pub type StartCall = Box<dyn FnOnce(LeasedMessage) + Send>;

/// Takes a slot of the outbox at a destination, if one is free and nothing older waits there: the lease that the
/// message is written with, and what starts its call.
pub type TakeSlot = Box<dyn Fn(&str) -> Option<(InitialLease, StartCall)> + Send + Sync>;

/// The slots that are taken for messages which are not committed yet.
#[derive(Default)]
pub(super) struct Reserved(pub(super) Vec<(MessageId, StartCall)>);

impl Reserved {
    /// Takes a slot for each message that there is one for, and writes its lease into the message. Those in a lane wait
    /// for their turn in the database; the worker that claims those that may have been sent judges them.
    pub(crate) fn take(slots: &TakeSlot, messages: &mut [NewMessage]) -> Self {
        let one = |message: &mut NewMessage| {
            let is_for_slot = message.lane.is_none() && message.unknown_since_ms.is_none();
            let (lease, start) = is_for_slot.then(|| slots(&message.destination))??;
            message.lease = Some(lease);
            Some((message.message_id, start))
        };
        Self(messages.iter_mut().filter_map(one).collect())
    }
}

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
    /// What is known of them since they are written.
    pub queued: Queued,
    /// Events whose dispatch failed, or that a handler ignored.
    pub(super) undone: Vec<EventUpdate>,
}

/// Writes what was planned in an open transaction. With `slots`, what there are slots for is written as leased,
/// and must be handed over after the commit.
pub(crate) async fn write(
    tx: &mut AdmissionTx,
    mut writes: Writes,
    slots: Option<&TakeSlot>,
) -> Result<Committed, StoreError> {
    let reserved = slots.map_or_else(Reserved::default, |slots| Reserved::take(slots, &mut writes.messages));
    let queued = tx.write(&writes).await?;
    let undone = writes.updates.into_iter().filter(is_undone).collect();
    Ok(Committed { messages: writes.messages, reserved, queued, undone })
}

/// After the commit: starts what has a slot, wakes the worker for the rest, and logs what failed. `event_of` finds an
/// event of the batch by its number.
pub(crate) fn hand_over<'a>(
    context: &AdmitContext,
    committed: Committed,
    event_of: impl Fn(i64) -> Option<&'a IncomingEvent>,
) {
    let Committed { messages, reserved, queued, undone } = committed;
    log_undone(&context.lines, &undone);
    let mut starts: HashMap<MessageId, StartCall> = reserved.0.into_iter().collect();
    // Not by counts: slots may have been taken for messages of events that were not new.
    let is_left = |id: &MessageId| !starts.contains_key(id) && !queued.behind.contains(id);
    let is_any_left = messages.iter().any(|message| is_left(&message.message_id));
    for message in &messages {
        let Some(start) = starts.remove(&message.message_id) else { continue };
        // Those to a paused destination were written without their lease.
        if queued.paused.contains(&message.destination) {
            continue;
        }
        let event = event_of(message.message_id.event_seq());
        if let Some(leased) = event.and_then(|event| message.to_leased(event, &context.installation_id)) {
            start(leased);
        }
    }
    if is_any_left {
        (context.wake_outbox)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hooklatch_core::types::{EventKey, Name};

    use super::*;

    /// Gives its slot back when it is dropped.
    struct Place(Arc<AtomicUsize>);

    impl Drop for Place {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Slots at `billing`, as many as the number says, and none elsewhere.
    fn slots(free_n: &Arc<AtomicUsize>) -> TakeSlot {
        let free_n = Arc::clone(free_n);
        Box::new(move |destination| {
            let free = |n: usize| n.checked_sub(1).filter(|_| destination == "billing");
            free_n.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
            let place = Place(Arc::clone(&free_n));
            let lease = InitialLease {
                node: "n".into(),
                from_ms: 1,
                until_ms: 2,
                key_valid_until_ms: 3,
                taken_at_ms: None,
            };
            Some((lease, Box::new(move |_| drop(place)) as StartCall))
        })
    }

    fn message(place: u16, destination: &str, lane: Option<&str>) -> NewMessage {
        let event =
            EventKey { provider: Name::parse("stripe").expect("a name"), event_id: "evt_1".to_owned() };
        let id = MessageId::of(1, place).expect("a place");
        NewMessage { lane: lane.map(str::to_owned), ..NewMessage::forward(id, event, destination) }
    }

    #[test]
    fn a_message_gets_a_lease_with_its_slot_and_a_slot_that_is_not_used_is_given_back() {
        let free_n = Arc::new(AtomicUsize::new(2));
        let slots = slots(&free_n);
        let mut messages = [
            message(0, "elsewhere", None),
            message(1, "billing", Some("customer")),
            message(2, "billing", None),
            message(3, "billing", None),
            message(4, "billing", None),
        ];
        let reserved = Reserved::take(&slots, &mut messages);
        let leased: Vec<bool> = messages.iter().map(|message| message.lease.is_some()).collect();
        assert_eq!(leased, [false, false, true, true, false]);
        let ids: Vec<u16> = reserved.0.iter().map(|(id, _)| id.place()).collect();
        assert_eq!((ids, free_n.load(Ordering::Relaxed)), (vec![2, 3], 0));
        // The commit failed.
        drop(reserved);
        assert_eq!(free_n.load(Ordering::Relaxed), 2);
    }
}
