//! One dispatch of an event: what its plan depends on.

use super::templates::Rendering;
use crate::handler::{EventContent, ParsedAhead, RawEvent};
use hooklatch_core::types::{EventKey, IncomingEvent, UnixMs};

/// An event that was dispatched, and how often.
pub struct Dispatched<'a> {
    pub key: &'a EventKey,
    pub event_seq: i64,
    /// First place that no message of the event has.
    pub next_place: u16,
    pub received_at_ms: UnixMs,
    /// Time from which its age counts.
    pub counted_from_ms: UnixMs,
    /// When it happened at the sender, where that is known here.
    pub created_at_ms: Option<UnixMs>,
    /// Number of dispatches, this one included.
    pub attempts_n: u32,
    /// Number of deliberate re-runs: part of every key.
    pub generation: i32,
    /// True when its row says something else than that it was dispatched: an earlier dispatch failed.
    pub is_again: bool,
    /// How the templates of its messages are filled in.
    pub(super) rendering: Rendering,
}

impl<'a> Dispatched<'a> {
    /// An event that is dispatched for the first time.
    pub fn first(event: &'a IncomingEvent, event_seq: i64) -> Self {
        Self { attempts_n: 1, ..Self::never(event, event_seq) }
    }

    /// An event that is not dispatched.
    pub fn never(event: &'a IncomingEvent, event_seq: i64) -> Self {
        Self {
            key: &event.key,
            event_seq,
            next_place: 0,
            received_at_ms: event.received_at_ms,
            counted_from_ms: event.received_at_ms,
            created_at_ms: event.created_at_ms,
            attempts_n: 0,
            generation: 0,
            is_again: false,
            rendering: Rendering::Shared,
        }
    }

    /// The event as its handlers see it.
    pub fn seen(&self, event_type: &str, content: EventContent) -> RawEvent {
        let EventContent { payload, envelope, headers } = content;
        RawEvent {
            provider: self.key.provider.clone(),
            event_id: self.key.event_id.clone(),
            event_type: event_type.to_owned(),
            payload,
            envelope,
            headers,
            received_at_ms: self.received_at_ms,
            attempt_n: self.attempts_n,
            ahead: ParsedAhead::default(),
        }
    }
}
