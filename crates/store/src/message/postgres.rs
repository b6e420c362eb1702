//! The hot statements of the outbox on PostgreSQL: one for a claim, one for a settlement, whatever their size.
//!
//! No row of a growing table is found by a join. The planner chooses the order of a join, and where its statistics say
//! that the queue is empty, as they do when it has just been drained, it scans the whole queue. A list (`= ANY`) and a
//! `LATERAL … LIMIT` leave it only the key's own index, whatever the statistics say; `tests/it/store/plans.rs` checks
//! that. The values for a row are found by its place in the list: the list is sorted, and `width_bucket` looks it up.

use std::collections::HashSet;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};

use super::claimed::{ClaimedContent, ClaimedEvent, ClaimedPayload, ClaimedRow, destination_of};
use super::types::{LeaseWant, NextWant, Now, SettledRows, Settlement, lanes_of};
use crate::db::limit::limited;
use crate::db::{DbError, DbResult};
use crate::event::stored_body;
use hooklatch_core::types::{MessageId, SentUnder};

/// What a claim gives back of the messages `l`, whose clock is `ahead_ms` ahead of the caller's: times are the caller's.
macro_rules! claimed_columns {
    () => {
        concat!(
            "l.message_id, l.generation, l.effect_name, l.destination, l.lane, l.attempts_n, l.attempts_before_n,
           l.last_result, l.created_at_ms, l.visible_at_ms - l.ahead_ms AS lease_until_ms,
           l.first_sent_at_ms - l.ahead_ms AS first_sent_at_ms,
           l.key_valid_until_ms - l.ahead_ms AS key_valid_until_ms,
           l.last_ended_at_ms - l.ahead_ms AS last_ended_at_ms,
           e.provider, e.event_id, e.event_type, t.method, t.path, t.headers, t.body, t.key_id,
           p.headers AS event_headers, COALESCE(p.whole, ",
            stored_body!("p"),
            ") AS event_body, p.key_id AS event_key_id,
           p.redacted_n IS NOT NULL AND p.whole IS NULL AS is_redacted, p.whole IS NOT NULL AS is_whole"
        )
    };
}

/// Where those columns come from, besides `l`.
macro_rules! claimed_from {
    () => {
        "
    LEFT JOIN LATERAL (SELECT provider, event_id, event_type FROM processed_webhook_events
                       WHERE event_seq = l.message_id / 1024 LIMIT 1) e ON TRUE
    LEFT JOIN LATERAL (SELECT method, path, headers, body, key_id FROM outbox_contents
                       WHERE message_id = l.message_id LIMIT 1) t ON TRUE
    LEFT JOIN LATERAL (SELECT event_seq, parts_n, headers, body, key_id, redacted_n, whole FROM webhook_payloads
                       WHERE event_seq = l.message_id / 1024 AND t.body IS NULL LIMIT 1) p ON TRUE"
    };
}

/// MATERIALIZED: an inlined subquery with LIMIT and SKIP LOCKED can give back more than LIMIT. The clock is read once;
/// times are returned in those of the caller, whose clock was read before: so its leases end for it no later than here.
/// The result of a lease that expired is unknown, and its call ended with it at the latest.
const LEASE: &str = concat!(
    "/* message_lease */ WITH clock AS MATERIALIZED (
        SELECT CASE WHEN $7 THEN CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) ELSE $4 END AS now_ms
    ), found AS MATERIALIZED (
        SELECT q.message_id, q.attempts_n, q.shard, q.node, q.leased_at_ms, q.created_at_ms,
               q.state = 'leased' AS is_lapsed, w.free_bytes_n,
               sum(q.body_bytes_n) OVER found AS bytes_n, row_number() OVER found AS n
        FROM unnest($1::text[], $2::bigint[], $8::bigint[]) AS w (destination, free_n, free_bytes_n)
        CROSS JOIN LATERAL (
            SELECT message_id, attempts_n, shard, node, leased_at_ms, created_at_ms, state, visible_at_ms, body_bytes_n
            FROM outbox_queue
            WHERE destination = w.destination AND state IN ('ready', 'leased')
              AND visible_at_ms <= (SELECT now_ms FROM clock)
            ORDER BY visible_at_ms, message_id
            LIMIT CASE WHEN EXISTS (SELECT 1 FROM destination_pauses p WHERE p.destination = w.destination) THEN 0
                       ELSE w.free_n END
            FOR UPDATE SKIP LOCKED) q
        WINDOW found AS (PARTITION BY w.destination ORDER BY q.visible_at_ms, q.message_id ROWS UNBOUNDED PRECEDING)
    ), due AS MATERIALIZED (
        SELECT * FROM found WHERE bytes_n <= free_bytes_n OR n = 1
    ), lapsed AS (
        INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms, finished_at_ms, result, error)
        SELECT message_id, attempts_n, shard, COALESCE(node, ''), COALESCE(leased_at_ms, created_at_ms),
               (SELECT now_ms FROM clock), 'unknown', 'lease ended without a settlement'
        FROM due WHERE is_lapsed
        ON CONFLICT (message_id, attempt_n) DO NOTHING
    ), leased AS (
        UPDATE outbox_queue q
        SET state = 'leased', attempts_n = q.attempts_n + 1, visible_at_ms = c.now_ms + $5, leased_at_ms = c.now_ms,
            node = $6,
            last_result = CASE WHEN q.state = 'leased' THEN 'unknown' ELSE q.last_result END,
            last_ended_at_ms = CASE WHEN q.state = 'leased' THEN q.visible_at_ms ELSE q.last_ended_at_ms END,
            first_sent_at_ms = COALESCE(q.first_sent_at_ms, c.now_ms),
            key_valid_until_ms = COALESCE(q.key_valid_until_ms,
                COALESCE(q.first_sent_at_ms, c.now_ms) + ($3::bigint[])[array_position($1::text[], q.destination)])
        FROM clock c WHERE q.message_id = ANY (ARRAY(SELECT message_id FROM due))
        RETURNING q.message_id, q.generation, q.effect_name, q.destination, q.lane, q.attempts_n, q.attempts_before_n,
                  q.last_result, q.created_at_ms, q.visible_at_ms, q.first_sent_at_ms, q.key_valid_until_ms,
                  q.last_ended_at_ms, c.now_ms - $4 AS ahead_ms
    )
    SELECT l.message_id = ANY (ARRAY(SELECT message_id FROM due WHERE is_lapsed)) AS is_lapsed, ",
    claimed_columns!(),
    " FROM leased l",
    claimed_from!()
);

