//! What-if: what the handlers of a binary would make of stored events, beside what was committed for them.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::operation::EventFilter;
use super::order::number_or_null;
use hooklatch_core::types::{EventState, MessageId, MessageState};
use hooklatch_core::words;

/// Most events of one question.
pub const WHAT_IF_N_MAX: u32 = 100;
/// Default number of events of one query.
pub const WHAT_IF_N_DEFAULT: u32 = 20;

/// The question what the handlers would make of the events that a filter finds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfOrder {
    /// The events, the newest first; here `state` may be left out, too.
    #[serde(default)]
    #[schemars(schema_with = "any_filter")]
    pub filter: EventFilter,
    /// Most events; 20 by default.
    #[serde(default, deserialize_with = "number_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<i64>,
    /// `next` of an earlier answer: the events behind those that it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub cursor: Option<String>,
}

/// A filter that may leave out everything.
fn any_filter(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = EventFilter::json_schema(generator);
    schema.remove("required");
    schema
}

/// What the handlers of this binary would make of some events. Nothing was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIfView {
    /// Each event, the newest first.
    pub items: Vec<WhatIfEvent>,
    /// Events for which the same would follow as was committed.
    pub unchanged_n: u64,
    /// Events for which something else would follow.
    pub changed_n: u64,
    /// Events that could not be run.
    pub not_run_n: u64,
    /// Place behind the last event, for a question about those that follow; `null` at the end.
    pub next: Option<String>,
    /// Where the search for events ended early: all events that were received since this time were searched.
    pub looked_back_to_ms: Option<i64>,
    /// True when the time limit was reached before all events were run: `next` goes on.
    pub is_out_of_time: bool,
    /// What handlers may have done that no rollback takes back, one sentence each; empty when only plain ones ran.
    pub not_undone: Vec<String>,
}

impl WhatIfView {
    /// Adds one event, and counts it.
    pub fn add(&mut self, event: WhatIfEvent) {
        match event.verdict {
            WhatIfVerdict::Unchanged => self.unchanged_n += 1,
            WhatIfVerdict::Changed => self.changed_n += 1,
            WhatIfVerdict::NotRun => self.not_run_n += 1,
        }
        if event.is_transactional && self.not_undone.is_empty() {
            self.not_undone = NOT_UNDONE.map(str::to_owned).to_vec();
        }
        self.items.push(event);
    }
}

/// What a rollback does not take back, and what a handler finds that it did not find the first time.
const NOT_UNDONE: [&str; 4] = [
    "transactional handlers ran in a transaction that was rolled back: numbers that they took from sequences stay taken",
    "triggers of the tables that they wrote to fired, and whatever those do outside of the database was done",
    "calls that a handler makes itself, to other hosts or to files, were made",
    "they met the tables as they are now, with what was written for the event before: a row that they insert may be there",
];

words! {
    /// Result of the comparison for one event.
    WhatIfVerdict {
        /// The same state and the same effects would follow.
        Unchanged = "unchanged",
        /// Something else would follow.
        Changed = "changed",
        /// No handler was run; `why` is the reason.
        NotRun = "not_run",
    }
}

words! {
    /// The result of the handlers.
    WhatIfSaid {
        /// Effects, or that there are none.
        Handled = "handled",
        /// Nothing is to be done.
        Ignored = "ignored",
        /// It is refused for good.
        Refused = "refused",
        /// It failed for now.
        Retry = "retry",
        /// A handler panicked; `why` has its words.
        Panicked = "panicked",
        /// A handler took longer than `server.handler_timeout_ms`.
        TookTooLong = "took_too_long",
        /// Not run: all its handlers want the newest version of its object alone, and it is not that.
        Superseded = "superseded",
        /// Not run; `why` is the reason.
        NotRun = "not_run",
    }
}

/// What was assumed for handlers that want the newest version of an object alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhatIfTaken {
    /// It was the newest version when it was received, as far as the tables show: its handlers were run.
    Newest,
    /// A newer version had been received before it: its handlers were not run.
    Stale,
}

/// What the handlers would make of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIfEvent {
    /// Name of the provider that sent it.
    pub provider: String,
    /// Id of the event, as its sender has it.
    pub event_id: String,
    /// Type of the event, in the sender's words.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Time when its first copy was received.
    pub received_at_ms: i64,
    /// State in which it stands.
    pub state: EventState,
    /// Reason why it stands there.
    pub error: Option<String>,
    /// Number of deliberate re-runs: effects are compared with those of the last one.
    pub generation: u32,
    /// Result of the comparison.
    pub verdict: WhatIfVerdict,
    /// The result of the handlers now.
    pub said: WhatIfSaid,
    /// Reason that they gave, or why they were not run.
    pub why: Option<String>,
    /// True when a transactional handler ran, in a transaction that was rolled back.
    pub is_transactional: bool,
    /// What was assumed about its version; `null` when no handler wants the newest alone.
    pub taken_as: Option<WhatIfTaken>,
    /// Time that the handlers took. Milliseconds.
    pub took_ms: u64,
    /// Each effect that would follow or was committed, at most 100, those that differ first.
    pub effects: Vec<WhatIfEffect>,
    /// Effects that were left out of this list.
    pub more_effects_n: u64,
    /// Effects that go to destinations out of the token's scope.
    pub hidden_effects_n: u64,
}

words! {
    /// How an effect that would follow now compares with the one that was committed under its key.
    WhatIfChange {
        /// It was not committed.
        New = "new",
        /// It was committed and would not follow now.
        Gone = "gone",
        /// It is another call under the same key; `fields` lists the differences.
        Other = "other",
        /// What was committed cannot be read, so the difference is unknown.
        Unknown = "unknown",
        /// It is the same call.
        Same = "same",
    }
}

/// One effect, as it was committed and as it would follow now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIfEffect {
    /// Name of the effect within the event.
    pub effect_name: String,
    /// Key that goes with every attempt: equal keys are the same effect.
    pub idempotency_key: String,
    /// How the two compare.
    pub change: WhatIfChange,
    /// What differs under the same key: `destination`, `lane`, `method`, `path`, `headers`, `body`.
    pub fields: Vec<String>,
    /// Destination that it is for, or was for where it is gone.
    pub destination: String,
    /// Id of the message that was committed.
    pub message_id: Option<MessageId>,
    /// State in which that message stands.
    pub message_state: Option<MessageState>,
    /// The call that was committed; `null` where there was none, or it is the same.
    pub was: Option<WhatIfCall>,
    /// The call that would follow; `null` where there is none, or it is the same.
    pub now: Option<WhatIfCall>,
}

/// A call, as an effect defines it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIfCall {
    /// Name of the destination.
    pub destination: String,
    /// Lane that it is in, if it is in one.
    pub lane: Option<String>,
    /// HTTP method of the call.
    pub method: String,
    /// Path below the destination's URL; of an address that a template made, the host alone.
    pub path: String,
    /// Extra headers; values that open doors are blanked, and long ones are cut.
    pub headers: BTreeMap<String, String>,
    /// True when it carries the event's own bytes.
    pub is_event_body: bool,
    /// Body as text, what is no UTF-8 replaced; `null` when it was left out.
    pub body: Option<String>,
    /// Length of the whole body. Bytes.
    pub body_bytes_n: u64,
    /// True when `body` is not all of it.
    pub is_cut: bool,
}
