//! From a verified request to its events: the JSON text of a body, and of a request of several events where each of
//! them is, and how one with too many is handled.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::event::{EventReader, closed, element, one, payload, unreadable};
use super::headers::{kept_headers, value as kept_header, without_token};
use crate::Verified;
use crate::spec::{AnswerSpec, BodyFormat, EventSpec, Spec};
use hooklatch_core::json::{self, Document, PointerTarget, find};
use hooklatch_core::types::{IncomingEvent, Name, OnConflict, TypePattern, is_media_type};

/// The JSON text of a body: the body itself, or one field of a form, or all of them. Its bytes say which of
/// these it is: they are signed, and the content type is not.
fn json_of(event: &EventSpec, body: &Bytes) -> Result<Bytes, String> {
    match &event.form_field {
        Some(field) if is_form(body) => form_value(field, body),
        None if event.body == BodyFormat::Form && is_form(body) => Ok(form_object(body)),
        _ => Ok(body.clone()),
    }
}

/// True when a body that may be a form or JSON is a form.
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

/// Most bytes that an element may have beside the list that it is split at, as every one of its events has them again.
const REST_BYTES_MAX: usize = 4_096;

/// Ranges of those lines of a body that are not empty.
fn lines(body: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    let ranges = body.split(|byte| *byte == b'\n').map(move |line| {
        let start = from;
        from += line.len() + 1;
        start..start + line.trim_ascii_end().len()
    });
    ranges.filter(|range| !range.is_empty())
}

/// The events of a batch, unless it has more than are read.
fn elements(
    reader: &EventReader<'_>,
    body: &Bytes,
    json: &Bytes,
    list: &[u8],
    ranges: Vec<Range<usize>>,
) -> Vec<IncomingEvent> {
    if ranges.len() > reader.n_max {
        return vec![unreadable(reader, body, too_many(reader))];
    }
    if reader.spec.split.is_empty() {
        let ranges = ranges.into_iter().enumerate();
        return ranges.map(|(event_n, range)| element(reader, event_n, json, list, range)).collect();
    }
    let mut texts = Vec::with_capacity(ranges.len());
    for range in ranges {
        let element = json.slice_ref(list.get(range).unwrap_or_default());
        push_split(&mut texts, element, &reader.spec.split, reader.n_max);
    }
    if texts.len() > reader.n_max {
        return vec![unreadable(reader, body, too_many(reader))];
    }
    texts.iter().enumerate().map(|(event_n, text)| one(reader, event_n, text, text)).collect()
}

/// The element, or it once for each entry of the lists that hold several; one more than `n_max` at most, so that the
/// caller sees that there are more.
fn push_split(texts: &mut Vec<Bytes>, element: Bytes, lists: &[String], n_max: usize) {
    match lists.iter().find_map(|list| split_at(&element, list, n_max)) {
        Some(parts) => {
            for part in parts {
                if texts.len() <= n_max {
                    push_split(texts, part, lists, n_max);
                }
            }
        }
        None => texts.push(element),
    }
}

/// The element with each of the list's entries alone; `None` where it has one at most, or too much stands beside them.
fn split_at(element: &Bytes, list: &str, n_max: usize) -> Option<Vec<Bytes>> {
    let PointerTarget::One(list) = json::find(element, list) else { return None };
    let ranges = json::first_elements(list, n_max).filter(|ranges| ranges.len() > 1)?;
    let from = list.as_ptr().addr().checked_sub(element.as_ptr().addr())?;
    let (before, after) = (element.get(..from)?, element.get(from + list.len()..)?);
    if before.len() + after.len() > REST_BYTES_MAX {
        return None;
    }
    let alone = |range: Range<usize>| {
        let entry = list.get(range).unwrap_or_default();
        Bytes::from([before, b"[", entry, b"]", after].concat())
    };
    Some(ranges.into_iter().map(alone).collect())
}

fn too_many(reader: &EventReader<'_>) -> String {
    format!("the request has more than {} events (`server.events_n_max`)", reader.n_max)
}

/// The elements of every list that the body has as a member.
fn lists(reader: &EventReader<'_>, body: &Bytes, json: &Bytes) -> Vec<IncomingEvent> {
    let outer = Document::parse(json);
    let Some(members) = json::members(json).filter(|_| outer.is_some()) else {
        return vec![unreadable(reader, body, "the body is not a JSON object".to_owned())];
    };
    let mut events = Vec::new();
    for (name, list) in &members {
        let of_list = EventReader {
            outer: outer.as_ref(),
            list: Some(name),
            kept: Arc::clone(&reader.kept),
            ..*reader
        };
        let elements = json::first_elements(list, reader.n_max).unwrap_or_default();
        if events.len() + elements.len() > reader.n_max {
            return vec![unreadable(reader, body, too_many(reader))];
        }
        for range in elements {
            events.push(element(&of_list, events.len(), json, list, range));
        }
    }
    if events.is_empty() && reader.spec.or_one { vec![one(reader, 0, body, json)] } else { events }
}

