//! The rows of an operation, found by a filter or fixed by its order, and their preview: the sums of what it would act
//! on, with some of its rows. Nothing is written.
//!
//! A node remembers the sets of the newest previews, so many rows in all, so that a refusal can name the rows that have
//! changed since. An order at another node, or much later, is refused all the same, without names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{DuplicateOperation, OPERATION_ROWS_N_MAX, OperationRow, in_the_way, operations_sql};
use crate::damaged::intact;
use crate::db::{DbError, DbResult, Executor, Row, Value};
use crate::event::{event_columns, event_views};
use crate::message::message_rows;
use crate::queries::{
    EVENT_CONDITIONS, IS_WAITING, WantedMessages, any_of, event_filter_values, is_waiting, message_view,
};
use hooklatch_contract::{
    BulkFigures, ChangedRows, EventFilter, EventView, MessageView, NamedCount, OperationChoice,
    OperationPreview, RecentDecisions, bulk_acts,
};
use hooklatch_core::types::{DeliveryFilter, EventState, MESSAGES_N_MAX, MessageState, Principal, UnixMs};

/// Rows of a preview that are shown.
const SAMPLES_N: usize = 5;
/// Rows that are remembered, of all previews together: about 5 MB.
const REMEMBERED_N_MAX: usize = 200_000;
/// Rows that are looked at for names in one statement.
const NAMED_IDS_N: usize = 10_000;
/// Rows that are named.
const NAMED_N: usize = 10;
/// Acts on rows of a preview that it lists: those of the last ten minutes, in the newest rows of the audit log.
const RECENT_MS: i64 = 600_000;
/// Most names of operators.
const ACTORS_N: usize = 3;

/// Rows as one text, each with what changes when it is acted on.
fn set_sql(version: &str, id: &str, from: &str, limit: usize) -> String {
    format!(
        "/* operation_set */ SELECT string_agg(CAST(f.subject_id AS TEXT) || ':' || CAST(f.version AS TEXT), ','
             ORDER BY f.subject_id) AS found
         FROM (SELECT {id} AS subject_id, {version} AS version FROM {from} ORDER BY {id} LIMIT ${limit}) f"
    )
}

/// The open messages that a filter finds, the oldest first; `words` are those of the index. One that waits for no
/// decision is tried at any moment: its attempts are not compared. A further run of the event may do the same under
/// other keys.
fn message_set_sql(words: &str) -> String {
    let version = "CAST(e.generation AS TEXT) || '.' || CAST(CASE WHEN q.state IN ('held', 'dead')
        THEN q.attempts_before_n + q.attempts_n ELSE 0 END AS TEXT)";
    let from = format!(
        "outbox_queue q JOIN processed_webhook_events e ON e.event_seq = q.message_id / 1024
         WHERE q.state = $1 AND q.state IN ({words}) AND {} AND {}",
        WantedMessages::conditions("e.provider"),
        WantedMessages::DESTINATION
    );
    set_sql(version, "q.message_id", &from, 8)
}
const STUCK: &str = "'held', 'dead', 'waiting'";
const MOVING: &str = "'ready', 'leased'";

/// The events that a filter finds, the oldest first; `more` is what an index is found by. What an act on an event risks
/// depends on its calls: how many are open, and how often those that wait for an operator were tried.
fn event_set_sql(more: &str) -> String {
    let version = "CAST(e.generation AS TEXT) || '.' || (
        SELECT CAST(COUNT(*) AS TEXT) || '.' || CAST(COALESCE(SUM(CASE WHEN q.state IN ('held', 'dead')
            THEN 1 + q.attempts_before_n + q.attempts_n ELSE 0 END), 0) AS TEXT)
        FROM outbox_queue q WHERE q.message_id BETWEEN e.event_seq * 1024 AND e.event_seq * 1024 + 1023)";
    let from = format!("processed_webhook_events e WHERE e.state = $3 AND {EVENT_CONDITIONS}{more}");
    set_sql(version, "e.event_seq", &from, 9)
}
/// Those of an object, whatever they wait for.
const OF_OBJECT: &str = " AND e.object = $4 AND e.object IS NOT NULL";
/// Those that have calls in some state, whose numbers were found before.
const OF_CALLS: &str = " AND e.event_seq = ANY($10)";

