//! The hot statements of admission on PostgreSQL. Sets are arrays for `unnest`: one prepared statement serves every
//! batch size. New rows are identified by numbers, so nothing is joined by text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};

use super::batch::{Batch, EventInsert, ExistingRows, Inserted, SealedContents, SealedPayload, VersionRaise};
use super::{MessageInsert, Queued};
use crate::db::DbResult;
use crate::db::limit::limited;
use crate::db::postgres::Postgres;
use crate::db::warnings::refused_with_warning;
use crate::message::{InitialLease, NewMessage};
use crate::queries::search_block;
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{IncomingEvent, MessageId};

type PgQuery<'q> = Query<'q, sqlx::Postgres, PgArguments>;

/// Latches the events of `$1` to `$14` and keeps what they said, `$15` and `$16`, sealed with the key `$17` if there is
/// one, and whose secret it was said with, `$18`. The search ids of all, sealed with that key, are `$19`; `$20` to
/// `$22` are the rows that they are found by. What may follow reads `latched`.
macro_rules! latch_sql {
    ($name:literal $(, $more:expr $(, $column:literal)?)?) => {
        concat!(
            "/* ", $name, " */ WITH latched AS (
                 INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, created_at_ms,
                     version, attempts_n, shard, event_type, digest, identity, state, object, replay_key)
                 SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                     $7::int[], $8::smallint[], $9::text[], $10::bytea[], $11::text[], $12::text[], $13::text[],
                     $14::bytea[])
                 ON CONFLICT DO NOTHING RETURNING event_seq
             ), kept AS (
                 INSERT INTO webhook_payloads (event_seq, shard, secret, headers, body, key_id, search_ids)
                 SELECT p.event_seq, p.shard, p.secret, p.headers, p.body, $17::text, p.search_ids
                 FROM unnest($3::bigint[], $8::smallint[], $15::text[], $16::bytea[], $18::bigint[], $19::text[])
                     AS p (event_seq, shard, headers, body, secret, search_ids)
                 WHERE p.event_seq IN (SELECT event_seq FROM latched)
             ), searched AS (
                 INSERT INTO event_search_ids (block, search_key, event_seq, shard)
                 SELECT s.event_seq / 1024, s.search_key, s.event_seq, s.shard
                 FROM unnest($20::text[], $21::bigint[], $22::smallint[]) AS s (search_key, event_seq, shard)
                 WHERE s.event_seq IN (SELECT event_seq FROM latched)
             )",
            $($more,)?
            " SELECT (SELECT array_agg(s) FROM unnest($3::bigint[]) AS s
                      WHERE s NOT IN (SELECT event_seq FROM latched)) AS lost,
                     (SELECT array_agg(destination) FROM destination_pauses) AS paused"
            $($(, $column)?)?
        )
    };
}

/// The same for one event in which nothing is searched: `$1` to `$19` are the values. An array is a scan and a set of
/// numbers for each of the tables, which is a good part of what a single event costs.
macro_rules! latch_one_sql {
    ($($more:expr)?) => {
        concat!(
            "/* admit */ WITH latched AS (
                 INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, created_at_ms,
                     version, attempts_n, shard, event_type, digest, identity, state, object, replay_key)
                 VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::int, $8::smallint,
                     $9::text, $10::bytea, $11::text, $12::text, $13::text, $14::bytea)
                 ON CONFLICT DO NOTHING RETURNING event_seq
             ), kept AS (
                 INSERT INTO webhook_payloads (event_seq, shard, secret, headers, body, key_id, search_ids)
                 SELECT event_seq, $8::smallint, $18::bigint, $15::text, $16::bytea, $17::text, $19::text FROM latched
             )",
            $($more,)?
            " SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM latched) THEN ARRAY[$3::bigint] END AS lost,
                     (SELECT array_agg(destination) FROM destination_pauses) AS paused"
        )
    };
}

