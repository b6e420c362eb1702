//! The statements of one admission transaction. Sets are multi-row `VALUES`: a statement crosses to the
//! driver's thread, so few of them count for more than short ones.

use std::collections::HashSet;

use sqlx::{Row, SqliteConnection};

use super::values_sql;
use crate::store::admission::{EventInsert, Holder, MessageInsert};
use crate::store::{DueEvent, EventUpdate};
use crate::types::{EventKey, IncomingEvent, Name, ObjectVersion, UnixMs};

/// Most rows in one statement: 400 rows of 18 values stay far below SQLite's 32,766 parameters.
const ROWS_N_MAX: usize = 400;

/// One writer waits for nobody's row.
pub(in crate::store) async fn lock_wait_set(_db: &mut SqliteConnection, _wait_ms: i64) -> sqlx::Result<()> {
    Ok(())
}

pub(in crate::store) async fn events_insert(
    db: &mut SqliteConnection,
    rows: &[EventInsert<'_>],
) -> sqlx::Result<HashSet<EventKey>> {
    let mut inserted = HashSet::with_capacity(rows.len());
    for rows in rows.chunks(ROWS_N_MAX) {
        let sql = values_sql(
            "INSERT INTO processed_webhook_events (shard, provider, event_id, event_type, digest, replay_key,
                 object, version, state, attempts_n, created_at_ms, received_at_ms, processed_at_ms,
                 identity)",
            14,
            rows.len(),
            "ON CONFLICT DO NOTHING RETURNING provider, event_id",
        );
        let mut query = sqlx::query(sql);
        for row in rows {
            let event = row.event;
            query = query
                .bind(event.key.shard())
                .bind(event.key.provider.as_str())
                .bind(event.key.event_id.as_str())
                .bind(event.event_type.as_str())
                .bind(event.digest.as_slice())
                .bind(row.replay_key())
                .bind(event.object.as_ref().map(|object| object.object.as_str()))
                .bind(event.object.as_ref().map(|object| object.version))
                .bind(row.state.as_str())
                .bind(row.attempts_n())
                .bind(event.created_at_ms)
                .bind(event.received_at_ms)
                .bind(event.received_at_ms)
                .bind(event.identity.as_str());
        }
        let mut new = HashSet::with_capacity(rows.len());
        for found in query.fetch_all(&mut *db).await? {
            new.insert((found.try_get::<String, _>(0)?, found.try_get::<String, _>(1)?));
        }
        let kept: Vec<&IncomingEvent> = rows
            .iter()
            .map(|row| row.event)
            .filter(|event| new.contains(&(event.key.provider.to_string(), event.key.event_id.clone())))
            .collect();
        payloads_insert(db, &kept).await?;
        inserted.extend(kept.into_iter().map(|event| event.key.clone()));
    }
    Ok(inserted)
}

async fn payloads_insert(db: &mut SqliteConnection, events: &[&IncomingEvent]) -> sqlx::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let sql = values_sql(
        "INSERT INTO webhook_payloads (shard, provider, event_id, received_at_ms, headers, body)",
        6,
        events.len(),
        "",
    );
    let mut query = sqlx::query(sql);
    for event in events {
        query = query
            .bind(event.key.shard())
            .bind(event.key.provider.as_str())
            .bind(event.key.event_id.as_str())
            .bind(event.received_at_ms)
            .bind(event.headers.as_ref())
            .bind(event.body.as_ref());
    }
    query.execute(db).await.map(drop)
}

