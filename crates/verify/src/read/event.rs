//! One event of a request: its id, type, digest and payload, the texts at the places that its kind names, and the ids
//! that operators search for.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use sha2::{Digest, Sha256};

use super::identity::identify;
use crate::spec::{EventSpec, SEARCH_N_MAX, Source, Sources};
use crate::{Verified, happened_ms, rfc3339_ms};
use hooklatch_core::json::{Document, PointerTarget, id_text, members, text};
use hooklatch_core::types::{
    BodyDigest, EventKey, IncomingEvent, Name, ObjectVersion, OnConflict, SEARCH_CHARS_MIN, TypePattern,
    UnixMs, folded_id, id_parts, stored_text,
};

/// Prefix of the ids that we give to what has none: no sender can take one of those.
pub(super) const UNREADABLE: &str = "unreadable:";
/// Type of an event whose type is missing or cannot be stored.
pub(super) const TYPE_UNKNOWN: &str = "unknown";

/// Everything that reading one event needs besides its own text; the events of one request share it.
pub(super) struct EventReader<'a> {
    pub provider: &'a Name,
    pub spec: &'a EventSpec,
    pub types: &'a [TypePattern],
    pub on_conflict: Option<OnConflict>,
    pub verified: &'a Verified,
    pub headers: &'a HeaderMap,
    pub kept: Arc<str>,
    pub received_at_ms: UnixMs,
    /// The whole body of a batch.
    pub outer: Option<&'a Document<'a>>,
    /// The name of the list that the event is in, where a body has several.
    pub list: Option<&'a str>,
    /// Most events that are read.
    pub n_max: usize,
    /// True when the ids that people search for are kept.
    pub has_search: bool,
    /// True when the kind derived the JSON text from the received body.
    pub is_opened: bool,
}

/// One event's text, the digest of its bytes, and its place in the request.
#[derive(Clone, Copy)]
pub(super) struct EventText<'a> {
    pub document: Option<&'a Document<'a>>,
    pub text: &'a [u8],
    pub event_n: usize,
    pub digest: &'a BodyDigest,
}

/// The text at one place, or why there is none.
pub(super) fn text_at(
    reader: &EventReader<'_>,
    source: &Source,
    event: EventText<'_>,
) -> Result<String, String> {
    let json = || event.document.ok_or("the body is not JSON");
    match source {
        Source::Json(pointers) => first_text(json()?, pointers),
        Source::Outer(pointers) => first_text(reader.outer.ok_or("the body is not JSON")?, pointers),
        Source::Text(text) => Ok(text.clone()),
        Source::Place(_) => Ok(event.event_n.to_string()),
        Source::List(_) => reader.list.map(str::to_owned).ok_or_else(|| "it is in no list".to_owned()),
        Source::Member(names) => member(json()?, names),
        Source::OnlyMember(_) => only_member(event.text),
        Source::SignedId(_) => signed(reader.verified.signed_id(), "id"),
        Source::SignedTime(_) => signed(reader.verified.signed_time(), "time"),
        Source::Header(names) => {
            let present = names.split('|').find_map(|name| reader.headers.get(name));
            let value = present.ok_or_else(|| format!("header `{names}` is missing"))?;
            let text = value.to_str().map_err(|_| format!("header `{names}` is not ASCII text"))?;
            if text.is_empty() { Err(format!("header `{names}` is empty")) } else { Ok(text.to_owned()) }
        }
    }
}

/// Several texts as one, with their lengths, so that no two lists of parts make the same.
pub(super) fn joined(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|text| format!("{}:{text}", text.len())).collect();
    parts.join(",")
}

fn signed(text: Option<&str>, what: &str) -> Result<String, String> {
    text.map(str::to_owned).ok_or_else(|| format!("the signature covers no {what}"))
}

/// The text at the first of the pointers, separated by `|`, that leads anywhere.
fn first_text(json: &Document<'_>, pointers: &str) -> Result<String, String> {
    let (found, pointer) = first_found(json, pointers);
    text(&found, pointer)
}