/// First attempts that went well, which is what most are. `IS NOT DISTINCT FROM`: unlike `=` it proves the condition of
/// no partial index, whose every row would otherwise be looked at for one message where that index seems to be empty.
const SETTLE_DONE: &str = "/* message_settle */ WITH gone AS (
        DELETE FROM outbox_queue q
        WHERE q.message_id = ANY ($1::bigint[]) AND q.attempts_n = ($2::int[])[width_bucket(q.message_id, $1)]
          AND q.state IS NOT DISTINCT FROM 'leased'
        RETURNING q.message_id, q.created_at_ms, q.first_sent_at_ms, q.attempts_n, q.generation, q.shard,
                  q.destination, q.effect_name, q.node, q.lane, width_bucket(q.message_id, $1) AS place
    ), finished AS (
        INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n,
            generation, http_status, shard, state, destination, effect_name, node, lane, last_result)
        SELECT message_id, created_at_ms, first_sent_at_ms,
               CASE WHEN $5 THEN CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)
                    ELSE ($4::bigint[])[place] END,
               attempts_n, generation, ($3::int[])[place], shard, 'done', destination, effect_name, node, lane, 'done'
        FROM gone
    )
    SELECT message_id, attempts_n FROM gone";

/// The same where messages may be in lanes, `$6` and `$7`, which are sorted: the next of each lane is taken as well where
/// that is wanted, `$11` to `$13`, and due otherwise.
///
/// What is next in a lane is read in the snapshot of the statement, which is older than the lock of the lane's row: an
/// admission that held that row until then may have written a message that the snapshot has not. Whatever changes what
/// is in a lane writes its row. So a lane is `known` where the row that is locked is the row of the snapshot, and nothing
/// is written of the others: they take a statement that begins after the lock. All lanes are locked before the first
/// message (`COUNT(*)`), as operators' decisions lock them.
const SETTLE_NEXT: &str = concat!(
    "/* message_settle */ WITH clock AS MATERIALIZED (
        SELECT CASE WHEN $5 THEN CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) ELSE $8 END AS now_ms
    ), held AS MATERIALIZED (
        SELECT w.n, w.destination, w.lane, o.place,
               (SELECT xmin FROM outbox_lanes WHERE destination = w.destination AND lane = w.lane) = o.version AS is_known
        FROM unnest($6::text[], $7::text[]) WITH ORDINALITY AS w (destination, lane, n)
        CROSS JOIN LATERAL (SELECT ctid AS place, xmin AS version FROM outbox_lanes
                            WHERE destination = w.destination AND lane = w.lane FOR UPDATE) o
    ), gone AS (
        DELETE FROM outbox_queue q
        WHERE q.message_id = ANY ($1::bigint[]) AND q.attempts_n = ($2::int[])[width_bucket(q.message_id, $1)]
          AND q.state IS NOT DISTINCT FROM 'leased'
          AND (SELECT COUNT(*) FROM held) >= 0
          AND (q.lane IS NULL OR (q.destination, q.lane) IN (SELECT destination, lane FROM held WHERE is_known))
        RETURNING q.message_id, q.created_at_ms, q.first_sent_at_ms, q.attempts_n, q.generation, q.shard,
                  q.destination, q.effect_name, q.node, q.lane, width_bucket(q.message_id, $1) AS place
    ), finished AS (
        INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n,
            generation, http_status, shard, state, destination, effect_name, node, lane, last_result)
        SELECT message_id, created_at_ms, first_sent_at_ms,
               CASE WHEN $5 THEN (SELECT now_ms FROM clock) ELSE ($4::bigint[])[place] END,
               attempts_n, generation, ($3::int[])[place], shard, 'done', destination, effect_name, node, lane, 'done'
        FROM gone
    ), next AS MATERIALIZED (
        SELECT g.message_id AS after_id, h.place, n.message_id, n.lane_seq
        FROM gone g JOIN held h ON h.destination = g.destination AND h.lane = g.lane
        LEFT JOIN LATERAL (SELECT message_id, lane_seq FROM outbox_queue
                           WHERE destination = g.destination AND lane = g.lane AND lane IS NOT NULL
                             AND message_id <> g.message_id
                           ORDER BY lane_seq LIMIT 1) n ON TRUE
    ), moved AS (
        UPDATE outbox_lanes o
        SET head_seq = COALESCE((SELECT lane_seq FROM next WHERE next.place = o.ctid), o.tail_seq + 1),
            used_at_ms = GREATEST(o.used_at_ms, (SELECT now_ms FROM clock))
        WHERE o.ctid = ANY (ARRAY(SELECT place FROM next))
    ), turned AS (
        UPDATE outbox_queue q
        SET (visible_at_ms, leased_at_ms, first_sent_at_ms, key_valid_until_ms, attempts_n, state, node) = (
            SELECT CASE WHEN is_taken THEN now_ms + $9 ELSE LEAST($8, now_ms) END,
                   CASE WHEN is_taken THEN now_ms ELSE q.leased_at_ms END,
                   CASE WHEN is_taken THEN COALESCE(q.first_sent_at_ms, now_ms) ELSE q.first_sent_at_ms END,
                   CASE WHEN is_taken THEN COALESCE(q.key_valid_until_ms,
                            COALESCE(q.first_sent_at_ms, now_ms) + ($12::bigint[])[w]) ELSE q.key_valid_until_ms END,
                   q.attempts_n + CAST(is_taken AS INTEGER), CASE WHEN is_taken THEN 'leased' ELSE 'ready' END,
                   CASE WHEN is_taken THEN $10 ELSE q.node END
            FROM (SELECT now_ms, w, COALESCE(q.body_bytes_n <= ($13::bigint[])[w], FALSE) AND NOT EXISTS (
                             SELECT 1 FROM destination_pauses p WHERE p.destination = q.destination) AS is_taken
                  FROM clock CROSS JOIN (SELECT array_position($11::text[], q.destination) AS w) AS wanted
                  OFFSET 0) AS own)
        WHERE q.message_id = ANY (ARRAY(SELECT message_id FROM next)) AND q.state IS NOT DISTINCT FROM 'waiting'
        RETURNING q.*
    ), leased AS (
        SELECT t.*, c.now_ms - $8 AS ahead_ms FROM turned t CROSS JOIN clock c WHERE t.state = 'leased'
    )
    SELECT g.message_id AS settled_id, FALSE AS is_lapsed,
           (SELECT array_agg(n) FROM held WHERE is_known) AS known,
           EXISTS (SELECT 1 FROM turned WHERE state = 'ready') AS is_more, ",
    claimed_columns!(),
    " FROM (SELECT 1) one LEFT JOIN gone g ON TRUE LEFT JOIN next x ON x.after_id = g.message_id
    LEFT JOIN leased l ON l.message_id = x.message_id",
    claimed_from!()
);

