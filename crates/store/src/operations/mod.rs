//! Operations: orders of an operator about all rows that a filter finds. The set is fixed and counted with the order,
//! and processed in batches by any node.
//!
//! A batch is one transaction that holds the operation's row: in it are the acts on the next rows of the set, their
//! marks, their records and the operation's progress. So there is no lease that could outlive its holder, a process
//! that dies leaves a batch undone or done as a whole, and no lock is held from one batch to the next.
//!
//! This file has orders, approvals and views; `set.rs` the rows, what is expected of them, and what changed since;
//! `batch.rs` a batch and its acts; `steps.rs` how operations that make calls proceed in steps, and stop when too many
//! of them fail. When batches run, and how large they are, is decided in `crates/receive/src/operations.rs`.

mod batch;
mod set;
mod steps;

use std::collections::BTreeSet;

use uuid::Uuid;

use self::set::{RowsQuery, fixed_set, found_set, named};
use self::steps::Steps;
use super::damaged::{intact, of_row};
use super::db::{DbError, DbResult, Executor, Row, Value};
use super::decision::{Deciding, Refusal, Verdict, out_of_reach};
use hooklatch_contract::{
    ChangedRows, OperationChoice, OperationOrder, OperationState, OperationSteps, OperationSubject,
    OperationView, Page, SkippedRow,
};
use hooklatch_core::types::{MESSAGES_N_MAX, Principal, Reach, UnixMs};

#[cfg(any(test, feature = "testing"))]
pub(super) use self::batch::STATEMENTS as BATCH_STATEMENTS;
pub(crate) use self::set::{PreviewCache, PreviewContext, operation_preview, operation_preview_again};

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::queries::NamedStatement> {
    let mut all = set::statements();
    all.push(("operations of a while", recent_sql()));
    all
}

/// Most rows of an operation.
pub const OPERATION_ROWS_N_MAX: u64 = 100_000;
/// Most operations that are unfinished at once.
const UNFINISHED_N_MAX: u64 = 100;
/// The actor in the audit log where an operation stopped or ended by itself.
const ACTOR: &str = "hooklatch";
/// Time for which an operation that has ended stands in the way of another one to the same effect.
const TWIN_MS: i64 = 600_000;

/// What this installation demands of an operation before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkRules {
    /// Operators who have to agree, including the one who ordered it.
    pub approvals_n: u32,
    /// Time for which a second operator can approve it. Milliseconds.
    pub approval_ms: i64,
}

impl Default for BulkRules {
    fn default() -> Self {
        Self { approvals_n: 1, approval_ms: 86_400_000 }
    }
}

/// Result of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStep {
    /// Number of rows that were acted on.
    pub changed_n: u64,
    /// Number of rows that were passed over.
    pub skipped_n: u64,
    /// True when nothing of the operation is left to do.
    pub is_over: bool,
    /// Why it stopped, if too many of its calls failed.
    pub stopped: Option<String>,
}

/// The row of an operation.
struct OperationRow {
    /// What operators see of it, but for the rows that were passed over.
    view: OperationView,
    /// Providers and destinations that the order could reach; `None` is every one.
    providers: Option<Vec<String>>,
    destinations: Option<Vec<String>>,
    expires_at_ms: Option<UnixMs>,
    steps: Option<Steps>,
    stepped_at_ms: UnixMs,
}

/// Columns of [`OperationRow`], then what follows.
fn operations_sql(op: &str, rest: &str) -> String {
    format!(
        "/* {op} */ SELECT operation_id, state, subject, actor, reason, providers, destinations, created_at_ms,
             finished_at_ms, cancelled_by, approved_by, expires_at_ms, note, steps, stepped_at_ms, total_n, changed_n,
             skipped_n FROM operations {rest}"
    )
}

