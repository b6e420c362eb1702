//! When to try again: pauses after a failure and between looks, and the times at which messages are due that this node
//! itself has put back, which no other source has.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use crate::locked;
use hooklatch_core::stop::pass;

/// Upper bound of the first wait after a failure, and of any.
pub(crate) const PAUSE_MS: (u64, u64) = (100, 5_000);
/// Waits after the `failures_n`th failure in a row: exponential.
pub(crate) async fn pause(failures_n: u32) {
    pass(pause_for(failures_n)).await;
}

/// Returns how long to wait after the `failures_n`th failure in a row.
pub(crate) fn pause_for(failures_n: u32) -> Duration {
    let (first_ms, max_ms) = PAUSE_MS;
    jittered(first_ms.saturating_mul(1 << failures_n.saturating_sub(1).min(20)).min(max_ms))
}

/// Between half and all of `bound_ms`, at least a millisecond: nodes must not march in step.
pub(crate) fn jittered(bound_ms: u64) -> Duration {
    let half_ms = bound_ms.max(2) / 2;
    Duration::from_millis(half_ms + fastrand::u64(..=half_ms))
}

/// Waits between half and all of `bound_ms`.
pub(crate) async fn wait(bound_ms: u64) {
    pass(jittered(bound_ms)).await;
}

/// Time that may be lost where times are rounded. Milliseconds.
const ROUNDED_MS: i64 = 2;
/// Most due times that are remembered; what is due beyond them is found by the next look.
const DUE_TIMES_N_MAX: usize = 10_000;

/// Due times, by the node's steady clock.
#[derive(Default)]
pub(crate) struct DueTimes {
    at_ms: Mutex<BTreeSet<i64>>,
    /// Notified when the next look is due sooner than was planned.
    pub(crate) replan: Notify,
}

impl DueTimes {
    /// Remembers when a message is due that was just put back: as long from now as it was put back for, which is no
    /// earlier than the database will have it.
    pub(crate) fn remember(&self, now_ms: i64, put_back_for_ms: i64) {
        let mut at_ms = locked(&self.at_ms);
        at_ms.insert(now_ms.saturating_add(put_back_for_ms).saturating_add(ROUNDED_MS));
        if at_ms.len() > DUE_TIMES_N_MAX {
            at_ms.pop_last();
        }
        drop(at_ms);
        self.replan.notify_one();
    }

    /// Returns how long until the next of those is due.
    pub(crate) fn next_in_ms(&self, now_ms: i64) -> Option<i64> {
        locked(&self.at_ms).first().map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// Forgets what is due by now: it is looked for.
    pub(crate) fn forget_until(&self, now_ms: i64) {
        let mut at_ms = locked(&self.at_ms);
        *at_ms = at_ms.split_off(&now_ms.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_are_never_shorter_than_half() {
        let (first_ms, max_ms) = PAUSE_MS;
        for (failures_n, bound_ms) in [
            (0, first_ms),
            (1, first_ms),
            (2, 200),
            (3, 400),
            (6, 3_200),
            (7, max_ms),
            (60, max_ms),
            (u32::MAX, max_ms),
        ] {
            for _ in 0..50 {
                let ms = u64::try_from(pause_for(failures_n).as_millis()).unwrap();
                assert!((bound_ms / 2..=bound_ms).contains(&ms), "{failures_n}: {ms}");
            }
        }
    }

    #[test]
    fn a_jittered_pause_is_never_zero() {
        for bound_ms in [0, 1, 2] {
            assert!(jittered(bound_ms) >= Duration::from_millis(1), "{bound_ms}");
        }
        let spread: std::collections::BTreeSet<_> = (0..100).map(|_| jittered(10_000)).collect();
        assert!(spread.len() > 20, "nodes must not march in step");
    }

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
        assert_eq!(locked(&due.at_ms).len(), DUE_TIMES_N_MAX);
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
