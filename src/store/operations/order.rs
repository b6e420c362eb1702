//! The order: the set is found, counted and written down in the transaction that begins the operation.

use uuid::Uuid;

use super::list::view;
use super::types::{OPERATION_ROWS_N_MAX, OperationRow, RUNNING_N_MAX, operation_rows_sql};
use crate::api::{EventFilter, MessageFilter, OperationOrder, OperationSubject, OperationView};
use crate::store::db::{DbResult, Door, Value};
use crate::store::decision::{Deciding, Refusal, Verdict};
use crate::types::{EventState, MessageState, Reach};

/// The open messages that a filter finds, the oldest first; `$words` are those of the index.
macro_rules! messages_sql {
    ($words:literal) => {
        concat!(
            "/* operation_begin */ INSERT INTO operation_rows (operation_id, row_n, subject_id)
             SELECT CAST($1 AS TEXT), ROW_NUMBER() OVER (ORDER BY f.message_id), f.message_id
             FROM (SELECT q.message_id FROM outbox_queue q
                   JOIN processed_webhook_events e ON e.event_seq = q.message_id / 1024
                   WHERE q.state = $3 AND q.state IN (",
            $words,
            ") AND (CAST($4 AS TEXT) IS NULL OR q.destination = $4)
                     AND (CAST($5 AS TEXT) IS NULL OR e.provider = $5)
                     AND (CAST($6 AS TEXT) IS NULL OR q.lane = $6)
                     AND (CAST($7 AS BIGINT) IS NULL OR q.created_at_ms < $7)
                     AND (CAST($8 AS BIGINT) = 1 OR e.provider = ANY($9))
                     AND (CAST($10 AS BIGINT) = 1 OR q.destination = ANY($11))
                   ORDER BY q.message_id LIMIT $2) f"
        )
    };
}
const STUCK: &str = messages_sql!("'held', 'dead', 'waiting'");
const MOVING: &str = messages_sql!("'ready', 'leased'");

/// The events that a filter finds, the oldest first.
macro_rules! events_sql {
    ($words:literal, $of_object:literal) => {
        concat!(
            "/* operation_begin */ INSERT INTO operation_rows (operation_id, row_n, subject_id)
             SELECT CAST($1 AS TEXT), ROW_NUMBER() OVER (ORDER BY f.event_seq), f.event_seq
             FROM (SELECT e.event_seq FROM processed_webhook_events e WHERE e.state = $3",
            $words,
            "  AND (CAST($4 AS TEXT) IS NULL OR e.provider = $4)
               AND (CAST($5 AS TEXT) IS NULL OR e.event_type = $5)
               AND ",
            $of_object,
            "  AND (CAST($7 AS BIGINT) IS NULL OR e.received_at_ms >= $7)
               AND (CAST($8 AS BIGINT) IS NULL OR e.received_at_ms < $8)
               AND (CAST($9 AS BIGINT) = 1 OR e.provider = ANY($10))
             ORDER BY e.event_seq LIMIT $2) f"
        )
    };
}
const WAITING_EVENTS: &str =
    events_sql!(" AND e.state IN ('retry', 'failed', 'unreadable', 'conflict')", "CAST($6 AS TEXT) IS NULL");
const SETTLED_EVENTS: &str = events_sql!("", "CAST($6 AS TEXT) IS NULL");
/// Those of an object, whatever they wait for, by its index.
const EVENTS_OF_OBJECT: &str = events_sql!("", "e.object = $6 AND e.object IS NOT NULL");

/// Fixes the set of an operation, as long as it is as large as was counted, and lets the operation begin.
pub(in crate::store) async fn operation_begin(
    db: &mut Door<'_>,
    order: &OperationOrder,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OperationView>> {
    let Some((sql, mut values, act)) = found_by(&order.subject, deciding) else {
        return Ok(Err(Refusal::NeverAllowed));
    };
    let sql_running = "/* operation_begin */ SELECT COUNT(*) AS n FROM operations WHERE state = 'running'";
    let running_n = db.fetch_one(sql_running, &[]).await?.int("n")?.unsigned_abs();
    if running_n >= RUNNING_N_MAX {
        return Ok(Err(Refusal::TooManyRunning { running_n }));
    }
    let operation_id = Uuid::now_v7().to_string();
    let limit = i64::try_from(OPERATION_ROWS_N_MAX + 1).unwrap_or(i64::MAX);
    values.splice(0..0, [Value::from(operation_id.as_str()), limit.into()]);
    let total_n = db.execute(sql, &values).await?;
    if total_n > OPERATION_ROWS_N_MAX {
        return Ok(Err(Refusal::TooMany { rows_n_max: OPERATION_ROWS_N_MAX }));
    }
    if total_n != order.counted_n {
        return Ok(Err(Refusal::OtherCount { counted_n: total_n }));
    }
    write(db, &operation_id, order, total_n, deciding).await?;
    let mut record = deciding.record("operation_begin");
    record.operation_id = Some(operation_id.clone());
    record.detail = format!("{act} {total_n}: {}", order.reason);
    deciding.records.push(record);
    let sql = operation_rows_sql!("operation_begin", "WHERE operation_id = $1");
    let row = db.fetch_one(sql, &[operation_id.into()]).await?;
    Ok(Ok(view(OperationRow::of(&row)?, Vec::new())))
}

async fn write(
    db: &mut Door<'_>,
    operation_id: &str,
    order: &OperationOrder,
    total_n: u64,
    deciding: &Deciding,
) -> DbResult<()> {
    // Nothing to do is done at once.
    let sql = "/* operation_begin */ INSERT INTO operations
                   (operation_id, state, subject, actor, reason, providers, destinations, created_at_ms, finished_at_ms,
                    total_n, changed_n, skipped_n, stepped_at_ms)
               VALUES ($1, CASE WHEN CAST($8 AS BIGINT) = 0 THEN 'done' ELSE 'running' END, $2, $3, $4, $5, $6, $7,
                       CASE WHEN CAST($8 AS BIGINT) = 0 THEN CAST($7 AS BIGINT) END, $8, 0, 0, $7)";
    let names = |reach: &Reach| reach.names().map(|names| serde_json::json!(names).to_string());
    let values = [
        operation_id.into(),
        serde_json::to_string(&order.subject).unwrap_or_default().into(),
        deciding.who.name.as_str().into(),
        order.reason.as_str().into(),
        names(&deciding.who.providers).into(),
        names(&deciding.who.destinations).into(),
        deciding.now_ms.into(),
        i64::try_from(total_n).unwrap_or(i64::MAX).into(),
    ];
    db.execute(sql, &values).await.map(drop)
}

/// The statement that finds the set, its values from `$3` on, and the act in words; `None` when the act is for no row
/// in the state that was said, or none was.
fn found_by(subject: &OperationSubject, deciding: &Deciding) -> Option<(&'static str, Vec<Value>, String)> {
    let who = &deciding.who;
    let reach = |reach: &Reach| -> [Value; 2] {
        [i64::from(*reach == Reach::All).into(), reach.names().unwrap_or_default().into()]
    };
    match subject {
        OperationSubject::Messages { act, filter } => {
            let MessageFilter { state, destination, provider, lane, created_before_ms } = filter;
            let state = state.filter(|state| act.is_for(*state))?;
            let is_moving = matches!(state, MessageState::Ready | MessageState::Leased);
            let mut values = vec![
                state.as_str().into(),
                destination.clone().into(),
                provider.clone().into(),
                lane.clone().into(),
                (*created_before_ms).into(),
            ];
            values.extend(reach(&who.providers).into_iter().chain(reach(&who.destinations)));
            Some((if is_moving { MOVING } else { STUCK }, values, said("messages", act)))
        }
        OperationSubject::Events { act, filter } => {
            let EventFilter { state, provider, event_type, object, received_from_ms, received_to_ms } =
                filter;
            let state = state.filter(|state| act.is_for(*state))?;
            let is_waiting = matches!(
                state,
                EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict
            );
            let mut values = vec![
                state.as_str().into(),
                provider.clone().into(),
                event_type.clone().into(),
                object.clone().into(),
                (*received_from_ms).into(),
                (*received_to_ms).into(),
            ];
            values.extend(reach(&who.providers));
            let sql = match object {
                Some(_) => EVENTS_OF_OBJECT,
                None if is_waiting => WAITING_EVENTS,
                None => SETTLED_EVENTS,
            };
            Some((sql, values, said("events", act)))
        }
    }
}

/// `messages send`, for the audit log.
fn said(subject: &str, act: impl serde::Serialize) -> String {
    let word = serde_json::to_value(act).ok();
    format!("{subject} {}", word.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default())
}
