//! The doctor: what only a live system shows, and how a request fares on its way to the receiver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Verdict about what was found, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingVerdict {
    /// It is as it should be.
    Well,
    /// Nothing is wrong; an operator may want to know.
    Note,
    /// It could not be found out.
    Unknown,
    /// It will fail later, or under load.
    Warning,
    /// Events are lost, refused or doubled, now or at the next fault.
    Failure,
}

impl FindingVerdict {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
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
