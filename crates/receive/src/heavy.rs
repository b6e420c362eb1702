//! Verification of large bodies away from the threads that serve everybody: a few at a time, the others wait.

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

    /// Returns the result of `work`; `None` when it broke off. Its place is taken until it is done, whether or not
    /// anybody still waits for it.
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
        let (told, hears) = std::sync::mpsc::channel();
        // A caller that ran it here would wait in vain for what is said after it.
        let wait = move || hears.recv_timeout(std::time::Duration::from_secs(20)).is_ok();
        let verified = heavy.done(BYTES_MAX + 1, wait);
        let (was_told, ()) = futures_util::join!(verified, async { told.send(()).expect("it waits") });
        assert_eq!(was_told, Some(true));
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
    async fn so_many_are_verified_at_a_time_whoever_still_waits() {
        let heavy = Heavy::new();
        let places_n = heavy.0.available_permits();
        let (told, hears) = std::sync::mpsc::channel::<()>();
        let hears = Arc::new(std::sync::Mutex::new(hears));
        for _ in 0..places_n {
            let hears = Arc::clone(&hears);
            let wait = move || drop(hears.lock().map(|hears| hears.recv()));
            let gone = futures_util::future::poll_immediate(Box::pin(heavy.done(BYTES_MAX + 1, wait))).await;
            assert_eq!(gone, None, "its request went away");
        }
        assert_eq!(heavy.0.available_permits(), 0, "its place is taken until it is done");
        drop(told);
        assert_eq!(heavy.done(BYTES_MAX + 1, || 1).await, Some(1));
    }
}
