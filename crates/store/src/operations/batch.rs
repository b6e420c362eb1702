//! One batch of an operation, in one transaction under the lock of the operation's row: the acts on its rows, or the
//! reasons why rows are skipped.

use std::collections::{BTreeMap, BTreeSet};

use super::steps::{Steps, settle_results};
use super::{ACTOR, OperationRow, OperationStep, operations_sql};
use crate::audit::{AuditEntry, append};
use crate::db::{DbError, DbResult, Executor, Row, StoreError, Value};
use crate::decision::{Deciding, Refusal, event_decide, messages_act_on};
use crate::event::event_key;
use crate::handle::Store;
use crate::message::message_state;
use hooklatch_contract::{EventAct, MessageAct, OperationState, OperationSubject};
use hooklatch_core::types::{MessageState, Name, Principal, Reach, Role, UnixMs};

impl Store {
    /// The running operations, those first that have waited longest for a batch, and those whose approval has expired.
    pub async fn operations_running(&self, now_ms: UnixMs) -> Result<Vec<String>, StoreError> {
        alone!(self, reader, "operations_running", |db| {
            let sql = "/* operations_running */ SELECT operation_id FROM (
                    SELECT operation_id, stepped_at_ms FROM operations WHERE state = 'running'
                    ORDER BY stepped_at_ms, operation_id LIMIT 100) AS r
                UNION ALL SELECT operation_id FROM (
                    SELECT operation_id FROM operations
                    WHERE finished_at_ms IS NULL AND state = 'waiting' AND expires_at_ms <= $1 LIMIT 100) AS w";
            let rows = db.fetch(sql, &[now_ms.into()]).await?;
            rows.iter().map(|row| row.text("operation_id")).collect()
        })
    }

    /// Acts on the next rows of an operation, at most `rows_n`, and no more than its steps allow: their acts, marks and
    /// records are one transaction. `None` when another node has it, or it runs no longer. With `is_passing_by`, the
    /// next row is marked as `failed` instead, and left alone.
    pub async fn operation_step(
        &self,
        operation_id: &str,
        rows_n: u32,
        is_passing_by: bool,
        now_ms: UnixMs,
    ) -> Result<Option<OperationStep>, StoreError> {
        let operation_id = operation_id.to_owned();
        together!(self.operation_step(&operation_id, rows_n, is_passing_by, now_ms))
    }

    /// Returns once an operator has ordered an operation on this node; at once if one did so since the last call.
    pub async fn operation_ordered(&self) {
        self.parts.operation_ordered.notified().await;
    }
}

