//! The order: the set is found and written down in the transaction that begins the operation.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::changed::{SeenSets, named};
use super::set::{RowsWanted, fixed_set, found_set};
use super::steps::Steps;
use super::types::{BulkRules, OPERATION_ROWS_N_MAX, OperationRow, UNFINISHED_N_MAX, operation_rows_sql};
use crate::api::{
    ChangedRows, OperationChoice, OperationOrder, OperationState, OperationSteps, OperationSubject,
    OperationView,
};
use crate::store::db::{DbResult, Door};
use crate::store::decision::{Deciding, Refusal, Verdict, out_of_reach};
use crate::types::{MESSAGES_N_MAX, Principal, Reach, UnixMs};

/// Time for which an operation that has ended stands in the way of another one to the same effect.
const TWIN_MS: i64 = 600_000;

/// Writes these rows down, if they are still there.
macro_rules! insert_rows {
    ($id:literal, $table:literal) => {
        concat!(
            "/* operation_begin */ INSERT INTO operation_rows (operation_id, row_n, subject_id)
             SELECT CAST($1 AS TEXT), ROW_NUMBER() OVER (ORDER BY ",
            $id,
            "), ",
            $id,
            " FROM ",
            $table,
            " WHERE ",
            $id,
            " = ANY($2)"
        )
    };
}

/// Fixes the set of an operation, as long as it is the one that was previewed, and lets the operation begin, or wait for a
/// second person.
pub(in crate::store) async fn operation_begin(
    db: &mut Door<'_>,
    order: &OperationOrder,
    (rules, seen): (BulkRules, &SeenSets),
    deciding: &mut Deciding,
) -> DbResult<Verdict<OperationView>> {
    let subject = &order.subject;
    if !subject.is_possible() {
        return Ok(Err(Refusal::NeverAllowed));
    }
    // One after the other, so that of two equal orders the second finds the first.
    db.fetch("/* operation_begin */ SELECT one FROM installation FOR UPDATE", &[]).await?;
    let sql = "/* operation_begin */ SELECT COUNT(*) AS n FROM operations WHERE finished_at_ms IS NULL";
    let running_n = db.fetch_one(sql, &[]).await?.int("n")?.unsigned_abs();
    if running_n >= UNFINISHED_N_MAX {
        return Ok(Err(Refusal::TooManyRunning { running_n }));
    }
    let set = found_set(db, &subject.choice(), &deciding.who).await?;
    let choice = subject.choice();
    if !order.again {
        let looking = (&deciding.who, deciding.now_ms);
        let twin = in_the_way(db, std::slice::from_ref(subject), &set.ids, looking).await?.pop().flatten();
        if let Some(Twin { operation_id, shared }) = twin {
            let shared = named(db, &choice, &shared, &deciding.who).await?;
            return Ok(Err(Refusal::SameOperation { operation_id, shared }));
        }
    }
    let total_n = u64::try_from(set.ids.len()).unwrap_or(u64::MAX);
    if total_n > OPERATION_ROWS_N_MAX {
        return Ok(Err(Refusal::TooMany { rows_n_max: OPERATION_ROWS_N_MAX }));
    }
    if total_n != order.counted_n || set.digest != order.set {
        let changed = named(db, &choice, &seen.changed(&order.set, &set), &deciding.who).await?;
        return Ok(Err(if total_n == order.counted_n {
            Refusal::OtherSet { changed }
        } else {
            Refusal::OtherCount { counted_n: total_n, changed }
        }));
    }
    if let OperationSubject::Events { act, .. } = subject
        && act.makes_calls()
        && let Some(refusal) = out_of_reach(db, &set.ids, deciding).await?
    {
        return Ok(Err(refusal));
    }
    let operation_id = Uuid::now_v7().to_string();
    let sql = match subject {
        OperationSubject::Messages { .. } => insert_rows!("message_id", "outbox_queue"),
        OperationSubject::Events { .. } => insert_rows!("event_seq", "processed_webhook_events"),
    };
    let written_n = db.execute(sql, &[operation_id.as_str().into(), set.ids.into()]).await?;
    if written_n != total_n {
        return Ok(Err(Refusal::OtherCount { counted_n: written_n, changed: ChangedRows::default() }));
    }
    write(db, &operation_id, order, (total_n, rules), deciding).await?;
    let mut record = deciding.record("operation_begin");
    record.operation_id = Some(operation_id.clone());
    let list = if matches!(subject, OperationSubject::Messages { .. }) { "messages" } else { "events" };
    record.detail = format!("{list} {} {total_n}: {}", subject.act(), order.reason);
    deciding.records.push(record);
    let sql = operation_rows_sql!("operation_begin", "WHERE operation_id = $1");
    let row = db.fetch_one(sql, &[operation_id.into()]).await?;
    Ok(Ok(OperationRow::of(&row)?.view))
}

/// Operations that are unfinished, or ended after `$1`.
const RECENT: &str = operation_rows_sql!(
    "operation_same",
    "WHERE operation_id IN (SELECT operation_id FROM operations WHERE finished_at_ms IS NULL
         UNION ALL SELECT operation_id FROM operations WHERE finished_at_ms IS NOT NULL AND finished_at_ms > $1
             AND changed_n > 0)
     ORDER BY CASE WHEN finished_at_ms IS NULL THEN 0 ELSE 1 END, operation_id DESC LIMIT 200"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[("operations of a while", RECENT)];

/// An operation that another one would do again.
#[derive(Debug, Clone)]
pub(super) struct Twin {
    /// Its id, for who may see it.
    pub(super) operation_id: Option<Uuid>,
    /// The rows that both are about.
    pub(super) shared: Vec<i64>,
}

/// For each of these subjects, all on these rows: the operation that it would do again, if there is one. It is unfinished,
/// or ended a moment ago; it has the same act and filter, or some of the same rows and an act to the same effect.
pub(super) async fn in_the_way(
    db: &mut Door<'_>,
    subjects: &[OperationSubject],
    ids: &[i64],
    (who, now_ms): (&Principal, UnixMs),
) -> DbResult<Vec<Option<Twin>>> {
    let recent = db.fetch(RECENT, &[now_ms.saturating_sub(TWIN_MS).into()]).await?;
    let mut found = vec![None; subjects.len()];
    for row in &recent {
        let row = OperationRow::of(row)?;
        let mut on_them: Option<Vec<i64>> = None;
        for (subject, found) in subjects.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let is_same = row.view.subject == *subject && row.view.state != OperationState::Cancelled;
            let is_repeated = row.view.subject.act() == subject.act()
                || (row.view.subject.makes_calls() && subject.makes_calls());
            if (is_same || is_repeated) && on_them.is_none() {
                on_them = Some(rows_shared(db, &row, &subject.choice(), ids).await?);
            }
            let shared = on_them.clone().unwrap_or_default();
            if is_same || (is_repeated && !shared.is_empty()) {
                let operation_id =
                    Uuid::parse_str(&row.view.operation_id).ok().filter(|_| row.is_seen_by(who));
                *found = Some(Twin { operation_id, shared });
            }
        }
    }
    Ok(found)
}

