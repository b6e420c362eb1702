//! What people decide about messages, each decision in one transaction with its record and with the answer
//! to the request that carried it: the same request again is answered the same and decides nothing.

use sqlx::{PgConnection, Row};

use crate::store::MessageRow;
use crate::store::operator::{Act, AttemptRow, AuditRow, Decision, Filter, PauseRow};
use crate::types::{EventKey, MessageState, Name, UnixMs};

/// Takes the key for this request; what the same key was answered before, and to which request.
pub(in crate::store) async fn idempotency_take(
    db: &mut PgConnection,
    decision: &Decision<'_>,
) -> sqlx::Result<Option<(Vec<u8>, String)>> {
    // Another request under way with this key is waited for.
    let taken = sqlx::query(
        "INSERT INTO idempotency_keys (actor, idempotency_key, digest, answer, created_at_ms)
         VALUES ($1, $2, $3, '', $4) ON CONFLICT DO NOTHING",
    )
    .bind(decision.actor)
    .bind(decision.idempotency_key)
    .bind(decision.digest.as_slice())
    .bind(decision.now_ms)
    .execute(&mut *db)
    .await?;
    if taken.rows_affected() == 1 {
        return Ok(None);
    }
    let row =
        sqlx::query("SELECT digest, answer FROM idempotency_keys WHERE actor = $1 AND idempotency_key = $2")
            .bind(decision.actor)
            .bind(decision.idempotency_key)
            .fetch_one(db)
            .await?;
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}

pub(in crate::store) async fn idempotency_answer(
    db: &mut PgConnection,
    decision: &Decision<'_>,
    answer: &str,
) -> sqlx::Result<()> {
    sqlx::query("UPDATE idempotency_keys SET answer = $3 WHERE actor = $1 AND idempotency_key = $2")
        .bind(decision.actor)
        .bind(decision.idempotency_key)
        .bind(answer)
        .execute(db)
        .await
        .map(drop)
}

pub(in crate::store) async fn event_state(
    db: &mut PgConnection,
    key: &EventKey,
) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("SELECT state FROM processed_webhook_events WHERE provider = $1 AND event_id = $2")
        .bind(key.provider.as_str())
        .bind(key.event_id.as_str())
        .fetch_optional(db)
        .await
}

/// Carries out what a person decides about an event, and records who did it; 0 when it stands where that cannot be, or
/// its bytes are no longer kept.
pub(in crate::store) async fn event_act(
    db: &mut PgConnection,
    key: &EventKey,
    act: Act,
    decision: &Decision<'_>,
) -> sqlx::Result<u64> {
    let sql = match act {
        // Dispatched once more, under the next generation.
        Act::Rerun => {
            "UPDATE processed_webhook_events
             SET state = 'retry', due_at_ms = $3, attempts_n = 0, error = NULL, generation = generation + 1
             WHERE provider = $1 AND event_id = $2 AND state IN ('done', 'ignored', 'failed', 'superseded')
               AND EXISTS (SELECT 1 FROM webhook_payloads p WHERE p.provider = $1 AND p.event_id = $2)"
        }
        // Dispatched for the first time: what was kept beside another event is one of its own. Its attempts begin now,
        // which its generation says.
        Act::Dispatch => {
            "UPDATE processed_webhook_events
             SET state = 'retry', due_at_ms = $3, attempts_n = 0, generation = generation + 1
             WHERE provider = $1 AND event_id = $2 AND state IN ('conflict', 'dismissed', 'replayed')
               AND EXISTS (SELECT 1 FROM webhook_payloads p WHERE p.provider = $1 AND p.event_id = $2)"
        }
        Act::Dismiss => {
            "UPDATE processed_webhook_events SET state = 'dismissed', processed_at_ms = $3
             WHERE provider = $1 AND event_id = $2 AND state = 'conflict'"
        }
        _ => return Ok(0),
    };
    let changed = sqlx::query(sql)
        .bind(key.provider.as_str())
        .bind(key.event_id.as_str())
        .bind(decision.now_ms)
        .execute(&mut *db)
        .await?
        .rows_affected();
    if changed == 1 {
        sqlx::query(
            "INSERT INTO audit_log (audit_id, at_ms, actor, action, provider, event_id, detail)
             SELECT gen_random_uuid()::text, $3, $4, $5, provider, event_id, 'generation ' || generation || ': ' || $6
             FROM processed_webhook_events WHERE provider = $1 AND event_id = $2",
        )
        .bind(key.provider.as_str())
        .bind(key.event_id.as_str())
        .bind(decision.now_ms)
        .bind(decision.actor)
        .bind(act.audited())
        .bind(decision.reason)
        .execute(db)
        .await?;
    }
    Ok(changed)
}

