//! What is kept beside events that stand, and which firing of a signal a copy belongs to.

use sqlx::PgConnection;

use crate::store::EventRow;
use crate::store::signal::SignalCopy;
use crate::types::{BodyDigest, EventKey, Name};

/// Those of `keys` that rows have.
pub(in crate::store) async fn replay_keys_taken(
    db: &mut PgConnection,
    provider: &Name,
    keys: &[BodyDigest],
) -> sqlx::Result<Vec<Vec<u8>>> {
    sqlx::query_scalar(
        "SELECT replay_key FROM processed_webhook_events WHERE provider = $1 AND replay_key = ANY($2)",
    )
    .bind(provider.as_str())
    .bind(keys.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>())
    .fetch_all(db)
    .await
}

/// The rows that have one of these ids, the oldest first.
pub(in crate::store) async fn events_with(
    db: &mut PgConnection,
    provider: &Name,
    event_ids: &[String],
) -> sqlx::Result<Vec<EventRow>> {
    let rows = sqlx::query(
        "SELECT provider, event_id, event_type, digest, state, attempts_n, due_at_ms, error, received_at_ms, identity
         FROM processed_webhook_events WHERE provider = $1 AND event_id = ANY($2)
         ORDER BY received_at_ms, event_id",
    )
    .bind(provider.as_str())
    .bind(event_ids)
    .fetch_all(db)
    .await?;
    rows.iter().map(EventRow::from_row).collect()
}

pub(in crate::store) async fn event_content(
    db: &mut PgConnection,
    key: &EventKey,
) -> sqlx::Result<Option<(String, Vec<u8>)>> {
    sqlx::query_as("SELECT headers, body FROM webhook_payloads WHERE provider = $1 AND event_id = $2")
        .bind(key.provider.as_str())
        .bind(key.event_id.as_str())
        .fetch_optional(db)
        .await
}

pub(in crate::store) async fn conflict_count(db: &mut PgConnection, first: &EventKey) -> sqlx::Result<()> {
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
    db: &mut PgConnection,
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
    db: &mut PgConnection,
    copies: &[SignalCopy],
) -> sqlx::Result<Vec<(String, String, i64)>> {
    // The window goes by what is asked, not by what is stored: joined again, as `excluded` has only the table's columns.
    sqlx::query_as(
        "WITH input AS (
             SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::boolean[])
             AS t (provider, signal, at_ms, window_ms, is_renewed)
         )
         INSERT INTO signal_firings AS f (provider, signal, firing_n, counted_from_ms)
         SELECT provider, signal, 1, at_ms FROM input ORDER BY provider, signal
         ON CONFLICT (provider, signal) DO UPDATE SET
             firing_n = f.firing_n + CASE WHEN ABS(excluded.counted_from_ms - f.counted_from_ms) > (
                 SELECT i.window_ms FROM input i WHERE i.provider = f.provider AND i.signal = f.signal)
                 THEN 1 ELSE 0 END,
             counted_from_ms = (
                 SELECT CASE WHEN ABS(excluded.counted_from_ms - f.counted_from_ms) > i.window_ms
                     THEN excluded.counted_from_ms
                     WHEN i.is_renewed THEN GREATEST(f.counted_from_ms, excluded.counted_from_ms)
                     ELSE f.counted_from_ms END
                 FROM input i WHERE i.provider = f.provider AND i.signal = f.signal)
         RETURNING provider, signal, firing_n",
    )
    .bind(copies.iter().map(|copy| copy.provider.as_str()).collect::<Vec<_>>())
    .bind(copies.iter().map(|copy| copy.signal.as_str()).collect::<Vec<_>>())
    .bind(copies.iter().map(|copy| copy.at_ms).collect::<Vec<_>>())
    .bind(copies.iter().map(|copy| copy.window_ms).collect::<Vec<_>>())
    .bind(copies.iter().map(|copy| copy.is_renewed).collect::<Vec<_>>())
    .fetch_all(db)
    .await
}
