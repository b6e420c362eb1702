//! Messages: leases with a fencing token, settlements, and what people look at.

use std::collections::HashSet;

use serde_json::json;
use sqlx::{Row, SqliteConnection};

use super::lanes_advance;
use crate::store::rows::{claimed, settled};
use crate::store::types::{Claimed, Now, Token, laned};
use crate::store::{LeaseWant, LostClaims, MessageCount, MessageRow, Settlement};
use crate::types::{AttemptResult, EventKey, Name, UnixMs};

pub(in crate::store) async fn message_lease(
    db: &mut SqliteConnection,
    wants: &[LeaseWant],
    now: Now,
    lease_ms: i64,
    node: &str,
) -> sqlx::Result<Claimed> {
    let now_ms = now.ms;
    let mut claimed = Claimed::default();
    for want in wants {
        let due = due(db, want, now_ms).await?;
        if !due.is_empty() {
            claim(db, &due, want, (now_ms, lease_ms, node), &mut claimed).await?;
        }
    }
    Ok(claimed)
}

/// Whether a claim would find anything. Looking costs the writer nothing, and most looks find nothing.
pub(in crate::store) async fn message_is_any_due(
    db: &mut SqliteConnection,
    wants: &[LeaseWant],
    now_ms: UnixMs,
) -> sqlx::Result<bool> {
    let names: Vec<&str> = wants.iter().map(|want| want.destination.as_str()).collect();
    let found = sqlx::query(
        "SELECT 1 FROM json_each($1) AS want WHERE EXISTS (
             SELECT 1 FROM outbox_messages m
             WHERE m.destination = want.value AND m.state IN ('ready', 'leased') AND m.visible_at_ms <= $2)
           AND NOT EXISTS (SELECT 1 FROM destination_pauses p WHERE p.destination = want.value)
         LIMIT 1",
    )
    .bind(json!(names).to_string())
    .bind(now_ms)
    .fetch_optional(db)
    .await?;
    Ok(found.is_some())
}

