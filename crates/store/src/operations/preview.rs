//! The preview of an operation: the sums of what it would act on, with some of its rows. Nothing is written.
//!
//! The results of calls of the rows that an operation with steps acted on.
//!
//! Which rows of a set have changed since the preview, so that a refusal can name them.
//!
//! A node remembers the sets of the newest previews, so many rows in all. An order at another node, or much later, is
//! refused all the same, without names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

use super::order::{DuplicateOperation, in_the_way};
use super::set::{FoundSet, RowsQuery, fixed_set, found_set};
use super::steps::Results;
use super::{OPERATION_ROWS_N_MAX, OperationRow, operation_rows_sql};
use crate::damaged::intact;
use crate::db::{DbResult, Executor, Row, Value};
use crate::event::{event_columns, event_views};
use crate::message::message_rows;
use crate::people::message_view;
use hooklatch_contract::{
    BulkFigures, ChangedRows, EventView, MessageView, NamedCount, OperationChoice, OperationPreview,
    OperationSubject, RecentDecisions, bulk_acts,
};
use hooklatch_core::types::{EventState, MESSAGES_N_MAX, MessageState, Principal, Reach, UnixMs};

/// Rows of a preview that are shown.
const SAMPLES_N: usize = 5;

/// Adds up messages. A gateway says the statuses below also for what was done behind it.
const OF_MESSAGES: &str = "/* operation_preview */ SELECT e.provider, q.destination, COUNT(*) AS counted_n,
        MIN(q.created_at_ms) AS first_at_ms, MAX(q.created_at_ms) AS last_at_ms, COUNT(*) AS calls_n, COUNT(*) AS open_n,
        SUM(CASE WHEN q.attempts_n = 0 THEN 1 ELSE 0 END) AS untried_n,
        SUM(CASE WHEN q.last_result = 'unknown' OR q.state = 'leased' OR EXISTS (
                SELECT 1 FROM outbox_attempts a WHERE a.message_id = q.message_id
                   AND (a.result = 'unknown' OR a.http_status IN (408, 500, 502, 504)
                        OR a.http_status BETWEEN 520 AND 524))
            THEN 1 ELSE 0 END) AS uncertain_n,
        SUM(CASE WHEN q.key_valid_until_ms < CAST($3 AS BIGINT) THEN 1 ELSE 0 END) AS expired_n
    FROM outbox_queue q JOIN processed_webhook_events e ON e.event_seq = q.message_id / 1024
    WHERE q.message_id = ANY($1) AND q.state = $2 GROUP BY e.provider, q.destination";

/// The number of messages of the event `e` in a table.
macro_rules! calls_in {
    ($table:literal) => {
        concat!(
            "(SELECT COUNT(*) FROM ",
            $table,
            " c WHERE c.message_id BETWEEN e.event_seq * 1024 AND e.event_seq * 1024 + 1023"
        )
    };
}

