//! Rows are added to the audit log.

use serde_json::{Value, json};

use super::link::AuditLink;
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

/// One statement for any number of rows: they come as one list in JSON, whose members both databases read by `->>`.
macro_rules! insert_from {
    ($rows:literal) => {
        concat!(
            "/* audit_append */ INSERT INTO audit_log
                 (audit_seq, at_ms, actor, action, provider, event_id, message_id, operation_id, detail, hash)
             SELECT CAST(r.value ->> 0 AS BIGINT), CAST($2 AS BIGINT), r.value ->> 1, r.value ->> 2, r.value ->> 3,
                    r.value ->> 4, CAST(r.value ->> 5 AS BIGINT), r.value ->> 6, r.value ->> 7, r.value ->> 8
             FROM ",
            $rows
        )
    };
}
const INSERT_POSTGRES: &str = insert_from!("json_array_elements(CAST($1 AS JSON)) AS r(value)");
const INSERT_SQLITE: &str = insert_from!("json_each($1) AS r");

/// Adds these rows in this order.
///
/// To be the last thing of a transaction, after every other lock that it takes: the head of the log is locked until the
/// transaction ends, and everybody else who adds rows waits for it. So there is one order of rows, whichever nodes
/// write them, and nobody who holds the head waits for a row that somebody who waits for the head has locked.
pub(in crate::store) async fn append(
    db: &mut Door<'_>,
    now_ms: UnixMs,
    entries: &[AuditEntry],
) -> DbResult<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let head = db
        .fetch_one("/* audit_append */ SELECT audit_seq, hash FROM audit_head WHERE one = 1 FOR UPDATE", &[])
        .await?;
    let (mut audit_seq, mut hash) = (head.int("audit_seq")?, head.text("hash")?);
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        audit_seq = audit_seq.saturating_add(1);
        let link = AuditLink {
            audit_seq,
            at_ms: now_ms,
            actor: &entry.actor,
            action: entry.action,
            provider: entry.provider.as_deref(),
            event_id: entry.event_id.as_deref(),
            message_id: entry.message_id,
            operation_id: entry.operation_id.as_deref(),
            detail: &entry.detail,
        };
        hash = link.hash(&hash);
        rows.push(row(&link, &hash));
    }
    let sql = if db.is_postgres() { INSERT_POSTGRES } else { INSERT_SQLITE };
    db.execute(sql, &[Value::Array(rows).to_string().into(), now_ms.into()]).await?;
    let sql = "/* audit_append */ UPDATE audit_head SET audit_seq = $1, hash = $2 WHERE one = 1";
    db.execute(sql, &[audit_seq.into(), hash.into()]).await.map(drop)
}

fn row(link: &AuditLink<'_>, hash: &str) -> Value {
    json!([
        link.audit_seq,
        link.actor,
        link.action,
        link.provider,
        link.event_id,
        link.message_id,
        link.operation_id,
        link.detail,
        hash
    ])
}
