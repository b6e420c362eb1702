//! The statements of one admission transaction. Sets are arrays for `unnest`: one prepared statement serves
//! every batch size.

use std::collections::HashSet;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};

use crate::store::admission::{EventInsert, Holder, MessageInsert};
use crate::store::{BornLease, DueEvent, EventUpdate, NewMessage};
use crate::types::{EventKey, IncomingEvent, Name, ObjectVersion, UnixMs};

type PgQuery<'q> = Query<'q, sqlx::Postgres, PgArguments>;

/// Latches `$1` to `$15`; what may follow reads `latched`.
macro_rules! latch_sql {
    ($($more:literal)?) => {
        concat!(
            "WITH input AS (
                 SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $12::bigint[], $13::text[], $14::bytea[])
                 AS t (shard, provider, event_id, received_at_ms, headers, body)
             ), latched AS (
                 INSERT INTO processed_webhook_events (shard, provider, event_id, event_type, digest, replay_key,
                     object, version, state, attempts_n, created_at_ms, received_at_ms, processed_at_ms, identity)
                 SELECT shard, provider, event_id, event_type, digest, replay_key, object, version, state,
                     attempts_n, created_at_ms, received_at_ms, received_at_ms, identity
                 FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[],
                     $7::text[], $8::bigint[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $15::text[])
                 AS t (shard, provider, event_id, event_type, digest, replay_key, object, version, state,
                     attempts_n, created_at_ms, received_at_ms, identity)
                 ORDER BY provider, replay_key NULLS LAST, event_id
                 ON CONFLICT DO NOTHING RETURNING provider, event_id
             ), kept AS (
                 INSERT INTO webhook_payloads (shard, provider, event_id, received_at_ms, headers, body)
                 SELECT i.shard, i.provider, i.event_id, i.received_at_ms, i.headers, i.body
                 FROM latched l JOIN input i ON i.provider = l.provider AND i.event_id = l.event_id
             )",
            $($more,)?
            " SELECT provider, event_id, (SELECT array_agg(destination) FROM destination_pauses) FROM latched"
        )
    };
}

fn bind_events<'q>(sql: &'static str, rows: &[EventInsert<'q>]) -> PgQuery<'q> {
    let text =
        |of: fn(&'q IncomingEvent) -> &'q str| rows.iter().map(|row| of(row.event)).collect::<Vec<_>>();
    sqlx::query(sql)
        .bind(rows.iter().map(|row| row.event.key.shard()).collect::<Vec<_>>())
        .bind(text(|event| event.key.provider.as_str()))
        .bind(text(|event| &event.key.event_id))
        .bind(text(|event| &event.event_type))
        .bind(rows.iter().map(|row| row.event.digest.as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(EventInsert::replay_key).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event.object.as_ref().map(|o| o.object.as_str())).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event.object.as_ref().map(|o| o.version)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.state.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(EventInsert::attempts_n).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event.created_at_ms).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event.received_at_ms).collect::<Vec<_>>())
        .bind(text(|event| &event.headers))
        .bind(rows.iter().map(|row| row.event.body.as_ref()).collect::<Vec<_>>())
        .bind(text(|event| &event.identity))
}