/// Adds up events, with their calls.
const OF_EVENTS: &str = concat!(
    "/* operation_preview */ SELECT e.provider, CAST(NULL AS TEXT) AS destination, COUNT(*) AS counted_n,
         MIN(e.received_at_ms) AS first_at_ms, MAX(e.received_at_ms) AS last_at_ms, CAST(SUM(",
    calls_in!("outbox_queue"),
    ") + ",
    calls_in!("outbox_finished"),
    ")) AS BIGINT) AS calls_n, CAST(SUM(",
    calls_in!("outbox_queue"),
    ")) AS BIGINT) AS open_n, CAST(SUM(",
    calls_in!("outbox_queue"),
    " AND c.attempts_n = 0)) AS BIGINT) AS untried_n, CAST(0 AS BIGINT) AS uncertain_n, CAST(0 AS BIGINT) AS expired_n
     FROM processed_webhook_events e WHERE e.event_seq = ANY($1) AND e.state = $2 GROUP BY e.provider"
);

const SAMPLE_MESSAGES: &str = "/* operation_preview */ SELECT m.* FROM outbox_messages m
    WHERE m.message_id = ANY($1) ORDER BY m.message_id DESC";
const SAMPLE_EVENTS: &str = concat!(
    "/* operation_preview */ SELECT ",
    event_columns!(),
    " FROM processed_webhook_events e WHERE e.event_seq = ANY($1) ORDER BY e.event_seq DESC"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("operation figures of messages", OF_MESSAGES),
    ("operation figures of events", OF_EVENTS),
    ("operation samples of messages", SAMPLE_MESSAGES),
    ("operation samples of events", SAMPLE_EVENTS),
];

/// The operator and the time of a preview.
pub(crate) struct PreviewContext {
    pub who: Principal,
    pub now_ms: UnixMs,
    pub installation_id: Uuid,
    pub seen: Arc<PreviewCache>,
}

/// What an operation on a choice would act on within the operator's reach, and the acts that are possible on it.
pub(crate) async fn operation_preview(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    looking: &PreviewContext,
) -> DbResult<OperationPreview> {
    let set = found_set(db, choice, &looking.who).await?;
    let mut preview = preview_of(db, choice, &set, looking).await?;
    let subjects: Vec<_> = preview.acts.iter().filter_map(|one| choice.clone().with_act(&one.act)).collect();
    looking.seen.remember(&set);
    let twins = in_the_way(db, &subjects, &set.ids, (&looking.who, looking.now_ms)).await?;
    for (act, twin) in preview.acts.iter_mut().zip(twins) {
        if let Some(DuplicateOperation { operation_id, .. }) = twin {
            act.same_operation_id = operation_id.map(|id| id.to_string());
        }
    }
    Ok(preview)
}

/// What an operation that was ordered acts on yet: those of its rows that are left, and its act.
pub(crate) async fn operation_preview_again(
    db: &mut Executor<'_>,
    operation_id: &str,
    looking: &PreviewContext,
) -> DbResult<Option<OperationPreview>> {
    let sql = operation_rows_sql!("operation_preview", "WHERE operation_id = $1");
    let row = db.fetch_optional(sql, &[operation_id.into()]).await?;
    let row = row.as_ref().map(OperationRow::of).transpose()?;
    let Some(row) = row.filter(|row| row.is_seen_by(&looking.who)) else { return Ok(None) };
    let ids = fixed_set(db, operation_id, RowsQuery { left: true, changed: false }).await?;
    let set = FoundSet::fixed(ids);
    let mut preview = preview_of(db, &row.view.subject.choice(), &set, looking).await?;
    preview.acts.retain(|one| one.act == row.view.subject.act());
    // It has those of its order.
    preview.acts.iter_mut().for_each(|one| one.steps = None);
    Ok(Some(preview))
}

async fn preview_of(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    set: &FoundSet,
    looking: &PreviewContext,
) -> DbResult<OperationPreview> {
    let most = usize::try_from(OPERATION_ROWS_N_MAX).unwrap_or(usize::MAX);
    let ids = set.ids.get(..most).unwrap_or(&set.ids);
    let (sql, state) = match choice {
        OperationChoice::Messages(filter) => (OF_MESSAGES, filter.state.map(MessageState::as_str)),
        OperationChoice::Events(filter) => (OF_EVENTS, filter.state.map(EventState::as_str)),
    };
    let mut values: Vec<Value> = vec![ids.to_vec().into(), state.into()];
    if sql == OF_MESSAGES {
        values.push(looking.now_ms.into());
    }
    let figures =
        BulkFigures { is_more: set.ids.len() > ids.len(), ..added_up(&db.fetch(sql, &values).await?)? };
    let recent = match recent_acts(db, choice, ids, looking.now_ms).await? {
        Some(acts) => Some(RecentDecisions {
            changed: named(db, choice, &acts.ids, &looking.who).await?,
            last_at_ms: acts.last_at_ms,
            actors: acts.actors,
        }),
        None => None,
    };
    let (messages, events) = samples(db, choice, ids, looking).await?;
    Ok(OperationPreview {
        acts: bulk_acts(choice, &figures),
        figures,
        set: set.digest.clone(),
        messages,
        events,
        approvals_n: 1,
        recent,
    })
}

fn added_up(rows: &[Row]) -> DbResult<BulkFigures> {
    let mut figures = BulkFigures::default();
    let (mut providers, mut destinations) = (BTreeMap::new(), BTreeMap::new());
    for row in rows {
        let number = |column: &str| -> DbResult<u64> {
            Ok(row.int_or_null(column)?.unwrap_or_default().unsigned_abs())
        };
        let counted_n = number("counted_n")?;
        *providers.entry(row.text("provider")?).or_default() += counted_n;
        if let Some(destination) = row.text_or_null("destination")? {
            *destinations.entry(destination).or_default() += counted_n;
        }
        let (first_at_ms, last_at_ms) = (row.int("first_at_ms")?, row.int("last_at_ms")?);
        figures.first_at_ms = Some(figures.first_at_ms.map_or(first_at_ms, |first| first.min(first_at_ms)));
        figures.last_at_ms = figures.last_at_ms.max(Some(last_at_ms));
        figures.counted_n += counted_n;
        figures.calls_n += number("calls_n")?;
        figures.open_n += number("open_n")?;
        figures.untried_n += number("untried_n")?;
        figures.uncertain_n += number("uncertain_n")?;
        figures.expired_n += number("expired_n")?;
    }
    let named = |counts: BTreeMap<String, u64>| {
        counts.into_iter().map(|(name, counted_n)| NamedCount { name, counted_n }).collect()
    };
    (figures.providers, figures.destinations) = (named(providers), named(destinations));
    Ok(figures)
}

/// The newest of these rows.
async fn samples(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    looking: &PreviewContext,
) -> DbResult<(Vec<MessageView>, Vec<EventView>)> {
    let newest: Vec<i64> = ids.iter().rev().take(SAMPLES_N).copied().collect();
    let (mut messages, mut events) = (Vec::new(), Vec::new());
    match choice {
        OperationChoice::Messages(_) => {
            let rows = db.fetch(SAMPLE_MESSAGES, &[newest.into()]).await?;
            messages =
                message_rows(&rows, &looking.installation_id)?.rows.into_iter().map(message_view).collect();
        }
        OperationChoice::Events(_) => {
            let rows = db.fetch(SAMPLE_EVENTS, &[newest.into()]).await?;
            let views = event_views(db, &rows, &looking.who.destinations).await?;
            events = views.rows.into_iter().map(|(_, view)| view).collect();
        }
    }
    Ok((messages, events))
}

/// Characters of an error that are kept as the reason of a stop.
const ERROR_CHARS_MAX: usize = 200;

/// Rows of messages whose calls have not been seen to be tried. `released` is not an attempt: nothing was sent.
const RESULTS_OF_MESSAGES: &str = "/* operation_results */ SELECT r.row_n, q.last_error AS error,
        CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown') OR d.state = 'discarded'
             THEN 1 ELSE 0 END AS is_failed,
        CASE WHEN q.message_id IS NULL THEN 0 ELSE 1 END AS is_open
    FROM operation_rows r
    LEFT JOIN outbox_queue q ON q.message_id = r.subject_id
    LEFT JOIN outbox_finished d ON d.message_id = r.subject_id
    WHERE r.operation_id = $1 AND r.result = 'open' ORDER BY r.row_n LIMIT 500";

/// Rows of events whose handlers, or whose newest calls, have not been seen to be tried.
const RESULTS_OF_EVENTS: &str =
    "/* operation_results */ SELECT r.row_n, e.state, e.attempts_n, c.failed_n, c.open_n,
        COALESCE(c.error, e.error) AS error
    FROM operation_rows r
    LEFT JOIN processed_webhook_events e ON e.event_seq = r.subject_id
    LEFT JOIN (
        SELECT o.row_n, MAX(q.last_error) AS error,
               SUM(CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown')
                        THEN 1 ELSE 0 END) AS failed_n,
               SUM(CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown')
                        THEN 0 ELSE 1 END) AS open_n
        FROM operation_rows o
        JOIN processed_webhook_events p ON p.event_seq = o.subject_id
        JOIN outbox_queue q ON q.message_id BETWEEN o.subject_id * 1024 AND o.subject_id * 1024 + 1023
             AND q.generation = p.generation
        WHERE o.operation_id = $1 AND o.result = 'open' GROUP BY o.row_n
    ) c ON c.row_n = r.row_n
    WHERE r.operation_id = $1 AND r.result = 'open' ORDER BY r.row_n LIMIT 500";

const MARK: &str = "/* operation_results */ UPDATE operation_rows SET result = $3
    WHERE operation_id = $1 AND row_n = ANY($2) AND result = 'open'";

/// Marks the rows whose calls were tried since the last look, each once, and counts them.
pub(super) async fn settle_results(db: &mut Executor<'_>, row: &OperationRow) -> DbResult<Results> {
    let sql = match row.view.subject {
        OperationSubject::Messages { .. } => RESULTS_OF_MESSAGES,
        OperationSubject::Events { .. } => RESULTS_OF_EVENTS,
    };
    let found = db.fetch(sql, &[row.view.operation_id.as_str().into()]).await?;
    let (mut good, mut failed, mut error) = (Vec::new(), Vec::new(), None);
    for found in &found {
        let result = match row.view.subject {
            OperationSubject::Messages { .. } => of_message(found)?,
            OperationSubject::Events { .. } => of_event(found)?,
        };
        match result {
            RowResult::Open => {}
            RowResult::Good => good.push(found.int("row_n")?),
            RowResult::Failed => {
                failed.push(found.int("row_n")?);
                let found: Option<String> = found.text_or_null("error")?;
                error = error.or(found.map(|found| found.chars().take(ERROR_CHARS_MAX).collect()));
            }
        }
    }
    let mut results = Results { error, ..Results::default() };
    for (rows, word, n) in [(good, "good", &mut results.good_n), (failed, "failed", &mut results.failed_n)] {
        if !rows.is_empty() {
            *n = db.execute(MARK, &[row.view.operation_id.as_str().into(), rows.into(), word.into()]).await?;
        }
    }
    Ok(results)
}

/// What became of a row.
enum RowResult {
    /// Its calls have not been tried, or its handlers have not run.
    Open,
    Good,
    Failed,
}

fn of_message(found: &Row) -> DbResult<RowResult> {
    Ok(match (found.int("is_failed")?, found.int("is_open")?) {
        (1, _) => RowResult::Failed,
        (_, 1) => RowResult::Open,
        _ => RowResult::Good,
    })
}

fn of_event(found: &Row) -> DbResult<RowResult> {
    let number = |column: &str| -> DbResult<i64> { Ok(found.int_or_null(column)?.unwrap_or_default()) };
    let state = found.text_or_null("state")?.as_deref().and_then(EventState::parse);
    Ok(match state {
        Some(EventState::Retry) if number("attempts_n")? == 0 => RowResult::Open,
        Some(EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict) => {
            RowResult::Failed
        }
        Some(EventState::Handled) if number("failed_n")? > 0 => RowResult::Failed,
        Some(EventState::Handled) if number("open_n")? > 0 => RowResult::Open,
        // Handlers that made nothing of it, and what is no longer there.
        _ => RowResult::Good,
    })
}

/// Rows that are remembered, of all previews together: about 5 MB.
const REMEMBERED_N_MAX: usize = 200_000;
/// Rows that are named.
const NAMED_N: usize = 10;
/// Acts on rows of a preview that it lists: those of the last ten minutes, in the newest rows of the audit log.
const RECENT_MS: i64 = 600_000;
/// Most names of operators.
const ACTORS_N: usize = 3;

/// The rows of the newest previews.
#[derive(Debug, Default)]
pub(crate) struct PreviewCache(Mutex<VecDeque<(String, BTreeMap<i64, u64>)>>);

impl PreviewCache {
    /// Remembers the rows of a preview.
    pub(crate) fn remember(&self, set: &FoundSet) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|(digest, _)| *digest != set.digest);
        sets.push_front((set.digest.clone(), set.versions()));
        let mut rows_n = 0;
        sets.retain(|(_, rows)| {
            rows_n += rows.len().max(1);
            rows_n <= REMEMBERED_N_MAX
        });
    }

    /// The numbers of rows that are in one of both sets alone, or stand otherwise now; none where the first is not known.
    pub(crate) fn changed(&self, seen: &str, now: &FoundSet) -> Vec<i64> {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, before)) = sets.iter().find(|(digest, _)| digest == seen) else { return Vec::new() };
        let now = now.versions();
        let numbers: BTreeSet<i64> = before.keys().chain(now.keys()).copied().collect();
        numbers.into_iter().filter(|id| before.get(id) != now.get(id)).collect()
    }
}