pub(in crate::store) async fn message_state(
    db: &mut PgConnection,
    message_id: &str,
) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("SELECT state FROM outbox_messages WHERE message_id = $1")
        .bind(message_id)
        .fetch_optional(db)
        .await
}

pub(in crate::store) async fn message_ids(
    db: &mut PgConnection,
    filter: &Filter,
    limit: i64,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar(
        "SELECT message_id FROM outbox_messages
         WHERE state = $1 AND ($2::text IS NULL OR destination = $2) AND ($3::text IS NULL OR provider = $3)
         ORDER BY message_id LIMIT $4",
    )
    .bind(filter.state.map(MessageState::as_str))
    .bind(filter.destination.as_ref().map(Name::as_str))
    .bind(filter.provider.as_ref().map(Name::as_str))
    .bind(limit)
    .fetch_all(db)
    .await
}

/// Changes these messages, unless a worker has them, and records who did it. Says how many were changed.
pub(in crate::store) async fn messages_act(
    db: &mut PgConnection,
    message_ids: &[String],
    act: Act,
    decision: &Decision<'_>,
) -> sqlx::Result<u64> {
    let sql = match act {
        // About destinations and events: no message changes.
        Act::Pause | Act::Resume | Act::Rerun | Act::Dispatch | Act::Dismiss => return Ok(0),
        // What was sent before is in `outbox_attempts`; the policy starts anew, under the same key.
        Act::Send => {
            "UPDATE outbox_messages
             SET state = 'ready', visible_at_ms = LEAST($2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), last_result = NULL, last_error = NULL, settled_at_ms = NULL,
                 first_sent_at_ms = NULL, key_valid_until_ms = NULL, attempts_before_n = attempts_n
             WHERE state IN ('held', 'dead') AND message_id = ANY($1)"
        }
        // A lease that has ended is nobody's: where no node has the destination any more, nobody would take it again.
        Act::Done => {
            "UPDATE outbox_messages SET state = 'done', settled_at_ms = $2, leased_by = NULL
             WHERE (state IN ('held', 'dead') OR (state = 'leased'
                    AND visible_at_ms < LEAST($2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)))
               AND message_id = ANY($1)"
        }
        Act::Discard => {
            "UPDATE outbox_messages SET state = 'discarded', settled_at_ms = $2, leased_by = NULL
             WHERE (state IN ('held', 'dead', 'ready', 'waiting') OR (state = 'leased'
                    AND visible_at_ms < LEAST($2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)))
               AND message_id = ANY($1)"
        }
    };
    let changed = sqlx::query(sql).bind(message_ids).bind(decision.now_ms).execute(&mut *db).await?;
    sqlx::query(
        "INSERT INTO audit_log (audit_id, at_ms, actor, action, provider, event_id, message_id, detail)
         SELECT gen_random_uuid()::text, $2, $3, $4, provider, event_id, message_id, $5 FROM outbox_messages
         WHERE message_id = ANY($1)",
    )
    .bind(message_ids)
    .bind(decision.now_ms)
    .bind(decision.actor)
    .bind(act.audited())
    .bind(decision.reason)
    .execute(db)
    .await?;
    Ok(changed.rows_affected())
}

pub(in crate::store) async fn message_get(
    db: &mut PgConnection,
    message_id: &str,
) -> sqlx::Result<Option<MessageRow>> {
    let row = sqlx::query(
        "SELECT message_id, provider, event_id, event_type, effect_name, idempotency_key, destination, state, attempts_n,
                visible_at_ms, last_result, last_error, created_at_ms, first_sent_at_ms, key_valid_until_ms,
                settled_at_ms, lane
         FROM outbox_messages WHERE message_id = $1",
    )
    .bind(message_id)
    .fetch_optional(db)
    .await?;
    row.map(|row| MessageRow::from_row(&row)).transpose()
}