/// Queues the messages `m`, leased where their destination is not paused. Whether it is is read in the same snapshot
/// that decides about leases. Those of a lane have their place in it, and the first of a lane is due.
macro_rules! queue_sql {
    ($messages:expr) => {
        concat!(
            ", queued AS (
             INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, leased_at_ms, first_sent_at_ms,
                 key_valid_until_ms, attempts_n, generation, body_bytes_n, shard, state, destination, effect_name,
                 node, lane, lane_seq, last_result, sent_under)
             SELECT m.message_id,
                 CASE WHEN k.is_leased THEN m.until_ms + k.ahead_ms ELSE LEAST(m.created_at_ms, n.now_ms) END,
                 m.created_at_ms,
                 CASE WHEN k.is_leased THEN COALESCE(m.taken_at_ms, m.created_at_ms) + k.ahead_ms END,
                 CASE WHEN k.is_leased THEN COALESCE(m.taken_at_ms, m.created_at_ms) + k.ahead_ms ELSE m.unknown_since_ms END,
                 CASE WHEN k.is_leased THEN m.key_valid_until_ms + k.ahead_ms END,
                 CASE WHEN k.is_leased THEN 1 ELSE 0 END, m.generation, m.body_bytes_n, m.shard,
                 CASE WHEN k.is_leased THEN 'leased' WHEN m.is_waiting THEN 'waiting' ELSE 'ready' END, m.destination,
                 m.effect_name, CASE WHEN k.is_leased THEN m.node END, m.lane, m.lane_seq,
                 CASE WHEN m.unknown_since_ms IS NOT NULL THEN 'unknown' END,
                 CASE WHEN m.unknown_since_ms IS NOT NULL THEN 'restored' END
             FROM ", $messages, "
             CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms OFFSET 0) n
             CROSS JOIN LATERAL (SELECT m.node IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM destination_pauses p WHERE p.destination = m.destination) AS is_leased,
                 COALESCE(n.now_ms - m.taken_at_ms, 0) AS ahead_ms OFFSET 0) k
             RETURNING message_id, state
         )"
        )
    };
}

/// The columns of `unnest` of the messages `$23` to `$34`.
macro_rules! messages_sql {
    () => {
        "$23::bigint[], $24::bigint[], $25::int[], $26::smallint[], $27::text[], $28::text[], $29::text[],
             $30::bigint[], $31::bigint[], $32::bigint[], $33::bigint[], $34::int[]"
    };
}

/// The names of those columns.
macro_rules! message_columns {
    () => {
        "message_id, created_at_ms, generation, shard, destination, effect_name, node, until_ms, key_valid_until_ms,
             taken_at_ms, unknown_since_ms, body_bytes_n"
    };
}

/// The messages whose event is new, without lanes.
macro_rules! plain_messages_sql {
    () => {
        concat!(
            "(SELECT t.*, NULL::text AS lane, NULL::bigint AS lane_seq, FALSE AS is_waiting
              FROM unnest(",
            messages_sql!(),
            ") AS t (",
            message_columns!(),
            ")
              WHERE t.message_id / 1024 IN (SELECT event_seq FROM latched)) m"
        )
    };
}

/// The message of the one event.
macro_rules! one_message_sql {
    () => {
        "(SELECT $20::bigint AS message_id, $21::bigint AS created_at_ms, $22::int AS generation, $23::smallint AS shard,
                 $24::text AS destination, $25::text AS effect_name, $26::text AS node, $27::bigint AS until_ms,
                 $28::bigint AS key_valid_until_ms, $29::bigint AS taken_at_ms, $30::bigint AS unknown_since_ms,
                 $31::int AS body_bytes_n, NULL::text AS lane, NULL::bigint AS lane_seq, FALSE AS is_waiting
          FROM latched OFFSET 0) m"
    };
}