async fn operation_step(
    db: &mut Executor<'_>,
    operation_id: &str,
    rows_n: u32,
    is_passing_by: bool,
    now_ms: UnixMs,
) -> DbResult<Option<OperationStep>> {
    let sql = operations_sql(
        "operation_step",
        "WHERE operation_id = $1 AND (state = 'running' OR (state = 'waiting' AND expires_at_ms <= $2))
         FOR UPDATE SKIP LOCKED",
    );
    let Some(row) = db.fetch_optional(sql, &[operation_id.into(), now_ms.into()]).await? else {
        return Ok(None);
    };
    let mut row = OperationRow::of(&row)?;
    if row.view.state == OperationState::Waiting {
        let note = "it was not approved in time; nothing was done";
        return stop(db, &row, note, now_ms).await.map(Some);
    }
    let rows_n = if is_passing_by { 1 } else { rows_n };
    let rows_n = match allowed(db, &mut row, rows_n, now_ms).await? {
        Ok(rows_n) => rows_n,
        Err(note) => return stop(db, &row, &note, now_ms).await.map(Some),
    };
    let passed_n = i64::try_from(row.passed_n()).unwrap_or(i64::MAX);
    let sql = "/* operation_step */ SELECT row_n, subject_id FROM operation_rows
               WHERE operation_id = $1 AND row_n > $2 AND outcome IS NULL ORDER BY row_n LIMIT $3";
    let rows = db.fetch(sql, &[operation_id.into(), passed_n.into(), rows_n.into()]).await?;
    let of = |row: &Row| Ok(SetRow { row_n: row.int("row_n")?, subject_id: row.int("subject_id")? });
    let rows: Vec<SetRow> = rows.iter().map(of).collect::<DbResult<_>>()?;
    let moved = match moved_by(&row.view.subject).filter(|_| !is_passing_by) {
        Some(sql) => moved(db, sql, &rows, row.view.created_at_ms).await?,
        None => BTreeSet::new(),
    };
    let (gone_on, rows): (Vec<SetRow>, Vec<SetRow>) =
        rows.into_iter().partition(|row| moved.contains(&row.subject_id));
    let mut deciding = Deciding::within(operation_id, orderer(&row)?, &row.view.reason, now_ms);
    let mut outcomes = match &row.view.subject {
        _ if rows.is_empty() => Outcomes::new(),
        _ if is_passing_by => {
            Outcomes::from([(("failed", None), rows.iter().map(|row| row.row_n).collect())])
        }
        OperationSubject::Messages { act, .. } => on_messages(db, &rows, *act, &mut deciding).await?,
        OperationSubject::Events { act, .. } => on_events(db, &rows, *act, &mut deciding).await?,
    };
    if !gone_on.is_empty() {
        outcomes.insert(("moved", None), gone_on.iter().map(|row| row.row_n).collect());
    }
    let step = mark(db, &row, outcomes, now_ms).await?;
    append(db, now_ms, &deciding.records).await?;
    Ok(Some(step))
}

/// Messages that were tried, or whose event was run again, after a time.
const MOVED_MESSAGES: &str = "/* operation_step */ SELECT q.message_id AS subject_id FROM outbox_queue q
    WHERE q.message_id = ANY($1) AND (q.leased_at_ms > $2 OR q.last_ended_at_ms > $2
        OR EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.event_seq = q.message_id / 1024
            AND e.generation > q.generation
            AND (e.processed_at_ms > $2 OR e.due_at_ms > $2)))";
/// Messages that an operator has sent since they were held or dead, at whatever time.
const SENT_MESSAGES: &str = "/* operation_step */ SELECT message_id AS subject_id FROM outbox_queue
    WHERE message_id = ANY($1) AND state NOT IN ('held', 'dead') AND CAST($2 AS BIGINT) >= 0";
/// Events that were handled after a time, or of which a call was tried or decided about.
const MOVED_EVENTS: &str =
    "/* operation_step */ SELECT e.event_seq AS subject_id FROM processed_webhook_events e
    WHERE e.event_seq = ANY($1) AND (e.processed_at_ms > $2
        OR EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id >= e.event_seq * 1024
            AND q.message_id < (e.event_seq + 1) * 1024
            AND (q.created_at_ms > $2 OR q.leased_at_ms > $2 OR q.last_ended_at_ms > $2))
        OR EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= e.event_seq * 1024
            AND f.message_id < (e.event_seq + 1) * 1024 AND f.finished_at_ms > $2))";

/// Events that were handled after a time, or of which a further run was ordered or has left calls.
const RERUN_EVENTS: &str =
    "/* operation_step */ SELECT e.event_seq AS subject_id FROM processed_webhook_events e
    WHERE e.event_seq = ANY($1) AND (e.processed_at_ms > $2
        OR (e.attempts_n = 0 AND e.due_at_ms > $2)
        OR EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id >= e.event_seq * 1024
            AND q.message_id < (e.event_seq + 1) * 1024 AND q.created_at_ms > $2))";