/// Every other settlement. Where the database's clock counts, times become durations from now.
const SETTLE: &str = concat!("/* message_settle */ WITH clock AS MATERIALIZED (
        SELECT CASE WHEN $11 THEN CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) END AS now_ms
    ), gone AS (
        DELETE FROM outbox_queue q
        WHERE q.message_id = ANY ($1::bigint[]) AND q.attempts_n = ($2::int[])[width_bucket(q.message_id, $1)]
          AND q.state IS NOT DISTINCT FROM 'leased' AND ($3::text[])[width_bucket(q.message_id, $1)] = 'done'
        RETURNING q.*, width_bucket(q.message_id, $1) AS place
    ), back AS (
        UPDATE outbox_queue q
        SET (state, visible_at_ms, last_result, last_error, last_http_status, last_ended_at_ms, attempts_before_n,
             sent_under, first_sent_at_ms, key_valid_until_ms) = (
            SELECT ($3::text[])[place],
                   COALESCE(($4::bigint[])[place] + COALESCE(now_ms - ($8::bigint[])[place], 0), q.visible_at_ms),
                   ($5::text[])[place], ($7::text[])[place], ($6::int[])[place],
                   CASE WHEN ($10::bool[])[place] AND q.last_ended_at_ms IS NOT NULL THEN q.last_ended_at_ms
                        ELSE COALESCE(now_ms, ($8::bigint[])[place]) END,
                   q.attempts_before_n + CAST(($10::bool[])[place] AS INTEGER), LEAST(q.sent_under, ($13::text[])[place]),
                   CASE WHEN NOT is_first THEN q.first_sent_at_ms END, CASE WHEN NOT is_first THEN q.key_valid_until_ms END
            FROM (SELECT width_bucket(q.message_id, $1) AS place, now_ms,
                         ($10::bool[])[width_bucket(q.message_id, $1)] AND ", claim_was_first!(), " AS is_first
                  FROM clock) AS own)
        WHERE q.message_id = ANY ($1::bigint[]) AND q.attempts_n = ($2::int[])[width_bucket(q.message_id, $1)]
          AND q.state IS NOT DISTINCT FROM 'leased' AND ($3::text[])[width_bucket(q.message_id, $1)] <> 'done'
        RETURNING q.message_id, q.attempts_n, q.shard, q.node, q.leased_at_ms, q.created_at_ms,
                  width_bucket(q.message_id, $1) AS place
    ), ended AS (
        SELECT message_id, attempts_n, shard, node, leased_at_ms, created_at_ms, place FROM gone
        UNION ALL
        SELECT message_id, attempts_n, shard, node, leased_at_ms, created_at_ms, place FROM back
    ), finished AS (
        INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n,
            generation, http_status, shard, state, destination, effect_name, node, lane, last_result, last_error)
        SELECT message_id, created_at_ms, first_sent_at_ms,
               COALESCE((SELECT now_ms FROM clock), ($8::bigint[])[place]), attempts_n, generation,
               ($6::int[])[place], shard, 'done', destination, effect_name, node, lane, ($5::text[])[place],
               ($7::text[])[place]
        FROM gone
    ), attempted AS (
        INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms, finished_at_ms, http_status,
            result, error, response, key_id)
        SELECT message_id, attempts_n, shard, COALESCE(node, ''), COALESCE(leased_at_ms, created_at_ms),
               COALESCE((SELECT now_ms FROM clock), ($8::bigint[])[place]), ($6::int[])[place], ($5::text[])[place],
               ($7::text[])[place], ($9::text[])[place],
               CASE WHEN ($9::text[])[place] IS NOT NULL THEN $12::text END
        FROM ended
        WHERE ($5::text[])[place] <> 'done' OR ($9::text[])[place] IS NOT NULL OR attempts_n > 1
    )
    SELECT message_id, attempts_n FROM ended");

