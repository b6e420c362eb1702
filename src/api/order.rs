//! Orders: what people ask to be done, typed by what it is done to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::Role;

/// An act on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageAct {
    /// Send it again, under the same key, now; attempts and age count from here.
    Send,
    /// Its effect happened: settle it as done.
    Done,
    /// It shall not be sent.
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

/// An act on a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DestinationAct {
    /// Take nothing for it until it is resumed; what is under way ends as it does.
    Pause,
    /// Take messages for it again.
    Resume,
}

/// An order about one subject: what is to be done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Order<A> {
    /// The act.
    pub act: A,
    /// Reason, for the audit log: 1 to 255 bytes on one line.
    #[schemars(length(min = 1, max = 255))]
    pub reason: String,
}

/// An order about a message.
pub type MessageOrder = Order<MessageAct>;
/// An order about an event.
pub type EventOrder = Order<EventAct>;
/// An order about a destination.
pub type DestinationOrder = Order<DestinationAct>;

/// An order that needs a reason alone: to cancel an operation, to revoke a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonOrder {
    /// Reason, for the audit log: 1 to 255 bytes on one line.
    #[schemars(length(min = 1, max = 255))]
    pub reason: String,
}

/// The order to make a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenOrder {
    /// Name of its holder; unique.
    pub name: String,
    /// Role of its holder.
    pub role: Role,
    /// Providers that it reaches; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub providers: Option<Vec<String>>,
    /// Destinations that it reaches; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<Vec<String>>,
    /// Time for which it is good. Seconds, 60 to 31,622,400 (366 days).
    #[schemars(range(min = 60, max = 31_622_400))]
    pub valid_for_s: u64,
    /// Reason, for the audit log: 1 to 255 bytes on one line.
    #[schemars(length(min = 1, max = 255))]
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
