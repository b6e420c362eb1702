//! Slots of the outbox, as admission knows them: places for calls that this node may make at once.
//!
//! A slot is taken before the commit, and what starts its call is kept until after it. Dropping that gives the slot back,
//! so whatever goes wrong in between, no slot stays taken.

use crate::store::{InitialLease, LeasedMessage, NewMessage};
use crate::types::MessageId;

/// Gives slots to messages that are about to be committed. The outbox behind it is a layer of its own.
pub(crate) trait TakeSlot: Send + Sync {
    /// Takes a slot at `destination`, if one is free and nothing older waits there: the lease that the message is written
    /// with, and what starts its call.
    fn take_slot(&self, destination: &str) -> Option<(InitialLease, Box<dyn StartCall>)>;
}

/// Starts the call of one message whose slot was taken. Dropping it gives the slot back.
pub(crate) trait StartCall: Send {
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
    /// Takes a slot for each message that there is one for, and writes its lease into the message. Those in a
    /// lane wait for their turn in the database.
    pub(super) fn take(slots: &dyn TakeSlot, messages: &mut [NewMessage]) -> Self {
        let one = |message: &mut NewMessage| {
            let (lease, start) = message.lane.is_none().then(|| slots.take_slot(&message.destination))??;
            message.lease = Some(lease);
            Some((message.message_id, start))
        };
        Self(messages.iter_mut().filter_map(one).collect())
    }
}