/// The messages whose event is new, in their lanes, `$41`. The rows of lanes are locked in the one order, after the events
/// and before the messages. Each grows by as many places as it has new messages: others would leave a place without a
/// message. The texts have the collation of the columns that they are compared with.
macro_rules! lanes_sql {
    () => {
        concat!(
            ", fresh AS MATERIALIZED (
             SELECT t.*, t.destination COLLATE \"C\" AS to_name, t.in_lane COLLATE \"C\" AS lane
             FROM unnest(", messages_sql!(), ", $41::text[]) WITH ORDINALITY
                 AS t (", message_columns!(), ", in_lane, n)
             WHERE t.message_id / 1024 IN (SELECT event_seq FROM latched)
         ), places AS (
             INSERT INTO outbox_lanes (destination, lane, tail_seq, used_at_ms)
             SELECT to_name, lane, COUNT(*), MAX(created_at_ms) FROM fresh WHERE lane IS NOT NULL
             GROUP BY 1, 2 ORDER BY 1, 2
             ON CONFLICT (destination, lane) DO UPDATE SET tail_seq = outbox_lanes.tail_seq + excluded.tail_seq,
                 used_at_ms = excluded.used_at_ms
             RETURNING destination, lane, head_seq, tail_seq
         )"
        )
    };
}

/// The messages of [`lanes_sql`]: each lane's new ones have its last places, in their order.
macro_rules! laned_messages_sql {
    () => {
        "(SELECT placed.*, COALESCE(lane_seq <> head_seq, FALSE) AS is_waiting
          FROM (SELECT f.*, p.head_seq, p.tail_seq - COUNT(*) OVER of + ROW_NUMBER() OVER (of ORDER BY f.n) AS lane_seq
                FROM fresh f LEFT JOIN places p ON p.destination = f.to_name AND p.lane = f.lane
                WINDOW of AS (PARTITION BY f.to_name, f.lane)) placed) m"
    };
}

/// Keeps what the messages of `$35` to `$40` say whose event is new.
macro_rules! contents_sql {
    () => {
        ", contents AS (
             INSERT INTO outbox_contents (message_id, shard, method, path, headers, body, key_id)
             SELECT c.message_id, c.shard, c.method, c.path, c.headers, c.body, $17::text
             FROM unnest($35::bigint[], $36::smallint[], $37::text[], $38::text[], $39::text[], $40::bytea[])
                 AS c (message_id, shard, method, path, headers, body)
             WHERE c.message_id / 1024 IN (SELECT event_seq FROM latched)
         )"
    };
}

const LATCH: &str = latch_sql!("events_insert");
const ADMIT: &str = latch_sql!("admit", queue_sql!(plain_messages_sql!()));
const ADMIT_WITH_CONTENTS: &str =
    latch_sql!("admit", concat!(queue_sql!(plain_messages_sql!()), contents_sql!()));
const ADMIT_ONE: &str = latch_one_sql!(queue_sql!(one_message_sql!()));
const ADMIT_IN_LANES: &str = latch_sql!(
    "admit",
    concat!(lanes_sql!(), queue_sql!(laned_messages_sql!()), contents_sql!()),
    ", (SELECT array_agg(message_id) FROM queued WHERE state = 'waiting') AS behind"
);

const MESSAGES: &str = "/* messages_insert */ INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms,
         leased_at_ms, first_sent_at_ms, key_valid_until_ms, attempts_n, generation, body_bytes_n, shard, state,
         destination, effect_name, node, lane, lane_seq, last_result, sent_under)
     SELECT message_id,
         COALESCE(until_ms + COALESCE(now_ms - taken_at_ms, 0), LEAST(created_at_ms, now_ms)), created_at_ms,
         CASE WHEN node IS NOT NULL THEN COALESCE(taken_at_ms + (now_ms - taken_at_ms), created_at_ms) END,
         CASE WHEN node IS NOT NULL THEN COALESCE(taken_at_ms + (now_ms - taken_at_ms), created_at_ms) ELSE unknown_since_ms END,
         key_valid_until_ms + COALESCE(now_ms - taken_at_ms, 0),
         CASE WHEN node IS NULL THEN 0 ELSE 1 END, generation, body_bytes_n, shard, state, destination, effect_name, node, lane,
         lane_seq, CASE WHEN unknown_since_ms IS NOT NULL THEN 'unknown' END,
         CASE WHEN unknown_since_ms IS NOT NULL THEN 'restored' END
     FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms OFFSET 0) n
     CROSS JOIN unnest($1::bigint[], $2::bigint[], $3::int[], $4::smallint[], $5::text[], $6::text[], $7::text[],
         $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::int[], $13::text[], $14::text[],
         $15::bigint[])
         AS t (message_id, created_at_ms, generation, shard, destination, effect_name, node, until_ms,
               key_valid_until_ms, taken_at_ms, unknown_since_ms, body_bytes_n, state, lane, lane_seq)";

