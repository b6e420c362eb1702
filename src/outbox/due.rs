//! When messages are due that this node has put back itself: nobody else tells it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Time that may be lost where times are rounded. Milliseconds.
const ROUNDED_MS: i64 = 2;
/// Most due times that are remembered; what is due beyond them is found by the next look.
const DUE_TIMES_N_MAX: usize = 10_000;

/// Due times, by the node's steady clock.
#[derive(Default)]
pub(super) struct DueTimes {
    at_ms: Mutex<BTreeSet<i64>>,
    /// Told when the next look is due sooner than was thought.
    pub(super) replan: Notify,
}

impl DueTimes {
    fn at_ms(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.at_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers when a message is due that was just put back: as long from now as it was put back for, which is no
    /// earlier than the database will have it.
    pub(super) fn remember(&self, now_ms: i64, put_back_for_ms: i64) {
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
