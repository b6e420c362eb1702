//! Operations: what a person asked to be done to all that a filter found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::order::{EventAct, MessageAct};
use crate::types::{EventState, MessageState};

/// A choice of messages. A field that is left out leaves nothing out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageFilter {
    /// State in which they stand; must be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub state: Option<MessageState>,
    /// Destination that they go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::reason::NAME_PATTERN))]
    pub destination: Option<String>,
    /// Provider that their event came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::reason::NAME_PATTERN))]
    pub provider: Option<String>,
    /// Lane that they are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::reason::TEXT_PATTERN))]
    pub lane: Option<String>,
    /// Those written before this time.
    #[serde(
        default,
        deserialize_with = "super::whole::time_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub created_before_ms: Option<i64>,
}

/// A choice of events. A field that is left out leaves nothing out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventFilter {
    /// State in which they stand; must be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub state: Option<EventState>,
    /// Provider that they came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::reason::NAME_PATTERN))]
    pub provider: Option<String>,
    /// Type in the sender's words.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::reason::TEXT_PATTERN))]
    pub event_type: Option<String>,
    /// Object that they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::reason::TEXT_PATTERN))]
    pub object: Option<String>,
    /// Those that came at this time or later.
    #[serde(
        default,
        deserialize_with = "super::whole::time_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub received_from_ms: Option<i64>,
    /// Those that came before this time.
    #[serde(
        default,
        deserialize_with = "super::whole::time_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub received_to_ms: Option<i64>,
}

/// What is to be done, and to which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OperationSubject {
    /// Messages, and what is done to each of them.
    Messages {
        /// Act on each of them.
        act: MessageAct,
        /// The messages; `state` must be said.
        filter: MessageFilter,
    },
    /// Events, and what is done to each of them.
    Events {
        /// Act on each of them.
        act: EventAct,
        /// The events; `state` must be said.
        filter: EventFilter,
    },
}

/// The order to begin an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationOrder {
    /// The act and its subjects.
    pub subject: OperationSubject,
    /// Number that was counted before: the operation is refused when the filter finds another one now.
    #[serde(deserialize_with = "super::whole::number")]
    pub counted_n: u64,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = super::reason::REASON_PATTERN))]
    pub reason: String,
}

/// State of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// It runs, or waits for a node to go on with it.
    Running,
    /// All of its rows were acted on or passed over.
    Done,
    /// A person cancelled it; what was done stays done.
    Cancelled,
}

impl OperationState {
    /// The word in `operations.state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state that a stored word means; `None` for one of a newer version.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Cancelled].into_iter().find(|one| one.as_str() == word)
    }
}

/// An operation and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationView {
    /// Id of the operation.
    pub operation_id: String,
    /// State in which it stands.
    pub state: OperationState,
    /// The act and its subjects.
    pub subject: OperationSubject,
    /// Name of the token that ordered it.
    pub actor: String,
    /// Reason that was given.
    pub reason: String,
    /// Time of the order.
    pub created_at_ms: i64,
    /// Time when it ended.
    pub finished_at_ms: Option<i64>,
    /// Name of the token that cancelled it.
    pub cancelled_by: Option<String>,
    /// Rows of its set, which was fixed with the order.
    pub total_n: u64,
    /// Rows that were acted on.
    pub changed_n: u64,
    /// Rows that had moved on by themselves and were passed over.
    pub skipped_n: u64,
    /// The newest rows that were passed over, at most 10, with the reason; empty in lists.
    pub skipped: Vec<SkippedRow>,
}

/// A row that an operation passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedRow {
    /// Id of the message, or provider and id of the event.
    pub subject: String,
    /// Reason, as a word: `not_found`, `not_allowed`, `body_gone`, `still_open`, `failed`.
    pub outcome: String,
    /// State in which it stood.
    pub state: Option<String>,
}
