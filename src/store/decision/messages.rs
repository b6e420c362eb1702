//! Decisions about messages. An operation that changes messages of lanes locks the lanes first and the messages after
//! them, as everywhere.

use std::collections::BTreeSet;

use super::types::{Act, DECISION_N_MAX, Decided, KeptDecision, stands};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door, Row};
use crate::store::lane;
use crate::store::look::Filter;
use crate::store::message::message_state;
use crate::types::{MessageId, MessageState, Name};

/// The messages that an act may be about: a lease that has ended is nobody's, and where no node has the
/// destination any more, nobody would take it again. They are locked in one order, and stay as they are
/// until the end.
macro_rules! decidable {
    ($states:literal) => {
        concat!(
            "/* message_decide */ SELECT message_id FROM outbox_queue WHERE message_id = ANY($1) AND (state IN (",
            $states,
            ") OR (state = 'leased' AND visible_at_ms < LEAST($2, {clock_ms}))) ORDER BY message_id FOR UPDATE"
        )
    };
}
const DONE: &str = decidable!("'held', 'dead'");
const DISCARD: &str = decidable!("'held', 'dead', 'ready', 'waiting'");
const SEND: &str = "/* message_decide */ SELECT message_id FROM outbox_queue
    WHERE message_id = ANY($1) AND state IN ('held', 'dead') ORDER BY message_id FOR UPDATE";

/// Decides about one message.
pub(super) async fn decide_one(
    db: &mut Door<'_>,
    id: MessageId,
    act: Act,
    decision: &KeptDecision,
) -> DbResult<Decided> {
    match state_of(db, id).await? {
        None => Ok(Decided::NotFound),
        Some(state) => match act_on(db, &[id.number()], act, decision).await? {
            0 => Ok(stands(state)),
            messages_n => Ok(Decided::Changed { messages_n }),
        },
    }
}

/// Decides about all messages that `filter` finds, if they are as many as were counted before.
pub(super) async fn decide_all(
    db: &mut Door<'_>,
    filter: &Filter,
    counted_n: u64,
    act: Act,
    decision: &KeptDecision,
) -> DbResult<Decided> {
    let ids = found_by(db, filter).await?;
    let found_n = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    if found_n != counted_n.min(u64::from(DECISION_N_MAX)) {
        return Ok(Decided::OtherCount { messages_n: found_n });
    }
    // Some may have moved on since they were found.
    match act_on(db, &ids, act, decision).await? {
        messages_n if messages_n == found_n => Ok(Decided::Changed { messages_n }),
        messages_n => Ok(Decided::OtherCount { messages_n }),
    }
}

async fn state_of(db: &mut Door<'_>, id: MessageId) -> DbResult<Option<MessageState>> {
    let row = db
        .fetch_optional(
            "/* message_decide */ SELECT state FROM outbox_queue WHERE message_id = $1
             UNION ALL SELECT state FROM outbox_finished WHERE message_id = $1",
            &[id.number().into()],
        )
        .await?;
    row.as_ref().map(message_state).transpose()
}

/// The open messages that `filter` finds, the oldest first. Nothing is decided about finished ones, so that they are
/// not looked for.
async fn found_by(db: &mut Door<'_>, filter: &Filter) -> DbResult<Vec<i64>> {
    let rows = db
        .fetch(
            "/* message_decide */ SELECT m.message_id FROM outbox_queue m
             WHERE m.state = $1 AND (CAST($2 AS TEXT) IS NULL OR m.destination = $2)
               AND (CAST($3 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM processed_webhook_events e
                    WHERE e.event_seq = m.message_id / 1024 AND e.provider = $3))
             ORDER BY m.message_id LIMIT $4",
            &[
                filter.state.map(MessageState::as_str).into(),
                filter.destination.as_ref().map(Name::as_str).into(),
                filter.provider.as_ref().map(Name::as_str).into(),
                DECISION_N_MAX.into(),
            ],
        )
        .await?;
    rows.iter().map(|row| row.int("message_id")).collect()
}

