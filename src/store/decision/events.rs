//! Decisions about events: dispatched once more, dispatched at last, dismissed, erased.

use super::erase::{LockedEvent, erase, record};
use super::once::Verdict;
use super::types::{Deciding, Refusal};
use crate::api::{EventAct, IfMatch, OrderResult, Tagged};
use crate::store::db::{DbResult, Door, Row};
use crate::store::event::{event_columns, event_state, event_view};
use crate::types::{EventKey, EventState, Reach};

/// Decides about one event.
pub(in crate::store) async fn decide(
    db: &mut Door<'_>,
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

/// True when somebody dismissed the event, or had it run again.
fn was_decided(found: &LockedEvent, row: &Row) -> DbResult<bool> {
    Ok(found.state == EventState::Dismissed || row.int("generation")? > 0)
}

/// Why somebody who does not reach every destination cannot have these events run: they have made calls to a destination
/// out of scope, or have a route to one, or code that has made no call so far takes them, which may call any.
pub(in crate::store) async fn out_of_reach(
    db: &mut Door<'_>,
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
async fn found(db: &mut Door<'_>, key: &EventKey) -> DbResult<Option<(LockedEvent, Row)>> {
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
