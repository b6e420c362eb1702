//! Lines that others can cause, as many as they like: a few a second of each sort are written, the rest are counted and
//! reported.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::types::Name;

/// Lines a second of each sort; a sort is a provider and a word of a closed set.
const LINES_PER_S: u32 = 10;

/// Decides which lines are written. One flood leaves the lines of others alone.
#[derive(Default)]
pub struct Lines {
    sorts: Mutex<BTreeMap<(Name, &'static str), RunningSecond>>,
    /// Counter of lines that were left out, of all sorts: made once, because a flood leaves out a line with each
    /// request.
    left_out: OnceLock<metrics::Counter>,
}

/// The second that is running for one sort.
struct RunningSecond {
    since: Instant,
    lines_n: u32,
    left_out_n: u64,
}

impl Lines {
    /// `Some` when a line of this sort may be written now, with the number of those left out since the last one that
    /// was.
    pub fn may_write(&self, provider: &Name, word: &'static str) -> Option<u64> {
        let mut sorts = self.sorts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let second = sorts.entry((provider.clone(), word)).or_insert(RunningSecond {
            since: now,
            lines_n: 0,
            left_out_n: 0,
        });
        if now.duration_since(second.since) >= Duration::from_secs(1) {
            (second.since, second.lines_n) = (now, 0);
        }
        if second.lines_n >= LINES_PER_S {
            second.left_out_n += 1;
            self.left_out
                .get_or_init(|| metrics::counter!("hooklatch_log_lines_left_out_total"))
                .increment(1);
            return None;
        }
        second.lines_n += 1;
        Some(std::mem::take(&mut second.left_out_n))
    }

    /// The number of lines of each sort that were left out and not reported yet; they count as reported from here on.
    pub fn left_out(&self) -> Vec<(Name, &'static str, u64)> {
        let mut sorts = self.sorts.lock().unwrap_or_else(PoisonError::into_inner);
        let unreported = sorts.iter_mut().filter(|(_, second)| second.left_out_n > 0);
        unreported
            .map(|((name, word), second)| (name.clone(), *word, std::mem::take(&mut second.left_out_n)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_hides_nothing_of_others() {
        let sampler = Lines::default();
        let name = |text: &str| Name::parse(text).expect("a name");
        let written_n =
            (0..1_000).filter(|_| sampler.may_write(&name("stripe"), "mismatch").is_some()).count();
        // The loop may have crossed into another second.
        assert!((10..=30).contains(&written_n), "{written_n}");
        assert_eq!(sampler.may_write(&name("github"), "mismatch"), Some(0));
        assert_eq!(sampler.may_write(&name("stripe"), "stale"), Some(0));
        let left_out_n: u64 = sampler.left_out().iter().map(|(_, _, n)| n).sum();
        assert!(left_out_n > 0 && left_out_n <= 990, "{left_out_n}");
        assert_eq!(sampler.left_out(), []);
    }
}
