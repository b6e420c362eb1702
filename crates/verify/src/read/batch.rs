//! Requests of several events: where each of them is, and how one with too many is handled.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::event::{element, one, unreadable};
use super::reader::EventReader;
use hooklatch_core::json::{self, Document, PointerTarget};
use hooklatch_core::types::IncomingEvent;

/// Most bytes that an element may have beside the list that it is split at, as every one of its events has them again.
const REST_BYTES_MAX: usize = 4_096;

/// Ranges of those lines of a body that are not empty.
pub(crate) fn lines(body: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    let ranges = body.split(|byte| *byte == b'\n').map(move |line| {
        let start = from;
        from += line.len() + 1;
        start..start + line.trim_ascii_end().len()
    });
    ranges.filter(|range| !range.is_empty())
}

/// The events of a batch, unless it has more than are read.
pub(super) fn elements(
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
/// caller can tell that there are more.
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
pub(crate) fn lists(reader: &EventReader<'_>, body: &Bytes, json: &Bytes) -> Vec<IncomingEvent> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
