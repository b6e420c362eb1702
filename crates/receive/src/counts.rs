//! What one node counts of requests, in memory: how they ended, further copies of events, how old signatures were, and
//! since when every request was answered 5xx.
//!
//! Ends are counted for `hooklatch_requests_total`, by handles that are made once, because looking one up by its labels
//! costs more than all else that is counted of a request; and for `/v1/activity`, as numbers since the start.
//!
//! Copies are written later: a copy is answered before anything of it is written. Their number is no promise: what a
//! node had counted when it died is lost, and so are the copies of further events while [`EVENTS_N_MAX`] wait to be
//! written.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use metrics::Counter;

use hooklatch_core::types::{Name, Outcome, UnixMs};
use hooklatch_store::CopyCount;
use hooklatch_verify::happened_ms;

/// Number of ways in which a request ends.
const ENDS_N: usize = Outcome::ALL.len() + 4;

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// Its events were admitted, the strongest of them with this outcome.
    Admitted(Outcome),
    /// Answered, and nothing was there to admit: a handshake, a batch without events, or a GET or HEAD that only looked
    /// at the URL (`unread.rs`).
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
#[derive(Default)]
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

    /// Counts the new events of one request of `provider`: how many a route or a handler takes, and how many nothing
    /// does.
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

/// Most events whose counts wait to be written.
const EVENTS_N_MAX: usize = 2_048;
/// Most counts that are written at once.
const WRITTEN_N_MAX: usize = 256;

/// Counts of copies that wait to be written. Cloning shares them.
#[derive(Clone, Default)]
pub struct CopyCounts(Arc<Mutex<HashMap<(Name, String), Counted>>>);

struct Counted {
    copies_n: u32,
    first_at_ms: UnixMs,
    last_at_ms: UnixMs,
}

impl CopyCounts {
    /// Counts those of the events of one request that were known already.
    pub fn note(&self, provider: &Name, events: &[(String, Outcome)], at_ms: UnixMs) {
        let copies = events.iter().filter(|(_, outcome)| *outcome == Outcome::Duplicate);
        for (event_id, _) in copies {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_full = counts.len() >= EVENTS_N_MAX;
            let key = (provider.clone(), event_id.clone());
            if let Some(counted) = counts.get_mut(&key) {
                counted.copies_n = counted.copies_n.saturating_add(1);
                counted.first_at_ms = counted.first_at_ms.min(at_ms);
                counted.last_at_ms = counted.last_at_ms.max(at_ms);
            } else if is_full {
                metrics::counter!("hooklatch_copies_uncounted_total").increment(1);
            } else {
                counts.insert(key, Counted { copies_n: 1, first_at_ms: at_ms, last_at_ms: at_ms });
            }
        }
    }

    /// Some of what waits, sorted by key; the rest goes on waiting.
    pub(crate) fn taken(&self) -> Vec<CopyCount> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<(Name, String)> = counts.keys().take(WRITTEN_N_MAX).cloned().collect();
        let take = |key: (Name, String)| {
            let Counted { copies_n, first_at_ms, last_at_ms } = counts.remove(&key)?;
            let (provider, event_id) = (key.0.to_string(), key.1);
            Some(CopyCount { provider, event_id, copies_n: copies_n.into(), first_at_ms, last_at_ms })
        };
        let mut taken: Vec<CopyCount> = keys.into_iter().filter_map(take).collect();
        taken.sort_by(|a, b| (&a.provider, &a.event_id).cmp(&(&b.provider, &b.event_id)));
        taken
    }
}

/// Number of requests that are remembered.
const KEPT_N: usize = 8;

/// How long after they were signed one provider's newest requests were received, by our clock.
#[derive(Default)]
pub struct SignedTimes(Mutex<VecDeque<i64>>);

impl SignedTimes {
    /// Records a verified request. A time that cannot be parsed is left out.
    pub(crate) fn note(&self, signed: &str, received_at_ms: UnixMs) {
        let Some(signed_at_ms) = happened_ms(signed) else { return };
        let mut delays_ms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        delays_ms.truncate(KEPT_N - 1);
        delays_ms.push_front(received_at_ms.saturating_sub(signed_at_ms));
    }

    /// The delays, the newest first. Milliseconds; negative when our clock says that it was received before it was
    /// signed.
    pub(crate) fn delays_ms(&self) -> Vec<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// Since when every request that could have been admitted was answered 5xx. 0: none was, or one was admitted since.
///
/// What strangers are answered says nothing about that, nor does an answer without an event: neither needs the
/// database.
#[derive(Default)]
pub(crate) struct RefusingSince {
    since_ms: AtomicI64,
    /// When the last one was refused.
    last_ms: AtomicI64,
}

/// How long a node that could admit again counts as refusing after its last refusal: a sender that is quiet by nature
/// would otherwise be asked to give up on a receiver that is well.
const OVER_AFTER_MS: i64 = 300_000;

impl RefusingSince {
    /// A request ended so at this time.
    pub(crate) fn ended(&self, end: RequestEnd, at_ms: UnixMs) {
        match end {
            // Read first: while all is well nothing is written that others share.
            RequestEnd::Admitted(_) if self.since_ms() != 0 => self.since_ms.store(0, Ordering::Relaxed),
            RequestEnd::Unavailable => self.refused(at_ms),
            RequestEnd::Admitted(_) | RequestEnd::Nothing | RequestEnd::Rejected | RequestEnd::Refused => {}
        }
    }

