//! The views that more than one list shows, read from rows.

use crate::api::{AttemptView, EventView};
use crate::seal::{KeyRing, SealedPlace};
use crate::store::db::{DbError, DbResult, Row};
use crate::store::event::event_state;
use crate::types::{AttemptResult, MessageId};

/// Columns of the table or walk `e` that an [`EventView`] is read from.
macro_rules! event_columns {
    () => {
        "e.provider, e.event_id, e.event_seq, e.event_type, e.state, e.object, e.version, e.identity, e.received_at_ms,
             e.created_at_ms, e.processed_at_ms, e.due_at_ms, e.attempts_n, e.generation, e.error, e.digest"
    };
}
pub(super) use event_columns;

/// Reads a row of [`event_columns`]: its number and its view.
pub(super) fn numbered_event(row: &Row) -> DbResult<(i64, EventView)> {
    Ok((row.int("event_seq")?, event_view(row)?))
}

/// Reads a row of [`event_columns`].
pub(super) fn event_view(row: &Row) -> DbResult<EventView> {
    Ok(EventView {
        provider: row.text("provider")?,
        event_id: row.text("event_id")?,
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
        error: row.text_or_null("error")?,
    })
}

/// Reads an attempt of a message, with the piece of its answer for those who have a key ring.
pub(super) fn read_attempt(
    row: &Row,
    message_id: MessageId,
    ring: Option<&KeyRing>,
) -> DbResult<AttemptView> {
    let attempt_n = row.count("attempt_n")?;
    let (stored, key_id) = (row.text_or_null("response")?, row.text_or_null("key_id")?);
    let place = SealedPlace::of_answer(message_id.number(), attempt_n);
    let opened = |ring: &KeyRing, stored| ring.open_text(key_id.as_deref(), &place, stored).ok();
    let response = ring.zip(stored).and_then(|(ring, stored)| opened(ring, stored));
    let result = match row.text_or_null("result")? {
        None => None,
        Some(word) => {
            let result = AttemptResult::parse(&word);
            Some(result.ok_or_else(|| DbError::decode("result", format_args!("`{word}`")))?)
        }
    };
    Ok(AttemptView {
        attempt_n,
        node: row.text_or_null("node")?.unwrap_or_default(),
        started_at_ms: row.int_or_null("started_at_ms")?.unwrap_or_default(),
        finished_at_ms: row.int_or_null("finished_at_ms")?,
        result,
        http_status: row.int_or_null("http_status")?.and_then(|status| u16::try_from(status).ok()),
        error: row.text_or_null("error")?,
        response,
    })
}