fn keys_of(rows: &[EventInsert<'_>], found: &[PgRow]) -> sqlx::Result<HashSet<EventKey>> {
    let mut keys = HashSet::with_capacity(found.len());
    for row in found {
        keys.insert((row.try_get::<&str, _>(0)?, row.try_get::<&str, _>(1)?));
    }
    let is_new =
        |event: &&IncomingEvent| keys.contains(&(event.key.provider.as_str(), event.key.event_id.as_str()));
    Ok(rows.iter().map(|row| row.event).filter(is_new).map(|event| event.key.clone()).collect())
}

pub(in crate::store) async fn lock_wait_set(db: &mut PgConnection, wait_ms: i64) -> sqlx::Result<()> {
    sqlx::query("SELECT set_config('lock_timeout', $1, true)")
        .bind(format!("{wait_ms}ms"))
        .execute(db)
        .await
        .map(drop)
}

pub(in crate::store) async fn events_insert(
    db: &mut PgConnection,
    rows: &[EventInsert<'_>],
) -> sqlx::Result<HashSet<EventKey>> {
    keys_of(rows, &bind_events(latch_sql!(), rows).fetch_all(db).await?)
}

/// Events and their messages in one statement, which is a transaction by itself. SQLite has no twin: its
/// statements cross no network.
pub(in crate::store) async fn admit_at_once(
    db: &mut PgConnection,
    rows: &[EventInsert<'_>],
    messages: &[NewMessage],
) -> sqlx::Result<(HashSet<EventKey>, HashSet<String>)> {
    // Which destinations are paused is read in the same snapshot that decides about leases.
    let sql = latch_sql!(
        ", sent AS (
             INSERT INTO outbox_messages (message_id, shard, provider, event_id, event_type, generation,
                 effect_name, idempotency_key, destination, method, path, headers, body, state, visible_at_ms,
                 created_at_ms, attempts_n, leased_by, first_sent_at_ms, key_valid_until_ms)
             SELECT m.message_id, m.shard, m.provider, m.event_id, m.event_type, m.generation, m.effect_name,
                 m.idempotency_key, m.destination, m.method, m.path, m.headers, m.body,
                 CASE WHEN k.is_leased THEN 'leased' ELSE 'ready' END,
                 CASE WHEN k.is_leased THEN m.until_ms + k.ahead_ms ELSE LEAST(m.created_at_ms, n.now_ms) END,
                 m.created_at_ms,
                 CASE WHEN k.is_leased THEN 1 ELSE 0 END, CASE WHEN k.is_leased THEN m.node END,
                 CASE WHEN k.is_leased THEN COALESCE(m.taken_at_ms, m.created_at_ms) + k.ahead_ms END,
                 CASE WHEN k.is_leased THEN m.key_valid_until_ms + k.ahead_ms END
             FROM latched l JOIN unnest($16::text[], $17::smallint[], $18::text[], $19::text[], $20::text[],
                 $21::bigint[], $22::text[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[],
                 $28::bytea[], $29::bigint[], $30::text[], $31::bigint[], $32::bigint[], $33::bigint[])
             AS m (message_id, shard, provider, event_id, event_type, generation, effect_name, idempotency_key,
                 destination, method, path, headers, body, created_at_ms, node, until_ms, key_valid_until_ms,
                 taken_at_ms)
             ON m.provider = l.provider AND m.event_id = l.event_id
             CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms OFFSET 0) n
             CROSS JOIN LATERAL (SELECT m.node IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM destination_pauses p WHERE p.destination = m.destination) AS is_leased,
                 COALESCE(n.now_ms - m.taken_at_ms, 0) AS ahead_ms) k
             RETURNING message_id, shard, state, leased_by, first_sent_at_ms
         ), attempt AS (
             INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms)
             SELECT message_id, 1, shard, leased_by, first_sent_at_ms FROM sent WHERE state = 'leased'
         )"
    );
    let leases: Vec<Option<&BornLease>> = messages.iter().map(|message| message.lease.as_ref()).collect();
    let query = bind_messages(bind_events(sql, rows), &messages.iter().collect::<Vec<_>>());
    let found = bind_leases(query, &leases).fetch_all(db).await?;
    let paused: Option<Vec<String>> = found.first().map(|row| row.try_get(2)).transpose()?.flatten();
    Ok((keys_of(rows, &found)?, paused.into_iter().flatten().collect()))
}

fn bind_leases<'q>(query: PgQuery<'q>, leases: &[Option<&'q BornLease>]) -> PgQuery<'q> {
    query
        .bind(leases.iter().map(|lease| lease.map(|lease| &*lease.node)).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.map(|lease| lease.until_ms)).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.map(|lease| lease.key_valid_until_ms)).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.and_then(|lease| lease.taken_at_ms)).collect::<Vec<_>>())
}