fn waiting_events_sql() -> String {
    event_set_sql(&format!(" AND e.{IS_WAITING}"))
}

/// Numbers of the events with calls in these states, by what is open: history is not looked at. A query of its own: in
/// one statement with the events, PostgreSQL may go through all events in their order, and for each through all calls.
fn calls_sql(words: &str) -> String {
    format!(
        "/* operation_set */ SELECT string_agg(CAST(c.event_seq AS TEXT), ',') AS found
         FROM (SELECT DISTINCT s.message_id / 1024 AS event_seq FROM outbox_queue s
               WHERE {words} AND s.state = ANY($1)) c"
    )
}
const STUCK_CALLS: &str = "(s.state IN ('held', 'dead')) IS TRUE";
const OPEN_CALLS: &str = "s.message_id >= 0";

const FIXED: &str =
    "/* operation_set */ SELECT string_agg(CAST(r.subject_id AS TEXT), ',' ORDER BY r.row_n) AS found
     FROM operation_rows r WHERE r.operation_id = $1 AND ((CAST($2 AS BIGINT) = 1 AND r.outcome IS NULL)
         OR (CAST($3 AS BIGINT) = 1 AND r.outcome = 'changed'))";

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

/// Adds up events, with their calls.
fn event_figures_sql() -> String {
    let calls = |table: &str, more: &str| {
        format!(
            "(SELECT COUNT(*) FROM {table} c
              WHERE c.message_id BETWEEN e.event_seq * 1024 AND e.event_seq * 1024 + 1023{more})"
        )
    };
    format!(
        "/* operation_preview */ SELECT e.provider, CAST(NULL AS TEXT) AS destination, COUNT(*) AS counted_n,
             MIN(e.received_at_ms) AS first_at_ms, MAX(e.received_at_ms) AS last_at_ms,
             CAST(SUM({open} + {finished}) AS BIGINT) AS calls_n, CAST(SUM({open}) AS BIGINT) AS open_n,
             CAST(SUM({untried}) AS BIGINT) AS untried_n, CAST(0 AS BIGINT) AS uncertain_n,
             CAST(0 AS BIGINT) AS expired_n
         FROM processed_webhook_events e WHERE e.event_seq = ANY($1) AND e.state = $2 GROUP BY e.provider",
        open = calls("outbox_queue", ""),
        finished = calls("outbox_finished", ""),
        untried = calls("outbox_queue", " AND c.attempts_n = 0"),
    )
}

const SAMPLE_MESSAGES: &str = "/* operation_preview */ SELECT m.* FROM outbox_messages m
    WHERE m.message_id = ANY($1) ORDER BY m.message_id DESC";

fn sample_events_sql() -> String {
    format!(
        "/* operation_preview */ SELECT {} FROM processed_webhook_events e WHERE e.event_seq = ANY($1)
         ORDER BY e.event_seq DESC",
        event_columns!()
    )
}

/// What was decided about messages and events since `$1`.
const RECENT: &str = "/* operation_preview */ SELECT a.audit_seq, a.at_ms, a.actor, a.message_id, e.event_seq
    FROM (SELECT audit_seq, at_ms, actor, action, message_id, provider, event_id FROM audit_log
          ORDER BY audit_seq DESC LIMIT 10000) a
    LEFT JOIN processed_webhook_events e ON a.message_id IS NULL AND e.provider = a.provider AND e.event_id = a.event_id
    WHERE a.at_ms > $1 AND a.action NOT IN ('body_read', 'answer_read') AND a.event_id IS NOT NULL
    ORDER BY a.audit_seq DESC";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<crate::queries::NamedStatement> {
    vec![
        ("operation set of stuck messages", message_set_sql(STUCK)),
        ("operation set of moving messages", message_set_sql(MOVING)),
        ("operation set of waiting events", waiting_events_sql()),
        ("operation set of events of an object", event_set_sql(OF_OBJECT)),
        ("operation set of events with calls", event_set_sql(OF_CALLS)),
        ("operation events with stuck calls", calls_sql(STUCK_CALLS)),
        ("operation events with open calls", calls_sql(OPEN_CALLS)),
        ("operation set of settled events", event_set_sql("")),
        ("operation rows", FIXED.to_owned()),
        ("operation figures of messages", OF_MESSAGES.to_owned()),
        ("operation figures of events", event_figures_sql()),
        ("operation samples of messages", SAMPLE_MESSAGES.to_owned()),
        ("operation samples of events", sample_events_sql()),
    ]
}

