//! Messages: leases with a fencing token, settlements, and what people look at.

use std::collections::HashSet;

use sqlx::{PgConnection, Row};

use super::{lanes_advance, lanes_lock};
use crate::store::rows::{claimed, settled};
use crate::store::types::{Claimed, Now, Token, laned};
use crate::store::{LeaseWant, LostClaims, MessageCount, MessageRow, Settlement};
use crate::types::{EventKey, Name, UnixMs};

pub(in crate::store) async fn message_lease(
    db: &mut PgConnection,
    wants: &[LeaseWant],
    now: Now,
    lease_ms: i64,
    node: &str,
) -> sqlx::Result<Claimed> {
    // MATERIALIZED: an inlined subquery with LIMIT and SKIP LOCKED can give back more than LIMIT. The clock is read
    // once; what is told of times is told in those of the caller, whose clock was read before: so its leases end
    // for it no later than here.
    let rows = sqlx::query(
        "WITH clock AS MATERIALIZED (
             SELECT CASE WHEN $7 THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint ELSE $4 END AS now_ms
         ), due AS MATERIALIZED (
             SELECT m.message_id, m.attempts_n, m.state = 'leased' AS is_lapsed, w.key_valid_for_ms
             FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS w (destination, free_n, key_valid_for_ms)
             CROSS JOIN LATERAL (
                 SELECT message_id, attempts_n, state FROM outbox_messages
                 WHERE destination = w.destination AND state IN ('ready', 'leased')
                   AND visible_at_ms <= (SELECT now_ms FROM clock)
                 ORDER BY visible_at_ms, message_id LIMIT w.free_n FOR UPDATE SKIP LOCKED) m
             WHERE NOT EXISTS (SELECT 1 FROM destination_pauses p WHERE p.destination = w.destination)
         ), lapsed AS (
             UPDATE outbox_attempts a
             SET finished_at_ms = c.now_ms, result = 'unknown', error = 'lease ended without a settlement'
             FROM due d, clock c
             WHERE d.is_lapsed AND a.message_id = d.message_id AND a.attempt_n = d.attempts_n AND a.result IS NULL
         ), leased AS (
             UPDATE outbox_messages m
             SET state = 'leased', attempts_n = m.attempts_n + 1, visible_at_ms = c.now_ms + $5, leased_by = $6,
                 -- What became of a lease that ended is unknown, and its call ended with it at the latest.
                 last_result = CASE WHEN d.is_lapsed THEN 'unknown' ELSE m.last_result END,
                 settled_at_ms = CASE WHEN d.is_lapsed THEN m.visible_at_ms ELSE m.settled_at_ms END,
                 first_sent_at_ms = COALESCE(m.first_sent_at_ms, c.now_ms),
                 key_valid_until_ms = COALESCE(m.key_valid_until_ms, c.now_ms + d.key_valid_for_ms)
             FROM due d, clock c WHERE m.message_id = d.message_id
             RETURNING m.*, d.is_lapsed, c.now_ms - $4 AS ahead_ms
         ), attempt AS (
             INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms)
             SELECT message_id, attempts_n, shard, $6, $4 + ahead_ms FROM leased
         )
         SELECT m.message_id, m.provider, m.event_id, m.event_type, m.effect_name, m.idempotency_key,
                m.destination, m.method, m.path, m.headers, m.body, m.attempts_n, m.visible_at_ms - m.ahead_ms,
                m.first_sent_at_ms - m.ahead_ms, m.key_valid_until_ms - m.ahead_ms, m.created_at_ms, m.last_result,
                p.body, p.headers, m.attempts_before_n, m.lane, m.settled_at_ms - m.ahead_ms, m.is_lapsed
         FROM leased m
         LEFT JOIN webhook_payloads p ON m.body IS NULL AND p.provider = m.provider AND p.event_id = m.event_id",
    )
    .bind(wants.iter().map(|want| want.destination.as_str()).collect::<Vec<_>>())
    .bind(wants.iter().map(|want| i64::from(want.free_n)).collect::<Vec<_>>())
    .bind(wants.iter().map(|want| want.key_valid_for_ms).collect::<Vec<_>>())
    .bind(now.ms)
    .bind(lease_ms)
    .bind(node)
    .bind(now.is_theirs)
    .fetch_all(db)
    .await?;
    let mut taken = Claimed::default();
    for row in &rows {
        taken.add(claimed(row, row.try_get(22)?, now.ms));
    }
    Ok(taken)
}

