//! The audit log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One row of the audit log: a decision, or a look at a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditView {
    /// Number of the row; rows are chained in this order.
    pub audit_seq: i64,
    /// Time of the decision.
    pub at_ms: i64,
    /// Name of the token that decided.
    pub actor: String,
    /// Word for what was done, such as `message_send` or `body_read`.
    pub action: String,
    /// Provider of the event that it is about.
    pub provider: Option<String>,
    /// Id of the event that it is about.
    pub event_id: Option<String>,
    /// Id of the message that it is about.
    pub message_id: Option<String>,
    /// Id of the operation that it was part of.
    pub operation_id: Option<String>,
    /// Reason that was given, and what else there is to say.
    pub detail: String,
}

/// Result of following the chain of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditVerified {
    /// True when every row is as it was written and none is missing.
    pub is_whole: bool,
    /// Number of rows that were followed.
    pub rows_n: u64,
    /// Number of the first row, and of the last one.
    pub first_seq: i64,
    /// Number of the last row.
    pub last_seq: i64,
    /// Hash of the last row, in hexadecimal: to be kept elsewhere, and compared another time.
    pub head: String,
    /// Number of the first row that does not fit, and why.
    pub broken_at_seq: Option<i64>,
    /// The reason, for people.
    pub reason: Option<String>,
}