impl OperationRow {
    fn of(row: &Row) -> DbResult<Self> {
        let (state, subject) = (row.text("state")?, row.text("subject")?);
        let odd = |column: &str| DbError::decode(column, "what no version writes");
        let names = |column: &str| -> DbResult<Option<Vec<String>>> {
            let names = row.text_or_null(column)?;
            names.map(|names| serde_json::from_str(&names)).transpose().map_err(|_| odd(column))
        };
        let state = OperationState::parse(&state).ok_or_else(|| odd("state"))?;
        let steps: Option<Steps> = (row.text_or_null("steps")?)
            .map(|steps| serde_json::from_str(&steps))
            .transpose()
            .map_err(|_| odd("steps"))?;
        let expires_at_ms = row.int_or_null("expires_at_ms")?;
        Ok(Self {
            view: OperationView {
                operation_id: row.text("operation_id")?,
                state,
                subject: serde_json::from_str(&subject).map_err(|_| odd("subject"))?,
                actor: row.text("actor")?,
                reason: row.text("reason")?,
                created_at_ms: row.int("created_at_ms")?,
                finished_at_ms: row.int_or_null("finished_at_ms")?,
                cancelled_by: row.text_or_null("cancelled_by")?,
                approved_by: row.text_or_null("approved_by")?,
                approve_until_ms: expires_at_ms.filter(|_| state == OperationState::Waiting),
                note: row.text_or_null("note")?,
                steps: steps.as_ref().map(Steps::view),
                total_n: row.int("total_n")?.unsigned_abs(),
                changed_n: row.int("changed_n")?.unsigned_abs(),
                skipped_n: row.int("skipped_n")?.unsigned_abs(),
                skipped: Vec::new(),
            },
            providers: names("providers")?,
            destinations: names("destinations")?,
            expires_at_ms,
            steps,
            stepped_at_ms: row.int("stepped_at_ms")?,
        })
    }

    /// Number of rows that are behind it.
    fn passed_n(&self) -> u64 {
        self.view.changed_n.saturating_add(self.view.skipped_n)
    }

    /// True when an operator's decision reaches everything that this could have been about.
    fn is_seen_by(&self, who: &Principal) -> bool {
        let reaches = |mine: &Reach, said: Option<&String>, theirs: Option<&Vec<String>>| match (said, theirs)
        {
            (Some(name), _) => mine.has(name),
            (None, Some(names)) => names.iter().all(|name| mine.has(name)),
            (None, None) => *mine == Reach::All,
        };
        match &self.view.subject {
            OperationSubject::Messages { filter, .. } => {
                reaches(&who.providers, filter.provider.as_ref(), self.providers.as_ref())
                    && reaches(&who.destinations, filter.destination.as_ref(), self.destinations.as_ref())
            }
            OperationSubject::Events { filter, .. } => {
                reaches(&who.providers, filter.provider.as_ref(), self.providers.as_ref())
            }
        }
    }
}

/// Fixes the set of an operation, as long as it is the one that was previewed, and lets the operation begin, or wait
/// for a second operator.
pub(crate) async fn operation_begin(
    db: &mut Executor<'_>,
    order: &OperationOrder,
    (rules, seen): (BulkRules, &PreviewCache),
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
        if let Some(DuplicateOperation { operation_id, shared }) = twin {
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
    let (list, id, table) = match subject {
        OperationSubject::Messages { .. } => ("messages", "message_id", "outbox_queue"),
        OperationSubject::Events { .. } => ("events", "event_seq", "processed_webhook_events"),
    };
    // If they are still there.
    let sql = format!(
        "/* operation_begin */ INSERT INTO operation_rows (operation_id, row_n, subject_id)
         SELECT CAST($1 AS TEXT), ROW_NUMBER() OVER (ORDER BY {id}), {id} FROM {table} WHERE {id} = ANY($2)"
    );
    let written_n = db.execute(sql, &[operation_id.as_str().into(), set.ids.into()]).await?;
    if written_n != total_n {
        return Ok(Err(Refusal::OtherCount { counted_n: written_n, changed: ChangedRows::default() }));
    }
    write(db, &operation_id, order, (total_n, rules), deciding).await?;
    let mut record = deciding.record("operation_begin");
    record.operation_id = Some(operation_id.clone());
    record.detail = format!("{list} {} {total_n}: {}", subject.act(), order.reason);
    deciding.records.push(record);
    let sql = operations_sql("operation_begin", "WHERE operation_id = $1");
    let row = db.fetch_one(sql, &[operation_id.into()]).await?;
    Ok(Ok(OperationRow::of(&row)?.view))
}

/// Operations that are unfinished, or ended after `$1`.
fn recent_sql() -> String {
    operations_sql(
        "operation_same",
        "WHERE operation_id IN (SELECT operation_id FROM operations WHERE finished_at_ms IS NULL
             UNION ALL SELECT operation_id FROM operations WHERE finished_at_ms IS NOT NULL AND finished_at_ms > $1
                 AND changed_n > 0)
         ORDER BY CASE WHEN finished_at_ms IS NULL THEN 0 ELSE 1 END, operation_id DESC LIMIT 200",
    )
}

