//! An event as operators see it, read from its row.
//!
//! The state of the calls of events: counted from the queue and the history by the ranges of their numbers, a page of
//! events in one statement. Admission and settlement write nothing for it.

use std::collections::BTreeMap;

use super::event_state;
use crate::damaged::{IntactRows, intact, note, of_row};
use crate::db::{DbResult, Executor, Row, Value};
use crate::message::message_state;
use hooklatch_contract::{CallCounts, DeliveryView, EventView};
use hooklatch_core::types::{DeliveryState, EventState, MessageState, Reach, TEST_EVENT, id_parts};

/// Columns of the table or walk `e` that an [`EventView`] is read from.
macro_rules! event_columns {
    () => {
        "e.provider, e.event_id, e.event_seq, e.event_type, e.state, e.object, e.version, e.identity, e.received_at_ms,
             e.created_at_ms, e.processed_at_ms, e.due_at_ms, e.attempts_n, e.generation, e.error, e.digest,
             (SELECT c.copies_n FROM event_copies c WHERE c.provider = e.provider AND c.event_id = e.event_id) AS copies_n"
    };
}
pub(crate) use event_columns;

/// Reads rows of [`event_columns`]: each event with its number, and what became of its calls. Errors of destinations
/// out of reach are left out, and so are rows that are damaged.
pub(crate) async fn event_views(
    db: &mut Executor<'_>,
    rows: &[Row],
    reach: &Reach,
) -> DbResult<IntactRows<(i64, EventView)>> {
    let read = |row: &Row| Ok((row.int("event_seq")?, event_row(row)?));
    let mut events = intact(TABLE, "event_seq", rows, read)?;
    add_deliveries(db, &mut events.rows, reach).await?;
    Ok(events)
}

/// Reads one row of [`event_columns`]; it is an error when that is damaged.
pub(crate) async fn event_view(db: &mut Executor<'_>, row: &Row, reach: &Reach) -> DbResult<EventView> {
    let event = of_row(TABLE, &row.key_text("event_seq"), event_row(row))?;
    let mut events = [(row.int("event_seq")?, event)];
    add_deliveries(db, &mut events, reach).await?;
    let [(_, event)] = events;
    Ok(event)
}

const TABLE: &str = "processed_webhook_events";

/// An event as its row alone has it.
fn event_row(row: &Row) -> DbResult<EventView> {
    let event_id = row.text("event_id")?;
    Ok(EventView {
        provider: row.text("provider")?,
        parts: id_parts(&event_id).into_iter().map(str::to_owned).collect(),
        synthetic: event_id.starts_with(TEST_EVENT),
        event_id,
        event_type: row.text("event_type")?,
        state: event_state(row)?,
        object: row.text_or_null("object")?,
        version: row.int_or_null("version")?,
        identity: row.text("identity")?,
        received_at_ms: row.int("received_at_ms")?,
        created_at_ms: row.int_or_null("created_at_ms")?,
        processed_at_ms: row.int_or_null("processed_at_ms")?,
        due_at_ms: row.int_or_null("due_at_ms")?,
        attempts_n: row.count("attempts_n")?,
        generation: row.count("generation")?,
        copies_n: row.int_or_null("copies_n")?.map_or(0, i64::unsigned_abs),
        error: row.text_or_null("error")?,
        delivery: DeliveryView::default(),
    })
}

