//! What is counted over time, minute by minute, in memory alone.
//!
//! A ring has a row for each of the last 180 minutes, and in it a cell for each thing that is counted. A cell holds its
//! minute beside its number, so nobody has to turn the ring or empty a row: who counts finds another minute in the cell
//! and begins anew, and who reads takes no cell of another minute. Counting is one atomic addition: no lock, no
//! allocation, nothing to wait for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::types::UnixMs;

/// Most minutes that are known, the one under way included.
pub(crate) const MINUTES_N_MAX: u32 = 180;
/// Length of a minute. Milliseconds.
pub(crate) const MINUTE_MS: i64 = 60_000;
/// Bits of a cell that hold its number; the minute stands above them.
const NUMBER_BITS: u32 = 32;

/// Counts of `N` things in the last minutes.
pub(crate) struct MinuteRing<const N: usize>(Vec<[AtomicU64; N]>);

/// The minutes that somebody looks at, by their numbers since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinuteSpan {
    first: u32,
    last: u32,
}

impl MinuteSpan {
    /// The last `minutes_n` minutes, of which the last one is under way.
    pub(crate) fn until(now_ms: UnixMs, minutes_n: u32) -> Self {
        let last = minute_of(now_ms);
        Self { first: last.saturating_sub(minutes_n.clamp(1, MINUTES_N_MAX) - 1), last }
    }

    /// Time at which the first of them began.
    pub(crate) fn began_ms(self) -> UnixMs {
        i64::from(self.first) * MINUTE_MS
    }
}

impl<const N: usize> MinuteRing<N> {
    pub(crate) fn new() -> Self {
        let row = || std::array::from_fn(|_| AtomicU64::new(0));
        Self((0..MINUTES_N_MAX).map(|_| row()).collect())
    }

    /// Counts one more of the thing at this place.
    pub(crate) fn add(&self, place: usize, at_ms: UnixMs) {
        let minute = minute_of(at_ms);
        let Some(cell) = self.row(minute).and_then(|row| row.get(place)) else { return };
        if minute_in(cell.load(Ordering::Relaxed)) == minute {
            // Nobody takes the minute away from under it: that would be three hours from now, or four billion more.
            cell.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let more = |held| Some(if minute_in(held) == minute { held + 1 } else { written(minute, 1) });
        let _held = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// The minutes in which anything was counted, the oldest first, with when each began.
    pub(crate) fn counted(&self, span: MinuteSpan) -> Vec<(UnixMs, [u64; N])> {
        let of = |minute: u32| {
            let row = self.row(minute)?;
            let numbers = std::array::from_fn(|place| {
                let held = row.get(place).map_or(0, |cell| cell.load(Ordering::Relaxed));
                if minute_in(held) == minute { number_in(held) } else { 0 }
            });
            let is_any = numbers.iter().any(|number| *number > 0);
            is_any.then(|| (i64::from(minute) * MINUTE_MS, numbers))
        };
        (span.first..=span.last).filter_map(of).collect()
    }

    fn row(&self, minute: u32) -> Option<&[AtomicU64; N]> {
        self.0.get((minute % MINUTES_N_MAX) as usize)
    }
}

fn minute_of(at_ms: UnixMs) -> u32 {
    u32::try_from(at_ms.div_euclid(MINUTE_MS)).unwrap_or(0)
}

fn written(minute: u32, number: u64) -> u64 {
    u64::from(minute) << NUMBER_BITS | number
}

fn minute_in(held: u64) -> u32 {
    u32::try_from(held >> NUMBER_BITS).unwrap_or(0)
}

fn number_in(held: u64) -> u64 {
    held & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// 2026-11-22T14:05:00Z, the beginning of a minute.
    const NOON_MS: UnixMs = 1_795_356_300_000;

    fn counted(ring: &MinuteRing<2>, now_ms: UnixMs, minutes_n: u32) -> Vec<(i64, [u64; 2])> {
        let found = ring.counted(MinuteSpan::until(now_ms, minutes_n));
        found.into_iter().map(|(at_ms, numbers)| ((at_ms - NOON_MS) / MINUTE_MS, numbers)).collect()
    }

    #[test]
    fn a_minute_ends_with_its_last_millisecond() {
        let ring = MinuteRing::new();
        ring.add(0, NOON_MS - 1);
        ring.add(0, NOON_MS);
        ring.add(0, NOON_MS + 59_999);
        ring.add(1, NOON_MS + 60_000);
        assert_eq!(counted(&ring, NOON_MS + 60_000, 60), [(-1, [1, 0]), (0, [2, 0]), (1, [0, 1])]);
        assert_eq!(counted(&ring, NOON_MS + 59_999, 1), [(0, [2, 0])], "what comes later is not asked for");
        assert_eq!(MinuteSpan::until(NOON_MS + 59_999, 1).began_ms(), NOON_MS);
    }

    #[test]
    fn what_is_older_than_the_ring_is_gone_and_its_place_begins_anew() {
        let ring = MinuteRing::new();
        ring.add(0, NOON_MS);
        let later_ms = NOON_MS + 180 * MINUTE_MS;
        assert_eq!(counted(&ring, later_ms - 1, 180), [(0, [1, 0])]);
        assert_eq!(counted(&ring, later_ms, 180), [], "though nothing took its place");
        ring.add(0, later_ms);
        assert_eq!(counted(&ring, later_ms, 999), [(180, [1, 0])], "more than there are is all there are");
    }

    #[test]
    fn a_clock_that_is_set_back_counts_on() {
        let ring = MinuteRing::new();
        ring.add(0, NOON_MS);
        for back_ms in [60_000, 86_400_000] {
            ring.add(1, NOON_MS - back_ms);
            assert_eq!(counted(&ring, NOON_MS - back_ms, 1), [(-back_ms / MINUTE_MS, [0, 1])]);
        }
        ring.add(7, NOON_MS);
        ring.add(0, -1);
        assert_eq!(ring.counted(MinuteSpan::until(-1, 5)), [(0, [1, 0])], "before 1970 is one minute");
    }

    #[test]
    fn nobody_loses_a_count_to_somebody_else() {
        let ring = Arc::new(MinuteRing::<1>::new());
        let of = |_| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (0..10_000).for_each(|n| ring.add(0, NOON_MS + n % 2 * MINUTE_MS)))
        };
        let threads: Vec<_> = (0..4).map(of).collect();
        for one in threads {
            one.join().expect("it counts");
        }
        let counted = ring.counted(MinuteSpan::until(NOON_MS + MINUTE_MS, 2));
        assert_eq!(counted, [(NOON_MS, [20_000]), (NOON_MS + MINUTE_MS, [20_000])]);
    }
}
