//! Asks the parts of a running program to stop, and lets them wait.
//!
//! One [`Stopper`] sets any number of [`Stop`]s, once. Nothing here ends a part by force: a part looks at its [`Stop`]
//! where it may end, which is never in the middle of a database operation.
//!
//! A stop may be announced: then everything goes on, and callers are asked not to connect again.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Sets every [`Stop`] that was made with it; dropping its last clone sets them, too.
#[derive(Debug, Clone)]
pub struct Stopper {
    sender: watch::Sender<bool>,
    leaving: Leaving,
}

/// The shutdown signal of one part of the program.
///
/// It is set once its [`Stopper`] has set it or is dropped: a part that nothing can stop any more must not run on.
/// Clones see the same.
#[derive(Debug, Clone)]
pub struct Stop {
    receiver: watch::Receiver<bool>,
    leaving: Leaving,
}

/// Whether a stop is near: the program still serves requests, and asks its callers not to connect again. Reading it
/// costs one load from memory.
#[derive(Debug, Clone, Default)]
pub struct Leaving(Arc<AtomicBool>);

impl Leaving {
    /// True once a stop was announced.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stopper {
    /// Sets all of them. A second time changes nothing.
    pub fn stop(&self) {
        self.announce();
        self.sender.send_replace(true);
    }

    /// Says that the stop is near.
    pub fn announce(&self) {
        self.leaving.0.store(true, Ordering::Relaxed);
    }

    /// Returns a stop that this stopper sets.
    pub fn listener(&self) -> Stop {
        Stop { receiver: self.sender.subscribe(), leaving: self.leaving.clone() }
    }
}

impl Stop {
    /// A stop that is not set, and the stopper that sets it.
    pub fn channel() -> (Stopper, Self) {
        let ((sender, receiver), leaving) = (watch::channel(false), Leaving::default());
        (Stopper { sender, leaving: leaving.clone() }, Self { receiver, leaving })
    }

    /// Whether this stop is near.
    pub fn leaving(&self) -> &Leaving {
        &self.leaving
    }

    /// True once it is time to stop.
    pub fn is_set(&self) -> bool {
        *self.receiver.borrow() || self.receiver.has_changed().is_err()
    }

    /// Waits until it is set.
    pub async fn wait(&mut self) {
        // An error says that the stopper is gone, which is a stop as well.
        drop(self.receiver.wait_for(|is_set| *is_set).await);
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
pub async fn ignore_result<T>(future: impl Future<Output = T>) {
    drop(future.await);
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn every_clone_sees_a_stop_however_late_it_waits() {
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
    async fn a_stopper_that_is_dropped_has_stopped_all() {
        let (stopper, mut stop) = Stop::channel();
        drop(stopper);
        assert!(stop.is_set());
        assert!(stop.pause(LONG).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_lasts_until_its_time_is_over_or_the_stop_is_set() {
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
