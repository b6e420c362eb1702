//! The source of times: the wall clock, which people and senders go by, and what is made of it for leases and waits,
//! which must not stop or start over because the wall clock is set.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01 UTC. Columns of this type end in `_at_ms`.
pub type UnixMs = i64;

/// The source of all times: the system's clock in production, a hand-set one in tests. Clones have the same time.
#[derive(Debug, Clone)]
pub struct Clock {
    source: ClockSource,
    /// The last steady time, and the ticks at which it was read.
    steady: Arc<Mutex<Option<(UnixMs, i64)>>>,
}

#[derive(Debug, Clone)]
enum ClockSource {
    /// The machine's clock, and how far this one is ahead of it. Milliseconds.
    System(i64),
    /// Time that it shows, and milliseconds that it has gone forward.
    Manual(Arc<(AtomicI64, AtomicI64)>),
}

impl Clock {
    /// The machine's wall clock.
    pub fn system() -> Self {
        Self::system_ahead(0)
    }

    /// The machine's wall clock as one shows it that is set wrong by so much: for tests. Milliseconds.
    pub fn system_ahead(by_ms: i64) -> Self {
        Self { source: ClockSource::System(by_ms), steady: Arc::default() }
    }

    /// A clock that stands still at `now_ms` until [`Clock::advance`] moves it.
    pub fn manual(now_ms: UnixMs) -> Self {
        let shown = Arc::new((AtomicI64::new(now_ms), AtomicI64::new(0)));
        Self { source: ClockSource::Manual(shown), steady: Arc::default() }
    }

    /// True when it is one that tests set by hand: then everything goes by it, also where a database has a clock of its
    /// own.
    pub fn is_manual(&self) -> bool {
        matches!(self.source, ClockSource::Manual(_))
    }

    /// The time now, by the wall clock. A clock before 1970 reads as 0. It moves back and forth when the machine's
    /// clock is set.
    pub fn now_ms(&self) -> UnixMs {
        let (since, ahead_ms) = self.now();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX).saturating_add(ahead_ms)
    }

    /// The time of [`Clock::now_ms`], to the nanosecond where the machine knows it: for spans.
    #[cfg(feature = "otel")]
    pub fn now_ns(&self) -> u64 {
        let (since, ahead_ms) = self.now();
        let now_ns = i128::try_from(since.as_nanos()).unwrap_or(i128::MAX);
        u64::try_from(now_ns.saturating_add(i128::from(ahead_ms) * 1_000_000).max(0)).unwrap_or(u64::MAX)
    }

    /// Time since 1970 by the machine's clock, and how far this one is ahead of it. Milliseconds.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> (Duration, i64) {
        match &self.source {
            ClockSource::System(ahead_ms) => {
                (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), *ahead_ms)
            }
            ClockSource::Manual(shown) => (Duration::ZERO, shown.0.load(Ordering::SeqCst)),
        }
    }

    /// Milliseconds since some moment of this process; never goes back, and cannot be set.
    pub fn ticks_ms(&self) -> i64 {
        static START: OnceLock<Instant> = OnceLock::new();
        match &self.source {
            ClockSource::System(_) => {
                i64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(i64::MAX)
            }
            ClockSource::Manual(shown) => shown.1.load(Ordering::SeqCst),
        }
    }

    /// The wall clock as it would be had it never been set back: it goes on by the ticks, and jumps forward only. A
    /// machine that slept has a wall clock that knows; its ticks may not.
    pub fn steady_ms(&self) -> UnixMs {
        self.steady_from(UnixMs::MIN)
    }

    /// The steady time from now on, and never before `floor_ms`, a time that was read before this process began.
    pub fn steady_from(&self, floor_ms: UnixMs) -> UnixMs {
        let mut steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall_ms, ticks_ms) = (self.now_ms(), self.ticks_ms());
        let gone_on_ms = steady
            .map_or(UnixMs::MIN, |(last_ms, at_ms)| last_ms.saturating_add(ticks_ms.saturating_sub(at_ms)));
        let now_ms = wall_ms.max(gone_on_ms).max(floor_ms);
        *steady = Some((now_ms, ticks_ms));
        now_ms
    }

    /// Sets a manual clock, as a machine's clock is set: no time has passed.
    pub fn set_by(&self, by_ms: i64) {
        self.steady_ms();
        if let ClockSource::Manual(shown) = &self.source {
            shown.0.fetch_add(by_ms, Ordering::SeqCst);
        }
    }

    /// Moves a manual clock, back as well; a system clock is left alone.
    pub fn advance(&self, by_ms: i64) {
        // Like a machine's clock, it goes on until it is set.
        self.steady_ms();
        if let ClockSource::Manual(shown) = &self.source {
            shown.0.fetch_add(by_ms, Ordering::SeqCst);
            shown.1.fetch_add(by_ms.max(0), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_time_goes_on_when_the_clock_is_set_back() {
        let clock = Clock::manual(10_000);
        clock.advance(500);
        clock.advance(-3_600_000);
        assert_eq!((clock.now_ms(), clock.steady_ms(), clock.ticks_ms()), (-3_589_500, 10_500, 500));
        clock.advance(1_000);
        assert_eq!((clock.steady_ms(), clock.ticks_ms()), (11_500, 1_500), "it does not stand still");
        clock.advance(7_200_000);
        assert_eq!(clock.steady_ms(), 7_211_500, "and not twice as fast later");
        assert_eq!(clock.clone().steady_from(9_000_000), 9_000_000);
        assert_eq!(clock.steady_ms(), 9_000_000, "clones have the same time");
    }

    #[test]
    fn the_systems_clock_may_be_wrong_by_what_a_test_says() {
        let (right, ahead) = (Clock::system(), Clock::system_ahead(60_000));
        assert!((59_000..61_000).contains(&(ahead.now_ms() - right.now_ms())));
        assert!((59_000..61_000).contains(&(ahead.steady_ms() - right.steady_ms())));
        assert!(right.ticks_ms() <= right.ticks_ms());
    }

    #[test]
    fn who_sets_a_clock_lets_no_time_pass() {
        let clock = Clock::manual(10_000);
        clock.set_by(5_000);
        assert_eq!((clock.now_ms(), clock.steady_ms(), clock.ticks_ms()), (15_000, 15_000, 0));
        clock.set_by(-5_000);
        clock.advance(100);
        assert_eq!((clock.now_ms(), clock.steady_ms(), clock.ticks_ms()), (10_100, 15_100, 100));
        let system = Clock::system();
        let before_ms = system.now_ms();
        system.advance(3_600_000);
        system.set_by(3_600_000);
        assert!(system.now_ms() - before_ms < 60_000, "the machine's clock is not ours to set");
        assert!(!system.is_manual() && clock.is_manual());
    }
}