pub(in crate::store) async fn events_holders(
    db: &mut SqliteConnection,
    events: &[&IncomingEvent],
) -> sqlx::Result<Vec<Holder>> {
    let mut holders = Vec::with_capacity(events.len());
    for (position, event) in events.iter().enumerate() {
        let row = sqlx::query(
            "SELECT e.digest, e.state, r.event_id, r.digest FROM (SELECT $1 AS provider, $2 AS event_id, $3 AS replay_key) i
             LEFT JOIN processed_webhook_events e ON e.provider = i.provider AND e.event_id = i.event_id
             LEFT JOIN processed_webhook_events r ON r.provider = i.provider AND r.replay_key = i.replay_key",
        )
        .bind(event.key.provider.as_str())
        .bind(event.key.event_id.as_str())
        .bind(event.replay_key.as_ref().map(<[u8; 32]>::as_slice))
        .fetch_one(&mut *db)
        .await?;
        let same_key: (Option<Vec<u8>>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let same_text: (Option<String>, Option<Vec<u8>>) = (row.try_get(2)?, row.try_get(3)?);
        let (same_key, same_text) = (same_key.0.zip(same_key.1), same_text.0.zip(same_text.1));
        holders.push(Holder { position, same_key, same_text });
    }
    Ok(holders)
}

pub(in crate::store) async fn versions_raise(
    db: &mut SqliteConnection,
    versions: &[(&Name, &ObjectVersion, &str)],
) -> sqlx::Result<HashSet<(String, String)>> {
    let mut raised = HashSet::with_capacity(versions.len());
    for versions in versions.chunks(ROWS_N_MAX) {
        let sql = values_sql(
            "INSERT INTO object_versions (provider, object, version, event_id)",
            4,
            versions.len(),
            "ON CONFLICT (provider, object) DO UPDATE SET version = excluded.version, event_id = excluded.event_id
             WHERE object_versions.version < excluded.version
                OR (object_versions.version = excluded.version AND object_versions.event_id = excluded.event_id)
             RETURNING provider, object",
        );
        let mut query = sqlx::query(sql);
        for (provider, object, event_id) in versions {
            query = query
                .bind(provider.as_str())
                .bind(object.object.as_str())
                .bind(object.version)
                .bind(*event_id);
        }
        for row in query.fetch_all(&mut *db).await? {
            raised.insert((row.try_get(0)?, row.try_get(1)?));
        }
    }
    Ok(raised)
}

/// The destinations that are paused.
pub(in crate::store) async fn paused_names(db: &mut SqliteConnection) -> sqlx::Result<HashSet<String>> {
    let names: Vec<String> =
        sqlx::query_scalar("SELECT destination FROM destination_pauses").fetch_all(db).await?;
    Ok(names.into_iter().collect())
}

pub(in crate::store) async fn messages_insert(
    db: &mut SqliteConnection,
    messages: &[MessageInsert<'_>],
) -> sqlx::Result<()> {
    for messages in messages.chunks(ROWS_N_MAX) {
        let sql = values_sql(
            "INSERT INTO outbox_messages (message_id, shard, provider, event_id, event_type, generation,
                 effect_name, idempotency_key, destination, method, path, headers, body, state, visible_at_ms,
                 created_at_ms, lane, lane_seq, attempts_n, leased_by, first_sent_at_ms, key_valid_until_ms)",
            22,
            messages.len(),
            "",
        );
        let mut query = sqlx::query(sql);
        for row in messages {
            let (message, lease) = (row.message, row.lease());
            query = query
                .bind(message.message_id.as_str())
                .bind(message.key.shard())
                .bind(message.key.provider.as_str())
                .bind(message.key.event_id.as_str())
                .bind(message.event_type.as_str())
                .bind(i64::from(message.generation))
                .bind(message.effect_name.as_str())
                .bind(message.idempotency_key.as_str())
                .bind(message.destination.as_str())
                .bind(message.method.as_str())
                .bind(message.path.as_str())
                .bind(message.headers_json())
                .bind(message.body.as_deref())
                .bind(row.state.as_str())
                .bind(lease.map_or(message.created_at_ms, |lease| lease.until_ms))
                .bind(message.created_at_ms)
                .bind(message.lane.as_deref())
                .bind(row.lane_seq)
                .bind(i64::from(lease.is_some()))
                .bind(lease.map(|lease| &*lease.node))
                .bind(lease.map(|lease| lease.from_ms))
                .bind(lease.map(|lease| lease.key_valid_until_ms));
        }
        query.execute(&mut *db).await?;
    }
    let leased: Vec<&MessageInsert<'_>> = messages.iter().filter(|row| row.lease().is_some()).collect();
    for rows in leased.chunks(ROWS_N_MAX) {
        let sql = values_sql(
            "INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms)",
            5,
            rows.len(),
            "",
        );
        let mut query = sqlx::query(sql);
        for row in rows {
            query = query
                .bind(row.message.message_id.as_str())
                .bind(1)
                .bind(row.message.key.shard())
                .bind(row.lease().map_or("", |lease| &*lease.node))
                .bind(row.lease().map_or(row.message.created_at_ms, |lease| lease.from_ms));
        }
        query.execute(&mut *db).await?;
    }
    Ok(())
}

pub(in crate::store) async fn events_update(
    db: &mut SqliteConnection,
    updates: &[&EventUpdate],
) -> sqlx::Result<()> {
    for update in updates {
        sqlx::query(
            "UPDATE processed_webhook_events
             SET state = $3, error = $4, attempts_n = $5, due_at_ms = $6, processed_at_ms = $7
             WHERE provider = $1 AND event_id = $2",
        )
        .bind(update.key.provider.as_str())
        .bind(update.key.event_id.as_str())
        .bind(update.state.as_str())
        .bind(update.error.as_deref())
        .bind(i64::from(update.attempts_n))
        .bind(update.due_at_ms)
        .bind(update.processed_at_ms)
        .execute(&mut *db)
        .await?;
    }
    Ok(())
}

pub(in crate::store) async fn event_take_due(
    db: &mut SqliteConnection,
    now_ms: UnixMs,
    providers: &[Name],
) -> sqlx::Result<Option<DueEvent>> {
    let names: Vec<&str> = providers.iter().map(Name::as_str).collect();
    let row = sqlx::query(
        "SELECT e.provider, e.event_id, e.event_type, e.object, e.version, e.attempts_n, e.received_at_ms,
                p.headers, p.body, e.generation
         FROM processed_webhook_events e LEFT JOIN webhook_payloads p USING (provider, event_id)
         WHERE e.state = 'retry' AND e.due_at_ms <= $1 AND e.provider IN (SELECT value FROM json_each($2))
         ORDER BY e.due_at_ms LIMIT 1",
    )
    .bind(now_ms)
    .bind(serde_json::json!(names).to_string())
    .fetch_optional(db)
    .await?;
    row.map(|row| DueEvent::from_row(&row)).transpose()
}
