//! The order: the set is found, counted and written down in the transaction that begins the operation.

use uuid::Uuid;

use super::list::view;
use super::steps::Steps;
use super::types::{BulkRules, OPERATION_ROWS_N_MAX, OperationRow, UNFINISHED_N_MAX, operation_rows_sql};
use crate::api::{
    EventFilter, MessageFilter, OperationChoice, OperationOrder, OperationState, OperationSteps,
    OperationSubject, OperationView, makes_calls,
};
use crate::store::db::{DbResult, Door, Value};
use crate::store::decision::{Deciding, Refusal, Verdict};
use crate::types::{EventState, MessageState, Principal, Reach, UnixMs};

/// Time for which an operation that is done stands in the way of another one with the same act and filter.
const TWIN_MS: i64 = 600_000;

/// The open messages that a filter finds, the oldest first; `$words` are those of the index.
macro_rules! message_set {
    ($words:literal) => {
        concat!(
            "(SELECT q.message_id AS subject_id FROM outbox_queue q
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

/// The events that a filter finds, the oldest first.
macro_rules! event_set {
    ($words:literal, $of_object:literal) => {
        concat!(
            "(SELECT e.event_seq AS subject_id FROM processed_webhook_events e WHERE e.state = $3",
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

/// The statements about one set: `$1` is the operation, or the time of the preview.
pub(super) struct SetSql {
    /// Writes it down.
    insert: &'static str,
    /// Adds it up, by provider and destination.
    pub(super) preview: &'static str,
}

macro_rules! insert {
    ($($set:tt)*) => {
        concat!(
            "/* operation_begin */ INSERT INTO operation_rows (operation_id, row_n, subject_id)
             SELECT CAST($1 AS TEXT), ROW_NUMBER() OVER (ORDER BY f.subject_id), f.subject_id FROM ",
            $($set)*
        )
    };
}

macro_rules! of_messages {
    ($words:literal) => {
        SetSql {
            insert: insert!(message_set!($words)),
            // A gateway says the statuses below also for what was done behind it.
            preview: concat!(
                "/* operation_preview */ SELECT e.provider, q.destination, COUNT(*) AS counted_n,
                     MIN(q.created_at_ms) AS first_at_ms, MAX(q.created_at_ms) AS last_at_ms, COUNT(*) AS calls_n,
                     COUNT(*) AS open_n, SUM(CASE WHEN q.attempts_n = 0 THEN 1 ELSE 0 END) AS untried_n,
                     SUM(CASE WHEN q.last_result = 'unknown' OR q.state = 'leased' OR EXISTS (
                             SELECT 1 FROM outbox_attempts a WHERE a.message_id = q.message_id
                                AND (a.result = 'unknown' OR a.http_status IN (408, 500, 502, 504)
                                     OR a.http_status BETWEEN 520 AND 524))
                         THEN 1 ELSE 0 END) AS uncertain_n,
                     SUM(CASE WHEN q.key_valid_until_ms < CAST($1 AS BIGINT) THEN 1 ELSE 0 END) AS expired_n
                 FROM ",
                message_set!($words),
                " JOIN outbox_queue q ON q.message_id = f.subject_id
                 JOIN processed_webhook_events e ON e.event_seq = q.message_id / 1024
                 GROUP BY e.provider, q.destination"
            ),
        }
    };
}

/// The messages of the event `f.subject_id`.
macro_rules! calls_of {
    ($table:literal) => {
        concat!($table, ".message_id BETWEEN f.subject_id * 1024 AND f.subject_id * 1024 + 1023")
    };
}
macro_rules! of_events {
    ($words:literal, $of_object:literal) => {
        SetSql {
            insert: insert!(event_set!($words, $of_object)),
            preview: concat!(
                "/* operation_preview */ SELECT e.provider, CAST(NULL AS TEXT) AS destination, COUNT(*) AS counted_n,
                     MIN(e.received_at_ms) AS first_at_ms, MAX(e.received_at_ms) AS last_at_ms,
                     CAST(SUM((SELECT COUNT(*) FROM outbox_queue q WHERE ",
                calls_of!("q"),
                ") + (SELECT COUNT(*) FROM outbox_finished d WHERE ",
                calls_of!("d"),
                ")) AS BIGINT) AS calls_n,
                     CAST(SUM((SELECT COUNT(*) FROM outbox_queue q WHERE ",
                calls_of!("q"),
                ")) AS BIGINT) AS open_n,
                     CAST(SUM((SELECT COUNT(*) FROM outbox_queue q WHERE q.attempts_n = 0 AND ",
                calls_of!("q"),
                ")) AS BIGINT) AS untried_n,
                     CAST(0 AS BIGINT) AS uncertain_n, MAX(CAST($1 AS BIGINT)) * 0 AS expired_n
                 FROM ",
                event_set!($words, $of_object),
                " JOIN processed_webhook_events e ON e.event_seq = f.subject_id GROUP BY e.provider"
            ),
        }
    };
}

const STUCK: SetSql = of_messages!("'held', 'dead', 'waiting'");
const MOVING: SetSql = of_messages!("'ready', 'leased'");
const WAITING_EVENTS: SetSql =
    of_events!(" AND e.state IN ('retry', 'failed', 'unreadable', 'conflict')", "CAST($6 AS TEXT) IS NULL");
const SETTLED_EVENTS: SetSql = of_events!("", "CAST($6 AS TEXT) IS NULL");
/// Those of an object, whatever they wait for, by its index.
const EVENTS_OF_OBJECT: SetSql = of_events!("", "e.object = $6 AND e.object IS NOT NULL");

/// Fixes the set of an operation, as long as it is as large as was counted, and lets the operation begin, or wait for a
/// second person.
pub(in crate::store) async fn operation_begin(
    db: &mut Door<'_>,
    order: &OperationOrder,
    rules: BulkRules,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OperationView>> {
    let Some(act) = possible(&order.subject) else { return Ok(Err(Refusal::NeverAllowed)) };
    let (sql, mut values) = found_by(&choice_of(&order.subject), &deciding.who);
    // One after the other, so that of two equal orders the second finds the first.
    db.fetch("/* operation_begin */ SELECT one FROM installation FOR UPDATE", &[]).await?;
    if let Some(refusal) = in_the_way(db, order, deciding).await? {
        return Ok(Err(refusal));
    }
    let operation_id = Uuid::now_v7().to_string();
    values.splice(0..0, [Value::from(operation_id.as_str()), rows_limit()]);
    let total_n = db.execute(sql.insert, &values).await?;
    if total_n > OPERATION_ROWS_N_MAX {
        return Ok(Err(Refusal::TooMany { rows_n_max: OPERATION_ROWS_N_MAX }));
    }
    if total_n != order.counted_n {
        return Ok(Err(Refusal::OtherCount { counted_n: total_n }));
    }
    write(db, &operation_id, order, (total_n, rules), deciding).await?;
    let mut record = deciding.record("operation_begin");
    record.operation_id = Some(operation_id.clone());
    record.detail = format!("{act} {total_n}: {}", order.reason);
    deciding.records.push(record);
    let sql = operation_rows_sql!("operation_begin", "WHERE operation_id = $1");
    let row = db.fetch_one(sql, &[operation_id.into()]).await?;
    Ok(Ok(view(OperationRow::of(&row)?, Vec::new())))
}

/// What an order has to wait for: too many others, or its twin.
async fn in_the_way(
    db: &mut Door<'_>,
    order: &OperationOrder,
    deciding: &Deciding,
) -> DbResult<Option<Refusal>> {
    let sql = "/* operation_begin */ SELECT COUNT(*) AS n FROM operations WHERE finished_at_ms IS NULL";
    let running_n = db.fetch_one(sql, &[]).await?.int("n")?.unsigned_abs();
    if running_n >= UNFINISHED_N_MAX {
        return Ok(Some(Refusal::TooManyRunning { running_n }));
    }
    if order.again {
        return Ok(None);
    }
    let twins = same_operations(db, &[&order.subject], deciding.now_ms).await?;
    let Some(twin) = twins.first() else { return Ok(None) };
    let operation_id = Uuid::parse_str(&twin.operation_id).ok().filter(|_| twin.is_seen_by(&deciding.who));
    Ok(Some(Refusal::SameOperation { operation_id }))
}

/// The operations with one of these acts and filters that are unfinished, or ended well a moment ago.
pub(super) async fn same_operations(
    db: &mut Door<'_>,
    subjects: &[&OperationSubject],
    now_ms: UnixMs,
) -> DbResult<Vec<OperationRow>> {
    let sql = operation_rows_sql!(
        "operation_same",
        "WHERE subject = ANY($1) AND operation_id IN (
             SELECT operation_id FROM operations WHERE finished_at_ms IS NULL
             UNION ALL SELECT operation_id FROM operations WHERE finished_at_ms IS NOT NULL AND finished_at_ms > $2
                 AND state = 'done' AND total_n > 0)
         ORDER BY operation_id DESC LIMIT 20"
    );
    let subjects: Vec<String> = subjects.iter().map(|subject| written(subject)).collect();
    let rows = db.fetch(sql, &[subjects.into(), now_ms.saturating_sub(TWIN_MS).into()]).await?;
    rows.iter().map(OperationRow::of).collect()
}

/// The subject as its column has it.
fn written(subject: &OperationSubject) -> String {
    serde_json::to_string(subject).unwrap_or_default()
}

async fn write(
    db: &mut Door<'_>,
    operation_id: &str,
    order: &OperationOrder,
    (total_n, rules): (u64, BulkRules),
    deciding: &Deciding,
) -> DbResult<()> {
    // Nothing to do is done at once.
    let sql = "/* operation_begin */ INSERT INTO operations
                   (operation_id, state, subject, actor, reason, providers, destinations, created_at_ms, finished_at_ms,
                    total_n, changed_n, skipped_n, stepped_at_ms, expires_at_ms, steps)
               VALUES ($1, $9, $2, $3, $4, $5, $6, $7,
                       CASE WHEN CAST($8 AS BIGINT) = 0 THEN CAST($7 AS BIGINT) END, $8, 0, 0, $7, $10, $11)";
    let names = |reach: &Reach| reach.names().map(|names| serde_json::json!(names).to_string());
    let state = match total_n {
        0 => OperationState::Done,
        _ if rules.approvals_n > 1 => OperationState::Waiting,
        _ => OperationState::Running,
    };
    let expires_at_ms = deciding.now_ms.saturating_add(rules.approval_ms);
    let makes_calls = makes_calls(&order.subject);
    let wanted = order.steps.clone().filter(|_| makes_calls);
    let wanted = wanted.or_else(|| OperationSteps::by_default(makes_calls, total_n));
    let steps = wanted.and_then(|wanted| Steps::plan(&wanted, total_n));
    let values = [
        operation_id.into(),
        written(&order.subject).into(),
        deciding.who.name.as_str().into(),
        order.reason.as_str().into(),
        names(&deciding.who.providers).into(),
        names(&deciding.who.destinations).into(),
        deciding.now_ms.into(),
        i64::try_from(total_n).unwrap_or(i64::MAX).into(),
        state.as_str().into(),
        (state == OperationState::Waiting).then_some(expires_at_ms).into(),
        steps.and_then(|steps| serde_json::to_string(&steps).ok()).into(),
    ];
    db.execute(sql, &values).await.map(drop)
}

/// The choice that a subject is about.
pub(super) fn choice_of(subject: &OperationSubject) -> OperationChoice {
    match subject {
        OperationSubject::Messages { filter, .. } => OperationChoice::Messages(filter.clone()),
        OperationSubject::Events { filter, .. } => OperationChoice::Events(filter.clone()),
    }
}

/// The act in words, such as `messages send`; `None` when it is for no row in the state that was said, or none was.
fn possible(subject: &OperationSubject) -> Option<String> {
    let (list, act, is_for) = match subject {
        OperationSubject::Messages { act, filter } => {
            ("messages", serde_json::to_value(act), filter.state.is_some_and(|state| act.is_for(state)))
        }
        OperationSubject::Events { act, filter } => {
            ("events", serde_json::to_value(act), filter.state.is_some_and(|state| act.is_for(state)))
        }
    };
    let word = act.ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default();
    is_for.then(|| format!("{list} {word}"))
}

/// The most rows that are looked for: one more than there may be.
pub(super) fn rows_limit() -> Value {
    i64::try_from(OPERATION_ROWS_N_MAX + 1).unwrap_or(i64::MAX).into()
}

/// The statements that find a set, and their values from `$3` on.
pub(super) fn found_by(choice: &OperationChoice, who: &Principal) -> (&'static SetSql, Vec<Value>) {
    let reach = |reach: &Reach| -> [Value; 2] {
        [i64::from(*reach == Reach::All).into(), reach.names().unwrap_or_default().into()]
    };
    match choice {
        OperationChoice::Messages(filter) => {
            let MessageFilter { state, destination, provider, lane, created_before_ms } = filter;
            let is_moving = matches!(state, Some(MessageState::Ready | MessageState::Leased));
            let mut values = vec![
                state.map(MessageState::as_str).into(),
                destination.clone().into(),
                provider.clone().into(),
                lane.clone().into(),
                (*created_before_ms).into(),
            ];
            values.extend(reach(&who.providers).into_iter().chain(reach(&who.destinations)));
            (if is_moving { &MOVING } else { &STUCK }, values)
        }
        OperationChoice::Events(filter) => {
            let EventFilter { state, provider, event_type, object, received_from_ms, received_to_ms } =
                filter;
            let is_waiting = matches!(
                state,
                Some(EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict)
            );
            let mut values = vec![
                state.map(EventState::as_str).into(),
                provider.clone().into(),
                event_type.clone().into(),
                object.clone().into(),
                (*received_from_ms).into(),
                (*received_to_ms).into(),
            ];
            values.extend(reach(&who.providers));
            let sql = match object {
                Some(_) => &EVENTS_OF_OBJECT,
                None if is_waiting => &WAITING_EVENTS,
                None => &SETTLED_EVENTS,
            };
            (sql, values)
        }
    }
}
