//! Requests of several events: where each of them is, and what becomes of one that has too many.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::Reader;
use crate::json::{self, Document};
use crate::types::IncomingEvent;

/// Where the lines of a body are that hold anything.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    let ranges = body.split(|byte| *byte == b'\n').map(move |line| {
        let start = from;
        from += line.len() + 1;
        start..start + line.trim_ascii_end().len()
    });
    ranges.filter(|range| !range.is_empty())
}

impl Reader<'_> {
    /// The events of a batch, unless it has more than are read.
    pub(super) fn elements(
        &self,
        body: &Bytes,
        json: &Bytes,
        list: &[u8],
        ranges: Vec<Range<usize>>,
    ) -> Vec<IncomingEvent> {
        if ranges.len() > self.n_max {
            return vec![self.unreadable(body, self.too_many())];
        }
        let ranges = ranges.into_iter().enumerate();
        ranges.map(|(event_n, range)| self.element(event_n, json, list, range)).collect()
    }

    fn too_many(&self) -> String {
        format!("the request has more than {} events (`server.events_n_max`)", self.n_max)
    }

    /// The elements of every list that the body has as a member.
    pub(super) fn lists(self, body: &Bytes, json: &Bytes) -> Vec<IncomingEvent> {
        let outer = Document::parse(json);
        let Some(members) = json::members(json).filter(|_| outer.is_some()) else {
            return vec![self.unreadable(body, "the body is not a JSON object".to_owned())];
        };
        let mut events = Vec::new();
        for (name, list) in &members {
            let reader =
                Reader { outer: outer.as_ref(), list: Some(name), kept: Arc::clone(&self.kept), ..self };
            let elements = json::first_elements(list, self.n_max).unwrap_or_default();
            if events.len() + elements.len() > self.n_max {
                return vec![self.unreadable(body, self.too_many())];
            }
            for range in elements {
                events.push(reader.element(events.len(), json, list, range));
            }
        }
        if events.is_empty() && self.spec.or_one { vec![self.one(0, body, json)] } else { events }
    }
}
