//! Decisions about messages and events. A decision that changes messages of lanes locks the lanes first and the
//! messages after them, as everywhere. Erasing an event deletes what was received and what was made of it.

use std::collections::BTreeSet;

use super::{Deciding, Refusal, Verdict, event_action, message_action};
use crate::apart::{conflict_ids, replay_places};
use crate::db::{DbResult, Executor, Row, Value};
use crate::event::{event_columns, event_state, event_view};
use crate::lane::{Lane, lanes_advance, lanes_lock};
use crate::message::message_state;
use crate::queries::{search_blocks, search_ids_delete};
use hooklatch_contract::{EventAct, IfMatch, MessageAct, OrderResult, Tagged, message_tag};
use hooklatch_core::types::{
    AttemptResult, EventKey, EventState, MESSAGES_N_MAX, MessageId, MessageState, Reach,
};

/// The messages that an act may be about; except for `Send`, also those whose lease has expired: where no node has the
/// destination any more, no node would claim them again. They are locked in one order, and stay as they are until the
/// end of the transaction.
fn decidable_sql(act: MessageAct) -> String {
    let is_decidable = match act {
        MessageAct::Send => "state IN ('held', 'dead')",
        MessageAct::Done => {
            "(state IN ('held', 'dead') OR (state = 'leased' AND visible_at_ms < LEAST($2, {clock_ms})))"
        }
        MessageAct::Discard => {
            "(state IN ('held', 'dead', 'ready', 'waiting')
                OR (state = 'leased' AND visible_at_ms < LEAST($2, {clock_ms})))"
        }
    };
    format!(
        "/* message_decide */ SELECT message_id FROM outbox_queue WHERE message_id = ANY($1) AND {is_decidable}
         ORDER BY message_id FOR UPDATE"
    )
}

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
#[cfg(any(test, feature = "testing"))]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[("message_decide sent", SENT_BY_PERSON)];

/// Decides about one message, if its provider and its destination are in the operator's scope.
pub(crate) async fn message_decide(
    db: &mut Executor<'_>,
    id: MessageId,
    act: MessageAct,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OrderResult>> {
    let ids = [id.number()];
    let lanes = lanes_of(db, &ids).await?;
    lanes_lock(db, &lanes).await?;
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
    if deciding.if_match == IfMatch::Missing
        && act != MessageAct::Send
        && act.is_for(state)
        && db.fetch_optional(SENT_BY_PERSON, &[id.number().into()]).await?.is_some()
    {
        return Ok(Err(Refusal::VersionNeeded { state: state.as_str() }));
    }
    if messages_act_on(db, &ids, act, deciding).await?.is_empty() {
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
pub(crate) async fn messages_act_on(
    db: &mut Executor<'_>,
    ids: &[i64],
    act: MessageAct,
    deciding: &mut Deciding,
) -> DbResult<Vec<i64>> {
    let mut values: Vec<Value> = vec![ids.to_vec().into()];
    let lanes = lanes_of(db, ids).await?;
    lanes_lock(db, &lanes).await?;
    if act != MessageAct::Send {
        values.push(deciding.now_ms.into());
    }
    let rows = db.fetch(decidable_sql(act), &values).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.int("message_id")).collect::<DbResult<_>>()?;
    if ids.is_empty() {
        return Ok(ids);
    }
    let sql = "/* message_decide */ SELECT m.message_id, e.provider, e.event_id
               FROM outbox_queue m JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024
               WHERE m.message_id = ANY($1) ORDER BY m.message_id";
    for row in db.fetch(sql, &[ids.clone().into()]).await? {
        let mut record = deciding.record(message_action(act));
        record.message_id = Some(row.int("message_id")?);
        deciding.records.push(record.on_event(row.text("provider")?, row.text("event_id")?));
    }
    match act {
        MessageAct::Send => send(db, &ids, deciding).await?,
        MessageAct::Done => finish(db, &ids, MessageState::Done, deciding).await?,
        MessageAct::Discard => finish(db, &ids, MessageState::Discarded, deciding).await?,
    }
    lanes_advance(db, &lanes, deciding.now_ms).await?;
    Ok(ids)
}

async fn lanes_of(db: &mut Executor<'_>, ids: &[i64]) -> DbResult<Vec<Lane>> {
    let sql = "/* message_decide */ SELECT destination, lane FROM outbox_queue
               WHERE message_id = ANY($1) AND lane IS NOT NULL";
    let rows = db.fetch(sql, &[ids.to_vec().into()]).await?;
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
    let sql = "/* message_decide */ INSERT INTO outbox_attempts
                   (message_id, attempt_n, started_at_ms, finished_at_ms, shard, node, result, error)
               SELECT message_id, attempts_n, COALESCE(leased_at_ms, created_at_ms), $2, shard, COALESCE(node, ''),
                      'unknown', 'lease ended without a settlement'
               FROM outbox_queue WHERE message_id = ANY($1) AND state = 'leased'
               ON CONFLICT (message_id, attempt_n) DO NOTHING";
    db.execute(sql, &ids_and_now).await?;
    let sql = "/* message_decide */ INSERT INTO outbox_finished
                   (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n, generation, http_status, shard,
                    state, destination, effect_name, node, lane, last_result, last_error, sent_under)
               SELECT message_id, created_at_ms, first_sent_at_ms, $2, attempts_n, generation, last_http_status, shard, $3,
                      destination, effect_name, node, lane,
                      CASE WHEN state = 'leased' THEN 'unknown' ELSE last_result END, last_error, sent_under
               FROM outbox_queue WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.to_vec().into(), deciding.now_ms.into(), state.as_str().into()]).await?;
    let sql = "/* message_decide */ DELETE FROM outbox_queue WHERE message_id = ANY($1)";
    db.execute(sql, &[ids.to_vec().into()]).await.map(drop)
}

