//! The messages that this node has under way, and their claims: where our clock gives the database the time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hooklatch_core::types::MessageId;

/// Fencing tokens of the messages under way, by message.
#[derive(Debug, Default)]
pub struct CallsUnderWay(Mutex<HashMap<MessageId, u32>>);

impl CallsUnderWay {
    /// Notes that a message is under way, under this fencing token.
    pub fn add(&self, message_id: MessageId, attempt_n: u32) {
        self.locked().insert(message_id, attempt_n);
    }

    /// Forgets a message that is no longer under way.
    pub fn remove(&self, message_id: MessageId) {
        self.locked().remove(&message_id);
    }

    /// A copy of all of them.
    pub fn all(&self) -> HashMap<MessageId, u32> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<MessageId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
