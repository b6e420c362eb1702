//! Events after admission: retries, and what people look at.

use sqlx::SqliteConnection;

use crate::store::{EventCount, EventRow, EventUpdate};
use crate::types::EventKey;

pub(in crate::store) async fn event_retry_later(
    db: &mut SqliteConnection,
    update: &EventUpdate,
    attempts_before: i64,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE processed_webhook_events
         SET state = $3, error = $4, attempts_n = $5, due_at_ms = $6, processed_at_ms = $7
         WHERE provider = $1 AND event_id = $2 AND state = 'retry' AND attempts_n = $8",
    )
    .bind(update.key.provider.as_str())
    .bind(update.key.event_id.as_str())
    .bind(update.state.as_str())
    .bind(update.error.as_deref())
    .bind(i64::from(update.attempts_n))
    .bind(update.due_at_ms)
    .bind(update.processed_at_ms)
    .bind(attempts_before)
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

pub(in crate::store) async fn event_get(
    db: &mut SqliteConnection,
    key: &EventKey,
) -> sqlx::Result<Option<EventRow>> {
    let row = sqlx::query(
        "SELECT provider, event_id, event_type, digest, state, attempts_n, due_at_ms, error, received_at_ms, identity
         FROM processed_webhook_events WHERE provider = $1 AND event_id = $2",
    )
    .bind(key.provider.as_str())
    .bind(key.event_id.as_str())
    .fetch_optional(db)
    .await?;
    row.map(|row| EventRow::from_row(&row)).transpose()
}

pub(in crate::store) async fn event_list(
    db: &mut SqliteConnection,
    state: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<EventRow>> {
    let rows = sqlx::query(
        "SELECT provider, event_id, event_type, digest, state, attempts_n, due_at_ms, error, received_at_ms, identity
         FROM processed_webhook_events WHERE $1 IS NULL OR state = $1
         ORDER BY received_at_ms DESC, provider, event_id LIMIT $2",
    )
    .bind(state)
    .bind(limit)
    .fetch_all(db)
    .await?;
    rows.iter().map(EventRow::from_row).collect()
}

pub(in crate::store) async fn event_counts_open(db: &mut SqliteConnection) -> sqlx::Result<Vec<EventCount>> {
    let rows = sqlx::query(
        "SELECT provider, state, COUNT(*), MIN(received_at_ms) FROM processed_webhook_events
         WHERE state IN ('retry', 'failed', 'unreadable', 'conflict') GROUP BY provider, state ORDER BY provider, state",
    )
    .fetch_all(db)
    .await?;
    rows.iter().map(EventCount::from_row).collect()
}

pub(in crate::store) async fn unreadable_bytes(
    db: &mut SqliteConnection,
) -> sqlx::Result<Vec<(String, i64)>> {
    sqlx::query_as(
        "SELECT provider, SUM(length(p.body) + octet_length(p.headers))
         FROM processed_webhook_events JOIN webhook_payloads p USING (provider, event_id)
         WHERE state = 'unreadable' GROUP BY provider",
    )
    .fetch_all(db)
    .await
}
