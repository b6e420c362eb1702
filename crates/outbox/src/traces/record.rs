//! What the parts of the program record of their work, and the queue from them to the exporter, which makes spans of
//! it. The queue is bounded in spans; a sender that finds it full goes on without.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use metrics::Counter;
use tokio::sync::mpsc;

use super::ids::EventTrace;
use hooklatch_core::types::{AttemptResult, EventKey, MessageId, Name, Outcome, SpanContext};

/// One thing that was done, on its way to the exporter.
#[derive(Debug)]
pub(crate) enum SpanRecord {
    /// A request was admitted.
    Request(RequestSpan),
    /// An event was dispatched again.
    Dispatch(DispatchSpan),
    /// An attempt of a message ended.
    Attempt(AttemptSpan),
}

/// A request whose events were admitted.
#[derive(Debug)]
pub struct AdmittedRequest {
    /// The provider that it is for.
    pub provider: Name,
    /// The HTTP status of the answer; `None` when its sender waits no longer.
    pub status: Option<u16>,
    /// Type of its event, where it has one.
    pub event_type: Option<String>,
    /// Ids of its events, and what was found.
    pub events: Vec<(String, Outcome)>,
    /// How they were admitted.
    pub times: AdmissionTimes,
}

/// A request of which some events are recorded, and no others are in it.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    pub(crate) request: AdmittedRequest,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// The span that the sender names as its own, where that is linked.
    pub(crate) inbound: Option<SpanContext>,
}

/// How a request was admitted; empty when tracing is off.
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
    pub(crate) span_id: [u8; 8],
    /// The trace that it is recorded in, once it is.
    home: OnceLock<EventTrace>,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) events_n: usize,
    pub(crate) requests_n: usize,
}

impl CommitSpan {
    /// A commit that ended now.
    pub fn ended(began: Instant, events_n: usize, requests_n: usize) -> Arc<Self> {
        let (span_id, home, ended) = (random_id(), OnceLock::new(), Instant::now());
        Arc::new(Self { span_id, home, began, ended, events_n, requests_n })
    }

    /// The trace that it is recorded in: `trace` when it is recorded now, for the first time, which is `true`.
    pub(crate) fn home(&self, trace: EventTrace) -> (EventTrace, bool) {
        let mut is_first = false;
        let home = self.home.get_or_init(|| {
            is_first = true;
            trace
        });
        (*home, is_first)
    }
}

/// An id for a span that no other part has to know.
pub(crate) fn random_id() -> [u8; 8] {
    fastrand::u64(1..).to_be_bytes()
}

/// An event that was dispatched later than at its admission.
#[derive(Debug)]
pub(crate) struct DispatchSpan {
    pub(crate) key: EventKey,
    pub(crate) event_type: String,
    pub(crate) generation: i32,
    /// Number of dispatches in this generation, this one included.
    pub(crate) dispatch_n: u32,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) is_failed: bool,
}

/// A server that is called over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpServer {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// Its name or address, without brackets.
    pub(crate) address: String,
    pub(crate) port: u16,
}

/// The attempt of a message, with its result.
#[derive(Debug)]
pub(crate) struct AttemptSpan {
    pub(crate) trace: EventTrace,
    pub(crate) span_id: [u8; 8],
    pub(crate) destination: Name,
    pub(crate) message_id: MessageId,
    pub(crate) attempt_n: u32,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) result: AttemptResult,
    /// The state that the message has now: `done`, `ready`, `dead` or `held`.
    pub(crate) next: &'static str,
    /// The server that was called over HTTP, if any.
    pub(crate) server: Option<HttpServer>,
    /// Method of the call; `None` where the destination is not called over HTTP.
    pub(crate) method: Option<String>,
    pub(crate) http_status: Option<u16>,
    /// Neither a call nor a question was made.
    pub(crate) is_unsent: bool,
}

/// The sending end of the queue.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    /// Unbounded, because `waiting_n` is its bound: in spans, which one request may have thousands of.
    sender: mpsc::UnboundedSender<(SpanRecord, usize)>,
    waiting_n: Arc<AtomicUsize>,
    spans_n_max: usize,
    dropped: Counter,
}

/// The exporter's end of the queue.
pub(crate) struct WaitingSpans {
    receiver: mpsc::UnboundedReceiver<(SpanRecord, usize)>,
    waiting_n: Arc<AtomicUsize>,
}

/// A queue of at most `spans_n_max` spans; what does not fit is counted in `dropped`.
pub(crate) fn span_queue(spans_n_max: usize, dropped: Counter) -> (SpanQueue, WaitingSpans) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting_n = Arc::new(AtomicUsize::new(0));
    let waiting = WaitingSpans { receiver, waiting_n: Arc::clone(&waiting_n) };
    (SpanQueue { sender, waiting_n, spans_n_max, dropped }, waiting)
}

impl SpanQueue {
    /// Queues a record of `spans_n` spans, or drops and counts it. Never waits.
    pub(crate) fn push(&self, record: SpanRecord, spans_n: usize) {
        let before_n = self.waiting_n.fetch_add(spans_n, Ordering::Relaxed);
        let is_full = before_n.saturating_add(spans_n) > self.spans_n_max;
        if is_full || self.sender.send((record, spans_n)).is_err() {
            self.waiting_n.fetch_sub(spans_n, Ordering::Relaxed);
            self.dropped.increment(u64::try_from(spans_n).unwrap_or(u64::MAX));
        }
    }
}

impl WaitingSpans {
    /// The next record; `None` when all senders are gone. Cancelling it loses nothing.
    pub(crate) async fn next(&mut self) -> Option<SpanRecord> {
        let (record, spans_n) = self.receiver.recv().await?;
        self.waiting_n.fetch_sub(spans_n, Ordering::Relaxed);
        Some(record)
    }

    /// The next record, if one waits now.
    pub(crate) fn next_now(&mut self) -> Option<SpanRecord> {
        let (record, spans_n) = self.receiver.try_recv().ok()?;
        self.waiting_n.fetch_sub(spans_n, Ordering::Relaxed);
        Some(record)
    }

    /// Closes the queue and returns how many spans were left.
    pub(crate) fn close(&mut self) -> usize {
        self.receiver.close();
        let mut left_n = 0;
        while let Ok((_, spans_n)) = self.receiver.try_recv() {
            left_n += spans_n;
        }
        left_n
    }
}
