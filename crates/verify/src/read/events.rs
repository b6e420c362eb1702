//! From a verified request to its events.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;

use super::batch::{elements, lines, lists};
use super::body::json_of;
use super::event::{closed, one, payload, unreadable};
use super::headers::{kept_headers, value as kept_header};
use super::reader::EventReader;
use super::redact::without_token;
use crate::Verified;
use crate::spec::{AnswerSpec, BodyFormat, EventSpec, Spec};
use hooklatch_core::json::{self, Document, PointerTarget, find};
use hooklatch_core::types::{IncomingEvent, Name, OnConflict, TypePattern, is_media_type};

/// The `each` of bodies whose members are lists of events.
const EVERY_LIST: &str = "/*";

/// Decodes the JSON text of a verified body into the one that events are read from, such as by decrypting a part of it;
/// or returns why it cannot.
pub(crate) type Opener<'a> = &'a dyn Fn(&Bytes) -> Result<Bytes, String>;

/// Most events in one request, where nothing else is configured.
pub const EVENTS_N_MAX: usize = 1_000;

/// A provider's rules for reading its requests.
#[derive(Clone, Copy)]
pub struct ReadAs<'a> {
    /// Name of the provider.
    pub name: &'a Name,
    /// Spec of its kind.
    pub spec: &'a Spec,
    /// Patterns of the types that it is subscribed to; empty where none are configured.
    pub types: &'a [TypePattern],
    /// Policy for conflicts; `None` where none is configured.
    pub on_conflict: Option<OnConflict>,
    /// Most events of one request.
    pub n_max: usize,
    /// True when the ids that people search for are kept.
    pub has_search: bool,
}

/// The events of a verified request, in its order. A batch may be empty; one of more than `n_max` is not read, and
/// kept as one event.
pub fn read(by: ReadAs<'_>, verified: &Verified, open: Opener<'_>) -> Vec<IncomingEvent> {
    let (spec, n_max) = (by.spec, by.n_max);
    let request = verified.request();
    let Some(event) = chosen_for(spec, &request.headers) else { return Vec::new() };
    let reader = EventReader {
        provider: by.name,
        spec: event,
        types: by.types,
        on_conflict: by.on_conflict,
        believed: verified.believed(),
        headers: &request.headers,
        kept: kept_headers(spec, &request.headers).into(),
        received_at_ms: request.received_at_ms,
        outer: None,
        list: None,
        n_max,
        has_search: by.has_search,
        is_opened: false,
    };
    let body = &without_token(spec, &request.body);
    let json = match json_of(event, body) {
        Ok(json) => json,
        Err(why) => return vec![unreadable(&reader, body, why)],
    };
    let (json, is_opened) = match open(&json) {
        Ok(opened) => {
            let is_opened = opened.as_ptr() != json.as_ptr();
            (opened, is_opened)
        }
        Err(why) => return vec![closed(&reader, body, &json, why)],
    };
    let reader = EventReader { is_opened, ..reader };
    if event.each.as_deref() == Some(EVERY_LIST) {
        return lists(&reader, body, &json);
    }
    if event.body == BodyFormat::Lines && !is_one_list(event, &json) {
        return elements(&reader, body, &json, &json, lines(&json).take(n_max.saturating_add(1)).collect());
    }
    let whole = (event.body == BodyFormat::Lines && is_array(&json)).then_some("");
    let Some(each) = whole.or(event.each.as_deref()) else { return vec![one(&reader, 0, body, &json)] };
    let outer = Document::parse(&json);
    let reader = EventReader { outer: outer.as_ref(), ..reader };
    let (found, each) = list_at(&json, each);
    match found {
        PointerTarget::One(list) => match json::first_elements(list, n_max) {
            Some(ranges) => elements(&reader, body, &json, list, ranges),
            None if event.or_one => vec![one(&reader, 0, body, &json)],
            None => vec![unreadable(&reader, body, format!("{each} is not an array"))],
        },
        PointerTarget::Missing if event.or_one => vec![one(&reader, 0, body, &json)],
        PointerTarget::Missing => vec![unreadable(&reader, body, format!("{each} is missing"))],
        PointerTarget::Doubled => vec![unreadable(&reader, body, format!("{each} is there twice"))],
        PointerTarget::NotJson => vec![unreadable(&reader, body, "the body is not JSON".to_owned())],
    }
}