/// The rows on which an act is not what was ordered any more; `None` where it stays what it was.
fn moved_by(subject: &OperationSubject) -> Option<&'static str> {
    match subject {
        OperationSubject::Messages { act: MessageAct::Send | MessageAct::Done, .. } => Some(MOVED_MESSAGES),
        // A discard of held or dead messages leaves those that another operator sends meanwhile.
        OperationSubject::Messages { act: MessageAct::Discard, filter } => {
            matches!(filter.state, Some(MessageState::Held | MessageState::Dead)).then_some(SENT_MESSAGES)
        }
        OperationSubject::Events { act, .. } if act.makes_calls() => Some(MOVED_EVENTS),
        OperationSubject::Events { act: EventAct::EraseAndDiscard, .. } => Some(RERUN_EVENTS),
        OperationSubject::Events { .. } => None,
    }
}

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("operation_moved messages", MOVED_MESSAGES),
    ("operation_moved sent messages", SENT_MESSAGES),
    ("operation_moved events", MOVED_EVENTS),
    ("operation_moved rerun events", RERUN_EVENTS),
];

/// Those of the rows on which something went on after `since_ms`: what was ordered was ordered without knowing of it.
async fn moved(
    db: &mut Executor<'_>,
    sql: &'static str,
    rows: &[SetRow],
    since_ms: UnixMs,
) -> DbResult<BTreeSet<i64>> {
    let ids: Vec<i64> = rows.iter().map(|row| row.subject_id).collect();
    let found = db.fetch(sql, &[ids.into(), since_ms.into()]).await?;
    found.iter().map(|row| row.int("subject_id")).collect()
}

/// Number of rows that may be acted on now, or why the operation has to stop: its calls are looked at first.
async fn allowed(
    db: &mut Executor<'_>,
    row: &mut OperationRow,
    rows_n: u32,
    now_ms: UnixMs,
) -> DbResult<Result<u32, String>> {
    let Some(mut steps) = row.steps.take() else { return Ok(Ok(rows_n)) };
    let results = settle_results(db, row).await?;
    let stopped = steps.record_results(&results);
    let passed_n = row.passed_n();
    steps.advance(passed_n);
    let allowed_n = steps.allowed_n(passed_n, now_ms.saturating_sub(row.stepped_at_ms), rows_n);
    if results.good_n + results.failed_n > 0 {
        let sql = "/* operation_step */ UPDATE operations SET steps = $2 WHERE operation_id = $1";
        db.execute(sql, &[row.view.operation_id.as_str().into(), steps_text(&steps)]).await?;
    }
    row.steps = Some(steps);
    // When no row is left to hold back, the failure is only reported.
    Ok(match stopped.filter(|_| passed_n < row.view.total_n) {
        Some(note) => Err(note),
        None => Ok(allowed_n),
    })
}

fn steps_text(steps: &Steps) -> Value {
    serde_json::to_string(steps).ok().into()
}

/// Stops an operation of which too many calls failed; one that was not approved in time is over.
async fn stop(
    db: &mut Executor<'_>,
    row: &OperationRow,
    note: &str,
    now_ms: UnixMs,
) -> DbResult<OperationStep> {
    let is_over = row.view.state == OperationState::Waiting;
    let (state, action) =
        if is_over { ("cancelled", "operation_expire") } else { ("stopped", "operation_stop") };
    let sql = "/* operation_step */ UPDATE operations SET state = $2, note = $3, finished_at_ms = $4
               WHERE operation_id = $1";
    let id = &row.view.operation_id;
    db.execute(sql, &[id.into(), state.into(), note.into(), is_over.then_some(now_ms).into()]).await?;
    let detail = format!("after {} of {}: {note}", row.passed_n(), row.view.total_n);
    let record = AuditEntry { operation_id: Some(id.clone()), ..AuditEntry::new(ACTOR, action, detail) };
    append(db, now_ms, &[record]).await?;
    let stopped = Some(note.to_owned()).filter(|_| !is_over);
    Ok(OperationStep { changed_n: 0, skipped_n: 0, is_over, stopped })
}

