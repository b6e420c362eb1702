//! One connection as the others in its room see it: what it waits for, its eviction rank, and the signals for it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

/// [`ConnectionSlot::state`]: busy with our own work.
const BUSY: u64 = 0;
/// [`ConnectionSlot::state`]: to be evicted, unless its peer has just done its part.
const EVICTING: u64 = u64::MAX - 1;
/// [`ConnectionSlot::state`]: it is closed. Every other value is the millisecond since when it waits.
const CLOSED: u64 = u64::MAX;

/// One connection, as the others in its room see it.
/// All of it is atomics, because three parties change it at once: the task that serves the connection, the stream below
/// it, and newcomers that need a place. `state` is the core. It holds `BUSY` while we work for the peer; else the
/// millisecond since when it waits for the peer; `EVICTING` once a newcomer wants the place; `CLOSED` at the end. Each
/// change is one compare-and-exchange, so that two facts hold: a connection that became busy a moment ago is never
/// closed, and one that is closed begins nothing any more. A newcomer writes `EVICTING` only over the very millisecond
/// that it saw, and wakes the task; the task polls the network once more, and writes `CLOSED` only over `EVICTING`. If
/// the peer did its part in between, the state is `BUSY` by then, and the newcomer picks another connection.
pub(crate) struct ConnectionSlot {
    pub id: u64,
    pub peer: IpAddr,
    opened: Instant,
    state: AtomicU64,
    /// True when a request on it was answered.
    has_answered: AtomicBool,
    /// True when a request on it was verified.
    is_proven: AtomicBool,
    /// True when something was read since its last request.
    has_read: AtomicBool,
    /// True when it has sent a part of a request, which takes up memory until the rest is there.
    is_in_request: AtomicBool,
    /// True when the body of its request arrives more slowly than allowed.
    pub(crate) is_too_slow: AtomicBool,
    /// Pending signals: the bits [`EVICT`] and [`STOP`].
    signals: AtomicU8,
    /// The waker of the task that serves it.
    task: Mutex<Option<Waker>>,
}

/// [`ConnectionSlot::signals`]: it is to go.
const EVICT: u8 = 1;
/// [`ConnectionSlot::signals`]: the listener stops.
const STOP: u8 = 2;

/// A signal to the task that serves a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionSignal {
    /// It is to be evicted, unless its peer has just done its part.
    Evict,
    /// The listener stops: what is under way is answered, and nothing more is read.
    Stop,
}

/// Order in which connections go: the first of these before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EvictionRank {
    /// It had answers, and none of its requests was verified.
    Unverified,
    /// It had no answer yet.
    Unanswered,
    /// A request on it was verified.
    Verified,
}

impl ConnectionSlot {
    /// Makes the slot of a new connection, which waits.
    pub(crate) fn new(id: u64, peer: IpAddr, opened: Instant) -> Self {
        Self {
            id,
            peer,
            opened,
            state: AtomicU64::new(ms_between(opened, Instant::now())),
            has_answered: AtomicBool::new(false),
            is_proven: AtomicBool::new(false),
            has_read: AtomicBool::new(false),
            is_in_request: AtomicBool::new(false),
            is_too_slow: AtomicBool::new(false),
            signals: AtomicU8::new(0),
            task: Mutex::default(),
        }
    }

    /// Since when it waits for its peer, in milliseconds of its room; `None` while it is busy, or is to be evicted.
    pub(crate) fn waits_since_ms(&self) -> Option<u64> {
        Some(self.state.load(Ordering::Acquire)).filter(|state| *state != BUSY && *state < EVICTING)
    }

    /// True when it has sent a part of a request.
    pub(crate) fn is_in_request(&self) -> bool {
        self.is_in_request.load(Ordering::Relaxed)
    }

    /// Requests its eviction, if it still waits since then.
    pub(crate) fn request_eviction(&self, since_ms: u64) -> bool {
        self.change(since_ms, EVICTING)
    }

