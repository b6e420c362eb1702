//! What is kept beside events that stand, and which firing of a signal a copy belongs to.

use sqlx::SqliteConnection;

use crate::store::EventRow;
use crate::store::signal::SignalCopy;
use crate::types::{BodyDigest, EventKey, Name};

/// Those of `keys` that rows have.
pub(in crate::store) async fn replay_keys_taken(
    db: &mut SqliteConnection,
    provider: &Name,
    keys: &[BodyDigest],
) -> sqlx::Result<Vec<Vec<u8>>> {
    sqlx::query_scalar(
        "SELECT replay_key FROM processed_webhook_events
         WHERE provider = $1 AND replay_key IN (SELECT unhex(value) FROM json_each($2))",
    )
    .bind(provider.as_str())
    .bind(hex_list(keys))
    .fetch_all(db)
    .await
}

/// The rows that have one of these ids, the oldest first.
pub(in crate::store) async fn events_with(
    db: &mut SqliteConnection,
    provider: &Name,
    event_ids: &[String],
) -> sqlx::Result<Vec<EventRow>> {
    let rows = sqlx::query(
        "SELECT provider, event_id, event_type, digest, state, attempts_n, due_at_ms, error, received_at_ms, identity
         FROM processed_webhook_events
         WHERE provider = $1 AND event_id IN (SELECT value FROM json_each($2))
         ORDER BY received_at_ms, event_id",
    )
    .bind(provider.as_str())
    .bind(serde_json::json!(event_ids).to_string())
    .fetch_all(db)
    .await?;
    rows.iter().map(EventRow::from_row).collect()
}

fn hex_list(keys: &[BodyDigest]) -> String {
    serde_json::json!(keys.iter().map(hex::encode).collect::<Vec<_>>()).to_string()
}

pub(in crate::store) async fn event_content(
    db: &mut SqliteConnection,
    key: &EventKey,
) -> sqlx::Result<Option<(String, Vec<u8>)>> {
    sqlx::query_as("SELECT headers, body FROM webhook_payloads WHERE provider = $1 AND event_id = $2")
        .bind(key.provider.as_str())
        .bind(key.event_id.as_str())
        .fetch_optional(db)
        .await
}

pub(in crate::store) async fn conflict_count(
    db: &mut SqliteConnection,
    first: &EventKey,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO conflict_counts (provider, event_id, unkept_n) VALUES ($1, $2, 1)
         ON CONFLICT (provider, event_id) DO UPDATE SET unkept_n = conflict_counts.unkept_n + 1",
    )
    .bind(first.provider.as_str())
    .bind(first.event_id.as_str())
    .execute(db)
    .await
    .map(drop)
}

pub(in crate::store) async fn conflicts_unkept(
    db: &mut SqliteConnection,
    first: &EventKey,
) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar("SELECT unkept_n FROM conflict_counts WHERE provider = $1 AND event_id = $2")
        .bind(first.provider.as_str())
        .bind(first.event_id.as_str())
        .fetch_optional(db)
        .await
}

/// Provider, signal and the number of the firing that its copy belongs to.
pub(in crate::store) async fn signals_number(
    db: &mut SqliteConnection,
    copies: &[SignalCopy],
) -> sqlx::Result<Vec<(String, String, i64)>> {
    let mut found = Vec::with_capacity(copies.len());
    for copy in copies {
        let firing_n: i64 = sqlx::query_scalar(
            "INSERT INTO signal_firings AS f (provider, signal, firing_n, counted_from_ms) VALUES ($1, $2, 1, $3)
             ON CONFLICT (provider, signal) DO UPDATE SET
                 firing_n = f.firing_n + CASE WHEN ABS(excluded.counted_from_ms - f.counted_from_ms) > $4 THEN 1 ELSE 0 END,
                 counted_from_ms = CASE WHEN ABS(excluded.counted_from_ms - f.counted_from_ms) > $4
                     THEN excluded.counted_from_ms
                     WHEN $5 THEN MAX(f.counted_from_ms, excluded.counted_from_ms)
                     ELSE f.counted_from_ms END
             RETURNING firing_n",
        )
        .bind(copy.provider.as_str())
        .bind(copy.signal.as_str())
        .bind(copy.at_ms)
        .bind(copy.window_ms)
        .bind(copy.is_renewed)
        .fetch_one(&mut *db)
        .await?;
        found.push((copy.provider.clone(), copy.signal.clone(), firing_n));
    }
    Ok(found)
}
