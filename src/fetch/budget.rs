//! A bound on calls to others that strangers can cause: some at once, one more every second, and a lottery among those
//! that come when there is nothing left, so that one that asks a lot does not lock the others out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::stop;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Between two calls once the first ones are used up.
const CALL_EVERY: Duration = Duration::from_secs(1);
/// Longest time that somebody stays in the lottery: longer than a call takes to come, so that who is alone in it wins.
const WAIT_MAX: Duration = Duration::from_millis(1_500);
/// Longest wait before the next draw. Milliseconds.
const DRAW_MS_MAX: u64 = 250;

/// Most requests that wait for somebody else's answer, or for their turn to ask: each of them holds a connection, which
/// others may need more.
pub(super) const WAITING_N_MAX: usize = 64;

/// A budget of calls: a number at once, and one more every second.
pub(super) struct CallBudget {
    calls_n_max: u32,
    state: Mutex<CallsLeft>,
    places: Semaphore,
}

/// Number of calls that are left, as counted last.
struct CallsLeft {
    calls_n: u32,
    counted_at: Instant,
}

impl CallBudget {
    pub(super) fn new(calls_n_max: u32) -> Self {
        let state = Mutex::new(CallsLeft { calls_n: calls_n_max, counted_at: Instant::now() });
        Self { calls_n_max, state, places: Semaphore::new(WAITING_N_MAX) }
    }

    /// A place among those who wait, if there is one.
    pub(super) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// Takes a call if there is one now.
    pub(super) fn take_now(&self) -> bool {
        // Each change is whole: a panic elsewhere cannot leave it half-made.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let more = state.counted_at.elapsed().as_millis() / CALL_EVERY.as_millis();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more > 0 {
            state.calls_n = state.calls_n.saturating_add(more).min(self.calls_n_max);
            state.counted_at += CALL_EVERY.saturating_mul(more);
        }
        let left = state.calls_n.checked_sub(1);
        state.calls_n = left.unwrap_or_default();
        left.is_some()
    }

    /// Takes a call, waiting for one among all who wait: each looks again at a time of chance, so none is first.
    pub(super) async fn take(&self) -> bool {
        let until = Instant::now() + WAIT_MAX;
        while !self.take_now() {
            if Instant::now() >= until {
                return false;
            }
            let draw = Duration::from_millis(fastrand::u64(1..=DRAW_MS_MAX));
            stop::pass(draw).await;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_calls_are_made_at_once_and_then_one_every_second() {
        let budget = CallBudget::new(3);
        let taken_n = || (0..10).filter(|_| budget.take_now()).count();
        assert_eq!(taken_n(), 3);
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(taken_n(), 0);
        tokio::time::advance(Duration::from_millis(1_501)).await;
        assert_eq!(taken_n(), 2, "and half a second is not lost");
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(taken_n(), 1);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(taken_n(), 3, "they are not saved up");
        assert!(budget.take().await, "who waits gets the next one");
    }

    #[test]
    fn a_place_is_one_of_so_many_and_given_back() {
        let budget = CallBudget::new(1);
        let places: Vec<_> = (0..=WAITING_N_MAX).map(|_| budget.place()).collect();
        assert_eq!(places.iter().filter(|place| place.is_some()).count(), WAITING_N_MAX);
        drop(places);
        assert!(budget.place().is_some());
    }
}
