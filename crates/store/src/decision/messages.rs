//! Decisions about messages. An operation that changes messages of lanes locks the lanes first and the messages after
//! them, as everywhere.

use std::collections::BTreeSet;

use super::types::{AuditAction, Deciding, Refusal, Verdict};
use crate::audit::AuditEntry;
use crate::db::{DbResult, Executor, Row};
use crate::lane;
use crate::message::message_state;
use hooklatch_contract::{IfMatch, MessageAct, OrderResult, message_tag};
use hooklatch_core::types::{AttemptResult, MessageId, MessageState};

/// The messages that an act may be about, also those whose lease has expired: where no node has the destination any
/// more, no node would claim them again. They are locked in one order, and stay as they are until the end.
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

/// A message as it stands, locked until the end of the transaction unless it is finished.
const OPEN: &str = "/* message_decide */ SELECT m.state, m.attempts_n, m.visible_at_ms, m.last_result,
        CAST(NULL AS BIGINT) AS finished_at_ms, m.destination, e.provider,
        CASE WHEN e.generation > m.generation THEN 1 ELSE 0 END AS is_rerun
    FROM outbox_queue m JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024
    WHERE m.message_id = $1 FOR UPDATE OF m";
const FINISHED: &str = "/* message_decide */ SELECT m.state, m.attempts_n, m.finished_at_ms AS visible_at_ms,
        m.last_result, m.finished_at_ms, m.destination, e.provider, 0 AS is_rerun
    FROM outbox_finished m JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024
    WHERE m.message_id = $1";

/// The record of an operator who had the message sent again, on its own or in an operation.
const SENT_BY_PERSON: &str = "/* message_decide */ SELECT 1 AS n FROM audit_log
    WHERE message_id = $1 AND action = 'message_send' LIMIT 1";

/// The statements by name, for tests that look at their plans.
pub(crate) const STATEMENTS: &[(&str, &str)] = &[("message_decide sent", SENT_BY_PERSON)];

/// Decides about one message: of the asking person's providers and destinations alone.
pub(crate) async fn decide(
    db: &mut Executor<'_>,
    id: MessageId,
    act: MessageAct,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OrderResult>> {
    let ids = [id.number()];
    let lanes = lanes_of(db, &ids).await?;
    lane::lanes_lock(db, &lanes).await?;
    let row = match db.fetch_optional(OPEN, &[id.number().into()]).await? {
        Some(row) => Some(row),
        None => db.fetch_optional(FINISHED, &[id.number().into()]).await?,
    };
    let Some(row) = row else { return Ok(Err(Refusal::NotFound)) };
    let (who, provider, destination) = (&deciding.who, row.text("provider")?, row.text("destination")?);
    if !(who.providers.has(&provider) && who.destinations.has(&destination)) {
        return Ok(Err(Refusal::NotFound));
    }
    if !deciding.if_match.admits(&version(&row)?) {
        return Ok(Err(Refusal::Changed));
    }
    let state = message_state(&row)?;
    // Of many who decide at once one does. The others have seen it as it was before it was sent.
    if deciding.if_match == IfMatch::Unsaid
        && act != MessageAct::Send
        && act.is_for(state)
        && db.fetch_optional(SENT_BY_PERSON, &[id.number().into()]).await?.is_some()
    {
        return Ok(Err(Refusal::VersionNeeded { state: state.as_str() }));
    }
    if act_on(db, &ids, act, deciding).await?.is_empty() {
        return Ok(Err(Refusal::NotAllowed { state: state.as_str() }));
    }
    Ok(Ok(OrderResult::changed(1)))
}

fn version(row: &Row) -> DbResult<String> {
    let last_result = row.text_or_null("last_result")?;
    let counted = (row.count("attempts_n")?, row.int("visible_at_ms")?);
    let last_result = last_result.as_deref().and_then(AttemptResult::parse);
    let finished_at_ms = row.int_or_null("finished_at_ms")?;
    Ok(message_tag(message_state(row)?, counted, last_result, finished_at_ms, row.is_true("is_rerun")?))
}

/// Changes those of these messages that may be decided about so; gives back which those are.
pub(crate) async fn act_on(
    db: &mut Executor<'_>,
    ids: &[i64],
    act: MessageAct,
    deciding: &mut Deciding,
) -> DbResult<Vec<i64>> {
    let (decidable, mut values) = match act {
        MessageAct::Send => (SEND, vec![ids.to_vec().into()]),
        MessageAct::Done => (DONE, vec![ids.to_vec().into()]),
        MessageAct::Discard => (DISCARD, vec![ids.to_vec().into()]),
    };
    let lanes = lanes_of(db, ids).await?;
    lane::lanes_lock(db, &lanes).await?;
    if act != MessageAct::Send {
        values.push(deciding.now_ms.into());
    }
    let rows = db.fetch(decidable, &values).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.int("message_id")).collect::<DbResult<_>>()?;
    if ids.is_empty() {
        return Ok(ids);
    }
    record(db, &ids, act, deciding).await?;
    match act {
        MessageAct::Send => send(db, &ids, deciding).await?,
        MessageAct::Done => finish(db, &ids, MessageState::Done, deciding).await?,
        MessageAct::Discard => finish(db, &ids, MessageState::Discarded, deciding).await?,
    }
    lane::lanes_advance(db, &lanes, deciding.now_ms).await?;
    Ok(ids)
}