pub(in crate::store) async fn events_holders(
    db: &mut PgConnection,
    events: &[&IncomingEvent],
) -> sqlx::Result<Vec<Holder>> {
    // A statement of its own: in the one that inserts, the loser neither inserts nor sees the row.
    //
    // A transaction that writes nothing waits for no standby, but what is acknowledged as known already must be where
    // the first copy's commit may not be yet: a few bytes in the log make this one wait like any other.
    let rows = sqlx::query(
        "WITH waiting AS MATERIALIZED (
             SELECT pg_logical_emit_message(true, 'hooklatch', '')
             WHERE current_setting('synchronous_standby_names') <> '')
         SELECT i.position, e.digest, e.state, r.event_id, r.digest, (SELECT COUNT(*) FROM waiting)
         FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[])
             AS i (position, provider, event_id, replay_key)
         LEFT JOIN processed_webhook_events e ON e.provider = i.provider AND e.event_id = i.event_id
         LEFT JOIN processed_webhook_events r ON r.provider = i.provider AND r.replay_key = i.replay_key",
    )
    .bind((0_i64..).take(events.len()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.key.provider.as_str()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.key.event_id.as_str()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.replay_key.as_ref().map(<[u8; 32]>::as_slice)).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    let one = |row: &sqlx::postgres::PgRow| {
        let position = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
        let same_key: (Option<Vec<u8>>, Option<String>) = (row.try_get(1)?, row.try_get(2)?);
        let same_text: (Option<String>, Option<Vec<u8>>) = (row.try_get(3)?, row.try_get(4)?);
        Ok(Holder { position, same_key: same_key.0.zip(same_key.1), same_text: same_text.0.zip(same_text.1) })
    };
    rows.iter().map(one).collect()
}

pub(in crate::store) async fn versions_raise(
    db: &mut PgConnection,
    versions: &[(&Name, &ObjectVersion, &str)],
) -> sqlx::Result<HashSet<(String, String)>> {
    let rows = sqlx::query(
        "INSERT INTO object_versions (provider, object, version, event_id)
         SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
             AS t (provider, object, version, event_id) ORDER BY provider, object
         ON CONFLICT (provider, object) DO UPDATE SET version = excluded.version, event_id = excluded.event_id
         WHERE object_versions.version < excluded.version
            OR (object_versions.version = excluded.version AND object_versions.event_id = excluded.event_id)
         RETURNING provider, object",
    )
    .bind(versions.iter().map(|(provider, ..)| provider.as_str()).collect::<Vec<_>>())
    .bind(versions.iter().map(|(_, object, _)| object.object.as_str()).collect::<Vec<_>>())
    .bind(versions.iter().map(|(_, object, _)| object.version).collect::<Vec<_>>())
    .bind(versions.iter().map(|(.., event_id)| *event_id).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The destinations that are paused.
pub(in crate::store) async fn paused_names(db: &mut PgConnection) -> sqlx::Result<HashSet<String>> {
    let names: Vec<String> =
        sqlx::query_scalar("SELECT destination FROM destination_pauses").fetch_all(db).await?;
    Ok(names.into_iter().collect())
}

pub(in crate::store) async fn messages_insert(
    db: &mut PgConnection,
    messages: &[MessageInsert<'_>],
) -> sqlx::Result<()> {
    let query = sqlx::query(
        "INSERT INTO outbox_messages (message_id, shard, provider, event_id, event_type, generation, effect_name,
             idempotency_key, destination, method, path, headers, body, visible_at_ms, created_at_ms, state, lane,
             lane_seq, attempts_n, leased_by, first_sent_at_ms, key_valid_until_ms)
         SELECT message_id, shard, provider, event_id, event_type, generation, effect_name, idempotency_key,
             destination, method, path, headers, body,
             COALESCE(until_ms + COALESCE(now_ms - taken_at_ms, 0), LEAST(created_at_ms, now_ms)), created_at_ms, state,
             lane, lane_seq, CASE WHEN node IS NULL THEN 0 ELSE 1 END, node,
             CASE WHEN taken_at_ms IS NOT NULL THEN now_ms WHEN node IS NOT NULL THEN created_at_ms END,
             key_valid_until_ms + COALESCE(now_ms - taken_at_ms, 0)
         FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms OFFSET 0) n CROSS JOIN unnest($1::text[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
             $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bytea[], $14::bigint[],
             $15::text[], $16::bigint[], $17::bigint[], $18::bigint[], $19::text[], $20::text[], $21::bigint[])
         AS t (message_id, shard, provider, event_id, event_type, generation, effect_name, idempotency_key,
             destination, method, path, headers, body, created_at_ms, node, until_ms, key_valid_until_ms,
             taken_at_ms, state, lane, lane_seq)",
    );
    let leases: Vec<Option<&BornLease>> = messages.iter().map(MessageInsert::lease).collect();
    let plain: Vec<&NewMessage> = messages.iter().map(|row| row.message).collect();
    bind_leases(bind_messages(query, &plain), &leases)
        .bind(messages.iter().map(|row| row.state.as_str()).collect::<Vec<_>>())
        .bind(plain.iter().map(|message| message.lane.as_deref()).collect::<Vec<_>>())
        .bind(messages.iter().map(|row| row.lane_seq).collect::<Vec<_>>())
        .execute(&mut *db)
        .await?;
    let leased: Vec<&MessageInsert<'_>> = messages.iter().filter(|row| row.lease().is_some()).collect();
    if leased.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms)
         SELECT message_id, 1, shard, node, started_at_ms
         FROM unnest($1::text[], $2::smallint[], $3::text[], $4::bigint[]) AS t (message_id, shard, node, started_at_ms)",
    )
    .bind(leased.iter().map(|row| row.message.message_id.as_str()).collect::<Vec<_>>())
    .bind(leased.iter().map(|row| row.message.key.shard()).collect::<Vec<_>>())
    .bind(leased.iter().map(|row| row.lease().map_or("", |lease| &*lease.node)).collect::<Vec<_>>())
    .bind(leased.iter().map(|row| row.message.created_at_ms).collect::<Vec<_>>())
    .execute(db)
    .await
    .map(drop)
}

