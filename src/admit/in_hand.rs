//! In-memory hand-over: messages that this node's own sender has free slots for are born leased to it, and reach it
//! right after the commit, without a question to the database.
//!
//! A slot is taken before the commit and given back by dropping it, so whatever goes wrong in between, nothing is
//! left taken. Should the process die after the commit, the lease ends by itself like any other.

use std::collections::{HashMap, HashSet};

use super::Admission;
use super::committer::Wrote;
use crate::store::{BornLease, LeasedMessage, NewMessage};
use crate::types::{EventKey, IncomingEvent};

/// What hands a message that was committed to the sender whose slot was taken; dropping it frees the slot.
pub(crate) type Start = Box<dyn FnOnce(LeasedMessage) + Send>;

/// Asks the sender for a slot at a destination: the lease a message is to be born with, and what starts it.
pub(crate) type TakeSlot = Box<dyn Fn(&str) -> Option<(BornLease, Start)> + Send + Sync>;

/// The slots taken for messages that are not yet committed, one place for each message.
#[derive(Default)]
pub(super) struct InHand(Vec<Option<Start>>);

impl Admission {
    /// Takes a slot for each message that there is one for, and writes its lease into the message. Those in a
    /// lane wait for their turn in the database.
    pub(super) fn take_slots(&self, messages: &mut [NewMessage]) -> InHand {
        let one = |message: &mut NewMessage| {
            let (lease, start) = message.lane.is_none().then(|| (self.take_slot)(&message.destination))??;
            message.lease = Some(lease);
            Some(start)
        };
        InHand(messages.iter_mut().map(one).collect())
    }

    /// After the commit: starts what has a slot, wakes the sender for the rest, and tells what failed. `new` are the
    /// events that may be new.
    pub(super) fn hand_over<'a>(&self, wrote: Wrote, new: impl Iterator<Item = &'a IncomingEvent>) {
        let Wrote { messages, in_hand, paused, failed } = wrote;
        self.tell_failed(&failed);
        let is_any_left = in_hand.0.iter().flatten().count() < messages.len();
        in_hand.start(&messages, new, &paused);
        if is_any_left {
            (self.wake_outbox)();
        }
    }
}

impl InHand {
    /// Starts those messages whose event was `new`, once they are committed. Those to a `paused` destination were
    /// written without their lease.
    fn start<'a>(
        self,
        messages: &[NewMessage],
        new: impl Iterator<Item = &'a IncomingEvent>,
        paused: &HashSet<String>,
    ) {
        if self.0.iter().all(Option::is_none) {
            return;
        }
        let mut events: HashMap<&EventKey, &IncomingEvent> = HashMap::new();
        for event in new {
            // Of two copies in one batch the first one is the one that was written.
            events.entry(&event.key).or_insert(event);
        }
        for (message, start) in messages.iter().zip(self.0) {
            let event = events.get(&message.key).filter(|_| !paused.contains(&message.destination));
            if let (Some(start), Some(leased)) = (start, event.and_then(|event| message.born_leased(event))) {
                start(leased);
            }
        }
    }
}
