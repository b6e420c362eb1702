//! Verification of large bodies away from the threads that serve requests: a few at a time, the others wait.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Up to this many bytes a body is verified where it arrived: that takes less than handing it over. Bytes.
const BYTES_MAX: usize = 64 * 1024;

/// Permits for heavy requests: one less than there are processors, and at least one. Clones share them.
#[derive(Clone)]
pub(super) struct Heavy(Arc<Semaphore>);

impl Heavy {
    pub(crate) fn new() -> Self {
        let processors_n = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self(Arc::new(Semaphore::new(processors_n.saturating_sub(1).max(1))))
    }

    /// True when a body of `bytes_n` bytes is verified where it arrived.
    pub(super) fn is_light(bytes_n: usize) -> bool {
        bytes_n <= BYTES_MAX
    }

    /// Returns the result of `work`; `None` when it broke off. Its place is taken until it is done, whether or not a
    /// caller still waits for it.
    pub(crate) async fn done<T: Send + 'static>(
        &self,
        bytes_n: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if Self::is_light(bytes_n) { Some(work()) } else { self.beside(work).await }
    }

    /// Returns the result of `work`, which takes long whatever the size of the body is; `None` when it broke off.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        working.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_body_is_verified_beside_what_else_is_served() {
        let heavy = Heavy::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        // A caller that ran it here would wait in vain for the send after it.
        let wait = move || receiver.recv_timeout(std::time::Duration::from_secs(20)).is_ok();
        let verified = heavy.done(BYTES_MAX + 1, wait);
        let (was_received, ()) = futures_util::join!(verified, async { sender.send(()).expect("it waits") });
        assert_eq!(was_received, Some(true));
        let here = std::thread::current().id();
        assert_eq!(heavy.done(BYTES_MAX, || std::thread::current().id()).await, Some(here));
        assert_ne!(heavy.done(BYTES_MAX + 1, || std::thread::current().id()).await, Some(here));
        assert_ne!(
            heavy.beside(|| std::thread::current().id()).await,
            Some(here),
            "however small the body is"
        );
        assert_eq!(heavy.done(BYTES_MAX + 1, || panic!("a defect")).await, None::<()>);
        assert_eq!(heavy.done(BYTES_MAX + 1, || 1).await, Some(1), "and the next one has its place");
    }

    #[tokio::test]
    async fn concurrent_verifications_are_bounded_even_when_their_callers_are_gone() {
        let heavy = Heavy::new();
        let places_n = heavy.0.available_permits();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = Arc::new(std::sync::Mutex::new(receiver));
        for _ in 0..places_n {
            let receiver = Arc::clone(&receiver);
            let wait = move || drop(receiver.lock().map(|receiver| receiver.recv()));
            let gone = futures_util::future::poll_immediate(Box::pin(heavy.done(BYTES_MAX + 1, wait))).await;
            assert_eq!(gone, None, "its request went away");
        }
        assert_eq!(heavy.0.available_permits(), 0, "its place is taken until it is done");
        drop(sender);
        assert_eq!(heavy.done(BYTES_MAX + 1, || 1).await, Some(1));
    }
}
