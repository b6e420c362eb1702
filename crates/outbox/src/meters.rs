//! What is counted of one destination's calls: for `/metrics`, and for `/v1/activity`, as numbers since the start.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Histogram};

use super::call_times::CallTimes;
use hooklatch_contract::CallTimesView;
use hooklatch_core::types::AttemptResult;

/// Meters of a destination's calls. Each is looked up once.
pub struct Meters {
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
    pub fn new() -> Self {
        Self {
            took: OnceLock::new(),
            age: OnceLock::new(),
            ended: Default::default(),
            totals: Default::default(),
            newest: CallTimes::new(),
        }
    }

    /// A call took so long.
    pub fn took(&self, destination: &str, took: Duration) {
        let meter =
            || metrics::histogram!("hooklatch_attempt_seconds", "destination" => destination.to_owned());
        self.took.get_or_init(meter).record(took.as_secs_f64());
        self.newest.add(took);
    }

    /// A message was done so long after it was made.
    pub fn done(&self, destination: &str, age: Duration) {
        let meter =
            || metrics::histogram!("hooklatch_message_age_seconds", "destination" => destination.to_owned());
        self.age.get_or_init(meter).record(age.as_secs_f64());
    }

    /// How long the newest calls took; `None` before the first.
    pub fn newest(&self) -> Option<CallTimesView> {
        self.newest.view()
    }

    /// An attempt ended so.
    pub fn ended(&self, destination: &str, result: AttemptResult) {
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
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AttemptResult::ALL
            .iter()
            .zip(&self.totals)
            .map(|(result, total)| (result.as_str(), total.load(Ordering::Relaxed)))
    }
}