pub(in crate::store) async fn message_list(
    db: &mut PgConnection,
    filter: &Filter,
    before: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<MessageRow>> {
    let rows = sqlx::query(
        "SELECT message_id, provider, event_id, event_type, effect_name, idempotency_key, destination, state, attempts_n,
                visible_at_ms, last_result, last_error, created_at_ms, first_sent_at_ms, key_valid_until_ms,
                settled_at_ms, lane
         FROM outbox_messages
         WHERE ($1::text IS NULL OR state = $1) AND ($2::text IS NULL OR destination = $2)
           AND ($3::text IS NULL OR provider = $3) AND ($4::text IS NULL OR message_id < $4)
         ORDER BY message_id DESC LIMIT $5",
    )
    .bind(filter.state.map(MessageState::as_str))
    .bind(filter.destination.as_ref().map(Name::as_str))
    .bind(filter.provider.as_ref().map(Name::as_str))
    .bind(before)
    .bind(limit)
    .fetch_all(db)
    .await?;
    rows.iter().map(MessageRow::from_row).collect()
}

pub(in crate::store) async fn message_count(db: &mut PgConnection, filter: &Filter) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT COUNT(*) FROM outbox_messages
         WHERE state = $1 AND ($2::text IS NULL OR destination = $2) AND ($3::text IS NULL OR provider = $3)",
    )
    .bind(filter.state.map(MessageState::as_str))
    .bind(filter.destination.as_ref().map(Name::as_str))
    .bind(filter.provider.as_ref().map(Name::as_str))
    .fetch_one(db)
    .await
}

pub(in crate::store) async fn attempt_list(
    db: &mut PgConnection,
    message_id: &str,
) -> sqlx::Result<Vec<AttemptRow>> {
    let rows = sqlx::query(
        "SELECT a.attempt_n, a.node, a.started_at_ms, COALESCE(a.finished_at_ms, m.settled_at_ms),
                COALESCE(a.result, m.last_result), COALESCE(a.http_status, m.last_http_status), a.error, a.response
         FROM outbox_attempts a
         LEFT JOIN outbox_messages m ON m.message_id = a.message_id AND m.attempts_n = a.attempt_n
              AND m.last_result = 'done' AND a.result IS NULL
         WHERE a.message_id = $1 ORDER BY a.attempt_n DESC LIMIT 100",
    )
    .bind(message_id)
    .fetch_all(db)
    .await?;
    rows.iter().map(AttemptRow::from_row).collect()
}

pub(in crate::store) async fn audit_list(
    db: &mut PgConnection,
    message_id: &str,
) -> sqlx::Result<Vec<AuditRow>> {
    let rows = sqlx::query(
        "SELECT at_ms, actor, action, detail FROM audit_log WHERE message_id = $1 ORDER BY at_ms DESC, audit_id LIMIT 100",
    )
    .bind(message_id)
    .fetch_all(db)
    .await?;
    rows.iter().map(AuditRow::from_row).collect()
}

pub(in crate::store) async fn idempotency_prune(
    db: &mut PgConnection,
    before_ms: UnixMs,
) -> sqlx::Result<u64> {
    let gone = sqlx::query("DELETE FROM idempotency_keys WHERE created_at_ms < $1")
        .bind(before_ms)
        .execute(db)
        .await?;
    Ok(gone.rows_affected())
}

/// Pauses or resumes a destination and records who did it; 0 when it was so already.
pub(in crate::store) async fn destination_pause(
    db: &mut PgConnection,
    destination: &Name,
    is_paused: bool,
    decision: &Decision<'_>,
) -> sqlx::Result<u64> {
    let changed = if is_paused {
        sqlx::query(
            "INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms) VALUES ($1, $2, $3, $4)
             ON CONFLICT DO NOTHING",
        )
        .bind(destination.as_str())
        .bind(decision.actor)
        .bind(decision.reason)
        .bind(decision.now_ms)
        .execute(&mut *db)
        .await?
    } else {
        sqlx::query("DELETE FROM destination_pauses WHERE destination = $1")
            .bind(destination.as_str())
            .execute(&mut *db)
            .await?
    };
    sqlx::query(
        "INSERT INTO audit_log (audit_id, at_ms, actor, action, detail) VALUES (gen_random_uuid()::text, $1, $2, $3, $4)",
    )
    .bind(decision.now_ms)
    .bind(decision.actor)
    .bind(if is_paused { "destination_pause" } else { "destination_resume" })
    .bind(format!("{destination}: {}", decision.reason))
    .execute(db)
    .await?;
    Ok(changed.rows_affected())
}

pub(in crate::store) async fn pause_list(db: &mut PgConnection) -> sqlx::Result<Vec<PauseRow>> {
    let rows = sqlx::query(
        "SELECT destination, actor, reason, paused_at_ms FROM destination_pauses ORDER BY destination",
    )
    .fetch_all(db)
    .await?;
    rows.iter().map(PauseRow::from_row).collect()
}
