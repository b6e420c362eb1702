//! What the parts of the program record of their work. They record what they have at hand: the exporter makes spans of
//! it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::ids::EventTrace;
use hooklatch_core::types::{AttemptResult, EventKey, MessageId, Name, Outcome, SpanContext};

/// One thing that was done, on its way to the exporter.
#[derive(Debug)]
pub enum SpanRecord {
    /// A request was admitted.
    Request(RequestSpan),
    /// An event was dispatched again.
    Dispatch(DispatchSpan),
    /// An attempt of a message ended.
    Attempt(AttemptSpan),
}

/// A request whose events were admitted.
#[derive(Debug)]
pub struct RequestSpan {
    pub provider: Name,
    pub began: Instant,
    pub ended: Instant,
    /// The HTTP status of the answer; `None` when its sender waited no longer.
    pub status: Option<u16>,
    /// Type of its event, where it has one.
    pub event_type: Option<String>,
    /// Ids of its events that are recorded, and what was found.
    pub events: Vec<(String, Outcome)>,
    pub times: AdmissionTimes,
    /// The parent span that the sender names, where that is believed.
    pub inbound: Option<SpanContext>,
}

/// What is known of how a request was admitted; empty when tracing is off.
#[derive(Debug, Clone, Default)]
pub struct AdmissionTimes {
    /// The commit that it shared with others.
    pub commit: Option<Arc<CommitSpan>>,
    /// The handlers that ran for its events.
    pub runs: Vec<HandlerRun>,
}

/// The handlers of one event, run once.
#[derive(Debug, Clone)]
pub struct HandlerRun {
    /// Position of the event in its request.
    pub event_n: usize,
    /// Time when the first of them began.
    pub began: Instant,
    /// Time when the last of them answered.
    pub ended: Instant,
    /// True when one of them failed.
    pub is_failed: bool,
}

impl HandlerRun {
    /// Notes handlers that ended now, where they began at a time that was taken.
    pub fn note(runs: &mut Vec<Self>, event_n: usize, began: Option<Instant>, is_failed: bool) {
        runs.extend(began.map(|began| Self { event_n, began, ended: Instant::now(), is_failed }));
    }
}

/// One commit, which many requests may share. It is recorded with the first of them that is recorded, in the trace of
/// the first event of that request.
#[derive(Debug)]
pub struct CommitSpan {
    pub span_id: [u8; 8],
    /// The trace that it is recorded in, once it is.
    home: OnceLock<EventTrace>,
    pub began: Instant,
    pub ended: Instant,
    pub events_n: usize,
    pub requests_n: usize,
}

impl CommitSpan {
    /// A commit that ended now.
    pub fn ended(began: Instant, events_n: usize, requests_n: usize) -> Arc<Self> {
        let (span_id, home, ended) = (random_id(), OnceLock::new(), Instant::now());
        Arc::new(Self { span_id, home, began, ended, events_n, requests_n })
    }

    /// The trace that it is recorded in: `trace` when it is recorded now, for the first time, which is `true`.
    pub fn home(&self, trace: EventTrace) -> (EventTrace, bool) {
        let mut is_first = false;
        let home = self.home.get_or_init(|| {
            is_first = true;
            trace
        });
        (*home, is_first)
    }
}

/// An id for a span that no other part has to know.
pub(super) fn random_id() -> [u8; 8] {
    fastrand::u64(1..).to_be_bytes()
}

/// An event that was dispatched later than at its admission.
#[derive(Debug)]
pub struct DispatchSpan {
    pub key: EventKey,
    pub event_type: String,
    pub generation: i32,
    /// Number of dispatches in this generation, this one included.
    pub dispatch_n: u32,
    pub began: Instant,
    pub ended: Instant,
    pub is_failed: bool,
}

/// A server that is called over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpServer {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Its name or address, without brackets.
    pub address: String,
    pub port: u16,
}

/// The attempt of a message, with its result.
#[derive(Debug)]
pub struct AttemptSpan {
    /// Its place in the trace.
    pub context: SpanContext,
    /// The first span of its trace.
    pub(crate) root_id: [u8; 8],
    pub destination: Name,
    pub message_id: MessageId,
    pub attempt_n: u32,
    pub began: Instant,
    pub ended: Instant,
    pub result: AttemptResult,
    /// The state that the message has now: `done`, `ready`, `dead` or `held`.
    pub next: &'static str,
    /// The server that was called over HTTP, where that is known.
    pub server: Option<HttpServer>,
    /// Method of the call; `None` where the destination is not called over HTTP.
    pub method: Option<String>,
    pub http_status: Option<u16>,
    /// Neither a call nor a question was made.
    pub is_unsent: bool,
}
