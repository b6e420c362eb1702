//! What an operation would act on, added up, with some of its rows. Nothing is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::changed::{SeenSets, named, recent_acts};
use super::order::{Twin, in_the_way};
use super::set::{FoundSet, RowsWanted, fixed_set, found_set};
use super::types::{OPERATION_ROWS_N_MAX, OperationRow, operation_rows_sql};
use crate::api::{
    BulkFigures, EventView, MessageView, NamedCount, OperationChoice, OperationPreview, RecentDecisions,
    bulk_acts,
};
use crate::store::db::{DbResult, Door, Row, Value};
use crate::store::event::{event_columns, event_views};
use crate::store::message::message_rows;
use crate::store::people::message_view;
use crate::types::{EventState, MessageState, Principal, UnixMs};

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

/// Who looks, and when.
pub(in crate::store) struct Looking {
    pub(in crate::store) who: Principal,
    pub(in crate::store) now_ms: UnixMs,
    pub(in crate::store) installation_id: Uuid,
    pub(in crate::store) seen: Arc<SeenSets>,
}

/// What an operation on a choice would act on within the reach of who looks, and the acts that are possible on it.
pub(in crate::store) async fn operation_preview(
    db: &mut Door<'_>,
    choice: &OperationChoice,
    looking: &Looking,
) -> DbResult<OperationPreview> {
    let set = found_set(db, choice, &looking.who).await?;
    let mut preview = preview_of(db, choice, &set, looking).await?;
    let subjects: Vec<_> = preview.acts.iter().filter_map(|one| choice.clone().with_act(&one.act)).collect();
    looking.seen.remember(&set);
    let twins = in_the_way(db, &subjects, &set.ids, (&looking.who, looking.now_ms)).await?;
    for (act, twin) in preview.acts.iter_mut().zip(twins) {
        if let Some(Twin { operation_id, .. }) = twin {
            act.same_operation_id = operation_id.map(|id| id.to_string());
        }
    }
    Ok(preview)
}

/// What an operation that was ordered acts on yet: those of its rows that are left, and its act.
pub(in crate::store) async fn operation_preview_again(
    db: &mut Door<'_>,
    operation_id: &str,
    looking: &Looking,
) -> DbResult<Option<OperationPreview>> {
    let sql = operation_rows_sql!("operation_preview", "WHERE operation_id = $1");
    let row = db.fetch_optional(sql, &[operation_id.into()]).await?;
    let row = row.as_ref().map(OperationRow::of).transpose()?;
    let Some(row) = row.filter(|row| row.is_seen_by(&looking.who)) else { return Ok(None) };
    let ids = fixed_set(db, operation_id, RowsWanted { left: true, changed: false }).await?;
    let set = FoundSet::fixed(ids);
    let mut preview = preview_of(db, &row.view.subject.choice(), &set, looking).await?;
    preview.acts.retain(|one| one.act == row.view.subject.act());
    // It has those of its order.
    preview.acts.iter_mut().for_each(|one| one.steps = None);
    Ok(Some(preview))
}

async fn preview_of(
    db: &mut Door<'_>,
    choice: &OperationChoice,
    set: &FoundSet,
    looking: &Looking,
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
    db: &mut Door<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    looking: &Looking,
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