const CONTENTS: &str =
    "/* messages_insert */ INSERT INTO outbox_contents (message_id, shard, method, path, headers, body, key_id)
     SELECT c.*, $7::text
     FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::bytea[]) AS c";

/// A statement of its own: in the one that inserts, the loser neither inserts nor sees the row.
///
/// A transaction that writes nothing waits for no standby, but what is acknowledged as known already must be where the
/// first copy's commit may not be yet: a few bytes in the log make this one wait like any other.
const HOLDERS: &str = "/* events_holders */ WITH waiting AS MATERIALIZED (
         SELECT pg_logical_emit_message(true, 'hooklatch', '')
         WHERE current_setting('synchronous_standby_names') <> '')
     SELECT i.position, e.digest, e.state, r.event_id, r.digest AS text_digest, (SELECT COUNT(*) FROM waiting) AS n
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) AS i (position, provider, event_id, replay_key)
     LEFT JOIN processed_webhook_events e ON e.provider = i.provider AND e.event_id = i.event_id
     LEFT JOIN processed_webhook_events r ON r.provider = i.provider AND r.replay_key = i.replay_key";

const VERSIONS: &str =
    "/* versions_raise */ INSERT INTO object_versions (provider, object, version, event_seq)
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
     ON CONFLICT (provider, object) DO UPDATE SET version = excluded.version, event_seq = excluded.event_seq
     WHERE object_versions.version < excluded.version
        OR (object_versions.version = excluded.version AND object_versions.event_seq = excluded.event_seq)
     RETURNING event_seq";

/// The hot statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("events_insert", LATCH),
    ("admit", ADMIT),
    ("admit one", ADMIT_ONE),
    ("admit with contents", ADMIT_WITH_CONTENTS),
    ("admit in lanes", ADMIT_IN_LANES),
    ("messages_insert", MESSAGES),
    ("events_holders", HOLDERS),
    ("versions_raise", VERSIONS),
];

fn bind_events<'q>(sql: &'static str, rows: &[&'q EventInsert], ring: &'q KeyRing) -> DbResult<PgQuery<'q>> {
    let text =
        |of: fn(&'q IncomingEvent) -> &'q str| rows.iter().map(|row| of(&row.event)).collect::<Vec<_>>();
    let object = |row: &&'q EventInsert| row.event.object.as_ref();
    let query = sqlx::query(sql)
        .bind(text(|event| event.key.provider.as_str()))
        .bind(text(|event| &event.key.event_id))
        .bind(rows.iter().map(|row| row.event_seq).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event.received_at_ms).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event.created_at_ms).collect::<Vec<_>>())
        .bind(
            rows.iter().map(|row| row.event.object.as_ref().map(|object| object.version)).collect::<Vec<_>>(),
        )
        .bind(rows.iter().map(|row| row.attempts_n()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.event.key.shard()).collect::<Vec<_>>())
        .bind(text(|event| &event.event_type))
        .bind(rows.iter().map(|row| row.event.digest.as_slice()).collect::<Vec<_>>())
        .bind(text(|event| &event.identity))
        .bind(rows.iter().map(|row| row.state.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| object(row).map(|object| object.object.as_str())).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.replay_key()).collect::<Vec<_>>());
    let secrets: Vec<Option<i64>> = rows.iter().map(|row| row.event.secret).collect();
    if !ring.is_on() {
        let query = query
            .bind(text(|event| &event.headers))
            .bind(rows.iter().map(|row| row.event.stored_body().as_ref()).collect::<Vec<_>>())
            .bind(ring.key_id())
            .bind(secrets)
            .bind(vec![None::<String>; rows.len()]);
        return Ok(bind_search_ids(query, rows, ring));
    }
    let (mut headers, mut bodies) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    let mut search_ids = Vec::with_capacity(rows.len());
    for row in rows {
        let sealed = SealedPayload::of(ring, row.event_seq, &row.event)?;
        headers.push(sealed.headers);
        bodies.push(sealed.body);
        search_ids.push(sealed.search_ids);
    }
    let query = query.bind(headers).bind(bodies).bind(ring.key_id()).bind(secrets).bind(search_ids);
    Ok(bind_search_ids(query, rows, ring))
}