/// The list at the first of the pointers, separated by `|`, that leads anywhere.
fn list_at<'a, 'b>(json: &'a [u8], each: &'b str) -> (PointerTarget<'a>, &'b str) {
    let mut all = each.split('|').map(|pointer| (find(json, pointer), pointer));
    let first = all.by_ref().find(|(found, _)| *found != PointerTarget::Missing);
    first.unwrap_or((PointerTarget::Missing, each))
}

fn is_array(json: &[u8]) -> bool {
    json.trim_ascii_start().starts_with(b"[")
}

/// True when a body that may be lines is one text: an array, or an object with the list inside.
fn is_one_list(event: &EventSpec, json: &[u8]) -> bool {
    let is_there = |each: &str| matches!(list_at(json, each).0, PointerTarget::One(_));
    is_array(json) || event.each.as_deref().is_some_and(is_there)
}

/// Payload and envelope of an event as it was stored: what the same spec points at, in the same bytes.
pub fn stored(
    spec: &Spec,
    kept_headers: &str,
    body: &Bytes,
    open: Opener<'_>,
) -> Result<(Bytes, Bytes), String> {
    let header = |name: &str| kept_header(kept_headers, name);
    let event = chosen(spec, |name| header(name).is_some(), || header(CONTENT_TYPE));
    let event = event.ok_or("the kind reads no such events")?;
    let json = json_of(event, body)?;
    // Each element of a batch was kept by itself, after the whole was opened.
    let json = if event.each.is_some() { json } else { open(&json)? };
    Ok((payload(event, &json, Document::parse(&json).as_ref()), json))
}

/// The response that the sender of a verified request expects.
pub fn answer<'a>(spec: &'a Spec, verified: &Verified) -> Option<Cow<'a, AnswerSpec>> {
    let event = chosen_for(spec, &verified.request().headers);
    let answer = event.and_then(|event| event.answer.as_ref()).or(spec.answer.as_ref())?;
    Some(match answer.echo.as_ref().and_then(|name| echoed(name, &verified.request().body)) {
        Some(body) => Cow::Owned(AnswerSpec { body, ..answer.clone() }),
        None => Cow::Borrowed(answer),
    })
}

/// An object with the member `name` of a JSON body alone; `None` where the body has none, or two.
fn echoed(name: &str, body: &[u8]) -> Option<String> {
    let PointerTarget::One(raw) = find(body, &format!("/{name}")) else { return None };
    let mut echoed = String::with_capacity(raw.len() + name.len() + 5);
    echoed.push('{');
    json::push_text(&mut echoed, name);
    echoed.push(':');
    echoed.push_str(std::str::from_utf8(raw).ok()?);
    echoed.push('}');
    Some(echoed)
}

const CONTENT_TYPE: &str = "content-type";

/// The first `[[event]]` of the kind that applies to a request with these headers.
fn chosen_for<'a>(spec: &'a Spec, headers: &HeaderMap) -> Option<&'a EventSpec> {
    let content_type = || headers.get(CONTENT_TYPE)?.to_str().ok().map(str::to_owned);
    chosen(spec, |name| headers.contains_key(name), content_type)
}

/// The same for what is known of a request's headers; the content type is asked for only where it decides.
fn chosen(
    spec: &Spec,
    has_header: impl Fn(&str) -> bool,
    content_type: impl Fn() -> Option<String>,
) -> Option<&EventSpec> {
    let is_type = |wanted: &String| content_type().is_some_and(|text| is_media_type(&text, wanted));
    spec.event.iter().find(|event| {
        event.when_header.as_deref().is_none_or(&has_header)
            && event.when_content_type.as_ref().is_none_or(is_type)
    })
}
