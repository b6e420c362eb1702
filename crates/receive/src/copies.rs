//! Further copies of events, counted in memory and written by and by: a copy is answered before anything is written of
//! it.
//!
//! A count is for people to look at, not a promise: what a node had counted when it died is lost, and so is what comes
//! of new events while [`EVENTS_N_MAX`] of them wait to be written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hooklatch_core::types::{Name, Outcome, UnixMs};
use hooklatch_store::CopyCount;

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
    pub fn taken(&self) -> Vec<CopyCount> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let known = counts.0.lock().expect("nobody panicked").keys().next().cloned().expect("one");
        counts.note(&name("stripe"), &[(known.1, Outcome::Duplicate)], 1);
        let mut parts = std::iter::repeat_with(|| counts.taken()).take_while(|part| !part.is_empty());
        let all: Vec<CopyCount> =
            parts.by_ref().inspect(|part| assert!(part.len() <= 256)).flatten().collect();
        assert_eq!(all.len(), 2_048);
        assert_eq!(all.iter().map(|one| one.copies_n).sum::<i64>(), 2_049, "what is known goes on counting");
    }
}
