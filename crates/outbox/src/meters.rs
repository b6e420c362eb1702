//! What is counted of one destination's calls: for `/metrics`, and for `/v1/activity`, as numbers since the start and
//! as times of the newest calls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use metrics::{Counter, Histogram};

use crate::locked;
use hooklatch_contract::CallTimesView;
use hooklatch_core::types::AttemptResult;

/// Most calls whose times are held.
const NEWEST_N: usize = 256;

/// Meters of a destination's calls. Each is looked up once.
#[derive(Default)]
pub(crate) struct Meters {
    took: OnceLock<Histogram>,
    /// From the event's receipt until its message was done.
    age: OnceLock<Histogram>,
    /// Counters of attempts, and their numbers since the start, one of each for each result.
    ended: [(OnceLock<Counter>, AtomicU64); AttemptResult::ALL.len()],
    newest: CallTimes,
}

impl Meters {
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
        if let Some((counter, total)) = place.and_then(|place| self.ended.get(place)) {
            counter.get_or_init(meter).increment(1);
            total.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Attempts since the start, by result.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let results = AttemptResult::ALL.iter().zip(&self.ended);
        results.map(|(result, (_, total))| (result.as_str(), total.load(Ordering::Relaxed)))
    }
}

/// How long the newest calls took, in milliseconds; the oldest is first.
#[derive(Default)]
struct CallTimes(Mutex<VecDeque<u32>>);

impl CallTimes {
    /// Adds a call that took this long, with whatever result.
    fn add(&self, took: Duration) {
        let mut all = locked(&self.0);
        if all.len() >= NEWEST_N {
            all.pop_front();
        }
        all.push_back(u32::try_from(took.as_millis()).unwrap_or(u32::MAX));
    }

    /// The view of them; `None` before the first call.
    fn view(&self) -> Option<CallTimesView> {
        let mut all: Vec<u32> = locked(&self.0).iter().copied().collect();
        all.sort_unstable();
        // The shortest time that so many of a hundred calls took no longer than.
        let within = |percent: usize| all.get((all.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(CallTimesView {
            calls_n: u32::try_from(all.len()).unwrap_or(u32::MAX),
            p50_ms: within(50)?,
            p95_ms: within(95)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_nineteen_of_twenty_calls_took_no_longer_than_this() {
        #[track_caller]
        fn check(took_ms: impl IntoIterator<Item = u64>, want: Option<(u32, u32, u32)>) {
            let times = CallTimes::default();
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