/// Binds a row for each search id of these events, in the order of their index: neighbours go to the same page.
fn bind_search_ids<'q>(query: PgQuery<'q>, rows: &[&'q EventInsert], ring: &'q KeyRing) -> PgQuery<'q> {
    let mut ids = Vec::new();
    for row in rows {
        for id in &row.event.search_ids {
            ids.push((
                search_block(row.event_seq),
                ring.search_key(id),
                row.event_seq,
                row.event.key.shard(),
            ));
        }
    }
    ids.sort_unstable();
    let keys = ids.iter().map(|(_, key, ..)| key.clone()).collect::<Vec<_>>();
    let (seqs, shards): (Vec<_>, Vec<_>) = ids.iter().map(|(.., seq, shard)| (*seq, *shard)).unzip();
    query.bind(keys).bind(seqs).bind(shards)
}

/// Binds the values of the one event of [`ADMIT_ONE`], in which nothing is searched.
fn bind_event<'q>(row: &'q EventInsert, ring: &'q KeyRing) -> DbResult<PgQuery<'q>> {
    let event = &row.event;
    let object = event.object.as_ref();
    let query = sqlx::query(ADMIT_ONE)
        .bind(event.key.provider.as_str())
        .bind(event.key.event_id.as_str())
        .bind(row.event_seq)
        .bind(event.received_at_ms)
        .bind(event.created_at_ms)
        .bind(object.map(|object| object.version))
        .bind(row.attempts_n())
        .bind(event.key.shard())
        .bind(event.event_type.as_str())
        .bind(event.digest.as_slice())
        .bind(event.identity.as_str())
        .bind(row.state.as_str())
        .bind(object.map(|object| object.object.as_str()))
        .bind(row.replay_key());
    let query = if ring.is_on() {
        let sealed = SealedPayload::of(ring, row.event_seq, event)?;
        query.bind(sealed.headers).bind(sealed.body)
    } else {
        query.bind(&*event.headers).bind(event.stored_body().as_ref())
    };
    Ok(query.bind(ring.key_id()).bind(event.secret).bind(None::<String>))
}

/// Binds what the one message of [`ADMIT_ONE`] has.
fn bind_message<'q>(query: PgQuery<'q>, message: &'q NewMessage) -> PgQuery<'q> {
    let lease = message.lease.as_ref();
    query
        .bind(message.message_id.number())
        .bind(message.created_at_ms)
        .bind(message.generation)
        .bind(message.shard)
        .bind(message.destination.as_str())
        .bind(message.effect_name_column())
        .bind(lease.map(|lease| &*lease.node))
        .bind(lease.map(|lease| lease.until_ms))
        .bind(lease.map(|lease| lease.key_valid_until_ms))
        .bind(lease.and_then(|lease| lease.taken_at_ms))
        .bind(message.unknown_since_ms)
        .bind(message.body_bytes_n.cast_signed())
}

