//! Explain: why a saved request is or is not verified, step by step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hooklatch_core::types::EventState;

/// The question why a request is or is not verified. At most 1 MiB of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainOrder {
    /// Name of the provider; optional where the request's path has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::reason::NAME_PATTERN))]
    pub provider: Option<String>,
    /// The request to judge.
    pub request: ExplainRequest,
    /// Time to judge it at; by default that of a first line `# now=SECONDS`, or now.
    #[serde(
        default,
        deserialize_with = "super::whole::time_or_null",
        skip_serializing_if = "Option::is_none"
    )]
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

/// Result of judging a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExplainVerdict {
    /// It would be verified.
    Believed,
    /// It is a handshake, which is answered without a signature.
    Handshake,
    /// It would be rejected; `failed_at` is the step.
    NotBelieved,
    /// What was given is no request that can be judged.
    NotRead,
}

impl ExplainVerdict {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Believed => "believed",
            Self::Handshake => "handshake",
            Self::NotBelieved => "not_believed",
            Self::NotRead => "not_read",
        }
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
