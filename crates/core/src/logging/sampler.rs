//! A bound of the log lines that strangers can cause.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Bounds the lines that strangers can cause: a number a second, and the next one says how many were left out. A
/// request costs them nothing, and its line fills our disk.
pub struct Sampler {
    lines_per_s: u64,
    state: Mutex<Sampled>,
}

struct Sampled {
    /// The second that is running, counted from the process's first line.
    second: u64,
    taken_n: u64,
    left_out_n: u64,
}

impl Sampler {
    /// A bound for one kind of line: `lines_per_s` a second.
    pub const fn new(lines_per_s: u64) -> Self {
        let state = Mutex::new(Sampled { second: 0, taken_n: 0, left_out_n: 0 });
        Self { lines_per_s, state }
    }

    /// `Some` when a line may be written now, with the number of those that were left out since the last one.
    pub fn take(&self) -> Option<u64> {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        self.take_at(FIRST.get_or_init(Instant::now).elapsed().as_secs())
    }

    fn take_at(&self, second: u64) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.second != second {
            state.second = second;
            state.taken_n = 0;
        }
        if state.taken_n >= self.lines_per_s {
            state.left_out_n += 1;
            metrics::counter!("hooklatch_log_lines_left_out_total").increment(1);
            return None;
        }
        state.taken_n += 1;
        Some(std::mem::take(&mut state.left_out_n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_of_lines_some_a_second_are_written_and_the_others_counted() {
        let lines = Sampler::new(3);
        let taken: Vec<_> = (0..1_000).filter_map(|_| lines.take_at(7)).collect();
        assert_eq!(taken, [0, 0, 0]);
        assert_eq!((lines.take_at(8), lines.take_at(8)), (Some(997), Some(0)));
    }
}