/// Binds what every queued message has, from `message_id` to `body_bytes_n`.
fn bind_messages<'q>(
    query: PgQuery<'q>,
    messages: &[&'q NewMessage],
    leases: &[Option<&'q InitialLease>],
) -> PgQuery<'q> {
    query
        .bind(messages.iter().map(|message| message.message_id.number()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.created_at_ms).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.generation).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.shard).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.destination.as_str()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.effect_name_column()).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.map(|lease| &*lease.node)).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.map(|lease| lease.until_ms)).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.map(|lease| lease.key_valid_until_ms)).collect::<Vec<_>>())
        .bind(leases.iter().map(|lease| lease.and_then(|lease| lease.taken_at_ms)).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.unknown_since_ms).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.body_bytes_n.cast_signed()).collect::<Vec<_>>())
}

fn bind_contents<'q>(
    query: PgQuery<'q>,
    messages: &[&'q NewMessage],
    ring: &'q KeyRing,
) -> DbResult<PgQuery<'q>> {
    let query = query
        .bind(messages.iter().map(|message| message.message_id.number()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.shard).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.method.as_str()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.path.as_str()).collect::<Vec<_>>());
    if !ring.is_on() {
        return Ok(query
            .bind(messages.iter().map(|message| message.headers_json()).collect::<Vec<_>>())
            .bind(messages.iter().map(|message| message.body.as_deref()).collect::<Vec<_>>()));
    }
    let contents = messages.iter().map(|message| SealedContents::of(ring, message));
    let contents: Vec<SealedContents<'_>> = contents.collect::<DbResult<_>>()?;
    let (headers, bodies): (Vec<String>, Vec<Option<Vec<u8>>>) =
        contents.into_iter().map(|one| (one.headers, one.body.map(Cow::into_owned))).unzip();
    Ok(query.bind(headers).bind(bodies))
}

fn lost(row: &PgRow) -> DbResult<Vec<i64>> {
    Ok(row.try_get::<Option<Vec<i64>>, _>("lost")?.unwrap_or_default())
}

/// The numbers of those rows that were not inserted.
pub(crate) async fn events_insert(
    db: &mut PgConnection,
    rows: &[EventInsert],
    ring: &KeyRing,
) -> DbResult<Vec<i64>> {
    let rows: Vec<&EventInsert> = rows.iter().collect();
    lost(&bind_events(LATCH, &rows, ring)?.fetch_one(db).await?)
}

/// True when nothing but the queue's row has to be written for it.
fn is_plain(message: &NewMessage) -> bool {
    message.lane.is_none() && message.is_forward()
}

/// The statement for any batch.
fn bind_all<'q>(
    rows: &'q [EventInsert],
    messages: &[&'q NewMessage],
    ring: &'q KeyRing,
) -> DbResult<PgQuery<'q>> {
    let rows: Vec<&EventInsert> = rows.iter().collect();
    let contents: Vec<&NewMessage> = messages.iter().copied().filter(|one| !one.is_forward()).collect();
    let has_lanes = messages.iter().any(|message| message.lane.is_some());
    let sql = match (messages.is_empty(), has_lanes, contents.is_empty()) {
        (true, ..) => LATCH,
        (_, true, _) => ADMIT_IN_LANES,
        (_, _, true) => ADMIT,
        _ => ADMIT_WITH_CONTENTS,
    };
    let mut query = bind_events(sql, &rows, ring)?;
    if !messages.is_empty() {
        let leases: Vec<Option<&InitialLease>> = messages.iter().map(|one| one.lease.as_ref()).collect();
        query = bind_messages(query, messages, &leases);
    }
    if has_lanes || !contents.is_empty() {
        query = bind_contents(query, &contents, ring)?;
    }
    if has_lanes {
        query = query.bind(messages.iter().map(|message| message.lane.as_deref()).collect::<Vec<_>>());
    }
    Ok(query)
}