const EVENTS: &str = "/* operation_set */ SELECT event_seq, provider, event_id FROM processed_webhook_events
    WHERE event_seq = ANY($1) AND (CAST($2 AS BIGINT) = 1 OR provider = ANY($3)) ORDER BY event_seq";
/// What was decided about messages and events since `$1`.
const RECENT: &str = "/* operation_preview */ SELECT a.audit_seq, a.at_ms, a.actor, a.message_id, e.event_seq
    FROM (SELECT audit_seq, at_ms, actor, action, message_id, provider, event_id FROM audit_log
          ORDER BY audit_seq DESC LIMIT 10000) a
    LEFT JOIN processed_webhook_events e ON a.message_id IS NULL AND e.provider = a.provider AND e.event_id = a.event_id
    WHERE a.at_ms > $1 AND a.action NOT IN ('body_read', 'answer_read') AND a.event_id IS NOT NULL
    ORDER BY a.audit_seq DESC";

/// The first of these rows by name: messages by their ids, events in reach by provider and id.
pub(crate) async fn named(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    who: &Principal,
) -> DbResult<ChangedRows> {
    let first = ids.get(..NAMED_N).unwrap_or(ids);
    let rows = match choice {
        _ if first.is_empty() => Vec::new(),
        OperationChoice::Messages(_) => first.iter().map(i64::to_string).collect(),
        OperationChoice::Events(_) => {
            let (is_all, names) = (who.providers == Reach::All, who.providers.names());
            let values: [Value; 3] =
                [first.to_vec().into(), i64::from(is_all).into(), names.unwrap_or_default().into()];
            let name = |row: &Row| Ok(format!("{}/{}", row.text("provider")?, row.text("event_id")?));
            intact("processed_webhook_events", "event_seq", &db.fetch(EVENTS, &values).await?, name)?.rows
        }
    };
    Ok(ChangedRows { rows, rows_n: u64::try_from(ids.len()).unwrap_or(u64::MAX) })
}