/// Decides about one event.
pub(crate) async fn event_decide(
    db: &mut Executor<'_>,
    key: &EventKey,
    act: EventAct,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OrderResult>> {
    let Some((found, row)) = found(db, key).await? else { return Ok(Err(Refusal::NotFound)) };
    // What became of its calls is looked up for those alone who name a version: operations decide about thousands.
    if let IfMatch::Tags(_) = deciding.if_match
        && !deciding.if_match.admits(&event_view(db, &row, &Reach::All).await?.etag())
    {
        return Ok(Err(Refusal::Changed));
    }
    if !act.is_for(found.state) {
        return Ok(Err(Refusal::NotAllowed { state: found.state.as_str() }));
    }
    if matches!(act, EventAct::Rerun | EventAct::Dispatch) && !found.has_body {
        return Ok(Err(Refusal::BodyGone));
    }
    if act.makes_calls() && deciding.operation_id.is_none() {
        // Of many who decide at once one does. The others have seen it as it was before.
        if deciding.if_match == IfMatch::Missing && was_decided(&found, &row)? {
            return Ok(Err(Refusal::VersionNeeded { state: found.state.as_str() }));
        }
        if key.is_synthetic() && found.state == EventState::Ignored {
            return Ok(Err(Refusal::TestEvent));
        }
        if let Some(refusal) = out_of_reach(db, &[found.event_seq], deciding).await? {
            return Ok(Err(refusal));
        }
    }
    let error = if act == EventAct::Rerun { ", error = NULL" } else { "" };
    let sql = match act {
        EventAct::Erase | EventAct::EraseAndDiscard => return erase(db, key, found, act, deciding).await,
        // Under the next generation: above those of the event, and above all that were given before a restore. Of one
        // that is dispatched the attempts begin now, which its generation says.
        EventAct::Rerun | EventAct::Dispatch => format!(
            "/* event_decide */ UPDATE processed_webhook_events SET state = 'retry', due_at_ms = $2, attempts_n = 0{error},
                 generation = CAST(GREATEST(generation, (SELECT restored_s FROM installation)) + 1 AS INTEGER)
             WHERE event_seq = $1"
        ),
        EventAct::Dismiss => {
            "/* event_decide */ UPDATE processed_webhook_events SET state = 'dismissed', processed_at_ms = $2
             WHERE event_seq = $1"
                .to_owned()
        }
    };
    db.execute(sql, &[found.event_seq.into(), deciding.now_ms.into()]).await?;
    record(db, found.event_seq, act, deciding).await?;
    Ok(Ok(OrderResult::changed(0)))
}

/// True when an operator dismissed the event or re-ran it.
fn was_decided(found: &LockedEvent, row: &Row) -> DbResult<bool> {
    Ok(found.state == EventState::Dismissed || row.int("generation")? > 0)
}

/// Why an operator who does not reach every destination cannot re-run these events: they have made calls to a
/// destination out of scope, or have a route to one, or code that has made no call so far takes them, which may call
/// any.
pub(crate) async fn out_of_reach(
    db: &mut Executor<'_>,
    events: &[i64],
    deciding: &Deciding,
) -> DbResult<Option<Refusal>> {
    let reach = &deciding.who.destinations;
    let Some(names) = reach.names() else { return Ok(None) };
    for row in db.fetch(calls_in_reach_sql(), &[events.to_vec().into(), names.clone().into()]).await? {
        let (provider, event_type) = (row.text("provider")?, row.text("event_type")?);
        let is_in_reach = match deciding.routed.as_ref().and_then(|routed| routed(&provider, &event_type)) {
            Some(routes) => routes.iter().all(|name| reach.has(name)),
            None => row.int("uncalled_n")? == 0,
        };
        if !is_in_reach || row.int("outside_n")? > 0 {
            let names = names.join(", ");
            let names = if names.is_empty() { "none" } else { &names };
            let what = format!(
                "nothing was done: events of {provider} of the type {event_type} may call destinations that this token does not \
                 reach (it reaches {names}); use a token that reaches them, or leave these events out"
            );
            return Ok(Some(Refusal::OutOfReach { what }));
        }
    }
    Ok(None)
}

/// By provider and type: how many events have calls to other destinations than `$2`, and how many have none at all.
fn calls_in_reach_sql() -> String {
    let has_call = |wanted: &str| {
        ["outbox_queue", "outbox_finished"]
            .map(|table| {
                format!(
                    "EXISTS (SELECT 1 FROM {table} c
                         WHERE c.message_id BETWEEN e.event_seq * 1024 AND e.event_seq * 1024 + 1023{wanted})"
                )
            })
            .join(" OR ")
    };
    format!(
        "/* event_decide */ SELECT e.provider, e.event_type, SUM(CASE WHEN {} THEN 1 ELSE 0 END) AS outside_n,
             SUM(CASE WHEN {} THEN 0 ELSE 1 END) AS uncalled_n
         FROM processed_webhook_events e WHERE e.event_seq = ANY($1) GROUP BY e.provider, e.event_type",
        has_call(" AND c.destination <> ALL($2)"),
        has_call("")
    )
}

