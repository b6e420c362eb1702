//! Errors, as RFC 9457 describes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hooklatch_core::types::ProblemCode;

/// An error of the API: `application/problem+json`, RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemView {
    /// Always `about:blank`: `code` identifies the problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status of the answer, 400 to 599.
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// Stable word for programs, such as `idempotency_key_reused`. A text here, so that a client of this version reads
    /// the problems of a newer server.
    #[schemars(with = "ProblemCode")]
    pub code: String,
    /// The phrase of the status, such as `Not Found`.
    pub title: String,
    /// One sentence for people: what is wrong, in which field or parameter, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub detail: Option<String>,
    /// State in which the subject stands, where that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Number that was counted, where that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_n: Option<u64>,
    /// Id of the operation that is in the way, where that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Rows that are why, at most ten: of a refused operation those that are new, gone or changed since its preview, or those
    /// that the other operation is about, too. Ids of messages, or provider and id of events, such as `stripe/evt_1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// Number of all of these rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_n: Option<u64>,
}

impl ProblemView {
    /// The most exact sentence that there is.
    pub fn sentence(&self) -> &str {
        self.detail.as_deref().unwrap_or(&self.title)
    }
}
