//! The audit log as a person may see it.

use super::person::{People, PeopleError};
use crate::api::{AuditView, Page};
use crate::store::damaged::{Intact, intact};
use crate::store::db::{DbResult, Door, Row, Value};
use crate::types::{MessageId, Principal, Role, UnixMs};

/// Rows that one page looks at, at most: those out of scope are not shown.
const LOOKED_N: i64 = 10_000;

/// So many numbers are so many rows at most.
const AUDIT: &str = "/* people_audit */ SELECT a.audit_seq, a.at_ms, a.actor, a.action, a.provider, a.event_id,
        a.message_id, a.operation_id, a.detail
    FROM audit_log a
    WHERE a.audit_seq < $1 AND a.audit_seq >= $2
      AND (CAST($3 AS BIGINT) = 0 OR a.provider = ANY($4))
      AND (CAST($5 AS BIGINT) = 0 OR (a.message_id IS NOT NULL
           AND COALESCE((SELECT q.destination FROM outbox_queue q WHERE q.message_id = a.message_id),
                        (SELECT f.destination FROM outbox_finished f WHERE f.message_id = a.message_id)) = ANY($6)))
    ORDER BY a.audit_seq DESC LIMIT $7";
const OF_MESSAGE: &str =
    "/* people_decisions */ SELECT * FROM (SELECT audit_seq, at_ms, actor, action, provider, event_id, message_id,
            operation_id, detail
        FROM audit_log WHERE message_id = $1 AND message_id IS NOT NULL ORDER BY audit_seq DESC LIMIT 10000) a
    WHERE a.action <> 'answer_read' ORDER BY a.audit_seq DESC LIMIT 100";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("audit log", AUDIT), ("decisions about a message", OF_MESSAGE)];

impl People {
    /// The audit log, the newest first, before the row with the number `before`; for operators. Who reaches some providers
    /// alone sees rows about those alone; who reaches some destinations alone, rows about messages to those.
    pub async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Page<AuditView>, PeopleError> {
        self.needs(Role::Operator)?;
        let (store, principal) = (&self.store, self.principal.clone());
        Ok(alone!(store.people.people_audit(&principal, before, limit))?)
    }
}

async fn people_audit(
    db: &mut Door<'_>,
    principal: &Principal,
    before: Option<i64>,
    limit: u32,
) -> DbResult<Page<AuditView>> {
    let sql = "/* people_audit */ SELECT COALESCE(MAX(audit_seq), 0) AS highest FROM audit_log";
    let highest = db.fetch_one(sql, &[]).await?.int("highest")?;
    let before = before.unwrap_or(i64::MAX).min(highest.saturating_add(1));
    let from = before.saturating_sub(LOOKED_N).max(0);
    let listed = |names: Option<Vec<String>>| -> [Value; 2] {
        [i64::from(names.is_some()).into(), names.unwrap_or_default().into()]
    };
    let mut values: Vec<Value> = vec![before.into(), from.into()];
    values.extend(listed(principal.providers.names()));
    values.extend(listed(principal.destinations.names()));
    values.push(limit.into());
    let rows = db.fetch(AUDIT, &values).await?;
    let found = audit_rows(&rows)?;
    let mut page = Page { damaged: found.damaged, ..Page::whole(found.rows) };
    if rows.len() == limit as usize {
        page.next = rows.last().map(|last| last.key_text("audit_seq"));
    } else if from > 1 {
        page.next = Some(from.to_string());
        page.looked_back_to_ms = at_ms(db, from).await?;
    }
    Ok(page)
}

/// The time of the row of this number, or of the next one.
async fn at_ms(db: &mut Door<'_>, audit_seq: i64) -> DbResult<Option<UnixMs>> {
    let sql =
        "/* people_audit */ SELECT at_ms FROM audit_log WHERE audit_seq >= $1 ORDER BY audit_seq LIMIT 1";
    db.fetch_optional(sql, &[audit_seq.into()]).await?.map(|row| row.int("at_ms")).transpose()
}

/// The newest decisions about a message, at most 100. That somebody was shown an answer is in the audit log alone.
pub(super) async fn people_decisions(db: &mut Door<'_>, message_id: MessageId) -> DbResult<Vec<AuditView>> {
    let rows = db.fetch(OF_MESSAGE, &[message_id.number().into()]).await?;
    Ok(audit_rows(&rows)?.rows)
}

/// Rows with all columns of the log, those that are damaged apart.
pub(super) fn audit_rows(rows: &[Row]) -> DbResult<Intact<AuditView>> {
    intact("audit_log", "audit_seq", rows, audit_view)
}

fn audit_view(row: &Row) -> DbResult<AuditView> {
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
