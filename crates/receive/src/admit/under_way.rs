//! The time that the batches under way have taken so far, so that readiness knows when it does not end.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After how long a batch is one that does not end: every sender in it, and behind it, has long been asked to send
/// again.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The starts of the batches that are under way, one of small requests and one of a large one. A plain handler that
/// does not return blocks every request behind it, and it cannot be ended: it can only be reported.
#[derive(Default)]
pub struct UnderWay([Mutex<Option<Instant>>; 2]);

impl UnderWay {
    /// True when a batch is under way that should have ended long ago.
    pub fn is_stuck(&self) -> bool {
        self.0.iter().any(|batch| {
            let since = batch.lock().unwrap_or_else(PoisonError::into_inner);
            since.is_some_and(|since| since.elapsed() > STUCK_AFTER)
        })
    }

    /// Notes that a batch begins, or with `None` that it ended.
    pub fn note(&self, is_large: bool, since: Option<Instant>) {
        let [small, large] = &self.0;
        let batch = if is_large { large } else { small };
        *batch.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_stuck_after_its_time_and_only_while_it_lasts() {
        let under_way = UnderWay::default();
        assert!(!under_way.is_stuck());
        under_way.note(false, Some(Instant::now()));
        tokio::time::advance(STUCK_AFTER).await;
        assert!(!under_way.is_stuck(), "it may take as long as that");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(under_way.is_stuck());
        under_way.note(true, None);
        assert!(under_way.is_stuck(), "another one ended");
        under_way.note(false, None);
        assert!(!under_way.is_stuck());
    }
}
