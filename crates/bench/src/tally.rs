//! The counts while a load runs, and the figures when it is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::{CreationError, Histogram};

use super::connection::LoadAnswer;
use super::cpu::CpuUs;
use super::mix::Sort;

/// Delay from which a request of an open loop counts as sent late: all connections were busy, or the machine was.
const LATE: Duration = Duration::from_millis(1);

/// Figures of one load. Only requests that were to be sent within the window are in it; of those, every one.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Length of the window; with a count, until the last answer.
    pub window: Duration,
    /// Number of answers of each sort, such as `200 accepted`, `401`; and what arrived instead of one.
    pub answers: BTreeMap<String, u64>,
    /// Events that were admitted; of a receiver that does not say so, its answers 2xx to requests that were no copies.
    pub accepted_n: u64,
    /// Forgeries that were answered with 2xx.
    pub forgeries_believed_n: u64,
    /// Requests without an answer, and those answered with 5xx.
    pub errors_n: u64,
    /// Time from when a request was due until it was answered or given up; forgeries do not count. Microseconds.
    pub latency: Histogram<u64>,
    /// Requests of an open loop that left more than a millisecond late. Their latency counts from when they were due.
    pub late_n: u64,
    /// Figures of each second of the window, by when answers arrived.
    pub seconds: Vec<SecondFigures>,
    /// CPU time that was used within the window.
    pub cpu: CpuUs,
}

/// One second of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct SecondFigures {
    /// Answers of any sort, and what arrived instead of one.
    pub answers_n: u64,
    /// Median latency, forgeries apart. Milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the same. Milliseconds.
    pub p99_ms: f64,
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Measured {
    /// Requests of the window.
    pub fn requests_n(&self) -> u64 {
        self.answers.values().sum()
    }

    /// Admitted events a second.
    pub fn accepted_per_s(&self) -> f64 {
        self.accepted_n as f64 / self.window.as_secs_f64()
    }

    /// Latency at this quantile, 0 to 1. Milliseconds.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// This CPU time for each request of the window. Microseconds.
    pub fn each(&self, used_us: Option<u64>) -> Option<f64> {
        Some(used_us? as f64 / self.requests_n().max(1) as f64)
    }
}

/// True for an outcome that says that the event is new and kept.
fn is_latched(outcome: &str) -> bool {
    matches!(outcome, "accepted" | "superseded")
}

/// One request of the window: what it was, when it was due, when it left.
pub(super) struct SentRequest {
    pub(super) sort: Sort,
    pub(super) due: Instant,
    pub(super) left: Instant,
}

/// Counts while a load runs.
pub(super) struct Tally {
    started: Instant,
    measured: Measured,
    second: Histogram<u64>,
    /// Answers of the second that is not over.
    second_n: u64,
}

impl Tally {
    /// A window that starts at `started`.
    pub(super) fn new(started: Instant) -> Result<Self, CreationError> {
        let measured = Measured {
            window: Duration::ZERO,
            answers: BTreeMap::new(),
            accepted_n: 0,
            forgeries_believed_n: 0,
            errors_n: 0,
            latency: histogram()?,
            late_n: 0,
            seconds: Vec::new(),
            cpu: CpuUs::default(),
        };
        Ok(Self { started, measured, second: histogram()?, second_n: 0 })
    }

    /// The time at which the window started.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Counts a request that was answered at `now`, or given up.
    pub(super) fn count(
        &mut self,
        sent: &SentRequest,
        answer: &Result<LoadAnswer, &'static str>,
        now: Instant,
    ) {
        self.roll(now);
        self.second_n += 1;
        let all = &mut self.measured;
        let word = match answer {
            Ok(LoadAnswer { status, outcome: Some(outcome), .. }) => format!("{status} {outcome}"),
            Ok(answer) => answer.status.to_string(),
            Err(why) => (*why).to_owned(),
        };
        *all.answers.entry(word).or_default() += 1;
        let is_fine = answer.as_ref().is_ok_and(|answer| answer.status / 100 == 2);
        all.errors_n += u64::from(answer.as_ref().map_or(true, |answer| answer.status >= 500));
        all.late_n += u64::from(sent.left.saturating_duration_since(sent.due) > LATE);
        if sent.sort == Sort::Forged {
            all.forgeries_believed_n += u64::from(is_fine);
            return;
        }
        let outcome = answer.as_ref().ok().and_then(|answer| answer.outcome.as_deref());
        let is_accepted = is_fine && outcome.map_or(sent.sort == Sort::Fresh, is_latched);
        all.accepted_n += u64::from(is_accepted);
        let us = u64::try_from(now.saturating_duration_since(sent.due).as_micros()).unwrap_or(u64::MAX);
        // Longer than the histogram goes counts as its longest.
        all.latency.saturating_record(us);
        self.second.saturating_record(us);
    }

    /// Closes the seconds that are over.
    fn roll(&mut self, now: Instant) {
        let at = now.saturating_duration_since(self.started).as_secs();
        while (self.measured.seconds.len() as u64) < at.min(86_400) {
            self.close_second();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn close_second(&mut self) {
        let ms = |quantile: f64| self.second.value_at_quantile(quantile) as f64 / 1_000.0;
        let second = SecondFigures {
            answers_n: std::mem::take(&mut self.second_n),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
        };
        self.measured.seconds.push(second);
        self.second.reset();
    }

    /// Ends the count, for a window of this length.
    pub(super) fn finish(mut self, window: Duration, cpu: CpuUs) -> Measured {
        // What arrived after the last whole second of the window would look like a slow one.
        if self.measured.seconds.is_empty() {
            self.close_second();
        }
        self.measured.seconds.truncate(usize::try_from(window.as_secs().max(1)).unwrap_or(usize::MAX));
        Measured { window, cpu, ..self.measured }
    }
}

/// Microseconds with three digits, up to an hour.
fn histogram() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_once_and_from_when_it_was_due() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut tally = Tally::new(start).expect("bounds");
        let answered = |status: u16, word: Option<&str>| Ok(LoadAnswer::of(status, word));
        for (sort, due_ms, left_ms, answered_ms, answer) in [
            (Sort::Fresh, 0, 0, 10, answered(200, Some("accepted"))),
            (Sort::Fresh, 0, 500, 510, answered(202, None)),
            (Sort::Copy, 0, 0, 10, answered(202, None)),
            (Sort::Copy, 0, 0, 10, answered(200, Some("duplicate"))),
            (Sort::Fresh, 0, 0, 10, answered(503, None)),
            (Sort::Forged, 0, 0, 1, answered(200, Some("accepted"))),
            (Sort::Fresh, 0, 0, 1_500, Err("connection closed")),
            (Sort::Forged, 0, 0, 2_000, answered(401, None)),
        ] {
            tally.count(&SentRequest { sort, due: at(due_ms), left: at(left_ms) }, &answer, at(answered_ms));
        }
        let all = tally.finish(Duration::from_secs(2), CpuUs::default());
        assert_eq!((all.requests_n(), all.accepted_n, all.forgeries_believed_n), (8, 2, 1));
        assert_eq!((all.errors_n, all.late_n, all.latency.len()), (2, 1, 6));
        assert!((all.accepted_per_s() - 1.0).abs() < 1e-9);
        assert!((509.0..512.0).contains(&all.latency_ms(0.8)), "what it waited before it left counts");
        assert_eq!(all.answers.get("200 accepted"), Some(&2));
        let answers_n: Vec<u64> = all.seconds.iter().map(|second| second.answers_n).collect();
        assert_eq!(answers_n, [6, 1], "the eighth was answered when the window was over");
    }
}