    /// A part of a request is there, and the rest is waited for. `false` as with [`ConnectionSlot::busy`].
    pub(crate) fn receiving(&self, now: Instant) -> bool {
        self.is_in_request.store(true, Ordering::Relaxed);
        self.waiting(now)
    }

    /// The peer has done its part. `false` when the connection is evicted: then nothing may be begun any more.
    pub(crate) fn busy(&self) -> bool {
        self.is_in_request.store(false, Ordering::Relaxed);
        self.become_state(BUSY)
    }

    /// Notes that it waits for its peer from now on. `false` as with [`ConnectionSlot::busy`].
    pub(crate) fn waiting(&self, now: Instant) -> bool {
        self.become_state(ms_between(self.opened, now))
    }

    /// A request was answered, and whether it was verified.
    pub(crate) fn answered(&self, is_believed: bool, now: Instant) {
        self.has_answered.store(true, Ordering::Relaxed);
        self.is_proven.fetch_or(is_believed, Ordering::Relaxed);
        self.is_in_request.store(false, Ordering::Relaxed);
        self.waiting(now);
    }

    pub(crate) fn rank(&self) -> EvictionRank {
        match (self.is_proven.load(Ordering::Relaxed), self.has_answered.load(Ordering::Relaxed)) {
            (true, _) => EvictionRank::Verified,
            (false, true) => EvictionRank::Unverified,
            (false, false) => EvictionRank::Unanswered,
        }
    }

    /// Notes that bytes were read.
    pub(crate) fn read(&self) {
        self.has_read.store(true, Ordering::Relaxed);
    }

    /// True when it has sent a part of a head, and the rest is waited for.
    pub(crate) fn is_in_head(&self) -> bool {
        self.waits_since_ms().is_some() && !self.is_in_request() && self.has_read.load(Ordering::Relaxed)
    }

    /// True when the request that begins now was there before: its sender did not wait for the last answer.
    pub(crate) fn is_pipelined(&self) -> bool {
        !self.has_read.swap(false, Ordering::Relaxed)
    }

    /// Polls for what others tell its connection, for the one task that serves it. `is_listening` is that task's own,
    /// and false at first: it is woken by the same waker for as long as it lives, so that all further looks are one at
    /// memory.
    pub(crate) fn poll_signal(&self, cx: &Context<'_>, is_listening: &mut bool) -> Poll<ConnectionSignal> {
        if !*is_listening {
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            *is_listening = true;
        }
        if self.signals.load(Ordering::Acquire) == 0 {
            return Poll::Pending;
        }
        let is_stop = self.signals.fetch_and(!STOP, Ordering::AcqRel) & STOP != 0;
        if is_stop {
            return Poll::Ready(ConnectionSignal::Stop);
        }
        self.signals.fetch_and(!EVICT, Ordering::AcqRel);
        Poll::Ready(ConnectionSignal::Evict)
    }

    /// Sends a signal, and wakes the task.
    pub(crate) fn signal(&self, what: ConnectionSignal) {
        let bit = if what == ConnectionSignal::Stop { STOP } else { EVICT };
        self.signals.fetch_or(bit, Ordering::AcqRel);
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            task.wake_by_ref();
        }
    }

    /// Evicts it; true when its peer has done nothing since the request.
    pub(crate) fn confirm_eviction(&self) -> bool {
        self.change(EVICTING, CLOSED)
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn become_state(&self, state: u64) -> bool {
        // A peer that had answers and no verified request cannot save its connection with one more request.
        let is_lost =
            |now: u64| now == CLOSED || (now == EVICTING && self.rank() == EvictionRank::Unverified);
        let change = |now: u64| (!is_lost(now)).then_some(state);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }
}

/// Milliseconds from `opened` to `now`; never [`BUSY`].
pub(crate) fn ms_between(opened: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(opened).as_millis()).unwrap_or(EVICTING - 2).saturating_add(1)
}