/// The hot statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("message_lease", LEASE),
    ("message_settle_done", SETTLE_DONE),
    ("message_settle_next", SETTLE_NEXT),
    ("message_settle", SETTLE),
];

pub(crate) async fn message_lease(
    db: &mut PgConnection,
    wants: &[LeaseWant],
    now: Now,
    lease_ms: i64,
    node: &str,
) -> DbResult<Vec<ClaimedRow>> {
    let rows = sqlx::query(LEASE)
        .bind(wants.iter().map(|want| want.destination.as_str()).collect::<Vec<_>>())
        .bind(wants.iter().map(|want| i64::from(want.free_n)).collect::<Vec<_>>())
        .bind(wants.iter().map(|want| want.key_valid_for_ms).collect::<Vec<_>>())
        .bind(now.ms)
        .bind(lease_ms)
        .bind(node)
        .bind(now.is_theirs)
        .bind(wants.iter().map(|want| want.free_bytes_n.cast_signed()).collect::<Vec<_>>())
        .fetch_all(db)
        .await?;
    rows.iter().map(|row| claimed(row, wants)).collect()
}

fn claimed(row: &PgRow, wants: &[LeaseWant]) -> DbResult<ClaimedRow> {
    let destination: &str = row.try_get("destination")?;
    let destination = destination_of(wants, destination)
        .ok_or_else(|| DbError::decode("destination", "one that was not asked for"))?;
    let provider: Option<String> = row.try_get("provider")?;
    let method: Option<String> = row.try_get("method")?;
    let payload = match row.try_get("event_body")? {
        Some(body) => Some(ClaimedPayload {
            headers: row.try_get("event_headers")?,
            body,
            key_id: row.try_get("event_key_id")?,
            is_redacted: row.try_get("is_redacted")?,
            is_whole: row.try_get("is_whole")?,
        }),
        None => None,
    };
    Ok(ClaimedRow {
        message_id: MessageId::from_column(row.try_get("message_id")?),
        generation: row.try_get("generation")?,
        effect_name: row.try_get("effect_name")?,
        destination,
        lane: row.try_get("lane")?,
        attempt_n: row.try_get::<i32, _>("attempts_n")?.unsigned_abs(),
        attempts_before_n: row.try_get::<i32, _>("attempts_before_n")?.unsigned_abs(),
        is_lapsed: row.try_get("is_lapsed")?,
        last_result: row.try_get("last_result")?,
        created_at_ms: row.try_get("created_at_ms")?,
        lease_until_ms: row.try_get("lease_until_ms")?,
        first_sent_at_ms: row.try_get("first_sent_at_ms")?,
        key_valid_until_ms: row.try_get("key_valid_until_ms")?,
        last_ended_at_ms: row.try_get("last_ended_at_ms")?,
        misread: None,
        event: match provider {
            Some(provider) => Some(ClaimedEvent {
                provider,
                event_id: row.try_get("event_id")?,
                event_type: row.try_get("event_type")?,
            }),
            None => None,
        },
        content: match method {
            Some(method) => Some(ClaimedContent {
                method,
                path: row.try_get("path")?,
                headers: row.try_get("headers")?,
                body: row.try_get("body")?,
                key_id: row.try_get("key_id")?,
            }),
            None => None,
        },
        payload,
    })
}

