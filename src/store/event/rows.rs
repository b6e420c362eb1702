//! The rows of events: how they are found and written after admission.

use super::types::{DueEvent, EventRow, EventUpdate};
use crate::seal::KeyRing;
use crate::store::db::{DbResult, Door, StoreError, Value};
use crate::store::handle::Store;
use crate::types::{EventKey, Name, UnixMs};

impl Store {
    /// Writes that an event failed again, while it still is in `retry` with `attempts_before`; `false` when
    /// it no longer is.
    pub async fn event_retry_later(
        &self,
        update: &EventUpdate,
        attempts_before: u32,
    ) -> Result<bool, StoreError> {
        let update = update.clone();
        alone!(self.writer.event_retry_later(&update, attempts_before))
    }

    /// Returns the row of one event; `None` when there is none.
    pub async fn event_get(&self, key: &EventKey) -> Result<Option<EventRow>, StoreError> {
        let key = key.clone();
        alone!(self.people.event_get(&key))
    }

    /// Returns how many bytes are kept of events that could not be read, by provider.
    pub async fn unreadable_bytes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        alone!(self.reader.unreadable_bytes())
    }
}

/// The values of a statement that writes where an event stands: `$1` its number, `$2` to `$6` what its row is to say.
fn update_values(update: &EventUpdate) -> Vec<Value> {
    vec![
        update.event_seq.into(),
        update.state.as_str().into(),
        update.error.clone().into(),
        update.attempts_n.into(),
        update.due_at_ms.into(),
        update.processed_at_ms.into(),
    ]
}

async fn event_retry_later(db: &mut Door<'_>, update: &EventUpdate, attempts_before: u32) -> DbResult<bool> {
    let mut values = update_values(update);
    values.push(attempts_before.into());
    let changed_n = db
        .execute(
            "/* event_retry_later */ UPDATE processed_webhook_events
             SET state = $2, error = $3, attempts_n = $4, due_at_ms = $5, processed_at_ms = $6
             WHERE event_seq = $1 AND state = 'retry' AND attempts_n = $7",
            &values,
        )
        .await?;
    Ok(changed_n == 1)
}

pub(in crate::store) async fn events_update(db: &mut Door<'_>, updates: &[&EventUpdate]) -> DbResult<()> {
    for update in updates {
        db.execute(
            "/* events_update */ UPDATE processed_webhook_events
             SET state = $2, error = $3, attempts_n = $4, due_at_ms = $5, processed_at_ms = $6 WHERE event_seq = $1",
            &update_values(update),
        )
        .await?;
    }
    Ok(())
}

/// A statement that gives back all that an [`EventRow`] holds, of the rows that `$which` is true of.
macro_rules! event_rows_sql {
    ($name:literal, $which:expr) => {
        concat!(
            "/* ",
            $name,
            " */ SELECT provider, event_id, event_seq, event_type, digest, state, attempts_n, due_at_ms,
                    error, received_at_ms, identity
             FROM processed_webhook_events WHERE ",
            $which
        )
    };
}

pub(in crate::store) async fn event_get(db: &mut Door<'_>, key: &EventKey) -> DbResult<Option<EventRow>> {
    let row = db
        .fetch_optional(
            event_rows_sql!("event_get", "provider = $1 AND event_id = $2"),
            &[key.provider.as_str().into(), key.event_id.as_str().into()],
        )
        .await?;
    row.as_ref().map(EventRow::of).transpose()
}

/// The rows that have one of these ids, the oldest first.
pub(in crate::store) async fn events_with(
    db: &mut Door<'_>,
    provider: &Name,
    event_ids: &[String],
) -> DbResult<Vec<EventRow>> {
    let rows = db
        .fetch(
            event_rows_sql!(
                "events_with",
                "provider = $1 AND event_id = ANY($2)
             ORDER BY received_at_ms, event_id"
            ),
            &[provider.as_str().into(), event_ids.to_vec().into()],
        )
        .await?;
    rows.iter().map(EventRow::of).collect()
}

async fn unreadable_bytes(db: &mut Door<'_>) -> DbResult<Vec<(String, u64)>> {
    let rows = db
        .fetch(
            "/* unreadable_bytes */ SELECT e.provider,
                    CAST(SUM(octet_length(p.body) + octet_length(p.headers) + COALESCE(octet_length(p.whole), 0)) AS BIGINT) AS bytes_n
             FROM processed_webhook_events e JOIN webhook_payloads p ON p.event_seq = e.event_seq
             WHERE e.state = 'unreadable' AND e.state IN ('retry', 'failed', 'unreadable', 'conflict')
             GROUP BY e.provider",
            &[],
        )
        .await?;
    rows.iter().map(|row| Ok((row.text("provider")?, row.int("bytes_n")?.unsigned_abs()))).collect()
}

/// The longest due event of some providers: by the index of what is due, and never by that of the keys, which has all
/// events of a provider. SQLite takes that one where it may, and goes through them while it holds the writer.
/// SKIP LOCKED: nodes pass each other instead of queueing behind one row.
const TAKE_DUE: &str = "/* event_take_due */ SELECT event_seq FROM processed_webhook_events
    WHERE state = 'retry' AND due_at_ms <= $1 AND (provider || '') = ANY($2)
    ORDER BY due_at_ms LIMIT 1 FOR UPDATE SKIP LOCKED";

pub(in crate::store) async fn event_take_due(
    db: &mut Door<'_>,
    now_ms: UnixMs,
    providers: &[Name],
    ring: &KeyRing,
) -> DbResult<Option<DueEvent>> {
    let names: Vec<String> = providers.iter().map(Name::to_string).collect();
    let taken = db.fetch_optional(TAKE_DUE, &[now_ms.into(), names.into()]).await?;
    let Some(taken) = taken else { return Ok(None) };
    let row = db
        .fetch_one(
            "/* event_take_due */ SELECT e.provider, e.event_id, e.event_seq, e.event_type, e.object, e.version,
                    e.attempts_n, e.received_at_ms, e.generation, p.headers, p.body, p.whole, p.key_id,
                    p.redacted_n,
                    (SELECT MAX(m.message_id) FROM (
                         SELECT MAX(message_id) AS message_id FROM outbox_queue
                         WHERE message_id >= $1 * 1024 AND message_id < ($1 + 1) * 1024
                         UNION ALL
                         SELECT MAX(message_id) FROM outbox_finished
                         WHERE message_id >= $1 * 1024 AND message_id < ($1 + 1) * 1024) m) AS highest
             FROM processed_webhook_events e LEFT JOIN webhook_payloads p ON p.event_seq = e.event_seq
             WHERE e.event_seq = $1",
            &[taken.int("event_seq")?.into()],
        )
        .await?;
    DueEvent::of(&row, ring).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_found_by_its_own_index_however_many_events_a_provider_has() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch(include_str!("../../../migrations/sqlite/0001_hooklatch.sql")).unwrap();
        let sql = TAKE_DUE.replace("= ANY($2)", "IN (SELECT value FROM json_each($2))");
        let sql = format!("EXPLAIN QUERY PLAN {}", sql.replace(" FOR UPDATE SKIP LOCKED", ""));
        let mut plan = db.prepare(&sql).unwrap();
        let steps =
            plan.query_map(rusqlite::params![1_i64, "[]"], |row| row.get::<_, String>("detail")).unwrap();
        let steps = steps.map(Result::unwrap).collect::<Vec<_>>().join("; ");
        assert!(steps.contains("processed_webhook_events_due") && !steps.contains("autoindex"), "{steps}");
    }
}