/// Rows that a filter found.
pub(crate) struct FoundSet {
    /// Numbers of the messages or events, ascending; one more than an operation acts on where there are more.
    pub ids: Vec<i64>,
    /// Differs when another row is found, or when one of them, or a call of one of them, was sent, settled or handled
    /// since.
    pub digest: String,
    /// The rows as their statement gave them: `1:0.2,2:0.1`.
    text: String,
}

impl FoundSet {
    /// Reads rows with what changes when one is acted on.
    pub(crate) fn of(text: &str) -> DbResult<Self> {
        let digest = hex::encode(Sha256::digest(text).get(..8).unwrap_or_default());
        Ok(Self { ids: ids_of(text)?, digest, text: text.to_owned() })
    }

    /// Rows of an operation that was ordered.
    pub(crate) fn fixed(ids: Vec<i64>) -> Self {
        Self { ids, digest: String::new(), text: String::new() }
    }

    /// What changes when a row is acted on, by its number.
    pub(crate) fn versions(&self) -> BTreeMap<i64, u64> {
        let row = |one: &str| {
            let (id, version) = one.split_once(':')?;
            let hash = Sha256::digest(version).first_chunk().copied().map(u64::from_be_bytes)?;
            Some((id.parse().ok()?, hash))
        };
        self.text.split(',').filter_map(row).collect()
    }
}

/// The rows that a choice finds within the reach of `who`.
pub(super) async fn found_set(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    who: &Principal,
) -> DbResult<FoundSet> {
    let (sql, mut values) = found_by(choice, who);
    if let OperationChoice::Events(EventFilter { delivery: Some(calls), .. }) = choice {
        let states: Vec<String> = calls.states().iter().map(MessageState::to_string).collect();
        let sql = calls_sql(if *calls == DeliveryFilter::Open { OPEN_CALLS } else { STUCK_CALLS });
        let text = db.fetch_one(sql, &[states.into()]).await?.text_or_null("found")?.unwrap_or_default();
        values.push(ids_of(&text)?.into());
    }
    let text = db.fetch_one(sql, &values).await?.text_or_null("found")?.unwrap_or_default();
    FoundSet::of(&text)
}

/// Which rows of an operation are asked for.
#[derive(Clone, Copy)]
pub(super) struct RowsQuery {
    pub left: bool,
    pub changed: bool,
}

/// The rows of an operation that are left, or were acted on, ascending.
pub(super) async fn fixed_set(
    db: &mut Executor<'_>,
    operation_id: &str,
    wanted: RowsQuery,
) -> DbResult<Vec<i64>> {
    let values = [operation_id.into(), i64::from(wanted.left).into(), i64::from(wanted.changed).into()];
    ids_of(&db.fetch_one(FIXED, &values).await?.text_or_null("found")?.unwrap_or_default())
}

/// The numbers in `1:0,2:0`, or in `1,2`.
fn ids_of(text: &str) -> DbResult<Vec<i64>> {
    let id = |one: &str| one.split(':').next().unwrap_or_default().parse();
    let ids = text.split(',').filter(|one| !one.is_empty()).map(id).collect::<Result<_, _>>();
    ids.map_err(|_| DbError::decode("found", "no numbers"))
}