/// The event and its row; row and bytes are locked until the end of the transaction: pruning goes past them.
async fn found(db: &mut Executor<'_>, key: &EventKey) -> DbResult<Option<(LockedEvent, Row)>> {
    let sql = concat!(
        "/* event_decide */ SELECT ",
        event_columns!(),
        " FROM processed_webhook_events e WHERE e.provider = $1 AND e.event_id = $2 FOR UPDATE"
    );
    let values = [key.provider.as_str().into(), key.event_id.as_str().into()];
    let Some(row) = db.fetch_optional(sql, &values).await? else { return Ok(None) };
    let (event_seq, state) = (row.int("event_seq")?, event_state(&row)?);
    let sql = "/* event_decide */ SELECT event_seq FROM webhook_payloads
               WHERE event_seq = $1 AND (redacted_n IS NULL OR whole IS NOT NULL) FOR UPDATE";
    let has_body = db.fetch_optional(sql, &[event_seq.into()]).await?.is_some();
    Ok(Some((LockedEvent { event_seq, state, has_body }, row)))
}

/// An event whose row and bytes are locked until the end of the transaction.
struct LockedEvent {
    event_seq: i64,
    state: EventState,
    has_body: bool,
}

/// Erases an event and what is kept beside it: other contents under its id, and its signed text under other ids.
async fn erase(
    db: &mut Executor<'_>,
    key: &EventKey,
    found: LockedEvent,
    act: EventAct,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OrderResult>> {
    let mut all = beside(db, key, found.event_seq).await?;
    all.insert(0, found);
    let mut discarded_n = 0;
    for one in &all {
        match erase_one(db, one, act, deciding).await? {
            Ok(result) => discarded_n += result.messages_n,
            // All of them, or nothing.
            refused => return Ok(refused),
        }
    }
    Ok(Ok(OrderResult::changed(discarded_n)))
}

async fn beside(db: &mut Executor<'_>, key: &EventKey, event_seq: i64) -> DbResult<Vec<LockedEvent>> {
    let provider = key.provider.as_str();
    let sql = "/* event_erase */ SELECT event_seq, state FROM processed_webhook_events
               WHERE provider = $1 AND event_id = ANY($2) ORDER BY event_seq FOR UPDATE";
    let mut rows = db.fetch(sql, &[provider.into(), conflict_ids(&key.event_id).into()]).await?;
    let sql = "/* event_erase */ SELECT replay_key FROM processed_webhook_events WHERE event_seq = $1";
    let text = db.fetch_one(sql, &[event_seq.into()]).await?.bytes_or_null("replay_key")?;
    let places = text.and_then(|text| text.try_into().ok()).map(|text| replay_places(&text));
    for place in places.unwrap_or_default() {
        let sql = "/* event_erase */ SELECT event_seq, state FROM processed_webhook_events
                   WHERE provider = $1 AND replay_key = $2 FOR UPDATE";
        rows.extend(db.fetch_optional(sql, &[provider.into(), place.as_slice().into()]).await?);
    }
    let found = |row: &Row| {
        Ok(LockedEvent { event_seq: row.int("event_seq")?, state: event_state(row)?, has_body: true })
    };
    rows.iter().map(found).collect()
}

/// Deletes what was received and what was made of it, the pieces of answers that were kept, and the texts of errors.
/// What is left says that the event was here and what became of it.
async fn erase_one(
    db: &mut Executor<'_>,
    found: &LockedEvent,
    act: EventAct,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OrderResult>> {
    let first = found.event_seq.saturating_mul(i64::from(MESSAGES_N_MAX));
    let range = [first.into(), first.saturating_add(i64::from(MESSAGES_N_MAX)).into()];
    if !act.is_for(found.state) {
        return Ok(Err(Refusal::NotAllowed { state: found.state.as_str() }));
    }
    let (discarded_n, open_n) = discard(db, &range, act, deciding).await?;
    // A worker has one under way: it needs the bytes to the end.
    if open_n > 0 {
        return Ok(Err(Refusal::StillOpen { messages_n: open_n }));
    }
    if !EventAct::Erase.is_for(found.state) {
        let sql = "/* event_erase */ UPDATE processed_webhook_events
                   SET state = 'dismissed', due_at_ms = NULL, processed_at_ms = $2 WHERE event_seq = $1";
        db.execute(sql, &[found.event_seq.into(), deciding.now_ms.into()]).await?;
    }
    let sql = "/* event_erase */ DELETE FROM webhook_payloads WHERE event_seq = $1";
    db.execute(sql, &[found.event_seq.into()]).await?;
    let events = vec![found.event_seq];
    db.execute(search_ids_delete("event_erase"), &[search_blocks(&events).into(), events.into()]).await?;
    let sql = "/* event_erase */ DELETE FROM outbox_contents WHERE message_id >= $1 AND message_id < $2";
    db.execute(sql, &range).await?;
    // Texts of errors quote what did not fit, and what a destination said of it.
    for sql in [
        "/* event_erase */ UPDATE outbox_attempts SET response = NULL, error = NULL, key_id = NULL
         WHERE message_id >= $1 AND message_id < $2 AND (response IS NOT NULL OR error IS NOT NULL)",
        "/* event_erase */ UPDATE outbox_finished SET last_error = NULL
         WHERE message_id >= $1 AND message_id < $2 AND last_error IS NOT NULL",
    ] {
        db.execute(sql, &range).await?;
    }
    let sql = "/* event_erase */ UPDATE processed_webhook_events SET error = NULL
               WHERE event_seq = $1 AND error IS NOT NULL";
    db.execute(sql, &[found.event_seq.into()]).await?;
    record(db, found.event_seq, act, deciding).await?;
    Ok(Ok(OrderResult::changed(discarded_n)))
}

/// Discards the open messages in a range, if that is wanted, of the destinations that the operator may decide about.
/// How many were, and how many are still open.
async fn discard(
    db: &mut Executor<'_>,
    range: &[Value; 2],
    act: EventAct,
    deciding: &mut Deciding,
) -> DbResult<(u64, u64)> {
    let sql = "/* event_erase */ SELECT message_id, destination FROM outbox_queue
               WHERE message_id >= $1 AND message_id < $2";
    let rows = db.fetch(sql, range).await?;
    let mut reached = Vec::new();
    for row in rows.iter().filter(|_| act == EventAct::EraseAndDiscard) {
        if deciding.who.destinations.has(&row.text("destination")?) {
            reached.push(row.int("message_id")?);
        }
    }
    let discarded_n = messages_act_on(db, &reached, MessageAct::Discard, deciding).await?.len();
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    Ok((count(discarded_n), count(rows.len().saturating_sub(discarded_n))))
}

/// Builds the audit record of a decision about an event, with the state after it.
async fn record(
    db: &mut Executor<'_>,
    event_seq: i64,
    act: EventAct,
    deciding: &mut Deciding,
) -> DbResult<()> {
    let sql = "/* event_decide */ SELECT provider, event_id, generation FROM processed_webhook_events
               WHERE event_seq = $1";
    let row = db.fetch_one(sql, &[event_seq.into()]).await?;
    let mut record = deciding.record(event_action(act));
    record.detail = format!("generation {}: {}", row.int("generation")?, deciding.reason);
    deciding.records.push(record.on_event(row.text("provider")?, row.text("event_id")?));
    Ok(())
}
