//! The number of calls of one destination that may be under way at once, found out call by call: one more after every
//! round of calls that went well and needed all there were, half after a sign that the destination has too many.
//!
//! Pure: the caller passes the times. What the number means for permits and slots: `gate/mod.rs`.

use std::time::Duration;

use hooklatch_core::config::DestinationConfig;
use hooklatch_core::template;

/// Number at the beginning, below which slowness alone does not take it: destinations may have calls that
/// differ.
const START_N: u32 = 8;
/// A round is slow when its calls took more than this many times what they take at best,
const SLOWER: u64 = 2;
/// and this much more, in microseconds: below it the delay does not matter to a caller.
const SLACK_US: u64 = 10_000;
/// The part of a slower round by which the best one is forgotten: destinations change for good.
const FORGOTTEN: u64 = 8;

/// The number of calls that may be under way, and what it is computed from.
#[derive(Debug, Default)]
pub(crate) struct Window {
    n: u32,
    /// Between which bounds it moves; `None`: not at all.
    bounds: Option<Bounds>,
    round: CallRound,
    /// Time that the calls of the best round took on average, lately. Microseconds.
    best_us: Option<u64>,
    /// Time when it last shrank: calls that began before say nothing about it as it is now.
    shrank_at_ms: i64,
}

#[expect(clippy::struct_field_names, reason = "quantities end in their unit")]
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Least number after failures.
    min_n: u32,
    /// Least number after slow rounds.
    slow_min_n: u32,
    max_n: u32,
}

/// A round of calls: as many good ones as may be under way.
#[derive(Debug, Default)]
struct CallRound {
    calls_n: u32,
    sum_us: u64,
    /// True when all of the window was used at some time in it.
    is_full: bool,
}

impl Window {
    pub(crate) fn new(config: &DestinationConfig) -> Self {
        let max_n = config.concurrency_n.max(1);
        let start_n = START_N.min(max_n);
        // One slow or dead host out of a template says nothing about the others.
        let min_n = if template::has_host_template(&config.url) { start_n } else { 1 };
        let bounds = config.adaptive.then_some(Bounds { min_n, slow_min_n: start_n, max_n });
        let n = if bounds.is_some() { start_n } else { max_n };
        Self { n, bounds, round: CallRound::default(), best_us: None, shrank_at_ms: i64::MIN }
    }

    /// Returns how many calls may be under way now. At least 1.
    pub(crate) fn n(&self) -> u32 {
        self.n
    }

    /// Notes that as many calls are under way as the window allows.
    pub(crate) fn is_used_up(&mut self) {
        self.round.is_full = true;
    }

    /// A call that took `took` has ended well at `now_ms`.
    pub(crate) fn went_well(&mut self, took: Duration, now_ms: i64) {
        let Some(bounds) = self.bounds else { return };
        if self.is_of_before(took, now_ms) {
            return;
        }
        self.round.calls_n += 1;
        self.round.sum_us =
            self.round.sum_us.saturating_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if self.round.calls_n < self.n {
            return;
        }
        let round = std::mem::take(&mut self.round);
        let mean_us = round.sum_us / u64::from(round.calls_n);
        let best_us = self.best_us.unwrap_or(mean_us).min(mean_us);
        self.best_us = Some(best_us + (mean_us - best_us) / FORGOTTEN);
        if mean_us > best_us.saturating_mul(SLOWER).saturating_add(SLACK_US) {
            self.shrink(bounds.slow_min_n, now_ms);
        } else if round.is_full {
            self.n = self.n.saturating_add(1).min(bounds.max_n);
        }
    }

    /// A call that took `took` has ended at `now_ms` in a way that shows overload: not now, no answer, no connection.
    pub(crate) fn was_too_much(&mut self, took: Duration, now_ms: i64) {
        if let Some(bounds) = self.bounds
            && !self.is_of_before(took, now_ms)
        {
            self.shrink(bounds.min_n, now_ms);
        }
    }

    /// At most once a round trip: calls that were under way then say nothing more.
    fn shrink(&mut self, min_n: u32, now_ms: i64) {
        self.n = (self.n / 2).max(min_n).min(self.n);
        self.shrank_at_ms = now_ms;
        self.round = CallRound::default();
    }