/// The statement that finds a set, and its values.
fn found_by(choice: &OperationChoice, who: &Principal) -> (String, Vec<Value>) {
    let (sql, mut values) = match choice {
        OperationChoice::Messages(filter) => {
            let is_moving = matches!(filter.state, Some(MessageState::Ready | MessageState::Leased));
            let wanted = WantedMessages::new(filter.clone(), &who.providers, &who.destinations);
            (message_set_sql(if is_moving { MOVING } else { STUCK }), wanted.values(None))
        }
        OperationChoice::Events(filter) => {
            let sql = match (filter.delivery, &filter.object) {
                (Some(_), _) => event_set_sql(OF_CALLS),
                (None, Some(_)) => event_set_sql(OF_OBJECT),
                (None, None) if is_waiting(filter.state) => waiting_events_sql(),
                (None, None) => event_set_sql(""),
            };
            (sql, event_filter_values(filter, who.providers.names()))
        }
    };
    // One more than there may be.
    values.push(i64::try_from(OPERATION_ROWS_N_MAX + 1).unwrap_or(i64::MAX).into());
    (sql, values)
}

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

    /// The numbers of rows that are in one of both sets alone, or stand otherwise now; none where the first is not
    /// remembered.
    pub(crate) fn changed(&self, seen: &str, now: &FoundSet) -> Vec<i64> {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, before)) = sets.iter().find(|(digest, _)| digest == seen) else { return Vec::new() };
        let now = now.versions();
        let numbers: BTreeSet<i64> = before.keys().chain(now.keys()).copied().collect();
        numbers.into_iter().filter(|id| before.get(id) != now.get(id)).collect()
    }
}

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
    let sql = operations_sql("operation_preview", "WHERE operation_id = $1");
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
    let rows = match choice {
        OperationChoice::Messages(filter) => {
            let state = filter.state.map(MessageState::as_str);
            db.fetch(OF_MESSAGES, &[ids.to_vec().into(), state.into(), looking.now_ms.into()]).await?
        }
        OperationChoice::Events(filter) => {
            let state = filter.state.map(EventState::as_str);
            db.fetch(event_figures_sql(), &[ids.to_vec().into(), state.into()]).await?
        }
    };
    let figures = BulkFigures { is_more: set.ids.len() > ids.len(), ..added_up(&rows)? };
    let recent = recent_acts(db, choice, ids, looking).await?;
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
            let rows = db.fetch(sample_events_sql(), &[newest.into()]).await?;
            let views = event_views(db, &rows, &looking.who.destinations).await?;
            events = views.rows.into_iter().map(|(_, view)| view).collect();
        }
    }
    Ok((messages, events))
}

/// The first of these rows by name, of those in reach of `who`: messages by their ids, events by provider and id.
pub(super) async fn named(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    who: &Principal,
) -> DbResult<ChangedRows> {
    let mut values = any_of(who.providers.names()).to_vec();
    let (id, name, table, more) = match choice {
        OperationChoice::Messages(_) => {
            values.extend(any_of(who.destinations.names()));
            let more = "AND (CAST($3 AS BIGINT) = 0 OR destination = ANY($4))";
            ("message_id", "CAST(message_id AS TEXT)", "outbox_messages", more)
        }
        OperationChoice::Events(_) => {
            ("event_seq", "provider || '/' || event_id", "processed_webhook_events", "")
        }
    };
    let sql = format!(
        "/* operation_set */ SELECT {id}, {name} AS name FROM {table}
         WHERE (CAST($1 AS BIGINT) = 0 OR provider = ANY($2)) {more} AND {id} = ANY(${})
         ORDER BY {id} LIMIT {NAMED_N}",
        values.len() + 1
    );
    let mut rows: Vec<String> = Vec::new();
    if matches!(choice, OperationChoice::Messages(_)) && who.is_everywhere() {
        // Also those that are gone.
        rows.extend(ids.iter().take(NAMED_N).map(i64::to_string));
    } else {
        // Where the scope leaves out the first ones, others are named.
        for ids in ids.chunks(NAMED_IDS_N) {
            let values = [&values[..], &[ids.to_vec().into()]].concat();
            let found = db.fetch(sql.clone(), &values).await?;
            rows.extend(intact(table, id, &found, |row| row.text("name"))?.rows);
            if rows.len() >= NAMED_N {
                break;
            }
        }
    }
    rows.truncate(NAMED_N);
    Ok(ChangedRows { rows, rows_n: u64::try_from(ids.len()).unwrap_or(u64::MAX) })
}

/// Decisions of operators about these rows, their events or their messages in the last minutes; `None`: there were
/// none.
async fn recent_acts(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    looking: &PreviewContext,
) -> DbResult<Option<RecentDecisions>> {
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
    let rows = db.fetch(RECENT, &[looking.now_ms.saturating_sub(RECENT_MS).into()]).await?;
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
    if touched.is_empty() {
        return Ok(None);
    }
    let touched: Vec<i64> = touched.into_iter().collect();
    let changed = named(db, choice, &touched, &looking.who).await?;
    Ok(Some(RecentDecisions { changed, last_at_ms, actors }))
}

#[cfg(test)]
mod tests {
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
