//! The pace of an operation on one node: how many rows a batch has, and what is done about batches that fail.

use std::time::Duration;

/// Batches that take longer get smaller; those that take less than the other get larger.
const SLOW: Duration = Duration::from_millis(50);
const FAST: Duration = Duration::from_millis(15);
/// What is this slow has rows with much behind each: their number has no floor.
const HEAVY: Duration = Duration::from_millis(500);
/// Most rows of a batch.
const ROWS_N_MAX: u32 = 200;
/// Fewest rows that a slow batch leads to; one that is heavy or fails leads to 1.
const ROWS_N_MIN: u32 = 20;
/// Longest and shortest pause between two batches.
const PAUSE_MAX: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// The pace of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperationPace {
    rows_n: u32,
    /// True when the next row alone is what the database refuses.
    is_culprit_alone: bool,
}

impl Default for OperationPace {
    fn default() -> Self {
        Self { rows_n: ROWS_N_MAX, is_culprit_alone: false }
    }
}

impl OperationPace {
    /// Returns how many rows the next batch has.
    pub(crate) fn rows_n(self) -> u32 {
        self.rows_n
    }

    /// True when the next row is to be passed by.
    pub(super) fn is_passing_by(self) -> bool {
        self.is_culprit_alone
    }

    /// Takes in how long a batch took.
    pub(crate) fn took(&mut self, elapsed: Duration) {
        self.is_culprit_alone = false;
        if elapsed > HEAVY {
            self.rows_n = (self.rows_n / 2).max(1);
        } else if elapsed > SLOW {
            self.rows_n = (self.rows_n / 2).max(ROWS_N_MIN.min(self.rows_n));
        } else if elapsed < FAST {
            self.rows_n = (self.rows_n + self.rows_n / 2 + 1).min(ROWS_N_MAX);
        }
    }

    /// Takes in that the database refused a batch: it is halved until the culprit stands alone.
    pub(crate) fn refused(&mut self) {
        self.is_culprit_alone = self.rows_n == 1;
        self.rows_n = (self.rows_n / 2).max(1);
    }

    /// Takes in that a batch failed for no row's sake: a smaller one may be done in the time that there is, or get past
    /// what is locked.
    pub(crate) fn failed(&mut self) {
        self.is_culprit_alone = false;
        self.rows_n = (self.rows_n / 2).max(1);
    }

    /// Time for which others work after a batch: as long as it took.
    pub(crate) fn pause(elapsed: Duration) -> Duration {
        elapsed.clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_when_they_are_slow_and_grow_when_they_are_fast_within_bounds() {
        let mut pace = OperationPace::default();
        let mut after = |ms: u64, times: u32| {
            (0..times).for_each(|_| pace.took(Duration::from_millis(ms)));
            pace.rows_n()
        };
        assert_eq!(after(1, 3), ROWS_N_MAX);
        assert_eq!(after(51, 1), 100);
        assert_eq!(after(30, 5), 100, "neither slow nor fast");
        assert_eq!(after(400, 20), ROWS_N_MIN);
        assert_eq!(after(1, 1), 31);
        assert_eq!(after(501, 20), 1, "much behind each row");
        assert_eq!(OperationPace::pause(Duration::from_millis(30)), Duration::from_millis(30));
        assert_eq!(OperationPace::pause(Duration::from_secs(9)), PAUSE_MAX);
    }

    #[test]
    fn a_batch_that_is_refused_is_halved_until_one_row_is_passed_by() {
        let (mut pace, mut sizes) = (OperationPace::default(), Vec::new());
        while !pace.is_passing_by() {
            sizes.push(pace.rows_n());
            pace.refused();
        }
        assert_eq!(sizes, [200, 100, 50, 25, 12, 6, 3, 1]);
        pace.took(Duration::from_millis(1));
        assert_eq!((pace.rows_n(), pace.is_passing_by()), (2, false));
    }

    #[test]
    fn a_batch_that_has_no_time_or_waits_for_others_gets_smaller_and_passes_nothing_by() {
        let mut pace = OperationPace::default();
        let sizes: Vec<u32> = std::iter::repeat_with(|| {
            pace.failed();
            assert!(!pace.is_passing_by());
            pace.rows_n()
        })
        .take(9)
        .collect();
        assert_eq!(sizes, [100, 50, 25, 12, 6, 3, 1, 1, 1]);
    }
}