/// An operation that another one would do again.
#[derive(Debug, Clone)]
struct DuplicateOperation {
    /// Its id, for who may see it.
    operation_id: Option<Uuid>,
    /// The rows that both are about.
    shared: Vec<i64>,
}

/// For each of these subjects, all on these rows: the operation that it would do again, if there is one. It is
/// unfinished, or ended a moment ago; it has the same act and filter, or some of the same rows and an act to the same
/// effect.
async fn in_the_way(
    db: &mut Executor<'_>,
    subjects: &[OperationSubject],
    ids: &[i64],
    (who, now_ms): (&Principal, UnixMs),
) -> DbResult<Vec<Option<DuplicateOperation>>> {
    let recent = db.fetch(recent_sql(), &[now_ms.saturating_sub(TWIN_MS).into()]).await?;
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
                *found = Some(DuplicateOperation { operation_id, shared });
            }
        }
    }
    Ok(found)
}

/// Those of these rows that an operation has acted or will act on, or on a message of them as events, or on their
/// events as messages.
async fn rows_shared(
    db: &mut Executor<'_>,
    row: &OperationRow,
    choice: &OperationChoice,
    ids: &[i64],
) -> DbResult<Vec<i64>> {
    let wanted = RowsQuery { left: row.view.finished_at_ms.is_none(), changed: true };
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
    db: &mut Executor<'_>,
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

/// A decision about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationAct {
    /// A second operator lets it begin.
    Approve,
    /// It goes on although calls failed.
    Continue,
    /// No further batch is made of it.
    Cancel,
}

impl OperationAct {
    fn is_for(self, state: OperationState) -> bool {
        match self {
            Self::Approve => state == OperationState::Waiting,
            Self::Continue => state == OperationState::Stopped,
            Self::Cancel => !matches!(state, OperationState::Done | OperationState::Cancelled),
        }
    }

    fn audit_action(self) -> &'static str {
        match self {
            Self::Approve => "operation_approve",
            Self::Continue => "operation_continue",
            Self::Cancel => "operation_cancel",
        }
    }
}