/// True when [`settle_next`] settles all of these: first attempts that went well, of which none is in it twice, nor two of
/// one lane.
pub(super) fn is_for_next(settlements: &[Settlement]) -> bool {
    let (mut ids, mut lanes) = (HashSet::new(), HashSet::new());
    settlements.iter().all(|one| {
        let lane = one.lane.as_deref().map(|lane| (&one.destination, lane));
        one.is_plainly_done() && ids.insert(one.message_id) && lane.is_none_or(|lane| lanes.insert(lane))
    })
}

/// Settles these, which are [`is_for_next`], and takes the next messages of their lanes, all in one statement, which is
/// a transaction by itself.
pub(super) async fn settle_next(
    db: &mut PgConnection,
    settlements: &[Settlement],
    want: &NextWant,
    now: Now,
) -> DbResult<SettledRows> {
    let mut sorted: Vec<&Settlement> = settlements.iter().collect();
    sorted.sort_by_key(|one| one.message_id);
    let lanes = lanes_of(settlements);
    let wants = &want.wants;
    let rows = sqlx::query(SETTLE_NEXT)
        .bind(sorted.iter().map(|one| one.message_id.number()).collect::<Vec<_>>())
        .bind(sorted.iter().map(|one| i32::try_from(one.attempt_n).unwrap_or(-1)).collect::<Vec<_>>())
        .bind(sorted.iter().map(|one| one.http_status.map(i32::from)).collect::<Vec<_>>())
        .bind(sorted.iter().map(|one| one.settled_at_ms).collect::<Vec<_>>())
        .bind(now.is_theirs)
        .bind(lanes.iter().map(|(destination, _)| destination.as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|(_, lane)| lane.as_str()).collect::<Vec<_>>())
        .bind(now.ms)
        .bind(want.lease_ms)
        .bind(&want.holder)
        .bind(wants.iter().map(|one| one.destination.as_str()).collect::<Vec<_>>())
        .bind(wants.iter().map(|one| one.key_valid_for_ms).collect::<Vec<_>>())
        .bind(wants.iter().map(|one| one.free_bytes_n.cast_signed()).collect::<Vec<_>>())
        .fetch_all(db)
        .await?;
    let (mut ids, mut known, mut next, mut is_more) = (HashSet::new(), HashSet::new(), Vec::new(), false);
    for row in &rows {
        let places: Option<Vec<i64>> = row.try_get("known")?;
        let places = places.into_iter().flatten().filter_map(|n| usize::try_from(n - 1).ok());
        known.extend(places.filter_map(|place| lanes.get(place)));
        is_more |= row.try_get::<bool, _>("is_more")?;
        ids.extend(row.try_get::<Option<i64>, _>("settled_id")?);
        if row.try_get::<Option<i64>, _>("message_id")?.is_some() {
            next.push(claimed(row, wants)?);
        }
    }
    let written = settlements.iter().map(|one| {
        let lane = one.lane.clone().map(|lane| (one.destination.to_string(), lane));
        lane.is_none_or(|lane| known.contains(&lane)).then(|| ids.contains(&one.message_id.number()))
    });
    Ok((written.collect(), next, is_more))
}

