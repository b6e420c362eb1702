//! Tells the parts of a running program to stop, and lets them wait.
//!
//! One [`Stopper`] tells any number of [`Stop`]s, once. Nothing here ends a part by force: a part looks at its [`Stop`]
//! where it may end, which is never in the middle of a database operation.
//!
//! A stop may be announced: then everything goes on, and those who ask hear that they had better not come again.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Tells every [`Stop`] that was made with it to stop; dropping its last clone tells them, too.
#[derive(Debug, Clone)]
pub struct Stopper {
    told: watch::Sender<bool>,
    leaving: Leaving,
}

/// The ear of one part of the program for a stop.
///
/// It is set once its [`Stopper`] has said so or is gone: a part that nobody can stop any more must not run on. Clones
/// hear the same.
#[derive(Debug, Clone)]
pub struct Stop {
    told: watch::Receiver<bool>,
    leaving: Leaving,
}

/// Whether a stop is near: the program still takes what comes, and tells those who come not to come again. A look at it
/// is one at memory.
#[derive(Debug, Clone, Default)]
pub struct Leaving(Arc<AtomicBool>);

impl Leaving {
    /// True once a stop was announced.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stopper {
    /// Tells all to stop. A second time changes nothing.
    pub fn stop(&self) {
        self.announce();
        self.told.send_replace(true);
    }

    /// Says that the stop is near.
    pub fn announce(&self) {
        self.leaving.0.store(true, Ordering::Relaxed);
    }

    /// Returns a stop that this stopper sets.
    pub fn listener(&self) -> Stop {
        Stop { told: self.told.subscribe(), leaving: self.leaving.clone() }
    }
}

impl Stop {
    /// A stop that is not set, and the stopper that sets it.
    pub fn channel() -> (Stopper, Self) {
        let ((stopper, told), leaving) = (watch::channel(false), Leaving::default());
        (Stopper { told: stopper, leaving: leaving.clone() }, Self { told, leaving })
    }

    /// Whether this stop is near.
    pub fn leaving(&self) -> &Leaving {
        &self.leaving
    }

    /// True once it is time to stop.
    pub fn is_set(&self) -> bool {
        *self.told.borrow() || self.told.has_changed().is_err()
    }

    /// Waits until it is set.
    pub async fn wait(&mut self) {
        // An error says that the stopper is gone, which is a stop as well.
        drop(self.told.wait_for(|is_set| *is_set).await);
    }

    /// Waits for `duration`, or until it is set. True when it is set.
    pub async fn pause(&mut self, duration: Duration) -> bool {
        timeout(duration, self.wait()).await.is_ok()
    }
}

/// Lets `duration` pass, where there is nothing else to wait for.
pub async fn pass(duration: Duration) {
    // Nothing but the time-out can end this.
    drop(timeout(duration, pending::<()>()).await);
}

/// Awaits `future` to its end and forgets its result, where no result would change what is done next.
pub async fn to_end<T>(future: impl Future<Output = T>) {
    drop(future.await);
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn every_clone_hears_a_stop_however_late_it_listens() {
        let (stopper, mut first) = Stop::channel();
        assert!(!first.is_set());
        assert!(first.wait().now_or_never().is_none());
        stopper.stop();
        stopper.stop();
        let mut later = first.clone();
        assert!(first.is_set() && later.is_set());
        first.wait().await;
        later.wait().await;
        later.wait().await;
    }

    #[tokio::test]
    async fn a_stop_that_is_announced_is_not_set_yet_and_one_that_is_set_was_announced() {
        let ((first, near), (second, set)) = (Stop::channel(), Stop::channel());
        assert!(!near.leaving().has_begun());
        first.announce();
        second.stop();
        assert!(near.leaving().has_begun() && !near.is_set());
        assert!(set.leaving().has_begun() && set.is_set());
    }

    #[tokio::test]
    async fn a_stopper_that_is_gone_has_stopped_all() {
        let (stopper, mut stop) = Stop::channel();
        drop(stopper);
        assert!(stop.is_set());
        assert!(stop.pause(LONG).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_lasts_until_its_time_is_over_or_the_stop_comes() {
        let (stopper, mut stop) = Stop::channel();
        assert!(!stop.pause(LONG).await);
        let (is_set, ()) = tokio::join!(stop.pause(LONG), async { stopper.stop() });
        assert!(is_set);
        assert!(stop.pause(Duration::ZERO).await, "it stays set");
    }

    #[tokio::test(start_paused = true)]
    async fn time_passes_by_itself() {
        let before = tokio::time::Instant::now();
        pass(LONG).await;
        assert_eq!(before.elapsed().as_secs(), 3_600);
    }
}
