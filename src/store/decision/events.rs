//! Decisions about events: dispatched once more, dispatched at last, dismissed, erased.

use super::erase::{LockedEvent, erase, record};
use super::once::Verdict;
use super::types::{Deciding, Refusal};
use crate::api::{EventAct, IfMatch, OrderResult, Tagged};
use crate::store::db::{DbResult, Door, Row};
use crate::store::event::{event_columns, event_state, event_view};
use crate::types::{EventKey, Reach};

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
