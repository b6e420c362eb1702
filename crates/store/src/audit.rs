//! The audit log: what operators decided and which contents they looked at, row by row, in the transaction of what it
//! is about. Once that transaction has committed, each row is a line of the log of the process as well, so that a
//! collector keeps it where a role that may write to the database may not write.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tracing::info;

use super::db::limit::after_commit;
use super::db::{DbResult, Executor};
use hooklatch_core::logging::AUDIT_TARGET;
use hooklatch_core::types::UnixMs;

/// Numbers from here on are damage or of another program. On SQLite, which continues behind the highest number that
/// there ever was, a row with the highest one of all would let no further row in.
const FOREIGN_SEQ: i64 = 1 << 62;

/// A row to add.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditEntry {
    /// Name of the token that decided, or looked.
    pub actor: String,
    /// Word for what was done, such as `message_send`.
    pub action: &'static str,
    /// Provider of the event that it is about.
    pub provider: Option<String>,
    /// Id of the event that it is about.
    pub event_id: Option<String>,
    /// Number of the message that it is about.
    pub message_id: Option<i64>,
    /// Operation that it was part of.
    pub operation_id: Option<String>,
    /// Reason that was given, and what else there is to say.
    pub detail: String,
}

impl AuditEntry {
    /// A row about nothing yet.
    pub(crate) fn new(actor: impl Into<String>, action: &'static str, detail: impl Into<String>) -> Self {
        Self { actor: actor.into(), action, detail: detail.into(), ..Self::default() }
    }

    /// The row about a provider.
    pub(crate) fn on_provider(self, provider: impl Into<String>) -> Self {
        Self { provider: Some(provider.into()), ..self }
    }

    /// The row about an event.
    pub(crate) fn on_event(self, provider: impl Into<String>, event_id: impl Into<String>) -> Self {
        Self { event_id: Some(event_id.into()), ..self.on_provider(provider) }
    }
}

/// Adds these rows in this order, by one statement: they are one list in JSON, whose members both databases read by
/// `->>`.
pub(crate) async fn append(db: &mut Executor<'_>, now_ms: UnixMs, entries: &[AuditEntry]) -> DbResult<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let (column, number, list) = if db.is_postgres() {
        ("", String::new(), "json_array_elements(CAST($1 AS JSON)) AS r(value)")
    } else {
        let number = format!(
            "r.key + 1 + (SELECT COALESCE(MAX(n), 0) FROM (
                 SELECT MAX(audit_seq) AS n FROM audit_log WHERE audit_seq < {FOREIGN_SEQ}
                 UNION ALL SELECT audit_pruned_seq FROM installation
                 UNION ALL SELECT seq FROM sqlite_sequence WHERE name = 'audit_log') AS known WHERE n < {FOREIGN_SEQ}), "
        );
        ("audit_seq, ", number, "json_each($1) AS r")
    };
    let sql = format!(
        "/* audit_append */ INSERT INTO audit_log
             ({column}at_ms, actor, action, provider, event_id, message_id, operation_id, detail)
         SELECT {number}CAST($2 AS BIGINT), r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3,
                CAST(r.value ->> 4 AS BIGINT), r.value ->> 5, r.value ->> 6
         FROM {list} RETURNING audit_seq"
    );
    let rows: Value = entries
        .iter()
        .map(|one| {
            let ids = (&one.event_id, one.message_id, &one.operation_id);
            json!([one.actor, one.action, one.provider, ids.0, ids.1, ids.2, one.detail])
        })
        .collect();
    let added = db.fetch(sql, &[rows.to_string().into(), now_ms.into()]).await?;
    let numbers = added.iter().map(|row| row.int("audit_seq")).collect::<DbResult<Vec<i64>>>()?;
    let entries = entries.to_vec();
    after_commit(move |is_confirmed| {
        for (audit_seq, entry) in numbers.into_iter().zip(entries) {
            log(audit_seq, now_ms, &entry, is_confirmed);
        }
    });
    Ok(())
}

/// Logs a row that was added, with a digest of its detail only: the detail is free text, and may name persons.
fn log(audit_seq: i64, at_ms: UnixMs, entry: &AuditEntry, is_confirmed: bool) {
    info!(
        target: AUDIT_TARGET,
        audit_seq,
        at_ms,
        actor = entry.actor,
        action = entry.action,
        provider = entry.provider,
        event_id = entry.event_id,
        message_id = entry.message_id,
        operation_id = entry.operation_id,
        detail_sha256 = hex::encode(Sha256::digest(&entry.detail)),
        commit = if is_confirmed { "confirmed" } else { "unknown" },
        "audit row written"
    );
}

/// Deletes rows that are old, by number. The trigger lets no row be deleted that is newer than the mark.
pub(crate) async fn prune(db: &mut Executor<'_>, numbers: &[i64]) -> DbResult<u64> {
    let Some(newest) = numbers.iter().max() else { return Ok(0) };
    let sql = "/* audit_prune */ UPDATE installation SET audit_pruned_seq = GREATEST(audit_pruned_seq, $1)";
    db.execute(sql, &[(*newest).into()]).await?;
    let sql = "/* audit_prune */ DELETE FROM audit_log WHERE audit_seq = ANY($1)";
    db.execute(sql, &[numbers.to_vec().into()]).await
}