/// The columns and the source of the messages of some events in one table.
macro_rules! counted_sql {
    ($table:literal) => {
        concat!(
            "e.event_seq, m.generation, m.state,
                    CASE WHEN m.state = 'done' AND COALESCE(m.last_result, '') <> 'done' THEN 1 ELSE 0 END AS is_settled,
                    CASE WHEN m.attempts_n = 0 THEN 1 ELSE 0 END AS unsent_n,
                    CASE WHEN CAST($2 AS BIGINT) = 0 OR m.destination = ANY($3) THEN m.last_error END AS error
             FROM processed_webhook_events e CROSS JOIN ",
            $table,
            " m WHERE e.event_seq = ANY($1) AND m.message_id >= e.event_seq * 1024
                AND m.message_id < (e.event_seq + 1) * 1024"
        )
    };
}
/// `$1` the numbers of the events, `$2` 1 when the errors of `$3` are the only ones that may be seen.
const CALLS: &str = concat!(
    "/* event_delivery */ SELECT c.event_seq, c.generation, c.state, c.is_settled, COUNT(*) AS messages_n,
            CAST(SUM(c.unsent_n) AS BIGINT) AS unsent_n, MIN(c.error) AS error FROM (SELECT ",
    counted_sql!("outbox_queue"),
    " UNION ALL SELECT ",
    counted_sql!("outbox_finished"),
    ") c GROUP BY c.event_seq, c.generation, c.state, c.is_settled"
);
/// The newest event of which finished messages were pruned.
const PRUNED: &str = "/* event_delivery */ SELECT messages_pruned_seq FROM retention_lease WHERE one = 1";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const STATEMENTS: &[(&str, &str)] =
    &[("event_delivery", CALLS), ("event_delivery pruned", PRUNED)];

/// Messages of one event that were written in one run and stand in one state.
struct CallCount {
    generation: u32,
    state: MessageState,
    /// True when an operator said that it was done.
    is_settled: bool,
    messages_n: u32,
    unsent_n: u32,
    error: Option<String>,
}

impl CallCount {
    /// What cannot be read is nothing that was delivered: such messages count as held, for an operator to look at.
    fn of(row: &Row) -> DbResult<Self> {
        Self::read(row).or_else(|error| {
            let key = format!("a message of event {}", row.key_text("event_seq"));
            let damaged = note("outbox_messages", &key, error)?;
            Ok(Self {
                generation: row.count("generation").unwrap_or_default(),
                state: MessageState::Held,
                is_settled: false,
                messages_n: row.count("messages_n")?,
                unsent_n: row.count("unsent_n")?,
                error: Some(format!("its row is damaged: {}", damaged.why)),
            })
        })
    }

    fn read(row: &Row) -> DbResult<Self> {
        Ok(Self {
            generation: row.count("generation")?,
            state: message_state(row)?,
            is_settled: row.int("is_settled")? == 1,
            messages_n: row.count("messages_n")?,
            unsent_n: row.count("unsent_n")?,
            error: row.text_or_null("error")?,
        })
    }

    /// The state of an event that has such a call and no worse one.
    fn delivery(&self) -> DeliveryState {
        match self.state {
            MessageState::Held => DeliveryState::Held,
            MessageState::Dead => DeliveryState::Dead,
            MessageState::Discarded => DeliveryState::Discarded,
            MessageState::Ready | MessageState::Waiting | MessageState::Leased => DeliveryState::Open,
            MessageState::Done if self.is_settled => DeliveryState::Settled,
            MessageState::Done => DeliveryState::Delivered,
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, MessageState::Done | MessageState::Discarded)
    }
}

/// Adds to each of these events the states of its calls. Errors of destinations out of reach are left out.
pub(super) async fn add_deliveries(
    db: &mut Executor<'_>,
    events: &mut [(i64, EventView)],
    reach: &Reach,
) -> DbResult<()> {
    if events.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i64> = events.iter().map(|(seq, _)| *seq).collect();
    let seen = reach.names();
    let values: [Value; 3] =
        [numbers.into(), i64::from(seen.is_some()).into(), seen.unwrap_or_default().into()];
    let mut counts: BTreeMap<i64, Vec<CallCount>> = BTreeMap::new();
    for row in db.fetch(CALLS, &values).await? {
        counts.entry(row.int("event_seq")?).or_default().push(CallCount::of(&row)?);
    }
    // After the messages: what is pruned in between is then known to be missing.
    let pruned_seq = db.fetch_one(PRUNED, &[]).await?.int("messages_pruned_seq")?;
    for (seq, event) in events {
        event.delivery = delivery(event, &counts.remove(seq).unwrap_or_default(), *seq <= pruned_seq);
    }
    Ok(())
}

/// The numbers of these calls by what became of them.
fn counted<'a>(counts: impl Iterator<Item = &'a CallCount>) -> CallCounts {
    let mut all = CallCounts::default();
    for one in counts {
        all.messages_n += one.messages_n;
        match one.delivery() {
            DeliveryState::Held => all.held_n += one.messages_n,
            DeliveryState::Dead => all.dead_n += one.messages_n,
            DeliveryState::Discarded => all.discarded_n += one.messages_n,
            DeliveryState::Settled => all.settled_n += one.messages_n,
            DeliveryState::Delivered => all.delivered_n += one.messages_n,
            _ => all.open_n += one.messages_n,
        }
    }
    all
}

/// The delivery of an event: of the newest run that left messages, and of whatever is still open of earlier ones.
fn delivery(event: &EventView, counts: &[CallCount], may_be_pruned: bool) -> DeliveryView {
    let newest = counts.iter().map(|one| one.generation).max();
    let sent_n = counts.iter().map(|one| one.messages_n.saturating_sub(one.unsent_n)).sum();
    let is_counted = |one: &&CallCount| Some(one.generation) == newest || !one.is_finished();
    let all = counted(counts.iter().filter(is_counted));
    let earlier = counted(counts.iter().filter(|one| Some(one.generation) != newest));
    let worst = all.worst();
    let is_handled = event.state == EventState::Handled;
    let state = match worst {
        Some(worst)
            if !matches!(worst, DeliveryState::Delivered | DeliveryState::Settled) || !may_be_pruned =>
        {
            worst
        }
        // A run before this one may have left calls, or this one more than are here.
        Some(_) => DeliveryState::NoLongerKnown,
        None if may_be_pruned && (is_handled || event.generation > 0) => DeliveryState::NoLongerKnown,
        None if is_handled => DeliveryState::None,
        None => DeliveryState::NotSent,
    };
    DeliveryView {
        state,
        messages_n: all.messages_n,
        delivered_n: all.delivered_n,
        open_n: all.open_n,
        held_n: all.held_n,
        dead_n: all.dead_n,
        discarded_n: all.discarded_n,
        settled_n: all.settled_n,
        unsent_n: counts.iter().filter(|one| !one.is_finished()).map(|one| one.unsent_n).sum(),
        sent_n,
        error: counts
            .iter()
            .filter(is_counted)
            .filter(|one| one.delivery() == state)
            .find_map(|one| one.error.clone()),
        generation: newest,
        earlier: (earlier.messages_n > 0).then_some(earlier),
    }
}
