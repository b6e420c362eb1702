//! Reads the events of a believed request: ids, types, digests, payloads, by the kind's spec.
//!
//! Everything is taken from the raw text of the signed bytes: a number beyond 2^53 stays itself, and a
//! doubled key on an id's path makes the event unreadable. What cannot be read is still an event, under an
//! id of our own, so that it is kept and shown.

mod batch;
mod fields;
mod headers;
mod identity;
mod redact;
mod source;
mod xml;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::json::{self, Document, Found, find, text_of};
use crate::spec::{AnswerSpec, BodyFormat, EventSpec, Source, Sources, Spec};
use crate::types::{
    BodyDigest, EventKey, IncomingEvent, Name, ObjectVersion, OnConflict, TypePattern, UnixMs, stored_text,
};
use crate::verify::{Believed, Verified, rfc3339_ms};

use batch::lines;
pub use fields::Json;
pub(crate) use headers::{kept_headers, value as kept_header, without as without_secrets};
pub use xml::xml_as_json;

/// The `each` of bodies whose members are lists of events.
const EVERY_LIST: &str = "/*";
/// What the ids start with that we give to what has none: no sender can take one of those.
const UNREADABLE: &str = "unreadable:";
/// What a type that is missing or cannot be stored reads as.
const TYPE_UNKNOWN: &str = "unknown";

/// Makes the JSON text that an event is read from of the one that came, such as by decrypting a part of it; or says
/// why it cannot.
pub(crate) type Opener<'a> = &'a dyn Fn(&Bytes) -> Result<Bytes, String>;

/// Most events in one request, where nothing else is configured.
pub(crate) const EVENTS_N_MAX: usize = 1_000;

/// What a provider's requests are read by, besides its kind's spec.
#[derive(Clone, Copy)]
pub(crate) struct ReadAs<'a> {
    /// Its name.
    pub(crate) name: &'a Name,
    /// Its kind.
    pub(crate) spec: &'a Spec,
    /// The types that it is subscribed to, where it says so: patterns as routes have them.
    pub(crate) types: &'a [TypePattern],
    /// What becomes of conflicts, where it says so.
    pub(crate) on_conflict: Option<OnConflict>,
    /// Most events of one request.
    pub(crate) n_max: usize,
}

/// The events of a believed request, in its order. A batch may be empty; one of more than `n_max` is not read, and
/// kept as one event.
pub(crate) fn read(by: ReadAs<'_>, verified: &Verified, open: Opener<'_>) -> Vec<IncomingEvent> {
    let (spec, n_max) = (by.spec, by.n_max);
    let request = verified.request();
    let Some(event) = chosen(spec, |name| request.headers.contains_key(name)) else { return Vec::new() };
    let reader = Reader {
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
        is_opened: false,
    };
    let body = &redact::without_token(spec, &request.body);
    let json = match json_of(event, body) {
        Ok(json) => json,
        Err(why) => return vec![reader.unreadable(body, why)],
    };
    let (json, is_opened) = match open(&json) {
        Ok(opened) => {
            let is_opened = opened.as_ptr() != json.as_ptr();
            (opened, is_opened)
        }
        Err(why) => return vec![reader.closed(body, &json, why)],
    };
    let reader = Reader { is_opened, ..reader };
    if event.each.as_deref() == Some(EVERY_LIST) {
        return reader.lists(body, &json);
    }
    if event.body == BodyFormat::Lines && !json.trim_ascii_start().starts_with(b"[") {
        return reader.elements(body, &json, &json, lines(&json).take(n_max.saturating_add(1)).collect());
    }
    let whole = (event.body == BodyFormat::Lines).then_some("");
    let Some(each) = event.each.as_deref().or(whole) else { return vec![reader.one(0, body, &json)] };
    let outer = Document::parse(&json);
    let reader = Reader { outer: outer.as_ref(), ..reader };
    match find(&json, each) {
        Found::One(list) => match json::first_elements(list, n_max) {
            Some(elements) => reader.elements(body, &json, list, elements),
            None if event.or_one => vec![reader.one(0, body, &json)],
            None => vec![reader.unreadable(body, format!("{each} is not an array"))],
        },
        Found::Missing if event.or_one => vec![reader.one(0, body, &json)],
        Found::Missing => vec![reader.unreadable(body, format!("{each} is missing"))],
        Found::Doubled => vec![reader.unreadable(body, format!("{each} is there twice"))],
        Found::NotJson => vec![reader.unreadable(body, "the body is not JSON".to_owned())],
    }
}

/// The payload of an event as it was stored: what the same spec points at, in the same bytes.
pub(crate) fn payload_of(
    spec: &Spec,
    kept_headers: &str,
    body: &Bytes,
    open: Opener<'_>,
) -> Result<Bytes, String> {
    let header = |name: &str| kept_header(kept_headers, name);
    let event = chosen(spec, |name| header(name).is_some()).ok_or("the kind reads no such events")?;
    let json = json_of(event, body)?;
    // Of a batch each element was kept for itself, after the whole was opened.
    let json = if event.each.is_some() { json } else { open(&json)? };
    Ok(payload(event, &json, Document::parse(&json).as_ref()))
}

