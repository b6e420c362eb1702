//! The times at which requests of an open loop are due, whatever the receiver does.
//!
//! A thread of its own counts them out, because the runtime's timers tick in milliseconds, which would be counted as the
//! receiver's latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// Hands out the times at which requests are due, in their order.
#[derive(Clone)]
pub(super) struct Pacer {
    started: Instant,
    per_second: f64,
    /// One permit for each request that is due and that no connection has taken.
    due: Arc<Semaphore>,
    /// Number of requests that were taken.
    taken_n: Arc<AtomicU64>,
    /// Number of requests that there will be; not known before the end.
    all_n: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Pacer {
    /// Starts to count at once; `per_second` is above 0.
    pub(super) fn start(per_second: f64) -> Self {
        let pacer = Self {
            started: Instant::now(),
            per_second,
            due: Arc::new(Semaphore::new(0)),
            taken_n: Arc::default(),
            all_n: Arc::new(AtomicU64::new(u64::MAX)),
            is_over: Arc::default(),
        };
        let counter = pacer.clone();
        std::thread::spawn(move || counter.count_out());
        pacer
    }

    fn count_out(&self) {
        let mut told_n = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let due_n = self.due_by(Instant::now());
            if due_n > told_n {
                self.due.add_permits(usize::try_from(due_n - told_n).unwrap_or(usize::MAX).min(1 << 20));
                told_n = due_n;
            }
            let wait = self.time_of(told_n).saturating_duration_since(Instant::now());
            // The pace of the load.
            std::thread::sleep(wait.min(Duration::from_millis(20)));
        }
    }

    /// The time of the next request, once it has come; `None` when there are no more.
    pub(super) async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        let n = self.taken_n.fetch_add(1, Ordering::Relaxed);
        (n < self.all_n.load(Ordering::Relaxed)).then(|| self.time_of(n))
    }

    /// No request is due any more from `end` on. Those before it are still to be sent, by `connections_n` who ask.
    pub(super) fn end(&self, end: Instant, connections_n: usize) {
        self.is_over.store(true, Ordering::Relaxed);
        let all_n = self.due_by(end);
        self.all_n.store(all_n, Ordering::Relaxed);
        // Each asks until it hears that there are no more.
        let left_n = all_n.saturating_sub(self.taken_n.load(Ordering::Relaxed));
        let permits_n = usize::try_from(left_n).unwrap_or(usize::MAX).min(1 << 28) + connections_n;
        self.due.add_permits(permits_n);
    }

    /// Number of requests that are due before `at`: the first is due at the start.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "never negative, and not that many"
    )]
    fn due_by(&self, at: Instant) -> u64 {
        let passed_s = at.saturating_duration_since(self.started).as_secs_f64();
        (passed_s * self.per_second).ceil() as u64
    }

    #[expect(clippy::cast_precision_loss, reason = "exact to far more requests than anybody sends")]
    fn time_of(&self, n: u64) -> Instant {
        self.started + Duration::from_secs_f64(n as f64 / self.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_are_due_at_their_times_and_none_is_left_out() {
        let pacer = Pacer::start(1_000.0);
        let mut last = pacer.next().await.expect("the first");
        for _ in 1..20 {
            let due = pacer.next().await.expect("one more");
            assert!(due <= Instant::now(), "it has come");
            let apart = due.duration_since(last);
            assert!(apart.abs_diff(Duration::from_millis(1)) < Duration::from_micros(1), "{apart:?}");
            last = due;
        }
        let end = pacer.started + Duration::from_millis(50);
        pacer.end(end, 1);
        let mut more_n = 0;
        while let Some(due) = pacer.next().await {
            assert!(due < end);
            more_n += 1;
        }
        assert_eq!(more_n, 30, "50 in 50 ms, of which 20 were taken before");
    }

    #[test]
    fn times_and_numbers_of_requests_say_the_same() {
        let pacer = Pacer {
            started: Instant::now(),
            per_second: 3.0,
            due: Arc::new(Semaphore::new(0)),
            taken_n: Arc::default(),
            all_n: Arc::default(),
            is_over: Arc::default(),
        };
        assert_eq!((pacer.due_by(pacer.started), pacer.time_of(0)), (0, pacer.started));
        for n in 0..100 {
            let due = pacer.time_of(n);
            assert!(due < pacer.time_of(n + 1));
            // A nanosecond later it has come; it is the n-th after the first.
            assert_eq!(pacer.due_by(due + Duration::from_micros(1)), n + 1, "{n}");
        }
        assert_eq!(pacer.due_by(pacer.started + Duration::from_secs(10)), 30);
    }
}
