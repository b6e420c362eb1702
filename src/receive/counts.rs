//! Counts how requests of a provider ended: for `hooklatch_requests_total`, by handles that are made once, because
//! looking one up by its labels costs more than all else that is counted of a request; and minute by minute, for people.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use metrics::Counter;

use crate::api::RequestMinute;
use crate::minutes::{MinuteRing, MinuteSpan};
use crate::types::{Name, Outcome, UnixMs};

/// Number of ways in which a request ends.
const ENDS_N: usize = Outcome::ALL.len() + 4;
/// Place of accepted requests none of whose events is taken, behind the ends.
const UNTAKEN: usize = ENDS_N;
/// Number of things that are counted minute by minute.
const COUNTED_N: usize = ENDS_N + 1;

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestEnd {
    /// Its events were admitted, the strongest of them with this outcome.
    Admitted(Outcome),
    /// Answered, and nothing was there to admit.
    Nothing,
    /// The request was not believed.
    Rejected,
    /// Nobody can say yet; its sender may send it again.
    Unavailable,
    /// Refused before it was verified, because of something that its sender can change: its size, its method, its path.
    Refused,
}

impl RequestEnd {
    /// The end of a request whose answer has this outcome.
    pub(super) fn of(outcome: Option<Outcome>) -> Self {
        outcome.map_or(Self::Nothing, Self::Admitted)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Admitted(outcome) => outcome.as_str(),
            Self::Nothing => "none",
            Self::Rejected => "rejected",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
        }
    }

    fn place(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Rejected => 1,
            Self::Unavailable => 2,
            Self::Refused => 3,
            Self::Admitted(outcome) => 4 + outcome as usize,
        }
    }
}

/// The counters of one provider. One that never counted is not shown.
pub(super) struct RequestCounts {
    counters: [OnceLock<Counter>; ENDS_N],
    taken: OnceLock<Counter>,
    untaken: OnceLock<Counter>,
    minutes: MinuteRing<COUNTED_N>,
    /// When the newest request came that was accepted; 0 before the first.
    last_accepted_ms: AtomicI64,
}

impl RequestCounts {
    pub(super) fn new() -> Self {
        Self {
            counters: Default::default(),
            taken: OnceLock::new(),
            untaken: OnceLock::new(),
            minutes: MinuteRing::new(),
            last_accepted_ms: AtomicI64::new(0),
        }
    }

    /// Counts one more request of `provider` that came at this time and ended so.
    pub(super) fn count(&self, provider: &Name, end: RequestEnd, received_at_ms: UnixMs) {
        let Some(counter) = self.counters.get(end.place()) else { return };
        let made = || metrics::counter!("hooklatch_requests_total", "provider" => provider.to_string(), "outcome" => end.as_str());
        counter.get_or_init(made).increment(1);
        self.minutes.add(end.place(), received_at_ms);
        if end == RequestEnd::Admitted(Outcome::Accepted) {
            // Not the latest of all: a clock that was set back is right again at once.
            self.last_accepted_ms.store(received_at_ms, Ordering::Relaxed);
        }
    }

    /// Counts the new events of one request of `provider`: how many a route or a handler takes, and how many nothing does.
    pub(super) fn count_taken(
        &self,
        provider: &Name,
        (taken_n, untaken_n): (usize, usize),
        received_at_ms: UnixMs,
    ) {
        if taken_n > 0 {
            let made = || metrics::counter!("hooklatch_taken_total", "provider" => provider.to_string());
            self.taken.get_or_init(made).increment(taken_n as u64);
        }
        if untaken_n > 0 {
            let made = || metrics::counter!("hooklatch_ignored_total", "provider" => provider.to_string(), "reason" => "no_route");
            self.untaken.get_or_init(made).increment(untaken_n as u64);
            if taken_n == 0 {
                self.minutes.add(UNTAKEN, received_at_ms);
            }
        }
    }

    /// When the newest request came that was accepted here; `None` before the first.
    pub(super) fn last_accepted_ms(&self) -> Option<UnixMs> {
        Some(self.last_accepted_ms.load(Ordering::Relaxed)).filter(|ms| *ms != 0)
    }

    /// The minutes of `span` in which requests came.
    pub(super) fn minutes(&self, span: MinuteSpan) -> Vec<RequestMinute> {
        self.minutes.counted(span).into_iter().map(minute).collect()
    }
}

/// Counts new events of `provider` that were signed and whose fields nothing signs by name: an alert says so.
pub(super) fn count_unconfirmed(provider: &Name, events_n: usize) {
    if events_n > 0 {
        metrics::counter!("hooklatch_unconfirmed_total", "provider" => provider.to_string())
            .increment(events_n as u64);
    }
}

fn minute((at_ms, numbers): (UnixMs, [u64; COUNTED_N])) -> RequestMinute {
    let of = |end: RequestEnd| numbers.get(end.place()).copied().unwrap_or_default();
    let of_outcome = |outcome| of(RequestEnd::Admitted(outcome));
    RequestMinute {
        at_ms,
        accepted_n: of_outcome(Outcome::Accepted),
        untaken_n: numbers.get(UNTAKEN).copied().unwrap_or_default(),
        duplicate_n: of_outcome(Outcome::Duplicate),
        conflict_n: of_outcome(Outcome::Conflict),
        replayed_n: of_outcome(Outcome::Replayed),
        superseded_n: of_outcome(Outcome::Superseded),
        unreadable_n: of_outcome(Outcome::Unreadable),
        none_n: of(RequestEnd::Nothing),
        rejected_n: of(RequestEnd::Rejected),
        unavailable_n: of(RequestEnd::Unavailable),
        refused_n: of(RequestEnd::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_a_place_of_its_own() {
        let others =
            [RequestEnd::Nothing, RequestEnd::Rejected, RequestEnd::Unavailable, RequestEnd::Refused];
        let ends =
            others.into_iter().chain(Outcome::ALL.iter().map(|outcome| RequestEnd::Admitted(*outcome)));
        let mut places: Vec<usize> = ends.map(RequestEnd::place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..ENDS_N).collect::<Vec<_>>());
    }

    #[test]
    fn each_end_is_told_under_its_own_name() {
        let minute = minute((60_000, std::array::from_fn(|place| 1 << place)));
        let told = serde_json::to_value(&minute).expect("JSON");
        let others =
            [RequestEnd::Nothing, RequestEnd::Rejected, RequestEnd::Unavailable, RequestEnd::Refused];
        for end in others.into_iter().chain(Outcome::ALL.iter().map(|outcome| RequestEnd::Admitted(*outcome)))
        {
            assert_eq!(told[format!("{}_n", end.as_str())], 1 << end.place(), "{end:?}");
        }
        assert_eq!(told["untaken_n"], 1 << UNTAKEN);
        assert_eq!(told.as_object().expect("an object").len(), COUNTED_N + 1);
    }
}
