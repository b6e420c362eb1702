//! One event of a request: its id, type, digest and payload.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::identity::identified;
use super::reader::{EventReader, EventText, TYPE_UNKNOWN, UNREADABLE};
use super::search::search_ids;
use super::source::{joined, text_at};
use crate::spec::{EventSpec, Source, Sources};
use crate::{happened_ms, rfc3339_ms};
use hooklatch_core::json::{Document, PointerTarget};
use hooklatch_core::types::{BodyDigest, EventKey, IncomingEvent, ObjectVersion, OnConflict, stored_text};

/// One element of a batch: its own bytes are the event's body.
pub(crate) fn element(
    reader: &EventReader<'_>,
    event_n: usize,
    json: &Bytes,
    list: &[u8],
    range: Range<usize>,
) -> IncomingEvent {
    let text = json.slice_ref(list.get(range).unwrap_or_default());
    one(reader, event_n, &text, &text)
}

/// The `event_n`th event of its request, whose signed bytes are `body` and whose JSON text is `json`.
pub(crate) fn one(reader: &EventReader<'_>, event_n: usize, body: &Bytes, json: &Bytes) -> IncomingEvent {
    let document = Document::parse(json);
    if needs_json(reader) && document.is_none() {
        return unreadable(reader, body, "the body is not JSON".to_owned());
    }
    let document = document.as_ref();
    // JSON and forms count by their value, what was opened by what is inside: how it was wrapped or written nothing may
    // sign. Of a form with the JSON in one field, what stands beside it counts, too.
    let is_field = reader.spec.form_field.is_some() && body.as_ptr() != json.as_ptr() && !reader.is_opened;
    let digest = match document {
        Some(document) if !is_field || !reader.spec.volatile.is_empty() => {
            document.digest_without(json, &reader.spec.volatile)
        }
        _ => Sha256::digest(body).into(),
    };
    let event = EventText { document, text: json, digest: &digest, event_n };
    let event_type = event_type(reader, event);
    let identified = match identified(reader, event, &event_type) {
        Ok(identified) => identified,
        Err(why) => {
            let search_ids = search_ids(reader, event, "");
            return IncomingEvent { event_type, search_ids, ..unreadable(reader, body, why) };
        }
    };
    IncomingEvent {
        search_ids: search_ids(reader, event, &identified.event_id),
        key: EventKey { provider: reader.provider.clone(), event_id: identified.event_id },
        replay_key: identified.replay_key,
        identity: identified.identity,
        window_ms: identified.window_ms,
        is_window_renewed: identified.is_window_renewed,
        is_window_rearmed: identified.is_window_rearmed,
        not_before_ms: None,
        is_repeatable: identified.is_repeatable,
        on_conflict: identified.on_conflict,
        renderings: identified.renderings,
        object: object(reader, event),
        created_at_ms: happened(reader, event),
        received_at_ms: reader.received_at_ms,
        payload: payload(reader.spec, json, document),
        envelope: json.clone(),
        headers: Arc::clone(&reader.kept),
        body: body.clone(),
        redacted: None,
        stored_parts_n: None,
        event_type,
        digest,
        unreadable: None,
        secret: None,
        is_undispatched: false,
    }
}

/// True when a body that is not JSON cannot be classified: not its type, or not which event it is.
fn needs_json(reader: &EventReader<'_>) -> bool {
    let needs =
        |source: &Source| matches!(source, Source::Json(_) | Source::Member(_) | Source::OnlyMember(_));
    let mut identities = reader.spec.identity.iter();
    reader.spec.event_type.0.iter().any(needs) || identities.all(|one| one.id.0.iter().any(needs))
}

/// An event whose JSON text could not be opened. Its type may be known; its id is not taken from unverified
/// content.
pub(crate) fn closed(reader: &EventReader<'_>, body: &Bytes, json: &Bytes, why: String) -> IncomingEvent {
    let unreadable = unreadable(reader, body, why);
    let document = Document::parse(json);
    let event = EventText { document: document.as_ref(), text: json, digest: &unreadable.digest, event_n: 0 };
    IncomingEvent { event_type: event_type(reader, event), ..unreadable }
}