/// Decides about an operation, of which a batch that is under way is waited for.
pub(crate) async fn operation_decide(
    db: &mut Executor<'_>,
    operation_id: &str,
    act: OperationAct,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OperationView>> {
    let sql = operations_sql("operation_decide", "WHERE operation_id = $1 FOR UPDATE");
    let row = db.fetch_optional(sql, &[operation_id.into()]).await?;
    let row = row.as_ref().map(OperationRow::of).transpose()?.filter(|row| row.is_seen_by(&deciding.who));
    let Some(row) = row else { return Ok(Err(Refusal::NotFound)) };
    let is_expired = row.expires_at_ms.is_some_and(|at_ms| at_ms <= deciding.now_ms);
    if !act.is_for(row.view.state) || (act == OperationAct::Approve && is_expired) {
        return Ok(Err(Refusal::NotAllowed { state: row.view.state.as_str() }));
    }
    if act == OperationAct::Approve && row.view.actor == deciding.who.name.as_str() {
        return Ok(Err(Refusal::OwnOperation));
    }
    let (who, now_ms) = (deciding.who.name.as_str(), deciding.now_ms);
    let (sql, values): (_, Vec<Value>) = match act {
        OperationAct::Approve => (
            "/* operation_decide */ UPDATE operations SET state = 'running', approved_by = $2, stepped_at_ms = $3
             WHERE operation_id = $1",
            vec![operation_id.into(), who.into(), now_ms.into()],
        ),
        OperationAct::Continue => {
            let mut steps = row.steps.clone();
            steps.iter_mut().for_each(Steps::forgive);
            let steps = steps.and_then(|steps| serde_json::to_string(&steps).ok());
            (
                "/* operation_decide */ UPDATE operations SET state = 'running', note = NULL, steps = $2, stepped_at_ms = $3
                 WHERE operation_id = $1",
                vec![operation_id.into(), steps.into(), now_ms.into()],
            )
        }
        OperationAct::Cancel => (
            "/* operation_decide */ UPDATE operations SET state = 'cancelled', cancelled_by = $2, finished_at_ms = $3
             WHERE operation_id = $1",
            vec![operation_id.into(), who.into(), now_ms.into()],
        ),
    };
    db.execute(sql, &values).await?;
    let mut record = deciding.record(act.audit_action());
    record.operation_id = Some(operation_id.to_owned());
    record.detail = format!("after {} of {}: {}", row.passed_n(), row.view.total_n, deciding.reason);
    deciding.records.push(record);
    let who = deciding.who.clone();
    Ok(operation_view(db, operation_id, &who).await?.ok_or(Refusal::NotFound))
}

const TABLE: &str = "operations";
const KEY: &str = "operation_id";

/// One operation with its progress; `None` when there is none, or none that `who` may see.
pub(crate) async fn operation_view(
    db: &mut Executor<'_>,
    operation_id: &str,
    who: &Principal,
) -> DbResult<Option<OperationView>> {
    let sql = operations_sql("operation_view", "WHERE operation_id = $1");
    let row = db.fetch_optional(sql, &[operation_id.into()]).await?;
    let row = row.as_ref().map(|row| of_row(TABLE, operation_id, OperationRow::of(row))).transpose();
    let row = match row {
        // As with one that is out of reach: what it is about cannot be read.
        Err(error) if error.is_damage() && !who.is_everywhere() => return Ok(None),
        row => row?,
    };
    let row = row.filter(|row| row.is_seen_by(who));
    let Some(row) = row else { return Ok(None) };
    let skipped = skipped(db, &row.view).await?;
    Ok(Some(OperationView { skipped, ..row.view }))
}

async fn skipped(db: &mut Executor<'_>, row: &OperationView) -> DbResult<Vec<SkippedRow>> {
    if row.skipped_n == 0 {
        return Ok(Vec::new());
    }
    let is_events = matches!(row.subject, OperationSubject::Events { .. });
    let sql = "/* operation_view */ SELECT r.subject_id, r.outcome, r.stood, e.provider, e.event_id
               FROM operation_rows r
               LEFT JOIN processed_webhook_events e ON CAST($2 AS BIGINT) = 1 AND e.event_seq = r.subject_id
               WHERE r.operation_id = $1 AND r.outcome <> 'changed' ORDER BY r.row_n DESC LIMIT 10";
    let rows = db.fetch(sql, &[row.operation_id.as_str().into(), i64::from(is_events).into()]).await?;
    let one = |row: &Row| {
        let subject = match (row.text_or_null("provider")?, row.text_or_null("event_id")?) {
            (Some(provider), Some(event_id)) => format!("{provider}/{event_id}"),
            _ => row.int("subject_id")?.to_string(),
        };
        Ok(SkippedRow { subject, outcome: row.text("outcome")?, state: row.text_or_null("stood")? })
    };
    rows.iter().map(one).collect()
}

/// The newest operations that `who` may see, before the one with the id `before`: of at most `limit` that are looked
/// at.
pub(crate) async fn operation_list(
    db: &mut Executor<'_>,
    before: Option<&str>,
    limit: u32,
    who: &Principal,
) -> DbResult<Page<OperationView>> {
    let sql = operations_sql(
        "operation_list",
        "WHERE CAST($1 AS TEXT) IS NULL OR operation_id < $1 ORDER BY operation_id DESC LIMIT $2",
    );
    let rows = db.fetch(sql, &[before.into(), limit.into()]).await?;
    let found = intact(TABLE, KEY, &rows, OperationRow::of)?;
    // A full page may have a next one.
    let last = rows.last().filter(|_| rows.len() >= limit as usize);
    let next = last.and_then(|_| rows.iter().rev().find_map(|row| row.text(KEY).ok()));
    let items = found.rows.into_iter().filter(|row| row.is_seen_by(who)).map(|row| row.view).collect();
    // What a damaged one is about may not be readable: it is for those who reach everywhere.
    let damaged = if who.is_everywhere() { found.damaged } else { Vec::new() };
    Ok(Page { next, damaged, ..Page::whole(items) })
}

/// The newest operations that go on only after an operator's decision, of those that `who` may see.
pub(crate) async fn operations_for_persons(
    db: &mut Executor<'_>,
    who: &Principal,
) -> DbResult<Vec<OperationView>> {
    let sql = operations_sql(
        "operation_list",
        "WHERE finished_at_ms IS NULL AND state IN ('waiting', 'stopped') ORDER BY operation_id DESC LIMIT 40",
    );
    let rows = intact(TABLE, KEY, &db.fetch(sql, &[]).await?, OperationRow::of)?.rows;
    Ok(rows.into_iter().filter(|row| row.is_seen_by(who)).map(|row| row.view).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use hooklatch_contract::{EventAct, EventFilter, MessageAct, MessageFilter};
    use hooklatch_core::types::{Name, Role};

    fn row(
        subject: &OperationSubject,
        providers: Option<&[&str]>,
        destinations: Option<&[&str]>,
    ) -> OperationRow {
        let names = |names: Option<&[&str]>| {
            names.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        let view = serde_json::json!({
            "operation_id": "o", "state": "running", "subject": subject, "actor": "", "reason": "", "created_at_ms": 0,
            "total_n": 5, "changed_n": 2, "skipped_n": 1, "skipped": [],
        });
        OperationRow {
            view: serde_json::from_value(view).unwrap(),
            providers: names(providers),
            destinations: names(destinations),
            expires_at_ms: None,
            steps: None,
            stepped_at_ms: 0,
        }
    }

    fn reach(names: Option<&[&str]>) -> Reach {
        names.map_or(Reach::All, |names| {
            Reach::These(names.iter().map(|name| Name::parse(name).unwrap()).collect::<BTreeSet<_>>())
        })
    }

    #[test]
    fn an_operation_is_seen_by_those_whose_word_reaches_all_that_it_could_be_about() {
        #[track_caller]
        fn check(row: &OperationRow, providers: Option<&[&str]>, destinations: Option<&[&str]>, want: bool) {
            let who = Principal {
                providers: reach(providers),
                destinations: reach(destinations),
                ..Principal::everywhere(Name::parse("ann").unwrap(), Role::Viewer)
            };
            assert_eq!(row.is_seen_by(&who), want, "{providers:?} {destinations:?}");
        }
        let messages = |provider: Option<&str>, destination: Option<&str>| OperationSubject::Messages {
            act: MessageAct::Send,
            filter: MessageFilter {
                provider: provider.map(str::to_owned),
                destination: destination.map(str::to_owned),
                ..MessageFilter::default()
            },
        };
        let all = row(&messages(None, None), None, None);
        check(&all, None, None, true);
        check(&all, Some(&["stripe"]), None, false);
        check(&all, None, Some(&["billing"]), false);
        let one = row(&messages(Some("stripe"), Some("billing")), None, None);
        check(&one, Some(&["stripe"]), Some(&["billing", "mail"]), true);
        check(&one, Some(&["adyen"]), None, false);
        check(&one, None, Some(&["mail"]), false);
        let scoped = row(&messages(None, None), Some(&["stripe"]), Some(&["billing"]));
        check(&scoped, Some(&["stripe", "adyen"]), Some(&["billing"]), true);
        check(&scoped, Some(&["adyen"]), Some(&["billing"]), false);
        // An event is of its provider, wherever its messages go.
        let events = OperationSubject::Events { act: EventAct::Rerun, filter: EventFilter::default() };
        let events = row(&events, Some(&["stripe"]), None);
        check(&events, Some(&["stripe"]), Some(&["mail"]), true);
        check(&events, Some(&["adyen"]), None, false);
        assert_eq!(events.passed_n(), 3);
    }
}
