//! Operations: acts of a person on everything that a filter found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judgement::OperationChoice;
use super::order::{
    EventAct, MessageAct, NAME_PATTERN, REASON_PATTERN, TEXT_PATTERN, number, numbers, time_or_null,
};
use hooklatch_core::figures::grouped;
use hooklatch_core::types::{DeliveryFilter, EventState, MessageState};
use hooklatch_core::words;

/// A choice of messages. A field that is left out leaves nothing out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageFilter {
    /// State in which they stand; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MessageState")]
    pub state: Option<MessageState>,
    /// Destination that they go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub destination: Option<String>,
    /// Provider that sent their event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub provider: Option<String>,
    /// Lane that they are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = TEXT_PATTERN))]
    pub lane: Option<String>,
    /// Those written before this time.
    #[serde(default, deserialize_with = "time_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub created_before_ms: Option<i64>,
}

/// A choice of events. A field that is left out leaves nothing out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventFilter {
    /// State in which they stand; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EventState")]
    pub state: Option<EventState>,
    /// Provider that sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub provider: Option<String>,
    /// Type in the sender's words.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = TEXT_PATTERN))]
    pub event_type: Option<String>,
    /// Object that they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = TEXT_PATTERN))]
    pub object: Option<String>,
    /// Calls of which they have at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryFilter>,
    /// Those that were received at this time or later.
    #[serde(default, deserialize_with = "time_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub received_from_ms: Option<i64>,
    /// Those that were received before this time.
    #[serde(default, deserialize_with = "time_or_null", skip_serializing_if = "Option::is_none")]
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
        /// The messages; `state` is required.
        filter: MessageFilter,
    },
    /// Events, and what is done to each of them.
    Events {
        /// Act on each of them.
        act: EventAct,
        /// The events; `state` is required.
        filter: EventFilter,
    },
}

/// How Hooklatch works off an operation whose rows make calls. A step begins when all calls of the step before have
/// been tried once; a call that failed, is tried again, or has an unknown outcome counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationSteps {
    /// Rows of the first steps; the rest is the last step. Empty: everything is one step.
    #[serde(default = "default_sizes", deserialize_with = "numbers")]
    #[schemars(length(max = 8), inner(range(min = 1, max = 100_000)))]
    pub sizes: Vec<u64>,
    /// Most rows a second, 1 to 1,000.
    #[serde(default = "default_per_s", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 1_000))]
    pub per_s: u32,
    /// The operation stops by itself when more than this share of its calls failed; in the first of several steps, when
    /// any did. Percent; 100: only the first step stops it.
    #[serde(default = "default_stop_percent", deserialize_with = "number")]
    #[schemars(range(max = 100))]
    pub stop_percent: u32,
}

fn default_sizes() -> Vec<u64> {
    vec![1, 10, 100]
}

fn default_per_s() -> u32 {
    50
}

fn default_stop_percent() -> u32 {
    10
}

impl Default for OperationSteps {
    fn default() -> Self {
        Self { sizes: default_sizes(), per_s: default_per_s(), stop_percent: default_stop_percent() }
    }
}

impl OperationSteps {
    /// How an operation is worked off, for people.
    pub fn in_words(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|size| grouped(*size)).collect();
        format!(
            "It goes in steps ({}, then the rest), at most {} rows a second. A step begins when the calls of the one before have \
             been tried. It stops by itself when a call of the first step fails, or more than {} % of the others.",
            sizes.join(", "),
            grouped(self.per_s.into()),
            self.stop_percent
        )
    }
}