/// A whole admission in one statement, which is a transaction by itself, on the committer's own session. Which events
/// were new, and what is known of their messages.
pub(super) async fn admitted_at_once(
    db: &Postgres,
    batch: &Batch<'_>,
    messages: &[NewMessage],
    ring: &KeyRing,
) -> DbResult<(Inserted, Queued)> {
    let rows = batch.rows();
    let messages: Vec<&NewMessage> = messages.iter().collect();
    let query = match (rows.as_slice(), messages.as_slice()) {
        ([row], [message]) if row.event.search_ids.is_empty() && is_plain(message) => {
            bind_message(bind_event(row, ring)?, message)
        }
        _ => bind_all(&rows, &messages, ring)?,
    };
    let mut held = db.committer.take().await?;
    let session = held.session()?;
    let work = async { Ok(query.fetch_one(session).await?) };
    let answer = refused_with_warning(limited(work)).await;
    let row = held.give_back_after(answer)?;
    let paused: Option<Vec<String>> = row.try_get("paused")?;
    let paused = paused.into_iter().flatten().collect();
    let behind: Vec<i64> = match row.try_get::<Option<Vec<i64>>, _>("behind") {
        Ok(behind) => behind.unwrap_or_default(),
        Err(sqlx::Error::ColumnNotFound(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let behind = behind.into_iter().map(MessageId::from_column).collect();
    Ok((batch.inserted(&lost(&row)?), Queued { paused, behind }))
}

pub(super) async fn events_holders(
    db: &mut PgConnection,
    events: &[Arc<IncomingEvent>],
) -> DbResult<Vec<ExistingRows>> {
    let rows = sqlx::query(HOLDERS)
        .bind((0_i64..).take(events.len()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.key.provider.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.key.event_id.as_str()).collect::<Vec<_>>())
        .bind(
            events
                .iter()
                .map(|event| event.replay_key.as_ref().map(<[u8; 32]>::as_slice))
                .collect::<Vec<_>>(),
        )
        .fetch_all(db)
        .await?;
    let one = |row: &PgRow| {
        let position = usize::try_from(row.try_get::<i64, _>("position")?).unwrap_or(usize::MAX);
        let same_key: (Option<Vec<u8>>, Option<String>) = (row.try_get("digest")?, row.try_get("state")?);
        let same_text: (Option<String>, Option<Vec<u8>>) =
            (row.try_get("event_id")?, row.try_get("text_digest")?);
        Ok(ExistingRows {
            position,
            same_key: same_key.0.zip(same_key.1),
            same_text: same_text.0.zip(same_text.1),
        })
    };
    rows.iter().map(one).collect()
}

/// Raises versions; returns, for each one, true when it is the newest that was seen.
pub(crate) async fn versions_raise(
    db: &mut PgConnection,
    versions: &[VersionRaise<'_>],
) -> DbResult<Vec<bool>> {
    let rows = sqlx::query(VERSIONS)
        .bind(versions.iter().map(|raise| raise.provider).collect::<Vec<_>>())
        .bind(versions.iter().map(|raise| raise.object).collect::<Vec<_>>())
        .bind(versions.iter().map(|raise| raise.version).collect::<Vec<_>>())
        .bind(versions.iter().map(|raise| raise.event_seq).collect::<Vec<_>>())
        .fetch_all(db)
        .await?;
    let newest: HashSet<i64> =
        rows.iter().map(|row| row.try_get("event_seq")).collect::<Result<_, sqlx::Error>>()?;
    Ok(versions.iter().map(|raise| newest.contains(&raise.event_seq)).collect())
}

pub(super) async fn messages_insert(
    db: &mut PgConnection,
    rows: &[MessageInsert<'_>],
    ring: &KeyRing,
) -> DbResult<()> {
    let messages: Vec<&NewMessage> = rows.iter().map(|row| row.message).collect();
    let leases: Vec<Option<&InitialLease>> = rows.iter().map(MessageInsert::lease).collect();
    bind_messages(sqlx::query(MESSAGES), &messages, &leases)
        .bind(rows.iter().map(|row| row.state.as_str()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.lane.as_deref()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.lane_seq).collect::<Vec<_>>())
        .execute(&mut *db)
        .await?;
    let contents: Vec<&NewMessage> = messages.into_iter().filter(|one| !one.is_forward()).collect();
    if !contents.is_empty() {
        bind_contents(sqlx::query(CONTENTS), &contents, ring)?.bind(ring.key_id()).execute(db).await?;
    }
    Ok(())
}
