//! The queue from the parts that record spans to the exporter: bounded in spans; a sender that finds it full goes on
//! without.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::Counter;
use tokio::sync::mpsc;

use super::span::SpanRecord;

/// A record, and the number of its spans.
pub(crate) type QueuedSpan = (SpanRecord, usize);

/// The sending end of the queue.
#[derive(Debug)]
pub struct SpanQueue {
    /// Unbounded, because `waiting_n` is its bound: in spans, which one request may have thousands of.
    sender: mpsc::UnboundedSender<QueuedSpan>,
    waiting_n: Arc<AtomicUsize>,
    spans_n_max: usize,
    dropped: Counter,
}

/// The exporter's end of the queue.
pub(super) struct WaitingSpans {
    receiver: mpsc::UnboundedReceiver<QueuedSpan>,
    waiting_n: Arc<AtomicUsize>,
}

/// A queue of at most `spans_n_max` spans; what does not fit is counted in `dropped`.
pub(super) fn span_queue(spans_n_max: usize, dropped: Counter) -> (SpanQueue, WaitingSpans) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting_n = Arc::new(AtomicUsize::new(0));
    let waiting = WaitingSpans { receiver, waiting_n: Arc::clone(&waiting_n) };
    (SpanQueue { sender, waiting_n, spans_n_max, dropped }, waiting)
}

impl SpanQueue {
    /// Queues a record of `spans_n` spans, or drops and counts it. Never waits.
    pub fn push(&self, record: SpanRecord, spans_n: usize) {
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
    pub(super) fn next_now(&mut self) -> Option<SpanRecord> {
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