    fn refused(&self, at_ms: UnixMs) {
        // An error says that it was refused before.
        let _since = self.since_ms.compare_exchange(0, at_ms, Ordering::Relaxed, Ordering::Relaxed);
        self.last_ms.store(at_ms, Ordering::Relaxed);
    }

    fn since_ms(&self) -> UnixMs {
        self.since_ms.load(Ordering::Relaxed)
    }

    /// Since when at this time; 0 also when the node is ready again and refused nothing for five minutes.
    pub(crate) fn at_ms(&self, now_ms: UnixMs, is_ready: bool) -> UnixMs {
        let is_over = is_ready && now_ms - self.last_ms.load(Ordering::Relaxed) > OVER_AFTER_MS;
        if is_over { 0 } else { self.since_ms() }
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
        let counts = RequestCounts::default();
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

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    #[test]
    fn copies_of_one_event_are_one_count_and_what_is_new_is_none() {
        let counts = CopyCounts::default();
        let events = [("a".to_owned(), Outcome::Duplicate), ("b".to_owned(), Outcome::Accepted)];
        counts.note(&name("stripe"), &events, 2_000);
        counts.note(&name("stripe"), &events, 1_000);
        counts.note(&name("adyen"), &events, 3_000);
        let count = |provider: &str, copies_n, first_at_ms, last_at_ms| CopyCount {
            provider: provider.to_owned(),
            event_id: "a".to_owned(),
            copies_n,
            first_at_ms,
            last_at_ms,
        };
        assert_eq!(counts.taken(), [count("adyen", 1, 3_000, 3_000), count("stripe", 2, 1_000, 2_000)]);
        assert_eq!(counts.taken(), []);
    }

    #[test]
    fn what_waits_is_bounded_and_written_in_parts() {
        let counts = CopyCounts::default();
        for n in 0..3_000 {
            counts.note(&name("stripe"), &[(n.to_string(), Outcome::Duplicate)], n);
        }
        let known = counts.0.lock().expect("no panic").keys().next().cloned().expect("one");
        counts.note(&name("stripe"), &[(known.1, Outcome::Duplicate)], 1);
        let mut parts = std::iter::repeat_with(|| counts.taken()).take_while(|part| !part.is_empty());
        let all: Vec<CopyCount> =
            parts.by_ref().inspect(|part| assert!(part.len() <= 256)).flatten().collect();
        assert_eq!(all.len(), 2_048);
        assert_eq!(all.iter().map(|one| one.copies_n).sum::<i64>(), 2_049, "what is known goes on counting");
    }

    #[test]
    fn the_newest_delays_are_kept_whatever_form_the_times_have() {
        let times = SignedTimes::default();
        assert!(times.delays_ms().is_empty());
        for (signed, delay_ms) in
            [("1795356311", 500), ("1795356311500", 0), ("2026-11-22T14:05:12Z", -500), ("no time", 0)]
        {
            times.note(signed, 1_795_356_311_500);
            assert!(times.delays_ms().contains(&delay_ms), "{signed}");
        }
        assert_eq!(times.delays_ms().len(), 3);
        for _ in 0..KEPT_N {
            times.note("1795356311", 1_795_356_313_000);
        }
        assert_eq!(times.delays_ms(), vec![2_000; KEPT_N]);
    }

    #[test]
    fn it_is_over_without_a_request_when_the_node_is_ready_and_refused_nothing_for_five_minutes() {
        let refusing = RefusingSince::default();
        refusing.refused(1_000);
        refusing.refused(61_000);
        let looks = [
            (361_000, true, 1_000, "not yet"),
            (361_001, true, 0, "ready"),
            (361_001, false, 1_000, "the database is away, and no request arrives"),
            (999_000, false, 1_000, "for long"),
        ];
        for (now_ms, is_ready, want, why) in looks {
            assert_eq!(refusing.at_ms(now_ms, is_ready), want, "{why}");
        }
    }

    #[test]
    fn it_begins_with_the_first_refusal_and_ends_with_the_first_admission() {
        let refusing = RefusingSince::default();
        let ends = [
            (RequestEnd::Admitted(Outcome::Accepted), 1, 0),
            (RequestEnd::Unavailable, 2, 2),
            (RequestEnd::Unavailable, 3, 2),
            (RequestEnd::Rejected, 4, 2),
            (RequestEnd::Nothing, 5, 2),
            (RequestEnd::Admitted(Outcome::Duplicate), 6, 0),
            (RequestEnd::Rejected, 7, 0),
            (RequestEnd::Unavailable, 8, 8),
        ];
        for (end, at_ms, want) in ends {
            refusing.ended(end, at_ms);
            assert_eq!(refusing.since_ms(), want, "after {end:?} at {at_ms}");
        }
    }
}
