//! What is counted of one destination's calls: for `/metrics`, and for `/v1/activity`, as numbers since the start and as
//! times of the newest calls.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Histogram};

use hooklatch_contract::CallTimesView;
use hooklatch_core::types::AttemptResult;

/// Calls that are kept.
const KEPT_N: usize = 256;

/// How long the newest calls took.
pub(crate) struct CallTimes {
    /// In milliseconds; the newest one overwrites the oldest.
    took_ms: [AtomicU32; KEPT_N],
    calls_n: AtomicU64,
}

impl CallTimes {
    pub(crate) fn new() -> Self {
        Self { took_ms: [const { AtomicU32::new(0) }; KEPT_N], calls_n: AtomicU64::new(0) }
    }

    /// Adds a call that took this long, with whatever result.
    pub(crate) fn add(&self, took: Duration) {
        let place = self.calls_n.fetch_add(1, Ordering::Relaxed) % KEPT_N as u64;
        let place = usize::try_from(place).ok().and_then(|place| self.took_ms.get(place));
        if let Some(place) = place {
            place.store(u32::try_from(took.as_millis()).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    /// The view of them; `None` before the first call.
    pub(crate) fn view(&self) -> Option<CallTimesView> {
        let calls_n = usize::try_from(self.calls_n.load(Ordering::Relaxed)).unwrap_or(KEPT_N).min(KEPT_N);
        let mut all: Vec<u32> =
            self.took_ms.iter().take(calls_n).map(|ms| ms.load(Ordering::Relaxed)).collect();
        all.sort_unstable();
        // The shortest time that so many of a hundred calls took no longer than.
        let within = |percent: usize| all.get((all.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(CallTimesView {
            calls_n: u32::try_from(calls_n).unwrap_or(u32::MAX),
            p50_ms: within(50)?,
            p95_ms: within(95)?,
        })
    }
}

/// Meters of a destination's calls. Each is looked up once.
pub(crate) struct Meters {
    took: OnceLock<Histogram>,
    /// From the event's receipt until its message was done.
    age: OnceLock<Histogram>,
    /// Counters of attempts, one for each result.
    ended: [OnceLock<Counter>; AttemptResult::ALL.len()],
    /// Attempts since the start, one number for each result.
    totals: [AtomicU64; AttemptResult::ALL.len()],
    newest: CallTimes,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Self {
            took: OnceLock::new(),
            age: OnceLock::new(),
            ended: Default::default(),
            totals: Default::default(),
            newest: CallTimes::new(),
        }
    }

    /// A call took so long.
    pub(crate) fn took(&self, destination: &str, took: Duration) {
        let meter =
            || metrics::histogram!("hooklatch_attempt_seconds", "destination" => destination.to_owned());
        self.took.get_or_init(meter).record(took.as_secs_f64());
        self.newest.add(took);
    }

    /// A message was done so long after it was made.
    pub(crate) fn done(&self, destination: &str, age: Duration) {
        let meter =
            || metrics::histogram!("hooklatch_message_age_seconds", "destination" => destination.to_owned());
        self.age.get_or_init(meter).record(age.as_secs_f64());
    }

    /// How long the newest calls took; `None` before the first.
    pub(crate) fn newest(&self) -> Option<CallTimesView> {
        self.newest.view()
    }

    /// An attempt ended so.
    pub(crate) fn ended(&self, destination: &str, result: AttemptResult) {
        let meter = || {
            metrics::counter!(
                "hooklatch_attempts_total",
                "destination" => destination.to_owned(),
                "result" => result.as_str(),
            )
        };
        let place = AttemptResult::ALL.iter().position(|one| *one == result);
        let counts = place.and_then(|place| self.ended.get(place).zip(self.totals.get(place)));
        if let Some((counter, total)) = counts {
            counter.get_or_init(meter).increment(1);
            total.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Attempts since the start, by result.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AttemptResult::ALL
            .iter()
            .zip(&self.totals)
            .map(|(result, total)| (result.as_str(), total.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_nineteen_of_twenty_calls_took_no_longer_than_this() {
        #[track_caller]
        fn check(took_ms: impl IntoIterator<Item = u64>, want: Option<(u32, u32, u32)>) {
            let times = CallTimes::new();
            took_ms.into_iter().for_each(|ms| times.add(Duration::from_millis(ms)));
            assert_eq!(times.view().map(|view| (view.calls_n, view.p50_ms, view.p95_ms)), want);
        }
        check([], None);
        check([7], Some((1, 7, 7)));
        check([9, 1], Some((2, 1, 9)));
        check((1..=20).rev(), Some((20, 10, 19)));
        check((1..=100).chain([u64::MAX]), Some((101, 51, 96)));
        check((0..1_000).map(|ms| if ms < 744 { 5_000 } else { ms - 743 }), Some((256, 128, 244)));
    }
}
