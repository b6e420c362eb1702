//! The pace of pruning: how much at once and how long the pauses are, so that it does not delay other work.

use std::time::Duration;

use tokio::time::Instant;

use hooklatch_core::stop::Stop;
use hooklatch_store::PRUNED_N_MAX;

/// Batches that take longer get smaller; those that take less than the other get larger.
const SLOW: Duration = Duration::from_millis(50);
const FAST: Duration = Duration::from_millis(10);
/// Fewest rows of a batch.
const ROWS_N_MIN: u32 = 50;
/// Longest and shortest pause between two batches.
const PAUSE_MAX: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Time overdue beyond which pauses get shorter. Milliseconds.
const OVERDUE_MS: i64 = 3_600_000;
/// Least time between two lines of the log that say that pruning is behind.
const LOG_EVERY: Duration = Duration::from_hours(1);

/// The pace of one node.
#[derive(Debug)]
pub(super) struct PrunePace {
    rows_n: u32,
    logged_at: Option<Instant>,
}

impl Default for PrunePace {
    fn default() -> Self {
        Self { rows_n: 200, logged_at: None }
    }
}

impl PrunePace {
    /// Returns how many rows the next batch looks at.
    pub(crate) fn rows_n(&self) -> u32 {
        self.rows_n
    }

    /// Takes in how long a batch took.
    pub(crate) fn took(&mut self, elapsed: Duration) {
        if elapsed > SLOW {
            self.rows_n = (self.rows_n / 2).max(ROWS_N_MIN);
        } else if elapsed < FAST {
            self.rows_n = (self.rows_n + self.rows_n / 2).min(PRUNED_N_MAX);
        }
    }

    /// Lets others work for as long as the last batch took; a quarter of it when a lot is overdue.
    pub(crate) async fn rest(&self, elapsed: Duration, overdue_ms: i64, stop: &mut Stop) {
        let pause = if overdue_ms > OVERDUE_MS { elapsed / 4 } else { elapsed };
        stop.pause(pause.clamp(PAUSE_MIN, PAUSE_MAX)).await;
    }

    /// True when it is time to log again that pruning is behind.
    pub(super) fn is_log_due(&mut self) -> bool {
        let is_due = self.logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY);
        if is_due {
            self.logged_at = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_when_they_are_slow_and_grow_when_they_are_fast_within_bounds() {
        let mut pace = PrunePace::default();
        let mut after = |ms: u64, times: u32| {
            (0..times).for_each(|_| pace.took(Duration::from_millis(ms)));
            pace.rows_n()
        };
        assert_eq!(after(30, 5), 200, "neither slow nor fast");
        assert_eq!(after(51, 1), 100);
        assert_eq!(after(400, 20), ROWS_N_MIN);
        assert_eq!(after(9, 1), 75);
        assert_eq!(after(1, 50), PRUNED_N_MAX);
    }

    #[test]
    fn being_behind_is_logged_at_most_once_an_hour() {
        let mut pace = PrunePace::default();
        assert_eq!([pace.is_log_due(), pace.is_log_due()], [true, false]);
    }
}
