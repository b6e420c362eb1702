//! What changes nothing and shows what is or would be: what a live system shows (the doctor), how a request fares on
//! its way to the receiver (probes), why a saved request is or is not verified, step by step (explain), and what the
//! handlers of a binary would make of stored events, beside what was committed for them (what-if).

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::operation::EventFilter;
use super::order::{NAME_PATTERN, number_or_null, time_or_null};
use hooklatch_core::types::{EventState, MessageId, MessageState};
use hooklatch_core::words;

/// Findings of the doctor about one node, and about what all nodes share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorView {
    /// Name of the node that answers, as attempts have it.
    pub node: String,
    /// Version of that node.
    pub version: String,
    /// Time of the examination.
    pub at_ms: i64,
    /// True when the pages of the database were read as well.
    pub is_deep: bool,
    /// False when the token reaches some providers or destinations alone: what is about the whole is left out.
    pub is_whole: bool,
    /// Findings in the order of the checks.
    pub findings: Vec<FindingView>,
}

/// One finding of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingView {
    /// Name of the check, as docs/doctor.md lists it.
    pub check: String,
    /// Name of the provider, destination, table, node or file that it is about; `null` for the whole.
    pub subject: Option<String>,
    /// Verdict about what was found.
    pub verdict: FindingVerdict,
    /// What was looked at, for people.
    pub looked_at: String,
    /// What was found, with its figure.
    pub found: String,
    /// The bound that it is held against, where there is one.
    pub bound: Option<String>,
    /// What it means for events and money, for people; `null` where all is well.
    pub meaning: Option<String>,
    /// The remedy: a command or a key; `null` where there is nothing to do.
    pub remedy: Option<String>,
}

impl FindingView {
    /// Names the subject.
    pub fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Adds the remedy.
    pub fn cure(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// Adds the bound that it is held against.
    pub fn against(self, bound: impl Into<String>) -> Self {
        Self { bound: Some(bound.into()), ..self }
    }

    /// True when it is worth a person's time.
    pub fn is_bad(&self) -> bool {
        self.verdict >= FindingVerdict::Warning
    }
}

words! {
    /// Verdict about what was found, the mildest first.
    FindingVerdict {
        /// It is as it should be.
        Well = "well",
        /// Nothing is wrong; an operator may want to know.
        Note = "note",
        /// It could not be found out.
        Unknown = "unknown",
        /// It will fail later, or under load.
        Warning = "warning",
        /// Events are lost, refused or doubled, now or at the next fault.
        Failure = "failure",
    }
}

/// What a client needs to send probes to the receiver: requests that make no event, and whose response says what
/// arrived.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeView {
    /// Value for the header and for the query of such a request.
    pub token: String,
    /// Key in hexadecimal by which an answer is known to be ours.
    pub answer_key: String,
    /// Time until which the token is good.
    pub good_until_ms: i64,
    /// URL that senders call, without a trailing slash.
    pub public_url: String,
    /// Paths below it: one for each provider in reach.
    pub paths: Vec<ProbePath>,
    /// Largest body that the receiver takes. Bytes.
    pub body_bytes_max: u32,
    /// The shortest time within which one of the senders wants its answer. Milliseconds.
    pub answer_within_ms: u32,
}

/// The path of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbePath {
    /// Path below the URL that senders call.
    pub path: String,
    /// Headers that its kind reads.
    pub headers: Vec<String>,
}

/// What arrived of such a request, as the receiver says it. No value of a header and no byte of the body is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivedView {
    /// HTTP method of the request.
    pub method: String,
    /// Path with its query, the token left out.
    pub path: String,
    /// True when the token was in the header.
    pub is_in_header: bool,
    /// True when the token was in the query.
    pub is_in_query: bool,
    /// Length of the body. Bytes.
    pub body_bytes_n: u64,
    /// SHA-256 of the body, in hexadecimal.
    pub body_digest: String,
    /// Headers that arrived, by name.
    pub headers: Vec<ArrivedHeader>,
}

