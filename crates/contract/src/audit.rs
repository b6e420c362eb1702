//! The audit log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One row of the audit log: a decision, or a look at a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditView {
    /// Number of the row; later rows have higher numbers.
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
