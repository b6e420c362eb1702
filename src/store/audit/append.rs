//! Rows are added to the audit log.

use crate::store::db::{DbResult, Door};
use crate::types::UnixMs;

/// A row to add.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct AuditEntry {
    /// Name of the token that decided, or looked.
    pub(in crate::store) actor: String,
    /// Word for what was done, such as `message_send`.
    pub(in crate::store) action: &'static str,
    /// Provider of the event that it is about.
    pub(in crate::store) provider: Option<String>,
    /// Id of the event that it is about.
    pub(in crate::store) event_id: Option<String>,
    /// Number of the message that it is about.
    pub(in crate::store) message_id: Option<i64>,
    /// Operation that it was part of.
    pub(in crate::store) operation_id: Option<String>,
    /// Reason that was given, and what else there is to say.
    pub(in crate::store) detail: String,
}

/// Adds these rows in this order. To be the last thing of a transaction: others who add wait for its end.
pub(in crate::store) async fn append(
    db: &mut Door<'_>,
    now_ms: UnixMs,
    entries: &[AuditEntry],
) -> DbResult<()> {
    for entry in entries {
        db.execute(
            "/* audit_append */ INSERT INTO audit_log
                 (audit_id, at_ms, actor, action, provider, event_id, message_id, operation_id, detail)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            &[
                uuid::Uuid::now_v7().to_string().into(),
                now_ms.into(),
                entry.actor.as_str().into(),
                entry.action.into(),
                entry.provider.clone().into(),
                entry.event_id.clone().into(),
                entry.message_id.into(),
                entry.operation_id.clone().into(),
                entry.detail.as_str().into(),
            ],
        )
        .await?;
    }
    Ok(())
}
