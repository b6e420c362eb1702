//! The columns of an admission that are sealed when there is a key for it.

use std::borrow::Cow;

use crate::seal::{KeyRing, SealedPlace};
use crate::store::db::DbResult;
use crate::store::message::NewMessage;
use crate::types::IncomingEvent;

/// What is kept of a received event, sealed.
pub(super) struct SealedPayload {
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
    pub(super) search_ids: Option<String>,
}

impl SealedPayload {
    /// Asked for when there is a key alone: without one these would be copies.
    pub(super) fn of(ring: &KeyRing, event_seq: i64, event: &IncomingEvent) -> DbResult<Self> {
        let headers = ring
            .seal_text(&SealedPlace::of_event("headers", event_seq, event.key.as_pair()), &event.headers)?;
        let body =
            ring.seal(&SealedPlace::of_event("body", event_seq, event.key.as_pair()), event.stored_body())?;
        let search_ids = sealed_search_ids(ring, event_seq, event)?;
        Ok(Self { headers: headers.into_owned(), body: body.into_owned(), search_ids })
    }
}

/// The search ids of an event, to be sealed with its body; `None` without a key, when their table has them as they are.
pub(super) fn sealed_search_ids(
    ring: &KeyRing,
    event_seq: i64,
    event: &IncomingEvent,
) -> DbResult<Option<String>> {
    if event.search_ids.is_empty() || !ring.is_on() {
        return Ok(None);
    }
    // No id has a control character.
    let (place, clear) =
        (SealedPlace::of_event("search_ids", event_seq, event.key.as_pair()), event.search_ids.join("\n"));
    Ok(Some(ring.seal_text(&place, &clear)?.into_owned()))
}

/// What is kept of a message's own content, sealed if there is a key for it.
pub(super) struct SealedContents<'a> {
    pub(super) headers: String,
    pub(super) body: Option<Cow<'a, [u8]>>,
}

impl<'a> SealedContents<'a> {
    pub(super) fn of(ring: &KeyRing, message: &'a NewMessage) -> DbResult<Self> {
        let place =
            |column| SealedPlace::of_message(column, message.message_id.number(), message.event.as_pair());
        let clear = message.headers_json();
        let headers = match ring.seal_text(&place("headers"), &clear)? {
            Cow::Borrowed(_) => clear,
            Cow::Owned(sealed) => sealed,
        };
        let body = message.body.as_deref();
        let body = body.map(|body| ring.seal(&place("body"), body)).transpose()?;
        Ok(Self { headers, body })
    }
}