/// The order to begin an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationOrder {
    /// The act and its subjects.
    pub subject: OperationSubject,
    /// Number of rows of the preview: the operation is refused when the filter finds another number now.
    #[serde(deserialize_with = "number")]
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub counted_n: u64,
    /// `set` of the preview: the operation is refused when the filter finds other rows now, or when one of them was
    /// handled or sent since.
    pub set: String,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = REASON_PATTERN))]
    pub reason: String,
    /// Steps of an act that makes calls (`send`, `rerun`, `dispatch`). Left out: the default steps above 10 rows, and none
    /// below. Other acts have no steps, whatever is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<OperationSteps>,
    /// Begin it although another operation has the same act and filter, or would act on some of the same rows to the
    /// same effect, and is unfinished or ended in the last 10 minutes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

words! {
    /// State of an operation.
    OperationState {
        /// A second person has to approve it.
        Waiting = "waiting",
        /// It runs, or waits for a node to go on with it.
        Running = "running",
        /// It stopped by itself because too many of its calls failed; a person continues or cancels it.
        Stopped = "stopped",
        /// All of its rows were acted on or passed over.
        Done = "done",
        /// A person cancelled it, or it was not approved in time; what was done stays done.
        Cancelled = "cancelled",
    }
}

impl OperationSubject {
    /// The rows that it is about, whatever is done to them.
    pub fn choice(&self) -> OperationChoice {
        match self {
            Self::Messages { filter, .. } => OperationChoice::Messages(filter.clone()),
            Self::Events { filter, .. } => OperationChoice::Events(filter.clone()),
        }
    }

    /// The act as a word of the contract, such as `erase_and_discard`.
    pub fn act(&self) -> String {
        match self {
            Self::Messages { act, .. } => act_word(act),
            Self::Events { act, .. } => act_word(act),
        }
    }

    /// True when the act is for rows in the state that the filter names.
    pub fn is_possible(&self) -> bool {
        match self {
            Self::Messages { act, filter } => filter.state.is_some_and(|state| act.is_for(state)),
            Self::Events { act, filter } => filter.state.is_some_and(|state| act.is_for(state)),
        }
    }

    /// True when the act leads to calls.
    pub fn makes_calls(&self) -> bool {
        match self {
            Self::Messages { act, .. } => *act == MessageAct::Send,
            Self::Events { act, .. } => act.makes_calls(),
        }
    }
}

impl EventAct {
    /// True when the act leads to calls.
    pub fn makes_calls(self) -> bool {
        matches!(self, Self::Rerun | Self::Dispatch)
    }
}

/// An act as a word of the contract.
pub(crate) fn act_word(act: &impl Serialize) -> String {
    serde_json::to_value(act).ok().as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_owned()
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
    /// Name of the token that approved it, where a second person has to.
    pub approved_by: Option<String>,
    /// With `waiting`: time when Hooklatch cancels it if it has not been approved.
    pub approve_until_ms: Option<i64>,
    /// Why it stopped or ended by itself.
    pub note: Option<String>,
    /// Its steps; `null` when it makes no calls or has none.
    pub steps: Option<StepsView>,
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
    /// Reason, as a word: `not_found`, `not_allowed`, `body_gone`, `still_open`, `test_event`, `moved` (it was tried or
    /// handled after the order), `failed`.
    pub outcome: String,
    /// State in which it stood.
    pub state: Option<String>,
}

/// The steps of an operation, and how far they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepsView {
    /// Most rows a second.
    pub per_s: u32,
    /// Share of failed calls above which the operation stops. Percent.
    pub stop_percent: u32,
    /// Number of the step under way, from 1.
    pub current: u32,
    /// The steps in their order.
    pub list: Vec<StepView>,
}

/// One step of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Rows of the step.
    pub rows_n: u64,
    /// Rows that were acted on.
    pub changed_n: u64,
    /// Rows whose calls all succeeded, or that made none.
    pub good_n: u64,
    /// Rows of which a call failed, is tried again, or has an unknown outcome.
    pub failed_n: u64,
}

impl StepView {
    /// Rows that were acted on and whose calls have not been tried yet.
    pub fn open_n(&self) -> u64 {
        self.changed_n.saturating_sub(self.good_n).saturating_sub(self.failed_n)
    }
}