/// Acts of operators on these rows, their events or their messages, a moment ago.
pub(super) struct RecentActs {
    /// Numbers of the rows, ascending.
    pub ids: Vec<i64>,
    pub last_at_ms: UnixMs,
    pub actors: Vec<String>,
}

/// What operators did to these rows in the last minutes; `None`: nothing.
pub(super) async fn recent_acts(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    now_ms: UnixMs,
) -> DbResult<Option<RecentActs>> {
    if ids.is_empty() {
        return Ok(None);
    }
    let per_event = i64::from(MESSAGES_N_MAX);
    let are_events = matches!(choice, OperationChoice::Events(_));
    let mut of_event: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for id in ids {
        of_event.entry(if are_events { *id } else { id / per_event }).or_default().push(*id);
    }
    let act = |row: &Row| {
        let subject = (row.int_or_null("message_id")?, row.int_or_null("event_seq")?);
        Ok((subject, row.int("at_ms")?, row.text("actor")?))
    };
    let rows = db.fetch(RECENT, &[now_ms.saturating_sub(RECENT_MS).into()]).await?;
    let (mut touched, mut last_at_ms, mut actors) = (BTreeSet::new(), UnixMs::MIN, Vec::new());
    for ((message_id, event_seq), at_ms, actor) in intact("audit_log", "audit_seq", &rows, act)?.rows {
        let event = event_seq.or(message_id.map(|id| id / per_event));
        let Some(found) = event.and_then(|event| of_event.get(&event)) else { continue };
        let is_it = |id: &&i64| are_events || message_id.is_none_or(|message_id| message_id == **id);
        let before_n = touched.len();
        touched.extend(found.iter().filter(is_it).copied());
        if touched.len() > before_n {
            last_at_ms = last_at_ms.max(at_ms);
            if actors.len() < ACTORS_N && !actors.contains(&actor) {
                actors.push(actor);
            }
        }
    }
    Ok((!touched.is_empty()).then(|| RecentActs { ids: touched.into_iter().collect(), last_at_ms, actors }))
}