/// Ids that are due, oldest first, and those among them whose earlier lease ended without a settlement.
async fn due(
    db: &mut SqliteConnection,
    want: &LeaseWant,
    now_ms: UnixMs,
) -> sqlx::Result<Vec<(String, bool)>> {
    let rows = sqlx::query(
        "SELECT message_id, state = 'leased' FROM outbox_messages
         WHERE destination = $1 AND state IN ('ready', 'leased') AND visible_at_ms <= $2
           AND NOT EXISTS (SELECT 1 FROM destination_pauses p WHERE p.destination = $1)
         ORDER BY visible_at_ms, message_id LIMIT $3",
    )
    .bind(want.destination.as_str())
    .bind(now_ms)
    .bind(i64::from(want.free_n))
    .fetch_all(db)
    .await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn claim(
    db: &mut SqliteConnection,
    due: &[(String, bool)],
    want: &LeaseWant,
    (now_ms, lease_ms, node): (UnixMs, i64, &str),
    taken: &mut Claimed,
) -> sqlx::Result<()> {
    let ids = json!(due.iter().map(|(id, _)| id).collect::<Vec<_>>()).to_string();
    let lapsed: HashSet<&str> = due.iter().filter(|(_, lapsed)| *lapsed).map(|(id, _)| id.as_str()).collect();
    if !lapsed.is_empty() {
        sqlx::query(
            "UPDATE outbox_attempts SET finished_at_ms = $2, result = 'unknown',
                 error = 'lease ended without a settlement'
             WHERE result IS NULL AND message_id IN (SELECT value FROM json_each($1))",
        )
        .bind(json!(lapsed).to_string())
        .bind(now_ms)
        .execute(&mut *db)
        .await?;
    }
    sqlx::query(
        "UPDATE outbox_messages
         SET state = 'leased', attempts_n = attempts_n + 1, visible_at_ms = $2, leased_by = $3,
             -- What became of a lease that ended is unknown, and its call ended with it at the latest.
             last_result = CASE state WHEN 'leased' THEN 'unknown' ELSE last_result END,
             settled_at_ms = CASE state WHEN 'leased' THEN visible_at_ms ELSE settled_at_ms END,
             first_sent_at_ms = COALESCE(first_sent_at_ms, $4), key_valid_until_ms = COALESCE(key_valid_until_ms, $5)
         WHERE message_id IN (SELECT value FROM json_each($1))",
    )
    .bind(&ids)
    .bind(now_ms.saturating_add(lease_ms))
    .bind(node)
    .bind(now_ms)
    .bind(now_ms.saturating_add(want.key_valid_for_ms))
    .execute(&mut *db)
    .await?;
    sqlx::query(
        "INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms)
         SELECT message_id, attempts_n, shard, $2, $3 FROM outbox_messages
         WHERE message_id IN (SELECT value FROM json_each($1))",
    )
    .bind(&ids)
    .bind(node)
    .bind(now_ms)
    .execute(&mut *db)
    .await?;
    let rows = sqlx::query(
        "SELECT m.message_id, m.provider, m.event_id, m.event_type, m.effect_name, m.idempotency_key,
                m.destination, m.method, m.path, m.headers, m.body, m.attempts_n, m.visible_at_ms,
                m.first_sent_at_ms, m.key_valid_until_ms, m.created_at_ms, m.last_result,
                p.body, p.headers, m.attempts_before_n, m.lane, m.settled_at_ms
         FROM outbox_messages m
         LEFT JOIN webhook_payloads p ON m.body IS NULL AND p.provider = m.provider AND p.event_id = m.event_id
         WHERE m.message_id IN (SELECT value FROM json_each($1))",
    )
    .bind(&ids)
    .fetch_all(db)
    .await?;
    for row in &rows {
        let is_lapsed = row.try_get::<&str, _>(0).is_ok_and(|id| lapsed.contains(id));
        taken.add(claimed(row, is_lapsed, now_ms));
    }
    Ok(())
}

/// Gives back what was claimed by looks whose answer was lost; says how many messages.
pub(in crate::store) async fn message_release(
    db: &mut SqliteConnection,
    lost: &LostClaims,
    now: Now,
) -> sqlx::Result<u64> {
    let ids: Vec<String> = sqlx::query_scalar(
        "UPDATE outbox_messages
         SET state = 'ready', visible_at_ms = $3, leased_by = NULL, attempts_before_n = attempts_before_n + 1,
             last_result = CASE last_result WHEN 'unknown' THEN 'unknown' ELSE 'released' END,
             last_error = 'handed back: the answer to its claim was lost', settled_at_ms = COALESCE(settled_at_ms, $3)
         WHERE destination IN (SELECT value FROM json_each($1)) AND state = 'leased' AND visible_at_ms >= $4
           AND leased_by IN (SELECT value FROM json_each($2))
         RETURNING message_id",
    )
    .bind(json!(lost.destinations.iter().map(Name::as_str).collect::<Vec<_>>()).to_string())
    .bind(json!(lost.holders).to_string())
    .bind(now.ms)
    .bind(now.ms.saturating_sub(lost.age_ms))
    .fetch_all(&mut *db)
    .await?;
    sqlx::query(
        "UPDATE outbox_attempts SET finished_at_ms = $2, result = 'released', error = 'the answer to its claim was lost'
         WHERE result IS NULL AND message_id IN (SELECT value FROM json_each($1))",
    )
    .bind(json!(ids).to_string())
    .bind(now.ms)
    .execute(db)
    .await?;
    Ok(ids.len() as u64)
}

/// Prolongs a lease; `false` when it is no longer this worker's.
pub(in crate::store) async fn message_extend(
    db: &mut SqliteConnection,
    message_id: &str,
    attempt_n: u32,
    now: Now,
    lease_ms: i64,
) -> sqlx::Result<bool> {
    let extended = sqlx::query(
        "UPDATE outbox_messages SET visible_at_ms = $3
         WHERE message_id = $1 AND attempts_n = $2 AND state = 'leased'",
    )
    .bind(message_id)
    .bind(i64::from(attempt_n))
    .bind(now.ms.saturating_add(lease_ms))
    .execute(db)
    .await?;
    Ok(extended.rows_affected() == 1)
}

pub(in crate::store) async fn message_settle(
    db: &mut SqliteConnection,
    settlements: &[Settlement],
    _is_own_clock: bool,
) -> sqlx::Result<HashSet<Token>> {
    let all = json!(settlements.iter().map(Settlement::to_json).collect::<Vec<_>>()).to_string();
    let rows = sqlx::query(
        "UPDATE outbox_messages AS m
         SET state = s.value ->> 'state', visible_at_ms = COALESCE(s.value ->> 'visible_at_ms', m.visible_at_ms),
             last_result = s.value ->> 'result', last_error = s.value ->> 'error',
             last_http_status = s.value ->> 'http_status', leased_by = NULL,
             settled_at_ms = CASE WHEN s.value ->> 'is_unsent' AND m.settled_at_ms IS NOT NULL THEN m.settled_at_ms
                                  ELSE s.value ->> 'settled_at_ms' END,
             attempts_before_n = m.attempts_before_n + (s.value ->> 'is_unsent')
         FROM json_each($1) AS s
         WHERE m.message_id = s.value ->> 'message_id' AND m.attempts_n = s.value ->> 'attempt_n'
           AND m.state = 'leased'
         RETURNING message_id, attempts_n",
    )
    .bind(&all)
    .fetch_all(&mut *db)
    .await?;
    let settled: HashSet<Token> = rows.iter().map(settled).collect::<sqlx::Result<_>>()?;
    // What went well is told by the message; see the migration.
    let has_more = |one: &&Settlement| {
        let is_written = settled.contains(&(one.message_id.clone(), one.attempt_n));
        is_written && (one.result != AttemptResult::Done || one.response.is_some())
    };
    let told: Vec<&Settlement> = settlements.iter().filter(has_more).collect();
    if !told.is_empty() {
        attempts_finish(db, &told).await?;
    }
    let laned = laned(settlements);
    if !laned.is_empty() {
        lanes_advance(db, &laned, settlements.first().map_or(0, |one| one.settled_at_ms)).await?;
    }
    Ok(settled)
}

async fn attempts_finish(db: &mut SqliteConnection, settlements: &[&Settlement]) -> sqlx::Result<()> {
    let all = json!(settlements.iter().map(|one| one.to_json()).collect::<Vec<_>>()).to_string();
    sqlx::query(
        "UPDATE outbox_attempts AS a
         SET finished_at_ms = s.value ->> 'settled_at_ms', result = s.value ->> 'result',
             http_status = s.value ->> 'http_status', error = s.value ->> 'error',
             response = s.value ->> 'response'
         FROM json_each($1) AS s
         WHERE a.message_id = s.value ->> 'message_id' AND a.attempt_n = s.value ->> 'attempt_n'",
    )
    .bind(&all)
    .execute(db)
    .await
    .map(drop)
}

pub(in crate::store) async fn message_latest_ms(db: &mut SqliteConnection) -> sqlx::Result<Option<UnixMs>> {
    sqlx::query_scalar(
        "SELECT MAX(MAX(m.created_at_ms, COALESCE(m.settled_at_ms, 0), COALESCE(m.first_sent_at_ms, 0),
                        COALESCE(a.started_at_ms, 0)))
         FROM outbox_messages m
         LEFT JOIN outbox_attempts a ON m.state = 'leased' AND a.message_id = m.message_id AND a.attempt_n = m.attempts_n
         WHERE m.state IN ('ready', 'leased')",
    )
    .fetch_one(db)
    .await
}

pub(in crate::store) async fn message_counts(db: &mut SqliteConnection) -> sqlx::Result<Vec<MessageCount>> {
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
    db: &mut SqliteConnection,
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