fn bind_messages<'q>(query: PgQuery<'q>, messages: &[&'q NewMessage]) -> PgQuery<'q> {
    let text = |of: fn(&'q NewMessage) -> &'q str| messages.iter().map(|one| of(one)).collect::<Vec<_>>();
    query
        .bind(text(|message| &message.message_id))
        .bind(messages.iter().map(|message| message.key.shard()).collect::<Vec<_>>())
        .bind(text(|message| message.key.provider.as_str()))
        .bind(text(|message| &message.key.event_id))
        .bind(text(|message| &message.event_type))
        .bind(messages.iter().map(|message| i64::from(message.generation)).collect::<Vec<_>>())
        .bind(text(|message| &message.effect_name))
        .bind(text(|message| &message.idempotency_key))
        .bind(text(|message| &message.destination))
        .bind(text(|message| &message.method))
        .bind(text(|message| &message.path))
        .bind(messages.iter().map(|message| message.headers_json()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.body.as_deref()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.created_at_ms).collect::<Vec<_>>())
}

pub(in crate::store) async fn events_update(
    db: &mut PgConnection,
    updates: &[&EventUpdate],
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE processed_webhook_events e
         SET state = u.state, error = u.error, attempts_n = u.attempts_n, due_at_ms = u.due_at_ms,
             processed_at_ms = u.processed_at_ms
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
             AS u (provider, event_id, state, error, attempts_n, due_at_ms, processed_at_ms)
         WHERE e.provider = u.provider AND e.event_id = u.event_id",
    )
    .bind(updates.iter().map(|update| update.key.provider.as_str()).collect::<Vec<_>>())
    .bind(updates.iter().map(|update| update.key.event_id.as_str()).collect::<Vec<_>>())
    .bind(updates.iter().map(|update| update.state.as_str()).collect::<Vec<_>>())
    .bind(updates.iter().map(|update| update.error.as_deref()).collect::<Vec<_>>())
    .bind(updates.iter().map(|update| i64::from(update.attempts_n)).collect::<Vec<_>>())
    .bind(updates.iter().map(|update| update.due_at_ms).collect::<Vec<_>>())
    .bind(updates.iter().map(|update| update.processed_at_ms).collect::<Vec<_>>())
    .execute(db)
    .await
    .map(drop)
}

pub(in crate::store) async fn event_take_due(
    db: &mut PgConnection,
    now_ms: UnixMs,
    providers: &[Name],
) -> sqlx::Result<Option<DueEvent>> {
    // SKIP LOCKED: nodes pass each other instead of queueing behind one row.
    let row = sqlx::query(
        "SELECT e.provider, e.event_id, e.event_type, e.object, e.version, e.attempts_n, e.received_at_ms,
                p.headers, p.body, e.generation
         FROM processed_webhook_events e LEFT JOIN webhook_payloads p USING (provider, event_id)
         WHERE e.state = 'retry' AND e.due_at_ms <= $1 AND e.provider = ANY($2)
         ORDER BY e.due_at_ms LIMIT 1 FOR UPDATE OF e SKIP LOCKED",
    )
    .bind(now_ms)
    .bind(providers.iter().map(Name::as_str).collect::<Vec<_>>())
    .fetch_optional(db)
    .await?;
    row.map(|row| DueEvent::from_row(&row)).transpose()
}