/// The `each` of bodies whose members are lists of events.
const EVERY_LIST: &str = "/*";

/// Decodes the JSON text of a verified body into the one that events are read from, such as by decrypting a part of it;
/// or returns why it cannot.
type Opener<'a> = &'a dyn Fn(&Bytes) -> Result<Bytes, String>;

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
        verified,
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
    Ok((payload(event, &json, Document::parse(&json).as_ref())?, json))
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

/// Chooses as [`chosen_for`] does by what is known of the headers; the content type is read only where it decides.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_an_object_of_texts_in_its_order_and_keeps_what_is_there_twice() {
        #[track_caller]
        fn check(form: &str, want: &str) {
            assert_eq!(form_object(form.as_bytes()), want.as_bytes(), "{form}");
        }
        check("", "{}");
        check("b=1&a=2+3&b=%22", r#"{"b":"1","a":"2 3","b":"\""}"#);
        check("a&b=", r#"{"a":"","b":""}"#);
    }

    #[test]
    fn the_one_value_of_a_field_is_the_body_and_two_are_none() {
        assert_eq!(form_value("p", b"x=1&p=%7B%7D"), Ok(Bytes::from_static(b"{}")));
        assert_eq!(form_value("p", b"x=1"), Err("form field `p` is missing".to_owned()));
        assert_eq!(form_value("p", b"p=1&p=1"), Err("form field `p` is there twice".to_owned()));
    }

    #[test]
    fn the_first_byte_distinguishes_json_from_a_form() {
        for (body, want) in
            [(" {\"a\":1}", false), ("\n[1]", false), ("a=1", true), ("", true), ("a={", true)]
        {
            assert_eq!(is_form(body.as_bytes()), want, "{body}");
        }
    }

    #[test]
    fn an_element_is_split_at_its_lists_within_bounds() {
        let split = |element: &str, n_max| {
            let lists = ["/a".to_owned(), "/a/0/b".to_owned()];
            let mut texts = Vec::new();
            push_split(&mut texts, Bytes::copy_from_slice(element.as_bytes()), &lists, n_max);
            texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
        };
        for (element, want) in [
            (
                r#"{"x":1,"a":[{"b":[1,2]},{"b":[3]}]}"#,
                vec![
                    r#"{"x":1,"a":[{"b":[1]}]}"#,
                    r#"{"x":1,"a":[{"b":[2]}]}"#,
                    r#"{"x":1,"a":[{"b":[3]}]}"#,
                ],
            ),
            (r#"{"a":[1]}"#, vec![r#"{"a":[1]}"#]),
            (r#"{"a":[]}"#, vec![r#"{"a":[]}"#]),
            (r#"{"a":{}}"#, vec![r#"{"a":{}}"#]),
            (r#"{"c":[1,2]}"#, vec![r#"{"c":[1,2]}"#]),
            ("3", vec!["3"]),
        ] {
            assert_eq!(split(element, 10), want, "{element}");
        }
        let many = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(10_000));
        assert_eq!(split(&many, 10).len(), 11, "one more than the bound");
        let nested = format!(r#"{{"a":[{}0]}}"#, r#"{"b":[1,2,3]},"#.repeat(10));
        assert_eq!(split(&nested, 10).len(), 11);
        let wide = format!(r#"{{"x":"{}","a":[1,2]}}"#, "x".repeat(REST_BYTES_MAX));
        assert_eq!(
            split(&wide, 10),
            std::slice::from_ref(&wide),
            "each event would have all that stands beside the list again"
        );
    }

    #[test]
    fn lines_are_where_something_stands() {
        #[track_caller]
        fn check(body: &str, want: &[&str]) {
            let found: Vec<&[u8]> = lines(body.as_bytes()).map(|range| &body.as_bytes()[range]).collect();
            assert_eq!(found, want.iter().map(|line| line.as_bytes()).collect::<Vec<_>>(), "{body:?}");
        }
        check("a\nbc\n", &["a", "bc"]);
        check("a\r\n\r\n b \nc", &["a", " b", "c"]);
        check("\n \n", &[]);
        check("", &[]);
    }
}