/// What the sender of a believed request wants to hear.
pub(crate) fn answer<'a>(spec: &'a Spec, verified: &Verified) -> Option<&'a AnswerSpec> {
    let event = chosen(spec, |name| verified.request().headers.contains_key(name));
    event.and_then(|event| event.answer.as_ref()).or(spec.answer.as_ref())
}

fn chosen(spec: &Spec, has_header: impl Fn(&str) -> bool) -> Option<&EventSpec> {
    spec.event.iter().find(|event| event.when_header.as_deref().is_none_or(&has_header))
}

/// The JSON text of a body: the body itself, or one field of a form, or all of them. Which of these it is its bytes say:
/// they are signed, and the content type is not.
fn json_of(event: &EventSpec, body: &Bytes) -> Result<Bytes, String> {
    match &event.form_field {
        Some(field) if is_form(body) => form_value(field, body),
        None if event.body == BodyFormat::Form && is_form(body) => Ok(form_object(body)),
        _ => Ok(body.clone()),
    }
}

/// Whether a body that may be a form or JSON is a form.
fn is_form(body: &[u8]) -> bool {
    !matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

fn form_value(field: &str, body: &[u8]) -> Result<Bytes, String> {
    let mut values = form_urlencoded::parse(body).filter(|(name, _)| name == field);
    let value = values.next().ok_or_else(|| format!("form field `{field}` is missing"))?;
    if values.next().is_some() {
        return Err(format!("form field `{field}` is there twice"));
    }
    Ok(Bytes::from(value.1.into_owned()))
}

/// A form as one JSON object of texts, in its order. A field that is there twice stays so, and is found to.
fn form_object(body: &[u8]) -> Bytes {
    let pairs = form_urlencoded::parse(body).map(|(name, value)| {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        format!("{}:{}", text(&name), text(&value))
    });
    Bytes::from(format!("{{{}}}", pairs.collect::<Vec<_>>().join(",")))
}

fn payload(event: &EventSpec, json: &Bytes, document: Option<&Document<'_>>) -> Bytes {
    match document.map(|document| document.find(&event.payload)) {
        Some(Found::One(text)) => json.slice_ref(text),
        _ => json.clone(),
    }
}

/// Reads single events; what they share of their request.
struct Reader<'a> {
    provider: &'a Name,
    spec: &'a EventSpec,
    types: &'a [TypePattern],
    on_conflict: Option<OnConflict>,
    believed: &'a Believed,
    headers: &'a HeaderMap,
    kept: Arc<str>,
    received_at_ms: UnixMs,
    /// The whole body of a batch.
    outer: Option<&'a Document<'a>>,
    /// The name of the list that the event is in, where a body has several.
    list: Option<&'a str>,
    /// Most events that are read.
    n_max: usize,
    /// Whether the kind made the JSON text of the one that came.
    is_opened: bool,
}

