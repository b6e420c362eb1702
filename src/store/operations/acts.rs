//! The acts of a batch: on each row of it, or the reason why a row is passed over.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{EventAct, MessageAct};
use crate::store::db::{DbResult, Door, Row};
use crate::store::decision::{Deciding, Refusal, event_decide, messages_act_on};
use crate::store::event::event_key;
use crate::store::message::message_state;

/// A row of a set: its number in it, and that of its message or event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetRow {
    pub(super) row_n: i64,
    pub(super) subject_id: i64,
}

/// Result of a batch: by outcome and state, the rows.
pub(super) type Outcomes = BTreeMap<(&'static str, Option<&'static str>), Vec<i64>>;

/// The outcome of rows that were acted on.
pub(super) const CHANGED: &str = "changed";

/// Acts on messages, all at once.
pub(super) async fn on_messages(
    db: &mut Door<'_>,
    rows: &[SetRow],
    act: MessageAct,
    deciding: &mut Deciding,
) -> DbResult<Outcomes> {
    let ids: Vec<i64> = rows.iter().map(|row| row.subject_id).collect();
    let changed: BTreeSet<i64> = messages_act_on(db, &ids, act, deciding).await?.into_iter().collect();
    let left: Vec<i64> = ids.into_iter().filter(|id| !changed.contains(id)).collect();
    let states = if left.is_empty() { BTreeMap::new() } else { states_of(db, left).await? };
    let mut outcomes = Outcomes::new();
    for row in rows {
        let outcome = match states.get(&row.subject_id) {
            _ if changed.contains(&row.subject_id) => (CHANGED, None),
            Some(state) => ("not_allowed", Some(*state)),
            None => ("not_found", None),
        };
        outcomes.entry(outcome).or_default().push(row.row_n);
    }
    Ok(outcomes)
}

async fn states_of(db: &mut Door<'_>, ids: Vec<i64>) -> DbResult<BTreeMap<i64, &'static str>> {
    let sql = "/* operation_step */ SELECT message_id, state FROM outbox_queue WHERE message_id = ANY($1)
               UNION ALL SELECT message_id, state FROM outbox_finished WHERE message_id = ANY($1)";
    let rows = db.fetch(sql, &[ids.into()]).await?;
    rows.iter().map(|row| Ok((row.int("message_id")?, message_state(row)?.as_str()))).collect()
}

/// Acts on events, one after the other.
pub(super) async fn on_events(
    db: &mut Door<'_>,
    rows: &[SetRow],
    act: EventAct,
    deciding: &mut Deciding,
) -> DbResult<Outcomes> {
    let ids: Vec<i64> = rows.iter().map(|row| row.subject_id).collect();
    let sql = "/* operation_step */ SELECT event_seq, provider, event_id FROM processed_webhook_events
               WHERE event_seq = ANY($1)";
    let found = db.fetch(sql, &[ids.into()]).await?;
    let key = |row: &Row| Ok((row.int("event_seq")?, event_key(row)?));
    let keys: BTreeMap<i64, _> = found.iter().map(key).collect::<DbResult<_>>()?;
    let mut outcomes = Outcomes::new();
    for row in rows {
        let refused = match keys.get(&row.subject_id) {
            None => Some(Refusal::NotFound),
            // Whoever re-runs what a wrong route ignored means what senders sent.
            Some(key) if key.is_synthetic() && act == EventAct::Rerun => Some(Refusal::TestEvent),
            Some(key) => {
                let records_n = deciding.records.len();
                // An erasure that is refused may have begun.
                db.batch("SAVEPOINT operation_row").await?;
                let refused = event_decide(db, key, act, deciding).await?.err();
                if refused.is_some() {
                    db.batch("ROLLBACK TO SAVEPOINT operation_row").await?;
                    deciding.records.truncate(records_n);
                }
                db.batch("RELEASE SAVEPOINT operation_row").await?;
                refused
            }
        };
        let outcome = refused.as_ref().map_or((CHANGED, None), reason);
        outcomes.entry(outcome).or_default().push(row.row_n);
    }
    Ok(outcomes)
}

/// The word for why a row was passed over, and the state in which it stood.
fn reason(refusal: &Refusal) -> (&'static str, Option<&'static str>) {
    match refusal {
        Refusal::NotFound => ("not_found", None),
        Refusal::NotAllowed { state } => ("not_allowed", Some(state)),
        Refusal::BodyGone => ("body_gone", None),
        Refusal::TestEvent => ("test_event", None),
        Refusal::StillOpen { .. } => ("still_open", None),
        _ => ("failed", None),
    }
}
