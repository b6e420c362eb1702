//! The newest events that were found, one list for all viewers: each has a place in it and nothing else, so that a
//! viewer that reads nothing holds no memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::api::{EventView, TailView};
use crate::plain;

/// Events that are kept for viewers that are behind.
pub(super) const RING_N: usize = 1_000;

/// An event as it was found.
#[derive(Debug)]
pub(super) struct TailEntry {
    /// Number of the event.
    pub(super) event_seq: i64,
    /// The highest number that was found up to here: what a viewer resumes behind elsewhere.
    pub(super) high_seq: i64,
    pub(super) provider: Box<str>,
    /// Its [`TailView`] as JSON, on one line; written once for all viewers.
    pub(super) data: Box<str>,
}

/// The newest events, by the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Ring {
    entries: VecDeque<Arc<TailEntry>>,
    /// Number of events that were found and have left the ring.
    left_n: u64,
    /// Number of events that were found of each provider.
    found_n: BTreeMap<String, u64>,
    high_seq: i64,
}

impl Ring {
    /// Adds an event; the oldest one makes room.
    pub(super) fn push(&mut self, event_seq: i64, view: EventView) {
        self.high_seq = self.high_seq.max(event_seq);
        *self.found_n.entry(view.provider.clone()).or_default() += 1;
        let provider = view.provider.clone().into();
        let data = json_line(&TailView::Event { event: Box::new(view) }).into();
        self.entries.push_back(Arc::new(TailEntry { event_seq, high_seq: self.high_seq, provider, data }));
        if self.entries.len() > RING_N {
            self.entries.pop_front();
            self.left_n += 1;
        }
    }

    /// Counts events that were found and are not kept, by provider: too many came at once.
    pub(super) fn leave_out(&mut self, counts: &BTreeMap<String, u64>, high_seq: i64) {
        // Whoever is told of them afterwards must not be told of older ones.
        self.left_n += self.entries.len() as u64;
        self.entries.clear();
        self.high_seq = self.high_seq.max(high_seq);
        for (provider, n) in counts {
            *self.found_n.entry(provider.clone()).or_default() += n;
            self.left_n += n;
        }
    }

    /// The place behind the newest event.
    pub(super) fn end(&self) -> u64 {
        self.left_n + self.entries.len() as u64
    }

    /// The place of the oldest event that is kept.
    pub(super) fn begin(&self) -> u64 {
        self.left_n
    }

    /// The event at this place; `None` when it has left the ring, or is not there yet.
    pub(super) fn at(&self, place: u64) -> Option<&Arc<TailEntry>> {
        let index = place.checked_sub(self.left_n)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// The highest number that was found.
    pub(super) fn high_seq(&self) -> i64 {
        self.high_seq
    }

    /// Notes a number that was there before anything was found.
    pub(super) fn begin_at(&mut self, high_seq: i64) {
        self.high_seq = self.high_seq.max(high_seq);
    }

    /// Number of events of such providers that were found before the oldest one that is kept.
    pub(super) fn left_n_of(&self, is_shown: impl Fn(&str) -> bool) -> u64 {
        let kept_n = self.entries.iter().filter(|one| is_shown(&one.provider)).count() as u64;
        self.found_n_of(is_shown).saturating_sub(kept_n)
    }

    /// Number of events of such providers that were found.
    pub(super) fn found_n_of(&self, is_shown: impl Fn(&str) -> bool) -> u64 {
        self.found_n.iter().filter(|(provider, _)| is_shown(provider)).map(|(_, n)| n).sum()
    }
}

/// What viewers are told, as JSON on one line that steers no terminal.
pub(super) fn json_line(view: &TailView) -> String {
    // A view has no map whose keys are no text.
    let text = serde_json::to_string(view).unwrap_or_default();
    plain::text(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::fixture::event;

    #[test]
    fn the_oldest_make_room_and_are_counted_by_provider() {
        let mut ring = Ring::default();
        for seq in 1..=1_500 {
            ring.push(seq, event(if seq % 3 == 0 { "adyen" } else { "stripe" }, seq));
        }
        assert_eq!((ring.begin(), ring.end(), ring.high_seq()), (500, 1_500, 1_500));
        assert!(ring.at(499).is_none() && ring.at(1_500).is_none());
        assert_eq!(ring.at(500).map(|one| one.event_seq), Some(501));
        let left = |provider: &'static str| ring.left_n_of(move |one: &str| one == provider);
        assert_eq!((left("adyen"), left("stripe"), left("other")), (166, 334, 0));
        assert_eq!(ring.found_n_of(|_| true), 1_500);
    }

    #[test]
    fn a_number_that_comes_late_is_told_and_resumed_behind_the_highest() {
        let mut ring = Ring::default();
        ring.begin_at(10);
        for seq in [12, 11] {
            ring.push(seq, event("stripe", seq));
        }
        assert_eq!(ring.at(1).map(|one| (one.event_seq, one.high_seq)), Some((11, 12)));
        ring.leave_out(&BTreeMap::from([("stripe".to_owned(), 7)]), 30);
        assert_eq!((ring.begin(), ring.end(), ring.high_seq()), (9, 9, 30));
        assert_eq!(ring.left_n_of(|_| true), 9);
    }
}
