//! The audit log as a person may see it.

use crate::api::AuditView;
use crate::store::db::{DbResult, Door, Row};
use crate::types::MessageId;

/// The newest decisions about a message, at most 100.
pub(super) async fn people_decisions(db: &mut Door<'_>, message_id: MessageId) -> DbResult<Vec<AuditView>> {
    let sql = "/* people_decisions */ SELECT CAST(0 AS BIGINT) AS audit_seq, at_ms, actor, action, provider, event_id, message_id, operation_id, detail
        FROM audit_log WHERE message_id = $1 AND message_id IS NOT NULL ORDER BY at_ms DESC, audit_id DESC LIMIT 100";
    let rows = db.fetch(sql, &[message_id.number().into()]).await?;
    rows.iter().map(audit_view).collect()
}

/// A row with all columns of the log but its hash.
pub(super) fn audit_view(row: &Row) -> DbResult<AuditView> {
    Ok(AuditView {
        audit_seq: row.int("audit_seq")?,
        at_ms: row.int("at_ms")?,
        actor: row.text("actor")?,
        action: row.text("action")?,
        provider: row.text_or_null("provider")?,
        event_id: row.text_or_null("event_id")?,
        message_id: row.int_or_null("message_id")?.map(|number| number.to_string()),
        operation_id: row.text_or_null("operation_id")?,
        detail: row.text("detail")?,
    })
}
