//! Slots of the outbox, as admission knows them: places for calls that this node may make at once.
//!
//! A slot is taken before the commit, and what starts its call is kept until after it. Dropping that gives the slot
//! back, so whatever goes wrong in between, no slot stays taken.

use hooklatch_core::types::MessageId;
use hooklatch_store::{InitialLease, LeasedMessage, NewMessage};

/// Gives slots to messages that are about to be committed. The outbox behind it is a layer of its own.
pub trait TakeSlot: Send + Sync {
    /// Takes a slot at `destination`, if one is free and nothing older waits there: the lease that the message is
    /// written with, and what starts its call.
    fn take_slot(&self, destination: &str) -> Option<(InitialLease, Box<dyn StartCall>)>;
}

/// Starts the call of one message whose slot was taken. Dropping it gives the slot back.
pub trait StartCall: Send {
    /// Hands over the message, which is committed.
    fn start(self: Box<Self>, message: LeasedMessage);
}

impl<F: FnOnce(LeasedMessage) + Send> StartCall for F {
    fn start(self: Box<Self>, message: LeasedMessage) {
        self(message);
    }
}

/// The slots that are taken for messages which are not committed yet.
#[derive(Default)]
pub(super) struct Reserved(pub(super) Vec<(MessageId, Box<dyn StartCall>)>);

impl Reserved {
    /// Takes a slot for each message that there is one for, and writes its lease into the message. Those in a lane wait
    /// for their turn in the database; the worker that claims those that may have been sent judges them.
    pub(crate) fn take(slots: &dyn TakeSlot, messages: &mut [NewMessage]) -> Self {
        let one = |message: &mut NewMessage| {
            let is_for_slot = message.lane.is_none() && message.unknown_since_ms.is_none();
            let (lease, start) = is_for_slot.then(|| slots.take_slot(&message.destination))??;
            message.lease = Some(lease);
            Some((message.message_id, start))
        };
        Self(messages.iter_mut().filter_map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Slots at `billing`, as many as the number says, and none elsewhere.
    struct Slots(Arc<AtomicUsize>);

    /// Gives its slot back when it is dropped.
    struct Place(Arc<AtomicUsize>);

    impl Drop for Place {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl TakeSlot for Slots {
        fn take_slot(&self, destination: &str) -> Option<(InitialLease, Box<dyn StartCall>)> {
            let free = |n: usize| n.checked_sub(1).filter(|_| destination == "billing");
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
            let place = Place(Arc::clone(&self.0));
            let lease = InitialLease {
                node: "n".into(),
                from_ms: 1,
                until_ms: 2,
                key_valid_until_ms: 3,
                taken_at_ms: None,
            };
            Some((lease, Box::new(move |_| drop(place))))
        }
    }

    fn message(place: u16, destination: &str, lane: Option<&str>) -> NewMessage {
        NewMessage {
            message_id: MessageId::of(1, place).expect("a place"),
            event: hooklatch_core::types::EventKey {
                provider: hooklatch_core::types::Name::parse("stripe").expect("a name"),
                event_id: "evt_1".to_owned(),
            }
            .into(),
            shard: 0,
            generation: 0,
            effect_name: destination.to_owned(),
            destination: destination.to_owned(),
            method: "POST".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: None,
            body_bytes_n: 0,
            lane: lane.map(str::to_owned),
            created_at_ms: 0,
            lease: None,
            unknown_since_ms: None,
        }
    }

    #[test]
    fn a_message_gets_a_lease_with_its_slot_and_a_slot_that_is_not_used_is_given_back() {
        let free_n = Arc::new(AtomicUsize::new(2));
        let slots = Slots(Arc::clone(&free_n));
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
