//! Which events were found already: numbers are not in the order of commits, so that the newest ones are looked at again
//! for a while.
//!
//! A node draws 4,096 numbers at once and uses them for ten seconds at most; another node's higher numbers may be
//! committed before. What was taken in that time and is committed within [`OVERLAP`] of a higher number is found all the
//! same, once.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Time for which an event is waited for after one with a higher number was found: the life of a block of numbers, and
/// twenty seconds for its transaction.
pub(super) const OVERLAP: Duration = Duration::from_secs(30);
/// Most numbers that are looked at again: where more come in that time, the overlap is shorter.
pub(super) const OVERLAP_N: usize = 20_000;

/// The numbers that were found lately.
#[derive(Debug)]
pub(super) struct FoundNumbers {
    /// Every event up to this number was found, or is too late.
    low: i64,
    numbers: BTreeSet<i64>,
    /// The highest number at some times, the oldest first.
    marks: VecDeque<(Instant, i64)>,
}

impl FoundNumbers {
    /// Begins with these numbers, which are not told, and nothing below `low`.
    pub(super) fn new(low: i64, found: impl IntoIterator<Item = i64>, now: Instant) -> Self {
        let numbers: BTreeSet<i64> = found.into_iter().collect();
        let high = numbers.last().copied().unwrap_or(low);
        Self { low, numbers, marks: VecDeque::from([(now, high)]) }
    }

    /// The number behind which is looked.
    pub(super) fn low(&self) -> i64 {
        self.low
    }

    /// True when an event with this number was found, or would come too late.
    pub(super) fn has(&self, seq: i64) -> bool {
        seq <= self.low || self.numbers.contains(&seq)
    }

    /// Takes in the numbers that were found now, and returns those that are new, in their order.
    pub(super) fn take(&mut self, seqs: &[i64], now: Instant) -> Vec<i64> {
        let new: Vec<i64> = seqs.iter().copied().filter(|seq| !self.has(*seq)).collect();
        self.numbers.extend(&new);
        let high = self.numbers.last().copied().unwrap_or(self.low);
        self.marks.push_back((now, high));
        while let Some((at, high)) = self.marks.front().copied() {
            if now.saturating_duration_since(at) < OVERLAP {
                break;
            }
            self.raise(high);
            self.marks.pop_front();
        }
        if let Some(above_n) = self.numbers.len().checked_sub(OVERLAP_N)
            && let Some(seq) = above_n.checked_sub(1).and_then(|n| self.numbers.iter().nth(n).copied())
        {
            self.raise(seq);
        }
        new
    }

    fn raise(&mut self, low: i64) {
        self.low = self.low.max(low);
        self.numbers = self.numbers.split_off(&self.low.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_late_number_is_found_once_within_the_overlap_and_never_after_it() {
        let mut found = FoundNumbers::new(10, [11, 13], Instant::now());
        let mut at = async |seqs: &[i64], later: Duration| {
            tokio::time::advance(later).await;
            (found.take(seqs, Instant::now()), found.low())
        };
        let second = Duration::from_secs(1);
        assert_eq!(at(&[11, 12, 13, 20], second).await, (vec![12, 20], 10), "a gap is filled");
        assert_eq!(at(&[11, 12, 13, 20], second).await, (vec![], 10), "and told once");
        assert_eq!(at(&[14, 20], 27 * second).await, (vec![14], 10));
        assert_eq!(at(&[15], second).await, (vec![15], 13), "what it began with is 30 s ago");
        assert_eq!(at(&[12, 16], second).await, (vec![16], 20), "below the low mark nothing is told");
        assert_eq!(at(&[17, 21], second).await, (vec![21], 20), "too late");
    }

    #[tokio::test(start_paused = true)]
    async fn where_many_come_the_overlap_is_shorter_and_memory_is_bounded() {
        let mut found = FoundNumbers::new(0, [], Instant::now());
        let n = i64::try_from(OVERLAP_N).expect("a small number");
        let all: Vec<i64> = (1..=3 * n).collect();
        assert_eq!(found.take(&all, Instant::now()).len(), 3 * OVERLAP_N);
        assert_eq!((found.low(), found.numbers.len()), (2 * n, OVERLAP_N));
        assert!(found.has(1) && found.has(3 * n) && !found.has(3 * n + 1));
    }
}
