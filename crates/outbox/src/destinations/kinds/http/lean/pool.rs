//! The idle connections of one destination: no more than its calls may be at once, none for longer than it may be
//! idle, and the one that was used last first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::link::Link;
use crate::destinations::kinds::http::address::Origin;

/// Keeps connections between calls.
pub(crate) struct LinkPool {
    idle_n_max: usize,
    state: Mutex<IdleLinks>,
}

#[derive(Default)]
struct IdleLinks {
    /// The one that was used last is the last.
    links: Vec<Link>,
    /// Closes what has been idle for too long, while there is any.
    closing: JoinSet<()>,
    is_watched: bool,
}

impl LinkPool {
    pub(crate) fn new(idle_n_max: usize) -> Arc<Self> {
        Arc::new(Self { idle_n_max, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, IdleLinks> {
        // A list of whole connections, whatever panicked beside it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to `origin` that has not been idle for too long.
    pub(crate) fn take(&self, origin: &Origin) -> Option<Link> {
        loop {
            let link = {
                let links = &mut self.state().links;
                let at = links.iter().rposition(|link| *link.origin == *origin)?;
                links.remove(at)
            };
            if link.idle_until > Instant::now() {
                return Some(link);
            }
        }
    }

    /// Keeps a connection until `link.idle_until`.
    pub(crate) fn put(self: &Arc<Self>, link: Link) {
        let is_late = link.idle_until <= Instant::now();
        if self.idle_n_max == 0 || is_late {
            return;
        }
        let mut state = self.state();
        // Closed after the lock is released, so that no caller waits for it.
        let oldest = (state.links.len() >= self.idle_n_max).then(|| state.links.remove(0));
        state.links.push(link);
        if !state.is_watched {
            state.is_watched = true;
            while state.closing.try_join_next().is_some() {}
            state.closing.spawn(watch(Arc::downgrade(self)));
        }
        drop(state);
        drop(oldest);
    }

    /// Closes what has been idle for too long; says when to look again, if anything is left.
    fn close(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state();
        let closed: Vec<Link> = state.links.extract_if(.., |link| link.idle_until <= now).collect();
        let next = state.links.iter().map(|link| link.idle_until).min();
        state.is_watched = next.is_some();
        drop(state);
        drop(closed);
        next
    }

    #[cfg(test)]
    pub(crate) fn idle_n(&self) -> usize {
        self.state().links.len()
    }
}

async fn watch(pool: Weak<LinkPool>) {
    while let Some(next) = pool.upgrade().and_then(|pool| pool.close()) {
        sleep_until(next).await;
    }
}
