//! The views that more than one list shows, read from rows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::{AttemptView, AuditView, EventView, MessageView};
use crate::seal::{KeyRing, SealedPlace};
use crate::store::db::{DbError, DbResult, Row};
use crate::store::event::event_state;
use crate::store::message::MessageRow;
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

/// A message's row as people see it.
pub(super) fn message_view(row: MessageRow) -> MessageView {
    MessageView {
        message_id: row.message_id,
        provider: row.key.provider.to_string(),
        event_id: row.key.event_id,
        event_type: row.event_type,
        effect_name: row.effect_name,
        idempotency_key: row.idempotency_key,
        destination: row.destination,
        state: row.state,
        lane: row.lane,
        attempts_n: row.attempts_n,
        generation: u32::try_from(row.generation).unwrap_or_default(),
        visible_at_ms: row.visible_at_ms,
        created_at_ms: row.created_at_ms,
        first_sent_at_ms: row.first_sent_at_ms,
        key_valid_until_ms: row.key_valid_until_ms,
        finished_at_ms: row.finished_at_ms,
        last_result: row.last_result,
        last_error: row.last_error,
    }
}

/// Reads an attempt of a message, with the piece of its answer for those who have a key ring.
pub(super) fn attempt_view(
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

/// Kept headers, as a column holds them: one value for each name, or a list of them.
pub(super) fn headers_of(json: &str) -> BTreeMap<String, Vec<String>> {
    let kept: BTreeMap<String, Value> = serde_json::from_str(json).unwrap_or_default();
    let values = |value: Value| match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    kept.into_iter().map(|(name, value)| (name, values(value))).collect()
}

/// Reads a row of the audit log.
pub(super) fn audit_view(row: &Row) -> DbResult<AuditView> {
    Ok(AuditView {
        audit_seq: row.int("audit_seq")?,
        at_ms: row.int("at_ms")?,
        actor: row.text("actor")?,
        action: row.text("action")?,
        provider: row.text_or_null("provider")?,
        event_id: row.text_or_null("event_id")?,
        message_id: row.int_or_null("message_id")?.map(|number| MessageId::from_column(number).to_string()),
        operation_id: row.text_or_null("operation_id")?,
        detail: row.text("detail")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_lists_of_values_however_they_were_kept() {
        let found = headers_of(r#"{"a":"1","b":["2","3"],"c":4}"#);
        let wanted = [("a", vec!["1"]), ("b", vec!["2", "3"]), ("c", Vec::new())];
        let wanted =
            wanted.map(|(name, all)| (name.to_owned(), all.into_iter().map(str::to_owned).collect()));
        assert_eq!(found, BTreeMap::from(wanted));
        assert!(headers_of("no JSON").is_empty());
    }
}
