//! Orders: acts of people, typed by their subject.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hooklatch_core::types::{EventState, MessageState, Role};

/// An act on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageAct {
    /// Send it again, under the same key, now; attempts and age count from here.
    Send,
    /// Its effect happened: settle it as done.
    Done,
    /// Do not send it.
    Discard,
}

/// An act on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventAct {
    /// Dispatch it once more: its messages are new ones, under new keys.
    Rerun,
    /// Dispatch what was kept beside another event, under its own id.
    Dispatch,
    /// Nothing is to be done about a conflict.
    Dismiss,
    /// Delete its bytes and what was made of them; id, digest and outcome stay.
    Erase,
    /// The same, after its open messages were discarded, and whatever else it waits for.
    EraseAndDiscard,
}

/// An act on a destination or a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseAct {
    /// Send no message to the destination, or dispatch no event of the provider, until it is resumed; what is under way
    /// ends as it does.
    Pause,
    /// Go on, with what has waited first.
    Resume,
}

impl MessageAct {
    /// True when a message in this state may be acted on so. With `leased`: once the lease has ended.
    pub fn is_for(self, state: MessageState) -> bool {
        match self {
            Self::Send => matches!(state, MessageState::Held | MessageState::Dead),
            Self::Done => matches!(state, MessageState::Held | MessageState::Dead | MessageState::Leased),
            Self::Discard => !matches!(state, MessageState::Done | MessageState::Discarded),
        }
    }
}

impl EventAct {
    /// True when an event in this state may be acted on so.
    pub fn is_for(self, state: EventState) -> bool {
        use EventState::{
            Conflict, Dismissed, Failed, Handled, Ignored, Replayed, Retry, Superseded, Unreadable,
        };
        match self {
            Self::Rerun => matches!(state, Handled | Ignored | Failed | Superseded),
            // What was kept beside another event is one of its own.
            Self::Dispatch => matches!(state, Conflict | Dismissed | Replayed),
            Self::Dismiss => state == Conflict,
            Self::Erase => !matches!(state, Retry | Failed | Unreadable | Conflict),
            Self::EraseAndDiscard => true,
        }
    }
}

/// An order about one subject: what is to be done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "{A}Order")]
pub struct Order<A> {
    /// The act to carry out.
    pub act: A,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = super::reason::REASON_PATTERN))]
    pub reason: String,
}

/// An order about a message.
pub type MessageOrder = Order<MessageAct>;
/// An order about an event.
pub type EventOrder = Order<EventAct>;

/// An order about a destination or a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseOrder {
    /// The act to carry out.
    pub act: PauseAct,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = super::reason::REASON_PATTERN))]
    pub reason: String,
    /// With `pause`: time in the future when the pause ends by itself. Without it, only an operator resumes it.
    #[serde(
        default,
        deserialize_with = "super::whole::time_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub until_ms: Option<i64>,
}

/// An order that needs a reason alone: to cancel an operation, to revoke a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonOrder {
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = super::reason::REASON_PATTERN))]
    pub reason: String,
}

/// The order to make a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenOrder {
    /// Name of its holder; unique.
    #[schemars(regex(pattern = super::reason::NAME_PATTERN))]
    pub name: String,
    /// Role of its holder.
    pub role: Role,
    /// Providers that it reaches; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(regex(pattern = super::reason::NAME_PATTERN)))]
    pub providers: Option<Vec<String>>,
    /// Destinations that it reaches; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(regex(pattern = super::reason::NAME_PATTERN)))]
    pub destinations: Option<Vec<String>>,
    /// Time for which it is good. Seconds, 60 to 31,622,400 (366 days).
    #[schemars(range(min = 60, max = 31_622_400))]
    #[serde(deserialize_with = "super::whole::number")]
    pub valid_for_s: u64,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = super::reason::REASON_PATTERN))]
    pub reason: String,
}

/// Result of an order about one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderResult {
    /// Always `changed`: anything else is a problem.
    pub outcome: String,
    /// Number of messages that were changed by it.
    pub messages_n: u64,
}

impl OrderResult {
    /// It was carried out, and changed this many messages.
    pub fn changed(messages_n: u64) -> Self {
        Self { outcome: "changed".to_owned(), messages_n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(act: &str) -> String {
        format!(r#"{{"act":"{act}","reason":"r"}}"#)
    }

    #[test]
    fn an_act_of_one_subject_is_none_of_another() {
        let message = |act: &str| serde_json::from_str::<MessageOrder>(&order(act)).is_ok();
        let event = |act: &str| serde_json::from_str::<EventOrder>(&order(act)).is_ok();
        let destination = |act: &str| serde_json::from_str::<PauseOrder>(&order(act)).is_ok();
        for act in ["send", "done", "discard"] {
            assert_eq!((message(act), event(act), destination(act)), (true, false, false), "{act}");
        }
        for act in ["rerun", "dispatch", "dismiss", "erase", "erase_and_discard"] {
            assert_eq!((message(act), event(act), destination(act)), (false, true, false), "{act}");
        }
        for act in ["pause", "resume"] {
            assert_eq!((message(act), event(act), destination(act)), (false, false, true), "{act}");
        }
        for act in ["", "Send", "sell", "send "] {
            assert_eq!((message(act), event(act), destination(act)), (false, false, false), "{act}");
        }
    }

    #[test]
    fn an_act_is_for_the_states_in_which_it_makes_sense() {
        let of = |act: MessageAct| {
            let states = MessageState::ALL.iter().filter(|state| act.is_for(**state));
            states.map(|state| state.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(MessageAct::Send), "dead held");
        assert_eq!(of(MessageAct::Done), "leased dead held");
        assert_eq!(of(MessageAct::Discard), "ready waiting leased dead held");
        let of = |act: EventAct| {
            let states = EventState::ALL.iter().filter(|state| act.is_for(**state));
            states.map(|state| state.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(EventAct::Rerun), "handled ignored failed superseded");
        assert_eq!(of(EventAct::Dispatch), "replayed conflict dismissed");
        assert_eq!(of(EventAct::Dismiss), "conflict");
        assert_eq!(of(EventAct::Erase), "handled ignored superseded replayed dismissed");
        assert_eq!(of(EventAct::EraseAndDiscard).split(' ').count(), EventState::ALL.len());
    }
}