/// Who ordered it, with the rights of that time.
fn orderer(row: &OperationRow) -> DbResult<Principal> {
    let name = |name: &String| Name::parse(name).map_err(|_| DbError::decode("name", name));
    let reach = |names: &Option<Vec<String>>| -> DbResult<Reach> {
        let Some(names) = names else { return Ok(Reach::All) };
        Ok(Reach::These(names.iter().map(name).collect::<DbResult<_>>()?))
    };
    Ok(Principal {
        name: name(&row.view.actor)?,
        role: Role::Operator,
        providers: reach(&row.providers)?,
        destinations: reach(&row.destinations)?,
    })
}

/// Marks the rows of a batch, each once, and moves the operation on.
async fn mark(
    db: &mut Executor<'_>,
    row: &OperationRow,
    outcomes: Outcomes,
    now_ms: UnixMs,
) -> DbResult<OperationStep> {
    let mut steps = row.steps.clone();
    let (mut changed_n, mut skipped_n) = (0, 0);
    let is_empty = outcomes.is_empty();
    for ((outcome, stood), rows) in outcomes {
        let is_changed = outcome == CHANGED;
        let result = (is_changed && steps.is_some()).then_some("open");
        let sql = "/* operation_step */ UPDATE operation_rows SET outcome = $3, stood = $4, result = $5
                   WHERE operation_id = $1 AND row_n = ANY($2) AND outcome IS NULL";
        let values =
            [row.view.operation_id.as_str().into(), rows.into(), outcome.into(), stood.into(), result.into()];
        *if is_changed { &mut changed_n } else { &mut skipped_n } += db.execute(sql, &values).await?;
    }
    let passed_n = row.passed_n().saturating_add(changed_n).saturating_add(skipped_n);
    let is_passed = passed_n >= row.view.total_n;
    let is_over = match &mut steps {
        Some(steps) => {
            steps.record_batch(changed_n, skipped_n);
            is_passed && steps.open_n() == 0
        }
        None => is_passed || changed_n + skipped_n == 0,
    };
    if is_empty && !is_over {
        return Ok(OperationStep { changed_n, skipped_n, is_over, stopped: None });
    }
    let sql = "/* operation_step */ UPDATE operations
               SET changed_n = changed_n + $2, skipped_n = skipped_n + $3, stepped_at_ms = $4,
                   state = CASE WHEN CAST($5 AS BIGINT) = 1 THEN 'done' ELSE state END,
                   finished_at_ms = CASE WHEN CAST($5 AS BIGINT) = 1 THEN CAST($4 AS BIGINT) END, steps = $6
               WHERE operation_id = $1";
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let values = [
        row.view.operation_id.as_str().into(),
        number(changed_n).into(),
        number(skipped_n).into(),
        now_ms.into(),
        i64::from(is_over).into(),
        steps.as_ref().map_or(Value::from(None::<String>), steps_text),
    ];
    db.execute(sql, &values).await?;
    Ok(OperationStep { changed_n, skipped_n, is_over, stopped: None })
}

/// A row of a set: its number in it, and that of its message or event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SetRow {
    row_n: i64,
    subject_id: i64,
}

/// Result of a batch: by outcome and state, the rows.
type Outcomes = BTreeMap<(&'static str, Option<&'static str>), Vec<i64>>;

/// The outcome of rows that were acted on.
const CHANGED: &str = "changed";

/// Acts on messages, all at once.
async fn on_messages(
    db: &mut Executor<'_>,
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

async fn states_of(db: &mut Executor<'_>, ids: Vec<i64>) -> DbResult<BTreeMap<i64, &'static str>> {
    let sql = "/* operation_step */ SELECT message_id, state FROM outbox_queue WHERE message_id = ANY($1)
               UNION ALL SELECT message_id, state FROM outbox_finished WHERE message_id = ANY($1)";
    let rows = db.fetch(sql, &[ids.into()]).await?;
    rows.iter().map(|row| Ok((row.int("message_id")?, message_state(row)?.as_str()))).collect()
}

/// Acts on events, one after the other.
async fn on_events(
    db: &mut Executor<'_>,
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
            // A re-run of events that a wrong route ignored is meant for events of senders.
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

/// The reason why a row was skipped, as a word, and its state at that time.
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