impl Reader<'_> {
    /// One element of a batch: its own bytes are the event's body.
    fn element(&self, event_n: usize, json: &Bytes, list: &[u8], range: Range<usize>) -> IncomingEvent {
        let text = json.slice_ref(list.get(range).unwrap_or_default());
        self.one(event_n, &text, &text)
    }

    /// The `event_n`th event of its request, whose signed bytes are `body` and whose JSON text is `json`.
    fn one(&self, event_n: usize, body: &Bytes, json: &Bytes) -> IncomingEvent {
        let document = Document::parse(json);
        if self.needs_json() && document.is_none() {
            return self.unreadable(body, "the body is not JSON".to_owned());
        }
        let document = document.as_ref();
        let digest = match document {
            // A form counts by its fields where one of them may change, else by its text; what was opened by what is inside:
            // how it was wrapped or written nothing may sign.
            Some(document)
                if body.as_ptr() == json.as_ptr() || self.is_opened || !self.spec.volatile.is_empty() =>
            {
                document.digest_without(json, &self.spec.volatile)
            }
            _ => Sha256::digest(body).into(),
        };
        let read = Read { document, text: json, digest: &digest, event_n };
        let event_type = self.event_type(read);
        let identified = match self.identified(read, &event_type) {
            Ok(identified) => identified,
            Err(why) => return IncomingEvent { event_type, ..self.unreadable(body, why) },
        };
        IncomingEvent {
            key: EventKey { provider: self.provider.clone(), event_id: identified.event_id },
            replay_key: identified.replay_key,
            identity: identified.identity,
            window_ms: identified.window_ms,
            is_window_renewed: identified.is_window_renewed,
            on_conflict: identified.on_conflict,
            object: self.object(read),
            created_at_ms: self.spec.created.as_ref().and_then(|source| self.number(source, read)),
            received_at_ms: self.received_at_ms,
            payload: payload(self.spec, json, document),
            headers: Arc::clone(&self.kept),
            body: body.clone(),
            event_type,
            digest,
            unreadable: None,
        }
    }

    /// Whether nothing can be told of a body that is no JSON: not its type, or not which event it is.
    fn needs_json(&self) -> bool {
        let needs =
            |source: &Source| matches!(source, Source::Json(_) | Source::Member(_) | Source::OnlyMember(_));
        let mut identities = self.spec.identity.iter();
        self.spec.event_type.0.iter().any(needs) || identities.all(|one| one.id.0.iter().any(needs))
    }

    /// An event whose JSON text could not be opened. Its type may be told; its id is not taken from what nobody
    /// could check.
    fn closed(&self, body: &Bytes, json: &Bytes, why: String) -> IncomingEvent {
        let unreadable = self.unreadable(body, why);
        let document = Document::parse(json);
        let read = Read { document: document.as_ref(), text: json, digest: &unreadable.digest, event_n: 0 };
        IncomingEvent { event_type: self.event_type(read), ..unreadable }
    }

    /// An event that is kept under the digest of its bytes, because it has no id that we can read.
    fn unreadable(&self, body: &Bytes, why: String) -> IncomingEvent {
        let digest: BodyDigest = Sha256::digest(body).into();
        IncomingEvent {
            key: EventKey {
                provider: self.provider.clone(),
                event_id: format!("{UNREADABLE}{}", hex::encode(digest)),
            },
            event_type: TYPE_UNKNOWN.to_owned(),
            digest,
            replay_key: None,
            identity: "unreadable/1".to_owned(),
            window_ms: None,
            is_window_renewed: false,
            on_conflict: OnConflict::Keep,
            object: None,
            created_at_ms: None,
            received_at_ms: self.received_at_ms,
            body: body.clone(),
            payload: body.clone(),
            headers: Arc::clone(&self.kept),
            unreadable: Some(why),
        }
    }

    fn event_type(&self, read: Read<'_>) -> String {
        let mut parts = self.spec.event_type.0.iter().filter_map(|one| self.text(one, read).ok());
        let mut joined = parts.next().unwrap_or_default();
        for part in parts {
            joined.push('.');
            joined.push_str(&part);
        }
        let is_told = !joined.is_empty() && stored_text(&joined).is_ok() && self.is_subscribed(&joined);
        if is_told { joined } else { TYPE_UNKNOWN.to_owned() }
    }

    /// Whether a type that anybody could have written is one that the operator knows of.
    fn is_subscribed(&self, event_type: &str) -> bool {
        self.types.is_empty()
            || !self.spec.is_type_unsigned()
            || self.types.iter().any(|one| one.matches(event_type))
    }

    fn object(&self, read: Read<'_>) -> Option<ObjectVersion> {
        let object = self.object_id(self.spec.object.as_ref()?, read)?;
        let version = self.number(self.spec.version.as_ref()?, read)?;
        Some(ObjectVersion { object, version })
    }

    /// One source as it is; several joined with their lengths.
    fn object_id(&self, sources: &Sources, read: Read<'_>) -> Option<String> {
        let id = match sources.0.as_slice() {
            [one] => self.text(one, read).ok()?,
            several => {
                let parts: Result<Vec<String>, String> =
                    several.iter().map(|one| self.text(one, read)).collect();
                identity::joined(&parts.ok()?)
            }
        };
        stored_text(&id).is_ok().then_some(id)
    }

    /// A whole number, or an RFC 3339 time in milliseconds.
    fn number(&self, source: &Source, read: Read<'_>) -> Option<i64> {
        let text = self.text(source, read).ok()?;
        text.parse().ok().or_else(|| rfc3339_ms(&text))
    }
}

/// One event's text, the digest of its bytes, and its place in the request.
#[derive(Clone, Copy)]
struct Read<'a> {
    document: Option<&'a Document<'a>>,
    text: &'a [u8],
    event_n: usize,
    digest: &'a BodyDigest,
}

/// The raw text that `pointer` names in `json`; `None` when it is missing, there twice, or `json` is not
/// JSON. For kinds that verify with code.
pub fn json_raw<'a>(json: &'a [u8], pointer: &str) -> Option<&'a [u8]> {
    match find(json, pointer) {
        Found::One(raw) => Some(raw),
        _ => None,
    }
}

/// The text, or whole number as text, that `pointer` names; or why there is none.
pub fn json_text(json: &[u8], pointer: &str) -> Result<String, String> {
    text_of(json, pointer)
}

/// The same JSON with another text in the place of the value at `pointer`; `None` when there is no such value, or it
/// is no JSON with the other text in it.
pub fn json_with(json: &[u8], pointer: &str, text: &[u8]) -> Option<Vec<u8>> {
    let place = redact::place(json, json, pointer)?;
    let made = redact::spliced(json, &[(place, text)]);
    Document::parse(&made)?;
    Some(made)
}

/// Whether `json` is JSON and nothing is at `pointer`.
pub fn json_is_missing(json: &[u8], pointer: &str) -> bool {
    find(json, pointer) == Found::Missing
}

/// The raw text of each element of the array at `pointer`.
pub fn json_elements<'a>(json: &'a [u8], pointer: &str) -> Option<Vec<&'a [u8]>> {
    let list = json_raw(json, pointer)?;
    json::elements(list)?.into_iter().map(|range| list.get(range)).collect()
}