#[cfg(test)]
mod changed_tests {
    use super::*;

    fn set(text: &str) -> FoundSet {
        FoundSet::of(text).unwrap()
    }

    #[test]
    fn rows_that_are_new_gone_or_changed_are_found_of_sets_that_are_remembered() {
        let (seen, before) = (PreviewCache::default(), set("1:0.1,2:0.1,3:0.1"));
        seen.remember(&before);
        assert_eq!(seen.changed(&before.digest, &before), Vec::<i64>::new());
        assert_eq!(seen.changed(&before.digest, &set("2:0.2,3:0.1,4:0.1")), [1, 2, 4]);
        assert_eq!(seen.changed("another", &set("2:0.2")), Vec::<i64>::new());
        let large = |first: usize| {
            set(&(first..first + 90_000).map(|n| format!("{n}:0")).collect::<Vec<_>>().join(","))
        };
        seen.remember(&large(10));
        seen.remember(&large(20));
        assert_eq!(seen.changed(&before.digest, &set("1:0")).len(), 3, "there is room");
        seen.remember(&large(30));
        assert_eq!(seen.changed(&before.digest, &set("1:0")), Vec::<i64>::new(), "the oldest are forgotten");
        assert_eq!(seen.changed(&large(30).digest, &large(31)), [30, 90_030]);
    }
}