/// Gives back what was claimed by looks whose answer was lost; says how many messages.
pub(in crate::store) async fn message_release(
    db: &mut PgConnection,
    lost: &LostClaims,
    now: Now,
) -> sqlx::Result<u64> {
    let ended = sqlx::query(
        "WITH clock AS MATERIALIZED (
             SELECT CASE WHEN $4 THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint ELSE $3 END AS now_ms
         ), released AS (
             UPDATE outbox_messages m
             SET state = 'ready', visible_at_ms = c.now_ms, leased_by = NULL, attempts_before_n = attempts_before_n + 1,
                 last_result = CASE last_result WHEN 'unknown' THEN 'unknown' ELSE 'released' END,
                 last_error = 'handed back: the answer to its claim was lost',
                 settled_at_ms = COALESCE(settled_at_ms, c.now_ms)
             FROM clock c
             WHERE m.destination = ANY($1) AND m.state = 'leased' AND m.state IN ('ready', 'leased')
               AND m.visible_at_ms >= (SELECT now_ms FROM clock) - $5 AND m.leased_by = ANY($2)
             RETURNING m.message_id, m.attempts_n, c.now_ms
         )
         UPDATE outbox_attempts a
         SET finished_at_ms = r.now_ms, result = 'released', error = 'the answer to its claim was lost'
         FROM released r WHERE a.message_id = r.message_id AND a.attempt_n = r.attempts_n",
    )
    .bind(lost.destinations.iter().map(Name::as_str).collect::<Vec<_>>())
    .bind(&lost.holders)
    .bind(now.ms)
    .bind(now.is_theirs)
    .bind(lost.age_ms)
    .execute(db)
    .await?;
    Ok(ended.rows_affected())
}

/// Prolongs a lease; `false` when it is no longer this worker's.
pub(in crate::store) async fn message_extend(
    db: &mut PgConnection,
    message_id: &str,
    attempt_n: u32,
    now: Now,
    lease_ms: i64,
) -> sqlx::Result<bool> {
    let extended = sqlx::query(
        "UPDATE outbox_messages
         SET visible_at_ms = $4 + CASE WHEN $5 THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint ELSE $3 END
         WHERE message_id = $1 AND attempts_n = $2 AND state = 'leased'",
    )
    .bind(message_id)
    .bind(i64::from(attempt_n))
    .bind(now.ms)
    .bind(lease_ms)
    .bind(now.is_theirs)
    .execute(db)
    .await?;
    Ok(extended.rows_affected() == 1)
}

/// In a transaction, if any of the messages has a lane.
pub(in crate::store) async fn message_settle(
    db: &mut PgConnection,
    settlements: &[Settlement],
    is_own_clock: bool,
) -> sqlx::Result<HashSet<Token>> {
    let laned = laned(settlements);
    if laned.is_empty() {
        return settle(db, settlements, is_own_clock).await;
    }
    lanes_lock(db, &laned).await?;
    let settled = settle(db, settlements, is_own_clock).await?;
    lanes_advance(db, &laned, settlements.first().map_or(0, |one| one.settled_at_ms)).await?;
    Ok(settled)
}