/// True when one statement, which is a transaction by itself, settles all of these: none has a lane, whose
/// row would have to be locked first, and no message is in it twice.
pub(super) fn is_one_statement(settlements: &[Settlement]) -> bool {
    let mut ids = HashSet::with_capacity(settlements.len());
    settlements.iter().all(|one| one.lane.is_none() && ids.insert(one.message_id))
}

/// Writes settlements, whose answers were sealed with the key `key_id` if there is one; returns, for each one, true
/// when its token was the message's and all of it is written. Runs in a transaction, unless [`is_one_statement`].
pub(crate) async fn message_settle(
    db: &mut PgConnection,
    settlements: &[Settlement],
    is_own_clock: bool,
    key_id: Option<&str>,
) -> DbResult<Vec<bool>> {
    let mut written: HashSet<(i64, i64)> = HashSet::with_capacity(settlements.len());
    let mut left: Vec<&Settlement> = settlements.iter().collect();
    left.sort_by_key(|one| (one.message_id, one.attempt_n));
    while !left.is_empty() {
        // A list of messages holds each once: claims of one message that come together come one after the other.
        let mut rest = Vec::new();
        left.dedup_by(|later, earlier| {
            let is_same = later.message_id == earlier.message_id;
            if is_same {
                rest.push(*later);
            }
            is_same
        });
        for row in limited(settle(db, &left, is_own_clock, key_id)).await? {
            let attempt_n: i32 = row.try_get("attempts_n")?;
            written.insert((row.try_get("message_id")?, attempt_n.into()));
        }
        left = rest;
    }
    Ok(settlements
        .iter()
        .map(|one| written.contains(&(one.message_id.number(), one.attempt_n.into())))
        .collect())
}

