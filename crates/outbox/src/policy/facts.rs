//! The facts about a message that the decisions need.

use hooklatch_core::types::UnixMs;
use hooklatch_store::LeasedMessage;

/// Facts about a message that the decisions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Claims so far, this one included, since the first or since a person's last word to send it again.
    pub attempt_n: u32,
    /// Time when the first attempt was claimed.
    pub first_sent_at_ms: UnixMs,
    /// Past this nothing is sent by itself.
    pub key_valid_until_ms: UnixMs,
    /// It is unknown whether an earlier attempt took effect.
    pub is_uncertain: bool,
    /// It was unknown when the message was claimed; a question may have settled that since.
    pub(crate) was_uncertain: bool,
    /// Time when the attempt before this one ended.
    pub previous_ended_at_ms: Option<UnixMs>,
}

impl From<&LeasedMessage> for Facts {
    fn from(message: &LeasedMessage) -> Self {
        Self {
            attempt_n: message.attempt_n.saturating_sub(message.attempts_before_n),
            first_sent_at_ms: message.first_sent_at_ms,
            key_valid_until_ms: message.key_valid_until_ms,
            is_uncertain: message.is_previous_unsettled || message.is_previous_unknown,
            was_uncertain: message.is_previous_unsettled || message.is_previous_unknown,
            previous_ended_at_ms: message.previous_ended_at_ms,
        }
    }
}

impl Facts {
    /// The same message after the destination answered that the effect did not happen.
    #[must_use]
    pub(crate) fn certain(self) -> Self {
        Self { is_uncertain: false, ..self }
    }
}
