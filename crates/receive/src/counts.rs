//! Counts how requests of a provider ended: for `hooklatch_requests_total`, by handles that are made once, because
//! looking one up by its labels costs more than all else that is counted of a request; and for `/v1/activity`, as numbers
//! since the start.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use metrics::Counter;

use hooklatch_core::types::{Name, Outcome, UnixMs};

/// Number of ways in which a request ends.
const ENDS_N: usize = Outcome::ALL.len() + 4;

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// Its events were admitted, the strongest of them with this outcome.
    Admitted(Outcome),
    /// Answered, and nothing was there to admit.
    Nothing,
    /// The request was not believed.
    Rejected,
    /// It cannot be decided yet; its sender may send it again.
    Unavailable,
    /// Refused before it was verified, because of something that its sender can change: its size, its method, its path.
    Refused,
}

impl RequestEnd {
    fn all() -> impl Iterator<Item = Self> {
        let others = [Self::Nothing, Self::Rejected, Self::Unavailable, Self::Refused];
        others.into_iter().chain(Outcome::ALL.iter().map(|outcome| Self::Admitted(*outcome)))
    }

    /// The end of a request whose answer has this outcome.
    pub fn of(outcome: Option<Outcome>) -> Self {
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
pub struct RequestCounts {
    counters: [OnceLock<Counter>; ENDS_N],
    taken: OnceLock<Counter>,
    untaken: OnceLock<Counter>,
    /// Requests since the start by their ends.
    totals: [AtomicU64; ENDS_N],
    /// Accepted requests none of whose events is taken.
    untaken_total: AtomicU64,
    /// When the newest request was received that was accepted; 0 before the first.
    last_accepted_ms: AtomicI64,
}

impl RequestCounts {
    pub fn new() -> Self {
        Self {
            counters: Default::default(),
            taken: OnceLock::new(),
            untaken: OnceLock::new(),
            totals: Default::default(),
            untaken_total: AtomicU64::new(0),
            last_accepted_ms: AtomicI64::new(0),
        }
    }

    /// Counts one more request of `provider` that was received at this time and ended so.
    pub fn count(&self, provider: &Name, end: RequestEnd, received_at_ms: UnixMs) {
        let place = end.place();
        let (Some(counter), Some(total)) = (self.counters.get(place), self.totals.get(place)) else { return };
        let made = || metrics::counter!("hooklatch_requests_total", "provider" => provider.to_string(), "outcome" => end.as_str());
        counter.get_or_init(made).increment(1);
        total.fetch_add(1, Ordering::Relaxed);
        if end == RequestEnd::Admitted(Outcome::Accepted) {
            // Not the latest of all: a clock that was set back is right again at once.
            self.last_accepted_ms.store(received_at_ms, Ordering::Relaxed);
        }
    }

    /// Counts the new events of one request of `provider`: how many a route or a handler takes, and how many nothing does.
    pub(super) fn count_taken(&self, provider: &Name, (taken_n, untaken_n): (usize, usize)) {
        if taken_n > 0 {
            let made = || metrics::counter!("hooklatch_taken_total", "provider" => provider.to_string());
            self.taken.get_or_init(made).increment(taken_n as u64);
        }
        if untaken_n > 0 {
            let made = || metrics::counter!("hooklatch_ignored_total", "provider" => provider.to_string(), "reason" => "no_route");
            self.untaken.get_or_init(made).increment(untaken_n as u64);
            if taken_n == 0 {
                self.untaken_total.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// When the newest request was received that was accepted here; `None` before the first.
    pub fn last_accepted_ms(&self) -> Option<UnixMs> {
        Some(self.last_accepted_ms.load(Ordering::Relaxed)).filter(|ms| *ms != 0)
    }

    /// Requests since the start, by outcome.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let of_end = move |end: RequestEnd| (end.as_str(), self.totals.get(end.place()).map_or(0, read));
        RequestEnd::all().map(of_end).chain([("untaken", read(&self.untaken_total))])
    }
}

/// Counts new events of `provider` that were signed and whose fields nothing signs by name: an alert says so.
pub(super) fn count_unconfirmed(provider: &Name, events_n: usize) {
    if events_n > 0 {
        metrics::counter!("hooklatch_unconfirmed_total", "provider" => provider.to_string())
            .increment(events_n as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_a_place_and_a_name_of_its_own() {
        let mut places: Vec<usize> = RequestEnd::all().map(RequestEnd::place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..ENDS_N).collect::<Vec<_>>());
        let counts = RequestCounts::new();
        let provider = Name::parse("shop").expect("a name");
        for end in RequestEnd::all() {
            (0..=end.place()).for_each(|_| counts.count(&provider, end, 1));
        }
        (0..30).for_each(|_| counts.count_taken(&provider, (0, 2)));
        let totals: std::collections::BTreeMap<_, _> = counts.totals().collect();
        assert_eq!(totals.len(), ENDS_N + 1);
        for end in RequestEnd::all() {
            assert_eq!(totals[end.as_str()], end.place() as u64 + 1, "{end:?}");
        }
        assert_eq!(totals["untaken"], 30);
    }
}
