//! What names the span of an attempt.

use crate::traces::AttemptOf;
use hooklatch_store::LeasedMessage;

/// What names the attempt that a lease is for.
pub(super) fn attempt_of(message: &LeasedMessage) -> AttemptOf<'_> {
    AttemptOf {
        key: &message.key,
        generation: message.generation,
        message_id: message.message_id,
        attempt_n: message.attempt_n,
    }
}
