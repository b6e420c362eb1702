//! Decisions about events: dispatch again, dispatch a held one, dismiss, erase.
//!
//! Erasing an event deletes what was received and what was made of it.

use super::messages;
use super::types::{AuditAction, Deciding, Refusal, Verdict};
use crate::apart::{conflict_ids, replay_places};
use crate::audit::AuditEntry;
use crate::db::{DbResult, Executor, Row, Value};
use crate::event::{event_columns, event_state, event_view};
use crate::look::{search_blocks, search_ids_delete};
use hooklatch_contract::{EventAct, IfMatch, MessageAct, OrderResult, Tagged};
use hooklatch_core::types::{EventKey, EventState, MESSAGES_N_MAX, Reach};

/// Decides about one event.
pub(crate) async fn decide(
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
    if act.makes_calls() && deciding.operation_id.is_none() {
        // Of many who decide at once one does. The others have seen it as it was before.
        if deciding.if_match == IfMatch::Unsaid && was_decided(&found, &row)? {
            return Ok(Err(Refusal::VersionNeeded { state: found.state.as_str() }));
        }
        if key.is_synthetic() && found.state == EventState::Ignored {
            return Ok(Err(Refusal::TestEvent));
        }
        if let Some(refusal) = out_of_reach(db, &[found.event_seq], deciding).await? {
            return Ok(Err(refusal));
        }
    }
    let sql = match act {
        EventAct::Erase | EventAct::EraseAndDiscard => return erase(db, key, found, act, deciding).await,
        EventAct::Rerun | EventAct::Dispatch if !found.has_body => return Ok(Err(Refusal::BodyGone)),
        // Under the next generation: above those of the event, and above all that were given before a restore.
        EventAct::Rerun => {
            "/* event_decide */ UPDATE processed_webhook_events
             SET state = 'retry', due_at_ms = $2, attempts_n = 0, error = NULL,
                 generation = CAST(GREATEST(generation, (SELECT restored_s FROM installation)) + 1 AS INTEGER)
             WHERE event_seq = $1"
        }
        // Its attempts begin now, which its generation says.
        EventAct::Dispatch => {
            "/* event_decide */ UPDATE processed_webhook_events
             SET state = 'retry', due_at_ms = $2, attempts_n = 0,
                 generation = CAST(GREATEST(generation, (SELECT restored_s FROM installation)) + 1 AS INTEGER)
             WHERE event_seq = $1"
        }
        EventAct::Dismiss => {
            "/* event_decide */ UPDATE processed_webhook_events SET state = 'dismissed', processed_at_ms = $2
             WHERE event_seq = $1"
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
    for row in db.fetch(CALLS_IN_REACH, &[events.to_vec().into(), names.clone().into()]).await? {
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

/// 1 where the event `e` has a call in a table, of those that are wanted.
macro_rules! has_call {
    ($table:literal, $wanted:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM ",
            $table,
            " c WHERE c.message_id BETWEEN e.event_seq * 1024 AND e.event_seq * 1024 + 1023",
            $wanted,
            ")"
        )
    };
}
/// By provider and type: how many events have calls to other destinations than `$2`, and how many have none at all.
const CALLS_IN_REACH: &str = concat!(
    "/* event_decide */ SELECT e.provider, e.event_type, SUM(CASE WHEN ",
    has_call!("outbox_queue", " AND c.destination <> ALL($2)"),
    " OR ",
    has_call!("outbox_finished", " AND c.destination <> ALL($2)"),
    " THEN 1 ELSE 0 END) AS outside_n, SUM(CASE WHEN ",
    has_call!("outbox_queue", ""),
    " OR ",
    has_call!("outbox_finished", ""),
    " THEN 0 ELSE 1 END) AS uncalled_n
     FROM processed_webhook_events e WHERE e.event_seq = ANY($1) GROUP BY e.provider, e.event_type"
);

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
pub(super) struct LockedEvent {
    pub event_seq: i64,
    pub state: EventState,
    pub has_body: bool,
}

/// Erases an event and what is kept beside it: other contents under its id, and its signed text under other ids.
pub(crate) async fn erase(
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
    db.execute(search_ids_delete!("event_erase"), &[search_blocks(&events).into(), events.into()]).await?;
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
    let discarded_n = messages::act_on(db, &reached, MessageAct::Discard, deciding).await?.len();
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    Ok((count(discarded_n), count(rows.len().saturating_sub(discarded_n))))
}

/// Builds the audit record of a decision about an event, with the state after it.
pub(crate) async fn record(
    db: &mut Executor<'_>,
    event_seq: i64,
    act: EventAct,
    deciding: &mut Deciding,
) -> DbResult<()> {
    let sql = "/* event_decide */ SELECT provider, event_id, generation FROM processed_webhook_events
               WHERE event_seq = $1";
    let row = db.fetch_one(sql, &[event_seq.into()]).await?;
    let record = AuditEntry {
        provider: Some(row.text("provider")?),
        event_id: Some(row.text("event_id")?),
        detail: format!("generation {}: {}", row.int("generation")?, deciding.reason),
        ..deciding.record(act.audit_action())
    };
    deciding.records.push(record);
    Ok(())
}
