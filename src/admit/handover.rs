//! In-memory hand-over: messages that this node's own sender has free slots for are written as leased to it, and reach it
//! right after the commit, without a question to the database.
//!
//! A slot is taken before the commit and given back by dropping it, so whatever goes wrong in between, nothing is
//! left taken. Should the process die after the commit, the lease ends by itself like any other.

use std::collections::{HashMap, HashSet};

use super::AdmitContext;
use super::failures::is_failure;
use crate::store::{self, EventUpdate, InitialLease, LeasedMessage, NewMessage, StoreError, Writes};
use crate::types::{IncomingEvent, MessageId};

/// What hands a message that was committed to the sender whose slot was taken; dropping it frees the slot.
pub(crate) type Start = Box<dyn FnOnce(LeasedMessage) + Send>;

/// Asks the sender for a slot at a destination: the lease a message is to be born with, and what starts it.
pub(crate) type TakeSlot = Box<dyn Fn(&str) -> Option<(InitialLease, Start)> + Send + Sync>;

/// The slots taken for messages that are not yet committed.
#[derive(Default)]
pub(super) struct Reserved(Vec<(MessageId, Start)>);

/// Messages that are there with the commit, and what is to be done about them after it.
#[derive(Default)]
pub(super) struct Written {
    pub(super) messages: Vec<NewMessage>,
    pub(super) reserved: Reserved,
    pub(super) paused: HashSet<String>,
    /// Events whose dispatch failed.
    pub(super) failed: Vec<EventUpdate>,
}

impl AdmitContext {
    /// Takes a slot for each message that there is one for, and writes its lease into the message. Those in a
    /// lane wait for their turn in the database.
    pub(super) fn take_slots(&self, messages: &mut [NewMessage]) -> Reserved {
        let one = |message: &mut NewMessage| {
            let (lease, start) = message.lane.is_none().then(|| (self.take_slot)(&message.destination))??;
            message.lease = Some(lease);
            Some((message.message_id, start))
        };
        Reserved(messages.iter_mut().filter_map(one).collect())
    }

    /// Writes what was planned in an open transaction. With `has_slots`, what there are slots for is written as leased,
    /// and must be handed over after the commit.
    pub(super) async fn write(
        &self,
        tx: &mut store::AdmissionTx,
        mut writes: Writes,
        has_slots: bool,
    ) -> Result<Written, StoreError> {
        let reserved = if has_slots { self.take_slots(&mut writes.messages) } else { Reserved::default() };
        let paused = tx.write(&writes).await?;
        let failed = writes.updates.into_iter().filter(is_failure).collect();
        Ok(Written { messages: writes.messages, reserved, paused, failed })
    }

    /// After the commit: starts what has a slot, wakes the sender for the rest, and tells what failed. `event_of` finds
    /// an event of the batch by its number.
    pub(super) fn hand_over<'a>(
        &self,
        written: Written,
        event_of: impl Fn(i64) -> Option<&'a IncomingEvent>,
    ) {
        let Written { messages, reserved, paused, failed } = written;
        self.tell_failed(&failed);
        let mut starts: HashMap<MessageId, Start> = reserved.0.into_iter().collect();
        // Not by counts: slots may have been taken for messages of events that were not new.
        let is_any_left = messages.iter().any(|message| !starts.contains_key(&message.message_id));
        for message in &messages {
            let Some(start) = starts.remove(&message.message_id) else { continue };
            // Those to a paused destination were written without their lease.
            if paused.contains(&message.destination) {
                continue;
            }
            let event = event_of(message.message_id.event_seq());
            if let Some(leased) = event.and_then(|event| message.to_leased(event, &self.installation_id)) {
                start(leased);
            }
        }
        if is_any_left {
            (self.wake_outbox)();
        }
    }
}
