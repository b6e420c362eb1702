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
    /// Name of the token that decided; behind it, in parentheses, who typed, where their command line said so.
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
    /// True when every row that was followed is as it was written and none is missing.
    pub is_whole: bool,
    /// Number of rows that were followed.
    pub rows_n: u64,
    /// Number of the first row, and of the last one.
    pub first_seq: i64,
    /// Number of the last row.
    pub last_seq: i64,
    /// The last row that was followed and its hash, as `NUMBER.HASH`. Kept elsewhere and given as `cursor` another time,
    /// it shows whether everything up to it is still as it was.
    pub head: String,
    /// The value of `cursor` for the rows after these; `null` when all were followed.
    pub next: Option<String>,
    /// Number of the first row that does not fit, and why.
    pub broken_at_seq: Option<i64>,
    /// The reason, for people; or that the row of `cursor` was pruned, so that nothing was compared with it.
    pub reason: Option<String>,
}