    fn is_of_before(&self, took: Duration, now_ms: i64) -> bool {
        now_ms.saturating_sub(i64::try_from(took.as_millis()).unwrap_or(i64::MAX)) <= self.shrank_at_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::config;
    use hooklatch_core::config::UnknownPolicy;

    fn window(concurrency_n: u32) -> Window {
        let config = DestinationConfig { concurrency_n, adaptive: true, ..config(UnknownPolicy::Retry) };
        Window::new(&config)
    }

    /// Rounds of good calls that used all there was, one after the other; says when they were over.
    fn rounds(window: &mut Window, rounds_n: u32, took_ms: u64, mut now_ms: i64) -> i64 {
        let took = Duration::from_millis(took_ms);
        for _ in 0..rounds_n {
            now_ms += i64::try_from(took_ms).unwrap() + 1;
            window.is_used_up();
            for _ in 0..window.n() {
                window.went_well(took, now_ms);
            }
        }
        now_ms
    }

    #[test]
    fn it_grows_by_one_a_round_while_it_is_used_up_and_no_further_than_its_bound() {
        let mut window = window(64);
        assert_eq!(window.n(), 8);
        let now_ms = rounds(&mut window, 10, 100, 0);
        assert_eq!(window.n(), 18);
        for _ in 0..1_000 {
            window.went_well(Duration::from_millis(100), now_ms);
        }
        assert_eq!(window.n(), 18, "no call needed more");
        rounds(&mut window, 100, 100, now_ms);
        assert_eq!(window.n(), 64);
    }

    #[test]
    fn it_halves_once_a_round_trip_and_never_below_one() {
        let mut window = window(64);
        let now_ms = rounds(&mut window, 24, 100, 0);
        assert_eq!(window.n(), 32);
        let took = Duration::from_millis(50);
        for _ in 0..32 {
            window.was_too_much(took, now_ms + 60);
        }
        assert_eq!(window.n(), 16, "all of them were under way together");
        window.went_well(Duration::from_millis(100), now_ms + 90);
        assert_eq!(window.round.calls_n, 0, "it began when there were more");
        window.was_too_much(took, now_ms + 111);
        assert_eq!(window.n(), 8);
        for n in 1..10 {
            window.was_too_much(Duration::ZERO, now_ms + 111 + n);
        }
        assert_eq!(window.n(), 1);
        rounds(&mut window, 3, 100, now_ms + 1_000);
        assert_eq!(window.n(), 4, "and it finds its way back");
    }

    #[test]
    fn slowness_takes_it_back_to_where_it_began_and_no_further() {
        let mut window = window(64);
        let mut now_ms = rounds(&mut window, 40, 20, 0);
        assert_eq!(window.n(), 48);
        now_ms = rounds(&mut window, 1, 45, now_ms);
        assert_eq!(window.n(), 49, "a little slower is nothing");
        now_ms = rounds(&mut window, 1, 90, now_ms);
        assert_eq!(window.n(), 24);
        now_ms = rounds(&mut window, 4, 300, now_ms);
        assert_eq!(window.n(), 8);
        rounds(&mut window, 40, 300, now_ms);
        assert!(window.n() > 30, "slow for good is how it is now: {}", window.n());
    }

    #[test]
    fn quick_calls_may_differ_by_a_negligible_delay() {
        let mut window = window(64);
        let now_ms = rounds(&mut window, 20, 1, 0);
        rounds(&mut window, 20, 11, now_ms);
        assert_eq!(window.n(), 48);
    }

    #[test]
    fn calls_of_one_destination_may_be_unlike_each_other() {
        let mut window = window(64);
        let mut now_ms = 0;
        for n in 0..2_000_u64 {
            now_ms += 20;
            window.is_used_up();
            window.went_well(Duration::from_millis(if n % 5 == 0 { 2_000 } else { 30 }), now_ms);
            assert!(window.n() >= 8);
        }
    }

    #[test]
    fn where_it_is_off_or_bounded_nothing_moves_it_further() {
        for (concurrency_n, adaptive, url, want) in [
            (64, false, "http://far.test", (64, 64, 64)),
            (3, true, "http://far.test", (3, 3, 1)),
            (1, true, "http://far.test", (1, 1, 1)),
            (64, true, "http://{{ payload.host }}/", (8, 48, 8)),
        ] {
            let config = DestinationConfig {
                concurrency_n,
                adaptive,
                url: url.to_owned(),
                ..config(UnknownPolicy::Retry)
            };
            let mut window = Window::new(&config);
            let began_n = window.n();
            let now_ms = rounds(&mut window, 40, 5, 0);
            let grown_n = window.n();
            for n in 1..20 {
                window.was_too_much(Duration::ZERO, now_ms + n);
            }
            assert_eq!((began_n, grown_n, window.n()), want);
        }
    }
}