async fn settle(
    db: &mut PgConnection,
    settlements: &[Settlement],
    is_own_clock: bool,
) -> sqlx::Result<HashSet<Token>> {
    let rows = sqlx::query(
        // Times become durations from now, where the database tells the time.
        "WITH clock AS MATERIALIZED (
             SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
         ), given AS (
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[],
                 $7::text[], $8::bigint[], $9::text[], $10::bool[])
             AS t (message_id, attempt_n, state, visible_at_ms, result, http_status, error, settled_at_ms, response,
                   is_unsent)
         ), input AS (
             SELECT g.message_id, g.attempt_n, g.state, g.visible_at_ms + a.ahead_ms AS visible_at_ms, g.result,
                    g.http_status, g.error, g.settled_at_ms + a.ahead_ms AS settled_at_ms, g.response, g.is_unsent
             FROM given g CROSS JOIN clock c
             CROSS JOIN LATERAL (SELECT CASE WHEN $11 THEN c.now_ms - g.settled_at_ms ELSE 0 END AS ahead_ms) a
         ), settled AS (
             UPDATE outbox_messages m
             SET state = s.state, visible_at_ms = COALESCE(s.visible_at_ms, m.visible_at_ms),
                 last_result = s.result, last_error = s.error, last_http_status = s.http_status, leased_by = NULL,
                 settled_at_ms = CASE WHEN s.is_unsent THEN COALESCE(m.settled_at_ms, s.settled_at_ms)
                                      ELSE s.settled_at_ms END,
                 attempts_before_n = m.attempts_before_n + s.is_unsent::int
             FROM input s
             WHERE m.message_id = s.message_id AND m.attempts_n = s.attempt_n AND m.state = 'leased'
             RETURNING m.message_id, m.attempts_n AS attempt_n
         ), attempt AS (
             UPDATE outbox_attempts a
             SET finished_at_ms = s.settled_at_ms, result = s.result, http_status = s.http_status, error = s.error,
                 response = s.response
             FROM input s JOIN settled USING (message_id, attempt_n)
             WHERE a.message_id = s.message_id AND a.attempt_n = s.attempt_n
               AND (s.result <> 'done' OR s.response IS NOT NULL)
         )
         SELECT message_id, attempt_n FROM settled",
    )
    .bind(settlements.iter().map(|one| one.message_id.as_str()).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| i64::from(one.attempt_n)).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.to.state()).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.to.visible_at_ms()).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.result.as_str()).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.http_status.map(i64::from)).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.error.as_deref()).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.settled_at_ms).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.response.as_deref()).collect::<Vec<_>>())
    .bind(settlements.iter().map(|one| one.is_unsent).collect::<Vec<_>>())
    .bind(is_own_clock)
    .fetch_all(db)
    .await?;
    rows.iter().map(settled).collect()
}

pub(in crate::store) async fn message_latest_ms(db: &mut PgConnection) -> sqlx::Result<Option<UnixMs>> {
    sqlx::query_scalar(
        "SELECT MAX(GREATEST(m.created_at_ms, m.settled_at_ms, m.first_sent_at_ms, a.started_at_ms))
         FROM outbox_messages m
         LEFT JOIN outbox_attempts a ON m.state = 'leased' AND a.message_id = m.message_id AND a.attempt_n = m.attempts_n
         WHERE m.state IN ('ready', 'leased')",
    )
    .fetch_one(db)
    .await
}

pub(in crate::store) async fn message_counts(db: &mut PgConnection) -> sqlx::Result<Vec<MessageCount>> {
    let rows = sqlx::query(
        "SELECT destination, state, COUNT(*), MIN(visible_at_ms) FROM outbox_messages
         WHERE state IN ('ready', 'leased') GROUP BY destination, state
         UNION ALL
         SELECT destination, state, COUNT(*), MIN(visible_at_ms) FROM outbox_messages
         WHERE state IN ('held', 'dead') GROUP BY destination, state
         UNION ALL
         SELECT destination, state, COUNT(*), MIN(visible_at_ms) FROM outbox_messages
         WHERE state = 'waiting' GROUP BY destination, state",
    )
    .fetch_all(db)
    .await?;
    rows.iter().map(MessageCount::from_row).collect()
}

pub(in crate::store) async fn message_list_of_event(
    db: &mut PgConnection,
    key: &EventKey,
) -> sqlx::Result<Vec<MessageRow>> {
    let rows = sqlx::query(
        "SELECT message_id, provider, event_id, event_type, effect_name, idempotency_key, destination, state, attempts_n,
                visible_at_ms, last_result, last_error, created_at_ms, first_sent_at_ms, key_valid_until_ms,
                settled_at_ms, lane
         FROM outbox_messages WHERE provider = $1 AND event_id = $2 ORDER BY generation, effect_name",
    )
    .bind(key.provider.as_str())
    .bind(key.event_id.as_str())
    .fetch_all(db)
    .await?;
    rows.iter().map(MessageRow::from_row).collect()
}
