//! The time that the shared batch has taken so far, so that readiness knows when it does not end.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After how long a batch is one that does not end: every sender in it, and behind it, has long been told to come
/// again.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The start of the shared batch that is under way. A plain handler that does not come back keeps everybody behind it
/// out, and nobody can end it: it can only be told.
#[derive(Default)]
pub(crate) struct UnderWay(Mutex<Option<Instant>>);

impl UnderWay {
    /// True when a batch is under way that should have ended long ago.
    pub(crate) fn is_stuck(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|since| since.elapsed() > STUCK_AFTER)
    }

    /// Notes that a batch begins, or with `None` that it ended.
    pub(super) fn note(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_stuck_after_its_time_and_only_while_it_lasts() {
        let under_way = UnderWay::default();
        assert!(!under_way.is_stuck());
        under_way.note(Some(Instant::now()));
        tokio::time::advance(STUCK_AFTER).await;
        assert!(!under_way.is_stuck(), "it may take as long as that");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(under_way.is_stuck());
        under_way.note(None);
        assert!(!under_way.is_stuck());
    }
}
