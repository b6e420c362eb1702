//! What a live system shows (the doctor), how a request fares on its way to the receiver (probes), and why a saved request
//! is or is not verified, step by step (explain).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::order::{NAME_PATTERN, time_or_null};
use hooklatch_core::types::EventState;
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
    /// The same, about this subject.
    pub fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// The same, with what can be done.
    pub fn cure(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// The same, held against a figure.
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