/// An event that is kept under the digest of its bytes, because it has no id that Hooklatch can read.
pub(crate) fn unreadable(reader: &EventReader<'_>, body: &Bytes, why: String) -> IncomingEvent {
    let digest: BodyDigest = Sha256::digest(body).into();
    IncomingEvent {
        key: EventKey {
            provider: reader.provider.clone(),
            event_id: format!("{UNREADABLE}{}", hex::encode(digest)),
        },
        event_type: TYPE_UNKNOWN.to_owned(),
        digest,
        replay_key: None,
        identity: "unreadable/1".to_owned(),
        window_ms: None,
        is_window_renewed: false,
        is_window_rearmed: false,
        not_before_ms: None,
        is_repeatable: false,
        on_conflict: OnConflict::Keep,
        renderings: None,
        object: None,
        search_ids: Vec::new(),
        created_at_ms: None,
        received_at_ms: reader.received_at_ms,
        body: body.clone(),
        redacted: None,
        stored_parts_n: None,
        payload: body.clone(),
        envelope: body.clone(),
        headers: Arc::clone(&reader.kept),
        unreadable: Some(why),
        secret: None,
        is_undispatched: false,
    }
}

fn event_type(reader: &EventReader<'_>, event: EventText<'_>) -> String {
    let mut parts = reader.spec.event_type.0.iter().filter_map(|one| text_at(reader, one, event).ok());
    let mut joined = parts.next().unwrap_or_default();
    for part in parts {
        joined.push('.');
        joined.push_str(&part);
    }
    let is_known = !joined.is_empty() && stored_text(&joined).is_ok() && is_subscribed(reader, &joined);
    if is_known { joined } else { TYPE_UNKNOWN.to_owned() }
}

/// True when a type that anybody could have written is one that the operator knows of.
fn is_subscribed(reader: &EventReader<'_>, event_type: &str) -> bool {
    reader.types.is_empty()
        || !reader.spec.is_type_unsigned()
        || reader.types.iter().any(|one| one.matches(event_type))
}

fn object(reader: &EventReader<'_>, event: EventText<'_>) -> Option<ObjectVersion> {
    let object = object_id(reader, reader.spec.object.as_ref()?, event)?;
    let version = number(reader, reader.spec.version.as_ref()?, event)?;
    Some(ObjectVersion { object, version })
}

/// One source as it is; several joined with their lengths.
fn object_id(reader: &EventReader<'_>, sources: &Sources, event: EventText<'_>) -> Option<String> {
    let id = match sources.0.as_slice() {
        [one] => text_at(reader, one, event).ok()?,
        several => {
            let parts: Result<Vec<String>, String> =
                several.iter().map(|one| text_at(reader, one, event)).collect();
            joined(&parts.ok()?)
        }
    };
    stored_text(&id).is_ok().then_some(id)
}

/// A whole number, or an RFC 3339 time in milliseconds.
/// The time at which it happened at the sender, where the kind knows a place of it.
fn happened(reader: &EventReader<'_>, event: EventText<'_>) -> Option<i64> {
    let source = reader.spec.created.as_ref()?;
    happened_ms(&text_at(reader, source, event).ok()?)
}

fn number(reader: &EventReader<'_>, source: &Source, event: EventText<'_>) -> Option<i64> {
    let text = text_at(reader, source, event).ok()?;
    text.parse().ok().or_else(|| rfc3339_ms(&text))
}

/// The bytes that handlers get: what the spec points at, or all of the JSON text.
pub(crate) fn payload(event: &EventSpec, json: &Bytes, document: Option<&Document<'_>>) -> Bytes {
    match document.map(|document| document.find(&event.payload)) {
        Some(PointerTarget::One(text)) => json.slice_ref(text),
        _ => json.clone(),
    }
}