/// Changes those of these messages that may be decided about so, and records who did it. Says how many were changed.
pub(super) async fn act_on(
    db: &mut Door<'_>,
    ids: &[i64],
    act: Act,
    decision: &KeptDecision,
) -> DbResult<u64> {
    let decidable = match act {
        Act::Send => SEND,
        Act::Done => DONE,
        Act::Discard | Act::EraseAndDiscard => DISCARD,
        // About destinations and events: no message changes.
        _ => return Ok(0),
    };
    let lanes = lanes_of(db, ids).await?;
    lane::lanes_lock(db, &lanes).await?;
    let values = match act {
        Act::Send => vec![ids.to_vec().into()],
        _ => vec![ids.to_vec().into(), decision.now_ms.into()],
    };
    let rows = db.fetch(decidable, &values).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.int("message_id")).collect::<DbResult<_>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    audit(db, &ids, act, decision).await?;
    match act {
        Act::Send => send(db, &ids, decision).await?,
        _ => finish(db, &ids, act, decision).await?,
    }
    lane::lanes_advance(db, &lanes, decision.now_ms).await?;
    Ok(u64::try_from(ids.len()).unwrap_or(u64::MAX))
}

async fn lanes_of(db: &mut Door<'_>, ids: &[i64]) -> DbResult<Vec<lane::Lane>> {
    let rows = db
        .fetch(
            "/* message_decide */ SELECT destination, lane FROM outbox_queue
             WHERE message_id = ANY($1) AND lane IS NOT NULL",
            &[ids.to_vec().into()],
        )
        .await?;
    let lanes = rows.iter().map(|row| Ok((row.text("destination")?, row.text("lane")?)));
    Ok(lanes.collect::<DbResult<BTreeSet<_>>>()?.into_iter().collect())
}

/// Sends messages again: the policy starts anew, under the same key. `outbox_attempts` tells what was sent
/// before.
async fn send(db: &mut Door<'_>, ids: &[i64], decision: &KeptDecision) -> DbResult<()> {
    let sql = "/* message_decide */ UPDATE outbox_queue
               SET state = 'ready', visible_at_ms = LEAST($2, {clock_ms}), last_result = NULL, last_http_status = NULL,
                   last_error = NULL, first_sent_at_ms = NULL, key_valid_until_ms = NULL, attempts_before_n = attempts_n
               WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.to_vec().into(), decision.now_ms.into()]).await.map(drop)
}

/// Moves messages from the queue into history; the claim whose lease has ended is told as what it is, unknown.
async fn finish(db: &mut Door<'_>, ids: &[i64], act: Act, decision: &KeptDecision) -> DbResult<()> {
    let state = if act == Act::Done { MessageState::Done } else { MessageState::Discarded };
    let ids_and_now = [ids.to_vec().into(), decision.now_ms.into()];
    db.execute(
        "/* message_decide */ INSERT INTO outbox_attempts
             (message_id, attempt_n, started_at_ms, finished_at_ms, shard, node, result, error)
         SELECT message_id, attempts_n, COALESCE(leased_at_ms, created_at_ms), $2, shard, COALESCE(node, ''), 'unknown',
                'lease ended without a settlement'
         FROM outbox_queue WHERE message_id = ANY($1) AND state = 'leased'
         ON CONFLICT (message_id, attempt_n) DO NOTHING",
        &ids_and_now,
    )
    .await?;
    db.execute(
        "/* message_decide */ INSERT INTO outbox_finished
             (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n, generation, http_status, shard, state,
              destination, effect_name, node, lane, last_result, last_error)
         SELECT message_id, created_at_ms, first_sent_at_ms, $2, attempts_n, generation, last_http_status, shard, $3,
                destination, effect_name, node, lane,
                CASE WHEN state = 'leased' THEN 'unknown' ELSE last_result END, last_error
         FROM outbox_queue WHERE message_id = ANY($1)",
        &[ids.to_vec().into(), decision.now_ms.into(), state.as_str().into()],
    )
    .await?;
    let sql = "/* message_decide */ DELETE FROM outbox_queue WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.to_vec().into()]).await.map(drop)
}

/// Records who decided about these messages, while they are still where they were.
async fn audit(db: &mut Door<'_>, ids: &[i64], act: Act, decision: &KeptDecision) -> DbResult<()> {
    let act = if act == Act::EraseAndDiscard { Act::Discard } else { act };
    let sql = "/* message_decide */ SELECT m.message_id, e.provider, e.event_id
               FROM outbox_queue m JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024
               WHERE m.message_id = ANY($1) ORDER BY m.message_id";
    let rows = db.fetch(sql, &[ids.to_vec().into()]).await?;
    let entry = |row: &Row| {
        Ok(AuditEntry {
            actor: decision.actor.clone(),
            action: act.audited(),
            provider: Some(row.text("provider")?),
            event_id: Some(row.text("event_id")?),
            message_id: Some(row.int("message_id")?),
            detail: decision.reason.clone(),
            ..AuditEntry::default()
        })
    };
    let entries = rows.iter().map(entry).collect::<DbResult<Vec<_>>>()?;
    append(db, decision.now_ms, &entries).await
}
