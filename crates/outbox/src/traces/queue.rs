//! The way from those who tell to the exporter: bounded by spans, and who finds it full goes on without.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::Counter;
use tokio::sync::mpsc;

use super::span::ToldSpan;

/// What was told, and of how many spans it is.
pub(crate) type Told = (ToldSpan, usize);

/// The end of the way at which is told.
#[derive(Debug)]
pub struct SpanQueue {
    /// Unbounded, because `waiting_n` is its bound: in spans, which one request may have thousands of.
    told: mpsc::UnboundedSender<Told>,
    waiting_n: Arc<AtomicUsize>,
    spans_n_max: usize,
    dropped: Counter,
}

/// The end of the way at which the exporter listens.
pub(super) struct WaitingSpans {
    told: mpsc::UnboundedReceiver<Told>,
    waiting_n: Arc<AtomicUsize>,
}

/// A way that takes `spans_n_max` spans; what it does not take is counted in `dropped`.
pub(super) fn span_queue(spans_n_max: usize, dropped: Counter) -> (SpanQueue, WaitingSpans) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting_n = Arc::new(AtomicUsize::new(0));
    let waiting = WaitingSpans { told: receiver, waiting_n: Arc::clone(&waiting_n) };
    (SpanQueue { told: sender, waiting_n, spans_n_max, dropped }, waiting)
}

impl SpanQueue {
    /// Hands over what is of `spans_n` spans, or drops and counts it. Never waits.
    pub fn tell(&self, told: ToldSpan, spans_n: usize) {
        let before_n = self.waiting_n.fetch_add(spans_n, Ordering::Relaxed);
        let is_full = before_n.saturating_add(spans_n) > self.spans_n_max;
        if is_full || self.told.send((told, spans_n)).is_err() {
            self.waiting_n.fetch_sub(spans_n, Ordering::Relaxed);
            self.dropped.increment(u64::try_from(spans_n).unwrap_or(u64::MAX));
        }
    }
}

impl WaitingSpans {
    /// The next that waits; `None` when nobody can tell any more. Cancelling it loses nothing.
    pub(crate) async fn next(&mut self) -> Option<ToldSpan> {
        let (told, spans_n) = self.told.recv().await?;
        self.waiting_n.fetch_sub(spans_n, Ordering::Relaxed);
        Some(told)
    }

    /// The next, if one waits now.
    pub(super) fn next_now(&mut self) -> Option<ToldSpan> {
        let (told, spans_n) = self.told.try_recv().ok()?;
        self.waiting_n.fetch_sub(spans_n, Ordering::Relaxed);
        Some(told)
    }

    /// Takes nothing more, and says how many spans were left.
    pub(crate) fn close(&mut self) -> usize {
        self.told.close();
        let mut left_n = 0;
        while let Ok((_, spans_n)) = self.told.try_recv() {
            left_n += spans_n;
        }
        left_n
    }
}