/// One header that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivedHeader {
    /// Name in lower case.
    pub name: String,
    /// Digest of its values, keyed with the answer's key.
    pub digest: String,
}

/// The answer of the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeAnswer {
    /// An [`ArrivedView`] as JSON, which is what the proof is about.
    pub arrived: String,
    /// MAC of that text with the answer's key, in hexadecimal.
    pub proof: String,
}

/// The question why a request is or is not verified. At most 1 MiB of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainOrder {
    /// Name of the provider; optional where the request's path has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub provider: Option<String>,
    /// The request to judge.
    pub request: ExplainRequest,
    /// Time to judge it at; by default that of a first line `# now=SECONDS`, or now.
    #[serde(default, deserialize_with = "time_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub at_ms: Option<i64>,
    /// True to judge it at the time that it is signed with, where that is too far away from the other one.
    #[serde(default)]
    pub at_own_time: bool,
}

/// A request, whole or in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ExplainRequest {
    /// `POST /webhooks/NAME`, headers, an empty line and the body, as text.
    Text(String),
    /// The parts of it.
    Parts(ExplainParts),
}

/// The parts of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainParts {
    /// HTTP method; `POST` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path with its query, as it was called.
    #[serde(default)]
    pub path: String,
    /// Headers in their order.
    #[serde(default)]
    pub headers: Vec<ExplainHeader>,
    /// Body that is text.
    #[serde(default)]
    pub body: String,
    /// Body in Base64, instead of `body`: for bytes that are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// A header of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainHeader {
    /// Name of the header.
    pub name: String,
    /// Value of the header.
    pub value: String,
}

words! {
    /// Result of judging a request.
    ExplainVerdict {
        /// It would be verified.
        Believed = "believed",
        /// It is a handshake, which is answered without a signature.
        Handshake = "handshake",
        /// It would be rejected; `failed_at` is the step.
        NotBelieved = "not_believed",
        /// What was given is no request that can be judged.
        NotRead = "not_read",
    }
}

/// The line ends with which a body was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExplainLines {
    /// As they were given.
    AsGiven,
    /// LF, where CRLF was given: with those it was not verified.
    Lf,
    /// CRLF, where LF was given: with those it was not verified.
    Crlf,
}

/// One step on the way to a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainStep {
    /// Word for it: `kind`, `body`, `signed url`, `header`, `verdict`, `hint`, `identified`, `event`, `identity`; empty
    /// where it goes on with the one before.
    pub word: String,
    /// What was found there, in one sentence.
    pub text: String,
}

/// An event that a verified request would be read as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainEvent {
    /// Id that it would have.
    pub event_id: String,
    /// Type of it, in the sender's words.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Rule that identifies it.
    pub identity: String,
    /// Reason why it cannot be read, where it cannot.
    pub unreadable: Option<String>,
    /// True when its signed text is remembered too: the same under another id is a replay.
    pub remembers_text: bool,
    /// State of the event that is kept under this id; `null`: none is.
    pub known_state: Option<EventState>,
}

/// Why a request is or is not verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainView {
    /// Name of the provider that it was judged for.
    pub provider: Option<String>,
    /// Result of judging it.
    pub verdict: ExplainVerdict,
    /// Step at which it failed: `header`, `timestamp`, `secret` or `signature`.
    pub failed_at: Option<String>,
    /// Reason as a word, as refusals have it: `mismatch`, `stale`, `other_secret`, ….
    pub reason: Option<String>,
    /// Time that it was judged at.
    pub judged_at_ms: i64,
    /// Seconds by which its own time is behind that time, negative when it is ahead; where that is why.
    pub age_s: Option<i64>,
    /// Line ends that the verdict is about.
    pub lines: ExplainLines,
    /// Every step, in order.
    pub steps: Vec<ExplainStep>,
    /// Events that it would be read as, at most 50.
    pub events: Vec<ExplainEvent>,
    /// Number of further events.
    pub more_events_n: u64,
}

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
