//! Decisions about events: dispatched once more, dispatched at last, dismissed, erased.

use super::messages;
use super::types::{Act, Decided, KeptDecision, stands};
use crate::store::apart::{conflict_ids, replay_places};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door, Row};
use crate::store::event::event_state;
use crate::types::{EventKey, EventState, MESSAGES_N_MAX};

/// An event whose row and bytes are locked until the end of the transaction: pruning goes past them.
struct LockedEvent {
    event_seq: i64,
    state: EventState,
    has_body: bool,
}

/// Decides about one event, and records who did it.
pub(super) async fn decide(
    db: &mut Door<'_>,
    key: &EventKey,
    act: Act,
    decision: &KeptDecision,
) -> DbResult<Decided> {
    let Some(found) = found(db, key).await? else { return Ok(Decided::NotFound) };
    let (event_seq, state) = (found.event_seq, found.state);
    let is_allowed = match act {
        Act::Rerun => matches!(
            state,
            EventState::Done | EventState::Ignored | EventState::Failed | EventState::Superseded
        ),
        // What was kept beside another event is one of its own.
        Act::Dispatch => {
            matches!(state, EventState::Conflict | EventState::Dismissed | EventState::Replayed)
        }
        Act::Dismiss => state == EventState::Conflict,
        Act::Erase | Act::EraseAndDiscard => return erase(db, key, found, act, decision).await,
        _ => false,
    };
    if !is_allowed {
        return Ok(stands(state));
    }
    if act != Act::Dismiss && !found.has_body {
        return Ok(Decided::BodyGone);
    }
    let sql = match act {
        // Under the next generation.
        Act::Rerun => {
            "/* event_decide */ UPDATE processed_webhook_events
             SET state = 'retry', due_at_ms = $2, attempts_n = 0, error = NULL, generation = generation + 1
             WHERE event_seq = $1"
        }
        // Its attempts begin now, which its generation says.
        Act::Dispatch => {
            "/* event_decide */ UPDATE processed_webhook_events
             SET state = 'retry', due_at_ms = $2, attempts_n = 0, generation = generation + 1 WHERE event_seq = $1"
        }
        _ => {
            "/* event_decide */ UPDATE processed_webhook_events SET state = 'dismissed', processed_at_ms = $2
             WHERE event_seq = $1"
        }
    };
    db.execute(sql, &[event_seq.into(), decision.now_ms.into()]).await?;
    audit(db, event_seq, act, decision).await?;
    Ok(Decided::Changed { messages_n: 0 })
}

async fn found(db: &mut Door<'_>, key: &EventKey) -> DbResult<Option<LockedEvent>> {
    let sql = "/* event_decide */ SELECT event_seq, state FROM processed_webhook_events
               WHERE provider = $1 AND event_id = $2 FOR UPDATE";
    let values = [key.provider.as_str().into(), key.event_id.as_str().into()];
    let Some(row) = db.fetch_optional(sql, &values).await? else { return Ok(None) };
    let event_seq = row.int("event_seq")?;
    let sql = "/* event_decide */ SELECT event_seq FROM webhook_payloads
               WHERE event_seq = $1 AND (redacted_n IS NULL OR whole IS NOT NULL) FOR UPDATE";
    let has_body = db.fetch_optional(sql, &[event_seq.into()]).await?.is_some();
    Ok(Some(LockedEvent { event_seq, state: event_state(&row)?, has_body }))
}

async fn audit(db: &mut Door<'_>, event_seq: i64, act: Act, decision: &KeptDecision) -> DbResult<()> {
    let sql = "/* event_decide */ SELECT provider, event_id, generation FROM processed_webhook_events
               WHERE event_seq = $1";
    let row = db.fetch_one(sql, &[event_seq.into()]).await?;
    let entry = AuditEntry {
        actor: decision.actor.clone(),
        action: act.audited(),
        provider: Some(row.text("provider")?),
        event_id: Some(row.text("event_id")?),
        detail: format!("generation {}: {}", row.int("generation")?, decision.reason),
        ..AuditEntry::default()
    };
    append(db, decision.now_ms, &[entry]).await
}

/// Erases an event and what is kept beside it: other contents under its id, and its signed text under other ids.
async fn erase(
    db: &mut Door<'_>,
    key: &EventKey,
    found: LockedEvent,
    act: Act,
    decision: &KeptDecision,
) -> DbResult<Decided> {
    let mut all = beside(db, key, found.event_seq).await?;
    all.insert(0, found);
    let mut discarded_n = 0;
    for one in &all {
        match erase_one(db, one, act, decision).await? {
            Decided::Changed { messages_n } => discarded_n += messages_n,
            // All of them, or nothing.
            other => return Ok(other),
        }
    }
    Ok(Decided::Changed { messages_n: discarded_n })
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
    act: Act,
    decision: &KeptDecision,
) -> DbResult<Decided> {
    let first = found.event_seq.saturating_mul(i64::from(MESSAGES_N_MAX));
    let range = [first.into(), first.saturating_add(i64::from(MESSAGES_N_MAX)).into()];
    let is_discarding = act == Act::EraseAndDiscard;
    let is_waiting = matches!(
        found.state,
        EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict
    );
    if is_waiting && !is_discarding {
        return Ok(stands(found.state));
    }
    let sql =
        "/* event_erase */ SELECT message_id FROM outbox_queue WHERE message_id >= $1 AND message_id < $2";
    let rows = db.fetch(sql, &range).await?;
    let open: Vec<i64> = rows.iter().map(|row| row.int("message_id")).collect::<DbResult<_>>()?;
    let open_n = u64::try_from(open.len()).unwrap_or(u64::MAX);
    let discarded_n = if is_discarding { messages::act_on(db, &open, act, decision).await? } else { 0 };
    // A worker has one under way: it needs the bytes to the end.
    if discarded_n != open_n {
        return Ok(Decided::StillOpen { messages_n: open_n.saturating_sub(discarded_n) });
    }
    if is_waiting {
        let sql = "/* event_erase */ UPDATE processed_webhook_events
                   SET state = 'dismissed', due_at_ms = NULL, processed_at_ms = $2 WHERE event_seq = $1";
        db.execute(sql, &[found.event_seq.into(), decision.now_ms.into()]).await?;
    }
    let sql = "/* event_erase */ DELETE FROM webhook_payloads WHERE event_seq = $1";
    db.execute(sql, &[found.event_seq.into()]).await?;
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
    audit(db, found.event_seq, act, decision).await?;
    Ok(Decided::Changed { messages_n: discarded_n })
}