/// Writes settlements that are sorted by message and have each message once.
async fn settle(
    db: &mut PgConnection,
    sorted: &[&Settlement],
    is_own_clock: bool,
    key_id: Option<&str>,
) -> DbResult<Vec<PgRow>> {
    fn column<'s, T>(sorted: &[&'s Settlement], of: impl Fn(&'s Settlement) -> T) -> Vec<T> {
        sorted.iter().map(|one| of(one)).collect()
    }
    let ids = column(sorted, |one| one.message_id.number());
    // A column that cannot hold it is one that no claim ever had: it is fenced.
    let attempts = column(sorted, |one| i32::try_from(one.attempt_n).unwrap_or(-1));
    let statuses = column(sorted, |one| one.http_status.map(i32::from));
    let times = column(sorted, |one| one.settled_at_ms);
    let query: Query<'_, sqlx::Postgres, PgArguments> = if sorted.iter().all(|one| one.is_plainly_done()) {
        sqlx::query(SETTLE_DONE).bind(ids).bind(attempts).bind(statuses).bind(times).bind(is_own_clock)
    } else {
        sqlx::query(SETTLE)
            .bind(ids)
            .bind(attempts)
            .bind(column(sorted, |one| one.to.state().as_str()))
            .bind(column(sorted, Settlement::visible_at_ms))
            .bind(column(sorted, |one| one.result.as_str()))
            .bind(statuses)
            .bind(column(sorted, |one| one.error.as_deref()))
            .bind(times)
            .bind(column(sorted, |one| one.response.as_deref()))
            .bind(column(sorted, |one| one.is_unsent))
            .bind(is_own_clock)
            .bind(key_id)
            .bind(column(sorted, |one| one.sent_under.map(SentUnder::as_str)))
    };
    Ok(query.fetch_all(db).await?)
}