/// Those of these rows that an operation has acted or will act on, or on a message of them as events, or on their events as
/// messages.
async fn rows_shared(
    db: &mut Door<'_>,
    row: &OperationRow,
    choice: &OperationChoice,
    ids: &[i64],
) -> DbResult<Vec<i64>> {
    let wanted = RowsWanted { left: row.view.finished_at_ms.is_none(), changed: true };
    let theirs = fixed_set(db, &row.view.operation_id, wanted).await?;
    let is_events = |choice: &OperationChoice| matches!(choice, OperationChoice::Events(_));
    let (are_events, are_theirs) = (is_events(choice), is_events(&row.view.subject.choice()));
    let number = |id: i64, is_event: bool| {
        if is_event || are_events == are_theirs { id } else { id / i64::from(MESSAGES_N_MAX) }
    };
    let theirs: BTreeSet<i64> = theirs.iter().map(|id| number(*id, are_theirs)).collect();
    Ok(ids.iter().filter(|id| theirs.contains(&number(**id, are_events))).copied().collect())
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
    let makes_calls = order.subject.makes_calls();
    let wanted = order.steps.clone().filter(|_| makes_calls);
    let wanted = wanted.or_else(|| OperationSteps::by_default(makes_calls, total_n));
    let steps = wanted.and_then(|wanted| Steps::plan(&wanted, total_n));
    let values = [
        operation_id.into(),
        serde_json::to_string(&order.subject).unwrap_or_default().into(),
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