async fn lanes_of(db: &mut Executor<'_>, ids: &[i64]) -> DbResult<Vec<lane::Lane>> {
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

/// Sends messages again: attempts and age start anew, under the same key. What may have taken effect keeps the time
/// until which its key is known: past it, an automatic retry may act twice, no matter who ordered the first send.
async fn send(db: &mut Executor<'_>, ids: &[i64], deciding: &Deciding) -> DbResult<()> {
    let sql = "/* message_decide */ UPDATE outbox_queue
               SET state = 'ready', visible_at_ms = LEAST($2, {clock_ms}), last_result = NULL, last_http_status = NULL,
                   last_error = NULL, first_sent_at_ms = NULL, attempts_before_n = attempts_n,
                   key_valid_until_ms = CASE WHEN sent_under IS NOT NULL AND key_valid_until_ms > LEAST($2, {clock_ms})
                       THEN key_valid_until_ms END
               WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.to_vec().into(), deciding.now_ms.into()]).await.map(drop)
}

/// Moves messages from the queue into history; a claim whose lease has ended is recorded as unknown.
async fn finish(
    db: &mut Executor<'_>,
    ids: &[i64],
    state: MessageState,
    deciding: &Deciding,
) -> DbResult<()> {
    let ids_and_now = [ids.to_vec().into(), deciding.now_ms.into()];
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
        &[ids.to_vec().into(), deciding.now_ms.into(), state.as_str().into()],
    )
    .await?;
    let sql = "/* message_decide */ DELETE FROM outbox_queue WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.to_vec().into()]).await.map(drop)
}

/// Builds the audit records of a decision about these messages, before they are moved.
async fn record(
    db: &mut Executor<'_>,
    ids: &[i64],
    act: MessageAct,
    deciding: &mut Deciding,
) -> DbResult<()> {
    let sql = "/* message_decide */ SELECT m.message_id, e.provider, e.event_id
               FROM outbox_queue m JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024
               WHERE m.message_id = ANY($1) ORDER BY m.message_id";
    for row in db.fetch(sql, &[ids.to_vec().into()]).await? {
        let record = AuditEntry {
            provider: Some(row.text("provider")?),
            event_id: Some(row.text("event_id")?),
            message_id: Some(row.int("message_id")?),
            ..deciding.record(act.audit_action())
        };
        deciding.records.push(record);
    }
    Ok(())
}
