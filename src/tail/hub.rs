//! What poller and viewers share: the ring, the window, and how many view.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::found::FoundNumbers;
use super::ring::Ring;
use crate::stop::Stop;
use crate::store::Store;

/// Most viewers at once, on one node.
pub const VIEWERS_N_MAX: usize = 64;
/// Pause between two looks while somebody views.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// The live tail of one node. Cloning shares it.
#[derive(Clone)]
pub struct TailHub(pub(super) Arc<HubState>);

/// Reason why nobody else may view: there are [`VIEWERS_N_MAX`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyViewers;

pub(super) struct HubState {
    pub(super) store: Store,
    pub(super) poll_every: Duration,
    pub(super) stop: Stop,
    state: Mutex<TailState>,
    /// Counts changes of the ring, for viewers that wait.
    changed: watch::Sender<u64>,
    /// Told when somebody comes to view.
    pub(super) wake: Notify,
    polls_n: AtomicU64,
}

/// What was found lately.
pub(super) struct TailState {
    pub(super) ring: Ring,
    /// `None` while nobody has viewed for a while.
    pub(super) window: Option<FoundNumbers>,
    /// Name of what the ring holds: places of another one mean nothing here.
    pub(super) run: String,
    pub(super) viewers_n: usize,
    /// Looks that are over.
    pub(super) polls_n: u64,
    /// When the last viewer left.
    pub(super) left_at: Instant,
}

impl TailHub {
    /// A tail that nobody views yet. It ends with `stop`.
    pub fn new(store: Store, stop: Stop) -> Self {
        Self::with_pause(store, stop, POLL_EVERY)
    }

    /// The same with another pause between two looks, for tests.
    pub fn with_pause(store: Store, stop: Stop, poll_every: Duration) -> Self {
        let state = TailState {
            ring: Ring::default(),
            window: None,
            run: String::new(),
            viewers_n: 0,
            polls_n: 0,
            left_at: Instant::now(),
        };
        Self(Arc::new(HubState {
            store,
            poll_every,
            stop,
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            wake: Notify::new(),
            polls_n: AtomicU64::new(0),
        }))
    }

    /// Looks at the database so far.
    pub fn polls_n(&self) -> u64 {
        self.0.polls_n.load(Ordering::Relaxed)
    }

    /// Number of those who view now.
    pub fn viewers_n(&self) -> usize {
        self.0.state().viewers_n
    }
}

impl HubState {
    pub(super) fn state(&self) -> MutexGuard<'_, TailState> {
        // Each change is one assignment or one push.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An ear for changes of the ring.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Lets viewers look at the ring again.
    pub(super) fn tell(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    pub(super) fn polled(&self) {
        self.polls_n.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("hooklatch_tail_polls_total").increment(1);
    }

    /// Lets one more view. Returns how many looks must be over before there is a place in the ring that is now.
    pub(super) fn enter(&self) -> Result<u64, TooManyViewers> {
        let mut state = self.state();
        if state.viewers_n >= VIEWERS_N_MAX {
            return Err(TooManyViewers);
        }
        // Where others view the ring is new enough.
        let is_idle = state.viewers_n == 0 || state.window.is_none();
        let after_n = state.polls_n + u64::from(is_idle);
        state.viewers_n += 1;
        gauge(state.viewers_n);
        drop(state);
        self.wake.notify_one();
        Ok(after_n)
    }

    /// Forgets what was found when nobody has viewed for so long.
    pub(super) fn forget(&self, linger: Duration) {
        let mut state = self.state();
        if state.viewers_n == 0 && state.left_at.elapsed() >= linger {
            (state.ring, state.window) = (Ring::default(), None);
            state.run.clear();
        }
    }

    /// One viewer is gone.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.viewers_n = state.viewers_n.saturating_sub(1);
        state.left_at = Instant::now();
        gauge(state.viewers_n);
    }
}

fn gauge(viewers_n: usize) {
    metrics::gauge!("hooklatch_tail_viewers").set(f64::from(u32::try_from(viewers_n).unwrap_or(u32::MAX)));
}
