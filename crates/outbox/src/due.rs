//! The times at which messages are due that this node itself has put back: no other source has them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Time that may be lost where times are rounded. Milliseconds.
const ROUNDED_MS: i64 = 2;
/// Most due times that are remembered; what is due beyond them is found by the next look.
const DUE_TIMES_N_MAX: usize = 10_000;

/// Due times, by the node's steady clock.
#[derive(Default)]
pub struct DueTimes {
    at_ms: Mutex<BTreeSet<i64>>,
    /// Notified when the next look is due sooner than was planned.
    pub(super) replan: Notify,
}

impl DueTimes {
    fn at_ms(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.at_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers when a message is due that was just put back: as long from now as it was put back for, which is no
    /// earlier than the database will have it.
    pub fn remember(&self, now_ms: i64, put_back_for_ms: i64) {
        let mut at_ms = self.at_ms();
        at_ms.insert(now_ms.saturating_add(put_back_for_ms).saturating_add(ROUNDED_MS));
        if at_ms.len() > DUE_TIMES_N_MAX {
            at_ms.pop_last();
        }
        drop(at_ms);
        self.replan.notify_one();
    }

    /// Returns how long until the next of those is due.
    pub(super) fn next_in_ms(&self, now_ms: i64) -> Option<i64> {
        self.at_ms().first().map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// Forgets what is due by now: it is looked for.
    pub(super) fn forget_until(&self, now_ms: i64) {
        let mut at_ms = self.at_ms();
        *at_ms = at_ms.split_off(&now_ms.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soonest_is_first_and_past_times_are_forgotten() {
        let due = DueTimes::default();
        assert_eq!(due.next_in_ms(0), None);
        due.remember(1_000, 500);
        due.remember(1_000, 200);
        due.remember(1_000, 200);
        assert_eq!(due.next_in_ms(1_000), Some(200 + ROUNDED_MS));
        due.forget_until(1_201);
        assert_eq!(due.next_in_ms(1_201), Some(1), "not due yet");
        due.forget_until(1_202);
        assert_eq!(due.next_in_ms(1_202), Some(300), "both that were due at once");
        assert_eq!(due.next_in_ms(9_000), Some(-7_498), "overdue");
        due.forget_until(i64::MAX);
        assert_eq!(due.next_in_ms(0), None);
    }

    #[test]
    fn of_too_many_the_latest_is_left_to_the_next_look() {
        let due = DueTimes::default();
        for n in 0..=DUE_TIMES_N_MAX {
            due.remember(0, i64::try_from(n).unwrap());
        }
        assert_eq!(due.at_ms().len(), DUE_TIMES_N_MAX);
        assert_eq!(due.next_in_ms(0), Some(ROUNDED_MS), "the soonest is still there");
        due.remember(i64::MAX, i64::MAX);
        due.remember(0, i64::MIN);
        assert!(due.next_in_ms(0).is_some_and(|in_ms| in_ms < 0));
    }

    #[tokio::test]
    async fn a_waiter_is_notified_when_something_is_due() {
        let due = DueTimes::default();
        due.remember(0, 5);
        due.replan.notified().await;
    }
}
