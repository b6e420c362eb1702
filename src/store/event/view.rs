//! An event as people see it, read from its row.

use super::delivery::add_deliveries;
use super::types::event_state;
use crate::api::{DeliveryView, EventView};
use crate::store::damaged::{Intact, intact, of_row};
use crate::store::db::{DbResult, Door, Row};
use crate::types::{Reach, TEST_EVENT, id_parts};

/// Columns of the table or walk `e` that an [`EventView`] is read from.
macro_rules! event_columns {
    () => {
        "e.provider, e.event_id, e.event_seq, e.event_type, e.state, e.object, e.version, e.identity, e.received_at_ms,
             e.created_at_ms, e.processed_at_ms, e.due_at_ms, e.attempts_n, e.generation, e.error, e.digest,
             (SELECT c.copies_n FROM event_copies c WHERE c.provider = e.provider AND c.event_id = e.event_id) AS copies_n"
    };
}
pub(in crate::store) use event_columns;

/// Reads rows of [`event_columns`]: each event with its number, and what became of its calls. Errors of destinations out
/// of reach are left out, and so are rows that are damaged.
pub(in crate::store) async fn event_views(
    db: &mut Door<'_>,
    rows: &[Row],
    reach: &Reach,
) -> DbResult<Intact<(i64, EventView)>> {
    let read = |row: &Row| Ok((row.int("event_seq")?, event_row(row)?));
    let mut events = intact(TABLE, "event_seq", rows, read)?;
    add_deliveries(db, &mut events.rows, reach).await?;
    Ok(events)
}

/// The same of one row; it is an error when that is damaged.
pub(in crate::store) async fn event_view(db: &mut Door<'_>, row: &Row, reach: &Reach) -> DbResult<EventView> {
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