/// The first of the pointers that leads anywhere, or the first of all.
fn first_found<'a, 'p>(json: &Document<'a>, pointers: &'p str) -> (PointerTarget<'a>, &'p str) {
    let mut all = pointers.split('|').map(|pointer| (json.find(pointer), pointer));
    let first = all.next().unwrap_or((PointerTarget::Missing, pointers));
    let is_nowhere =
        |found: &PointerTarget<'_>| matches!(found, PointerTarget::Missing | PointerTarget::One(b"null"));
    if is_nowhere(&first.0) { all.find(|(found, _)| !is_nowhere(found)).unwrap_or(first) } else { first }
}

/// The one of the members, separated by `|`, that is there: a name, or a pointer whose last step counts.
fn member(json: &Document<'_>, names: &str) -> Result<String, String> {
    let is_there = |name: &&str| {
        let pointer = if name.starts_with('/') { (*name).to_owned() } else { format!("/{name}") };
        matches!(json.find(&pointer), PointerTarget::One(_))
    };
    let found = names.split('|').find(is_there).ok_or_else(|| format!("none of {names} is there"))?;
    Ok(found.rsplit('/').next().unwrap_or(found).to_owned())
}

fn only_member(json: &[u8]) -> Result<String, String> {
    match members(json).as_deref() {
        Some([(name, _)]) if !name.is_empty() => Ok(name.clone().into_owned()),
        Some(_) => Err("it has not one member alone".to_owned()),
        None => Err("the body is not a JSON object".to_owned()),
    }
}

