//! Requests of several events: where each of them is, and what becomes of one that has too many.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::event::{element, one, unreadable};
use super::reader::EventReader;
use crate::json::{self, Document};
use crate::types::IncomingEvent;

/// Ranges of those lines of a body that are not empty.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = Range<usize>> {
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
    let ranges = ranges.into_iter().enumerate();
    ranges.map(|(event_n, range)| element(reader, event_n, json, list, range)).collect()
}

fn too_many(reader: &EventReader<'_>) -> String {
    format!("the request has more than {} events (`server.events_n_max`)", reader.n_max)
}

/// The elements of every list that the body has as a member.
pub(super) fn lists(reader: &EventReader<'_>, body: &Bytes, json: &Bytes) -> Vec<IncomingEvent> {
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
