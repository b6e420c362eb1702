//! Erasing an event: what was received, and what was made of it.

use super::messages;
use super::once::Verdict;
use super::types::{Audited, Deciding, Refusal};
use crate::api::{EventAct, MessageAct, OrderResult};
use crate::store::apart::{conflict_ids, replay_places};
use crate::store::audit::AuditEntry;
use crate::store::db::{DbResult, Door, Row, Value};
use crate::store::event::event_state;
use crate::store::search_ids::{search_blocks, search_ids_delete};
use crate::types::{EventKey, EventState, MESSAGES_N_MAX};

/// An event whose row and bytes are locked until the end of the transaction.
pub(super) struct LockedEvent {
    pub(super) event_seq: i64,
    pub(super) state: EventState,
    pub(super) has_body: bool,
}

/// Erases an event and what is kept beside it: other contents under its id, and its signed text under other ids.
pub(super) async fn erase(
    db: &mut Door<'_>,
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

async fn beside(db: &mut Door<'_>, key: &EventKey, event_seq: i64) -> DbResult<Vec<LockedEvent>> {
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
    db: &mut Door<'_>,
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

/// Discards the open messages in a range, if that is wanted, of the destinations that the person may decide about. How
/// many were, and how many are still open.
async fn discard(
    db: &mut Door<'_>,
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

/// Makes the record of a decision about an event, as it stands after it.
pub(super) async fn record(
    db: &mut Door<'_>,
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
        ..deciding.record(act.audited())
    };
    deciding.records.push(record);
    Ok(())
}