/// The ids, in lower case, each once. A place with no text, a doubled key, and what is too short or too long are
/// skipped: an event is never refused because of its search ids.
fn search_ids(reader: &EventReader<'_>, event: EventText<'_>, event_id: &str) -> Vec<String> {
    if !reader.has_search {
        return Vec::new();
    }
    let named = reader.spec.search.0.iter().filter_map(|source| match (source, event.document) {
        (Source::Json(pointers), Some(json)) => id_text(&first_found(json, pointers).0).ok(),
        _ => text_at(reader, source, event).ok(),
    });
    let parts = id_parts(event_id).into_iter().filter(|part| is_telling(part)).map(str::to_owned);
    let mut ids: Vec<String> = Vec::new();
    for text in named.chain(parts).filter(|text| stored_text(text).is_ok()) {
        let id = folded_id(text);
        let is_possible = id.chars().nth(SEARCH_CHARS_MIN - 1).is_some() && stored_text(&id).is_ok();
        if is_possible && ids.len() < SEARCH_N_MAX && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// True for a part that may be an id. Types have no digits, and a time finds nothing that the time does not.
fn is_telling(part: &str) -> bool {
    part.bytes().any(|byte| byte.is_ascii_digit()) && rfc3339_ms(part).is_none()
}

/// One element of a batch: its own bytes are the event's body.
pub(super) fn element(
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
pub(super) fn one(reader: &EventReader<'_>, event_n: usize, body: &Bytes, json: &Bytes) -> IncomingEvent {
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
    let mut incoming = new(reader, event_type(reader, event), digest, body);
    let identified = identify(reader, event, &mut incoming);
    let payload = match identified.and_then(|()| payload(reader.spec, json, document)) {
        Ok(payload) => payload,
        Err(why) => {
            let (event_type, search_ids) = (incoming.event_type, search_ids(reader, event, ""));
            return IncomingEvent { event_type, search_ids, ..unreadable(reader, body, why) };
        }
    };
    IncomingEvent {
        search_ids: search_ids(reader, event, &incoming.key.event_id),
        object: object(reader, event),
        created_at_ms: happened(reader, event),
        payload,
        envelope: json.clone(),
        ..incoming
    }
}

/// An event of this request that has no id yet.
fn new(reader: &EventReader<'_>, event_type: String, digest: BodyDigest, body: &Bytes) -> IncomingEvent {
    let key = EventKey { provider: reader.provider.clone(), event_id: String::new() };
    let new = IncomingEvent::new(key, event_type, digest, body.clone(), reader.received_at_ms);
    IncomingEvent { headers: Arc::clone(&reader.kept), ..new }
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
pub(super) fn closed(reader: &EventReader<'_>, body: &Bytes, json: &Bytes, why: String) -> IncomingEvent {
    let unreadable = unreadable(reader, body, why);
    let document = Document::parse(json);
    let event = EventText { document: document.as_ref(), text: json, digest: &unreadable.digest, event_n: 0 };
    IncomingEvent { event_type: event_type(reader, event), ..unreadable }
}

/// An event that is kept under the digest of its bytes, because it has no id that Hooklatch can read.
pub(super) fn unreadable(reader: &EventReader<'_>, body: &Bytes, why: String) -> IncomingEvent {
    let digest: BodyDigest = Sha256::digest(body).into();
    let mut event = new(reader, TYPE_UNKNOWN.to_owned(), digest, body);
    event.key.event_id = format!("{UNREADABLE}{}", hex::encode(digest));
    IncomingEvent { identity: "unreadable/1".to_owned(), unreadable: Some(why), ..event }
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

/// The time at which it happened at the sender, where the kind knows a place of it.
fn happened(reader: &EventReader<'_>, event: EventText<'_>) -> Option<i64> {
    let source = reader.spec.created.as_ref()?;
    happened_ms(&text_at(reader, source, event).ok()?)
}

/// A whole number, or an RFC 3339 time in milliseconds.
fn number(reader: &EventReader<'_>, source: &Source, event: EventText<'_>) -> Option<i64> {
    let text = text_at(reader, source, event).ok()?;
    text.parse().ok().or_else(|| rfc3339_ms(&text))
}

/// The bytes that handlers get: what the spec points at, or all of the JSON text.
/// An event without that part is its own payload; one that has it twice has none.
pub(super) fn payload(
    event: &EventSpec,
    json: &Bytes,
    document: Option<&Document<'_>>,
) -> Result<Bytes, String> {
    match document.map(|document| document.find(&event.payload)) {
        Some(PointerTarget::One(text)) => Ok(json.slice_ref(text)),
        Some(PointerTarget::Doubled) => {
            Err(format!("a member on the way to the payload (`{}`) is there twice", event.payload))
        }
        _ => Ok(json.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(json: &str) -> Document<'_> {
        Document::parse(json.as_bytes()).expect("JSON")
    }

    #[test]
    fn the_first_pointer_that_leads_anywhere_counts() {
        #[track_caller]
        fn check(json: &str, pointers: &str, want: Result<&str, &str>) {
            let got = first_text(&document(json), pointers);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{json} {pointers}");
        }
        check(r#"{"a":"1","b":"2"}"#, "/a|/b", Ok("1"));
        check(r#"{"b":"2"}"#, "/a|/b", Ok("2"));
        check(r#"{"a":null,"b":"2"}"#, "/a|/b", Ok("2"));
        // What is there decides, even if it is no text: another pointer would be another event.
        check(r#"{"a":{},"b":"2"}"#, "/a|/b", Err("/a is neither a text nor a whole number"));
        check(r#"{"a":"1","a":"1","b":"2"}"#, "/a|/b", Err("/a is there twice"));
        check(r#"{"a":"","b":"2"}"#, "/a|/b", Err("/a is empty"));
        check("{}", "/a|/b", Err("/a is missing"));
        check(r#"{"a":null}"#, "/a|/b", Err("/a is neither a text nor a whole number"));
    }

    #[test]
    fn a_member_is_known_by_its_name_or_by_the_last_step_to_it() {
        #[track_caller]
        fn check(json: &str, names: &str, want: Result<&str, &str>) {
            let got = member(&document(json), names);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{json} {names}");
        }
        check(r#"{"paid":{}}"#, "created|paid", Ok("paid"));
        check(r#"{"x":{"paid":1}}"#, "/x/created|/x/paid", Ok("paid"));
        check(r#"{"paid":1,"paid":2}"#, "paid", Err("none of paid is there"));
        check("[]", "paid", Err("none of paid is there"));
    }

    #[test]
    fn only_one_member_names_a_type() {
        assert_eq!(only_member(br#"{"a":[1]}"#).as_deref(), Ok("a"));
        for bad in [r#"{"a":1,"b":2}"#, r#"{"a":1,"a":2}"#, "{}", r#"{"":1}"#, "[1]", "x"] {
            assert!(only_member(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_two_lists_of_parts_make_one_text() {
        let list = |parts: &[&str]| joined(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&["a", "", "bc"]), "1:a,0:,2:bc");
        assert_ne!(list(&["a,1:b"]), list(&["a", "b"]));
        assert_ne!(list(&["", "a"]), list(&["a", ""]));
    }
}
