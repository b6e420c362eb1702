//! What is counted of one destination's calls: for `/metrics`, and minute by minute, for people.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram};

use super::call_times::CallTimes;
use crate::api::{AttemptMinute, CallTimesView};
use crate::minutes::{MinuteRing, MinuteSpan};
use crate::store::SettleTo;
use crate::types::{AttemptResult, UnixMs};

/// The end of an attempt as people are told it: each attempt has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptEnd {
    /// Its message is done.
    Done,
    /// It surely did nothing; the next one follows.
    Retry,
    /// It was sent, and nobody knows whether it took effect.
    Unknown,
    /// A person decides, for another reason.
    Held,
    /// Its message is given up.
    Dead,
    /// It was not sent, for now.
    Released,
}

/// Number of ways in which an attempt ends.
const ENDS_N: usize = AttemptEnd::Released as usize + 1;

impl AttemptEnd {
    /// The end of an attempt whose message goes on to `to`.
    pub(super) fn of(to: SettleTo, result: AttemptResult, is_unsent: bool) -> Self {
        match (to, result) {
            (SettleTo::Done, _) => Self::Done,
            (SettleTo::Dead, _) => Self::Dead,
            (SettleTo::Ready { .. }, _) if is_unsent => Self::Released,
            (_, AttemptResult::Unknown) => Self::Unknown,
            (SettleTo::Held, _) => Self::Held,
            (SettleTo::Ready { .. }, AttemptResult::Released) => Self::Released,
            (SettleTo::Ready { .. }, _) => Self::Retry,
        }
    }
}

/// Meters of a destination's calls. Each is looked up once.
pub(super) struct Meters {
    took: OnceLock<Histogram>,
    /// From the event's receipt until its message was done.
    age: OnceLock<Histogram>,
    /// Counters of attempts, one for each result.
    ended: [OnceLock<Counter>; AttemptResult::ALL.len()],
    minutes: MinuteRing<ENDS_N>,
    newest: CallTimes,
}

impl Meters {
    pub(super) fn new() -> Self {
        Self {
            took: OnceLock::new(),
            age: OnceLock::new(),
            ended: Default::default(),
            minutes: MinuteRing::new(),
            newest: CallTimes::new(),
        }
    }

    /// A call took so long.
    pub(super) fn took(&self, destination: &str, took: Duration) {
        let meter =
            || metrics::histogram!("hooklatch_attempt_seconds", "destination" => destination.to_owned());
        self.took.get_or_init(meter).record(took.as_secs_f64());
        self.newest.add(took);
    }

    /// A message was done so long after it was made.
    pub(super) fn done(&self, destination: &str, age: Duration) {
        let meter =
            || metrics::histogram!("hooklatch_message_age_seconds", "destination" => destination.to_owned());
        self.age.get_or_init(meter).record(age.as_secs_f64());
    }

    /// How long the newest calls took; `None` before the first.
    pub(super) fn newest(&self) -> Option<CallTimesView> {
        self.newest.view()
    }

    /// An attempt ended so.
    pub(super) fn ended(&self, destination: &str, result: AttemptResult) {
        let meter = || {
            metrics::counter!(
                "hooklatch_attempts_total",
                "destination" => destination.to_owned(),
                "result" => result.as_str(),
            )
        };
        let place = AttemptResult::ALL.iter().position(|one| *one == result);
        if let Some(counter) = place.and_then(|place| self.ended.get(place)) {
            counter.get_or_init(meter).increment(1);
        }
    }

    /// An attempt ended so in the minute of `at_ms`.
    pub(super) fn ended_in_minute(&self, end: AttemptEnd, at_ms: UnixMs) {
        self.minutes.add(end as usize, at_ms);
    }

    /// The minutes of `span` in which attempts ended.
    pub(super) fn minutes(&self, span: MinuteSpan) -> Vec<AttemptMinute> {
        self.minutes.counted(span).into_iter().map(minute).collect()
    }
}

fn minute((at_ms, numbers): (UnixMs, [u64; ENDS_N])) -> AttemptMinute {
    let of = |end: AttemptEnd| numbers.get(end as usize).copied().unwrap_or_default();
    AttemptMinute {
        at_ms,
        done_n: of(AttemptEnd::Done),
        retry_n: of(AttemptEnd::Retry),
        unknown_n: of(AttemptEnd::Unknown),
        held_n: of(AttemptEnd::Held),
        dead_n: of(AttemptEnd::Dead),
        released_n: of(AttemptEnd::Released),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_is_told_under_one_name() {
        #[track_caller]
        fn check(to: SettleTo, result: AttemptResult, is_unsent: bool, want: &str) {
            let meters = Meters::new();
            meters.ended_in_minute(AttemptEnd::of(to, result, is_unsent), 60_000);
            let told = serde_json::to_value(meters.minutes(MinuteSpan::until(60_000, 1))).expect("JSON");
            let told = told[0].as_object().expect("a minute");
            let named: Vec<&str> =
                told.iter().filter(|(_, number)| **number == 1).map(|(name, _)| name.as_str()).collect();
            assert_eq!(named, [want], "{to:?} {result:?}");
        }
        let again = SettleTo::Ready { visible_at_ms: 5 };
        check(SettleTo::Done, AttemptResult::Done, false, "done_n");
        check(again, AttemptResult::Retry, false, "retry_n");
        check(again, AttemptResult::Unknown, false, "unknown_n");
        check(SettleTo::Held, AttemptResult::Unknown, false, "unknown_n");
        check(SettleTo::Held, AttemptResult::Released, true, "held_n");
        check(SettleTo::Dead, AttemptResult::Refused, false, "dead_n");
        check(SettleTo::Dead, AttemptResult::Unknown, false, "dead_n");
        check(again, AttemptResult::Released, true, "released_n");
        // It waits before it asks, and nothing was sent this time.
        check(again, AttemptResult::Unknown, true, "released_n");
    }
}
