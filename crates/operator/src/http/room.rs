//! The open connections of one listener, and which one is evicted when there is no room left: the one that has waited
//! for its peer the longest.
//!
//! A connection either waits for its peer (for a request, for more of one, for its answer to be read) or is busy with
//! our own work. Only those that wait can be evicted, so that nothing of ours is cut off. First go those that had
//! answers and no verified request, then those without an answer yet, last those with a verified request. A peer that
//! keeps connections, silent or with endless requests, therefore takes nothing from others: they get in, and it loses
//! its own. Not here: the memory that requests take up (`admit`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use hooklatch_core::net::peer_of;
use hooklatch_core::stop;

/// [`ConnectionSlot::state`]: busy with our own work.
const BUSY: u64 = 0;
/// [`ConnectionSlot::state`]: to be evicted, unless its peer has just done its part.
const EVICTING: u64 = u64::MAX - 1;
/// [`ConnectionSlot::state`]: it is closed. Every other value is the millisecond since when it waits.
const CLOSED: u64 = u64::MAX;

/// [`ConnectionSlot::signals`]: it is to go.
const EVICT: u8 = 1;
/// [`ConnectionSlot::signals`]: the listener stops.
const STOP: u8 = 2;

/// A connection that has waited for less than this is left alone: its peer may be about to go on. Not when it had its
/// answers already and no verified request.
pub(super) const GRACE_MS: u64 = 100;
/// Pause after which a newcomer that found no room looks again for a connection that can be closed.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// One connection of this many is closed at a time, so that several newcomers share the cost of the search.
const BATCH_PART: usize = 64;

/// Part of the connections that keep memory that is closed at a time, of which each may have little.
const MEMORY_BATCH_PART: usize = 16;
/// A part of a request that is kept for less than this is on its way: in a rush of honest senders, no request is thrown
/// away for another.
pub(super) const MEMORY_GRACE_MS: u64 = 1_000;
/// Number of attempts to get memory before a client gets 503: a fifth of a second in all.
const MEMORY_LOOKS_N: usize = 20;

/// A peer may have this many above its share while some of its connections are being evicted.
const SHARE_SLACK_N: usize = 8;

/// One connection, as the others in its room see it.
///
/// All of it is atomics, because three parties change it at once: the task that serves the connection, the stream below
/// it, and newcomers that need a place. `state` is the core. It holds `BUSY` while we work for the peer; else the
/// millisecond since when it waits for the peer; `EVICTING` once a newcomer wants the place; `CLOSED` at the end. Each
/// change is one compare-and-exchange, so that two facts hold: a connection that became busy a moment ago is never
/// closed, and one that is closed begins nothing any more. A newcomer writes `EVICTING` only over the very millisecond
/// that it saw, and wakes the task; the task polls the network once more, and writes `CLOSED` only over `EVICTING`. If
/// the peer did its part in between, the state is `BUSY` by then, and the newcomer picks another connection.
pub(crate) struct ConnectionSlot {
    pub(super) id: u64,
    pub(super) peer: IpAddr,
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

/// A signal to the task that serves a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionSignal {
    /// It is to be evicted, unless its peer has just done its part.
    Evict,
    /// The listener stops: what is under way is answered, and nothing more is read.
    Stop,
}

/// Why a connection is not served any further for now.
pub(crate) enum Served<T> {
    /// It has ended by itself.
    Ended(T),
    /// The listener stops.
    Stopping,
    /// It gives way to another one.
    Evicted,
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
    pub(crate) fn answered(&self, is_verified: bool, now: Instant) {
        self.has_answered.store(true, Ordering::Relaxed);
        self.is_proven.fetch_or(is_verified, Ordering::Relaxed);
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

    /// Polls for signals to its connection, for the one task that serves it. `is_listening` is that task's own,
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

/// The open connections of one listener.
pub(crate) struct ConnectionLimiter {
    name: &'static str,
    permits: Arc<Semaphore>,
    permits_n: u32,
    peer_n_max: usize,
    exempt: Vec<IpNet>,
    opened: Instant,
    inner: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    next_id: u64,
    slots: HashMap<u64, Arc<ConnectionSlot>>,
    peers: HashMap<IpAddr, usize>,
}

/// A place in the room, until it is dropped.
pub(crate) struct ConnectionPermit {
    pub(super) slot: Arc<ConnectionSlot>,
    limiter: Arc<ConnectionLimiter>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimiter {
    /// A room for `connections_n_max` connections, of which one peer may have `peer_n_max` unless it is `exempt`.
    pub(crate) fn new(
        name: &'static str,
        connections_n_max: usize,
        peer_n_max: usize,
        exempt: Vec<IpNet>,
    ) -> Arc<Self> {
        let permits_n = u32::try_from(connections_n_max).unwrap_or(u32::MAX);
        metrics::gauge!("hooklatch_connections_max", "listener" => name).set(f64::from(permits_n));
        let limiter = Arc::new(Self {
            name,
            permits: Arc::new(Semaphore::new(permits_n as usize)),
            permits_n,
            peer_n_max: peer_n_max.max(1),
            exempt,
            opened: Instant::now(),
            inner: Mutex::default(),
        });
        limiter.publish(&limiter.inner());
        limiter
    }

    /// Takes a place for a connection of this address, as soon as there is one; `None` when its peer has its share
    /// already and all of that is busy.
    pub(crate) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let peer = peer_of(address);
        let is_exempt = self.exempt.iter().any(|net| net.contains(&address.to_canonical()));
        let peer_n = if is_exempt { 0 } else { self.inner().peers.get(&peer).copied().unwrap_or_default() };
        if peer_n >= self.peer_n_max
            && (peer_n >= self.peer_n_max + SHARE_SLACK_N || self.evict(Some(peer)) == 0)
        {
            self.count("share");
            return None;
        }
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                break permit;
            }
            self.evict(None);
            let someone_left = Arc::clone(&self.permits).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(LOOK_EVERY, someone_left).await {
                break permit.ok()?;
            }
        };
        let mut inner = self.inner();
        inner.next_id += 1;
        let slot = Arc::new(ConnectionSlot::new(inner.next_id, peer, self.opened));
        inner.slots.insert(slot.id, Arc::clone(&slot));
        *inner.peers.entry(peer).or_default() += 1;
        self.publish(&inner);
        Some(ConnectionPermit { slot, limiter: Arc::clone(self), _permit: permit })
    }

    /// Evicts those that have waited longest, of one peer or of all; returns their number.
    pub(crate) fn evict(&self, of: Option<IpAddr>) -> usize {
        self.evict_where(BATCH_PART, |slot| of.is_none_or(|peer| slot.peer == peer))
    }

    /// Does what needs memory. While there is none, those that have kept parts of requests the longest go: who sends a
    /// body but for its last byte takes nothing from others either. `false` when our own work holds all of it.
    pub(crate) async fn with_memory(
        &self,
        slot: &ConnectionSlot,
        is_done: &mut (dyn FnMut() -> bool + Send),
    ) -> bool {
        if is_done() {
            return true;
        }
        let is_in_request = slot.is_in_request();
        // It waits for us now, not for its peer.
        if !slot.busy() {
            return std::future::pending().await;
        }
        let has_memory = self.has_memory_made(is_done).await;
        if is_in_request {
            slot.receiving(Instant::now());
        }
        has_memory
    }

    async fn has_memory_made(&self, is_done: &mut (dyn FnMut() -> bool + Send)) -> bool {
        for _ in 0..MEMORY_LOOKS_N {
            let before_ms = self.now_ms().saturating_sub(MEMORY_GRACE_MS);
            let is_held = |slot: &ConnectionSlot| {
                slot.is_in_request() && slot.waits_since_ms().is_some_and(|since_ms| since_ms <= before_ms)
            };
            if self.evict_where(MEMORY_BATCH_PART, is_held) == 0 {
                return false;
            }
            stop::pass(LOOK_EVERY).await;
            if is_done() {
                return true;
            }
        }
        false
    }

    /// Evicts one of `part` connections that match, and one at least; returns their number.
    fn evict_where(&self, part: usize, is_meant: impl Fn(&ConnectionSlot) -> bool) -> usize {
        let now_ms = self.now_ms();
        let inner = self.inner();
        let slots = inner.slots.values().filter(|slot| is_meant(slot));
        let mut waiting: Vec<(EvictionRank, u64, &Arc<ConnectionSlot>)> = slots
            .filter_map(|slot| {
                let (rank, since_ms) = (slot.rank(), slot.waits_since_ms()?);
                let has_grace =
                    rank != EvictionRank::Unverified && now_ms.saturating_sub(since_ms) < GRACE_MS;
                (!has_grace).then_some((rank, since_ms, slot))
            })
            .collect();
        let wanted_n = inner.slots.len() / part + 1;
        if wanted_n < waiting.len() {
            waiting.select_nth_unstable_by_key(wanted_n, |(rank, since_ms, _)| (*rank, *since_ms));
            waiting.truncate(wanted_n);
        }
        // It may have become busy meanwhile.
        waiting.retain(|(_, since_ms, slot)| slot.request_eviction(*since_ms));
        for (_, _, slot) in &waiting {
            slot.signal(ConnectionSignal::Evict);
        }
        waiting.len()
    }

    /// Signals every connection to stop, and waits until none is left. No connection may enter any more.
    pub(crate) async fn stop(&self) {
        let slots: Vec<Arc<ConnectionSlot>> = self.inner().slots.values().map(Arc::clone).collect();
        for slot in slots {
            slot.signal(ConnectionSignal::Stop);
        }
        stop::ignore_result(self.permits.acquire_many(self.permits_n)).await;
    }

    fn inner(&self) -> MutexGuard<'_, OpenConnections> {
        // Nothing in here can be left half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let inner = self.inner();
        inner.peers.is_empty() && inner.slots.is_empty()
    }

    /// Milliseconds since the room was opened; never 0, which would mean a busy connection.
    fn now_ms(&self) -> u64 {
        ms_between(self.opened, Instant::now())
    }

    /// Publishes how many connections are open.
    fn publish(&self, inner: &OpenConnections) {
        let open_n = u32::try_from(inner.slots.len()).unwrap_or(u32::MAX);
        metrics::gauge!("hooklatch_connections_open", "listener" => self.name).set(f64::from(open_n));
    }

    fn count(&self, reason: &'static str) {
        metrics::counter!("hooklatch_connections_closed_total", "listener" => self.name, "reason" => reason)
            .increment(1);
    }
}

impl ConnectionPermit {
    /// Counts that its connection was closed for this reason.
    pub(crate) fn count(&self, reason: &'static str) {
        self.limiter.count(reason);
    }

    /// Polls what serves its connection until that ends, or has to. `is_listening` is false at first, and belongs to
    /// one task: see [`ConnectionSlot::poll_signal`].
    pub(crate) async fn served<F: Future>(
        &self,
        mut serving: Pin<&mut F>,
        is_listening: &mut bool,
    ) -> Served<F::Output> {
        loop {
            let next = std::future::poll_fn(|cx| match serving.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(Err(ended)),
                Poll::Pending => self.slot.poll_signal(cx, is_listening).map(Ok),
            });
            match next.await {
                Err(ended) => return Served::Ended(ended),
                Ok(ConnectionSignal::Stop) => return Served::Stopping,
                Ok(ConnectionSignal::Evict) => {}
            }
            // Bytes that arrived already count, also when we were too busy to read them: so poll the network and the
            // connection once more.
            tokio::task::yield_now().await;
            let looked = std::future::poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx))).await;
            if let Poll::Ready(ended) = looked {
                return Served::Ended(ended);
            }
            if self.is_evicted() {
                return Served::Evicted;
            }
        }
    }

    /// True when its connection is evicted, after another look at the bytes that arrived.
    fn is_evicted(&self) -> bool {
        let is_evicted = self.slot.confirm_eviction();
        if is_evicted {
            self.limiter.count("gave_way");
        }
        is_evicted
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut inner = self.limiter.inner();
        inner.slots.remove(&self.slot.id);
        if let Some(n) = inner.peers.get_mut(&self.slot.peer) {
            *n -= 1;
            if *n == 0 {
                inner.peers.remove(&self.slot.peer);
            }
        }
        self.limiter.publish(&inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::time::Duration;

    use tokio::time::Instant;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    async fn asked(place: &ConnectionPermit) {
        let mut is_listening = false;
        let signal = std::future::poll_fn(|cx| place.slot.poll_signal(cx, &mut is_listening)).await;
        assert_eq!(signal, ConnectionSignal::Evict);
    }

    async fn is_asked(place: &ConnectionPermit) -> bool {
        tokio::time::timeout(Duration::ZERO, asked(place)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_waited_longest_gives_way_and_a_busy_one_never() {
        let limiter = ConnectionLimiter::new("test", 3, 3, Vec::new());
        let mut places = Vec::new();
        for n in 1..=3 {
            places.push(limiter.enter(ip(&format!("192.0.2.{n}"))).await.expect("room"));
            tokio::time::advance(Duration::from_millis(GRACE_MS)).await;
        }
        assert!(places[0].slot.busy());
        assert_eq!(limiter.evict(None), 1);
        assert!(is_asked(&places[1]).await, "the oldest that is not busy");
        assert!(!is_asked(&places[0]).await && !is_asked(&places[2]).await);
        assert!(places[1].is_evicted() && !places[1].slot.busy(), "nothing begins on it any more");
        places[2].slot.answered(true, Instant::now());
        tokio::time::advance(Duration::from_millis(2 * GRACE_MS)).await;
        places[0].slot.waiting(Instant::now());
        tokio::time::advance(Duration::from_millis(GRACE_MS)).await;
        assert_eq!(limiter.evict(None), 1);
        assert!(is_asked(&places[0]).await, "a believed one goes last, although it has waited longer");
        assert!(places[0].slot.busy() && !places[0].is_evicted(), "its request has come in meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unverified_peer_with_endless_requests_is_evicted_first_and_at_once() {
        let limiter = ConnectionLimiter::new("test", 2, 2, Vec::new());
        let silent = limiter.enter(ip("192.0.2.1")).await.expect("room");
        tokio::time::advance(Duration::from_secs(9)).await;
        let asking = limiter.enter(ip("192.0.2.2")).await.expect("room");
        assert!(asking.slot.busy());
        asking.slot.answered(false, Instant::now());
        assert_eq!(limiter.evict(None), 1);
        assert!(is_asked(&asking).await && !is_asked(&silent).await);
        assert!(!asking.slot.busy() && asking.is_evicted(), "asking once more does not save it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_evicts_a_waiting_connection_and_waits_for_a_busy_one() {
        let limiter = ConnectionLimiter::new("test", 1, 1, Vec::new());
        let first = limiter.enter(ip("192.0.2.1")).await.expect("room");
        assert!(first.slot.busy());
        let late = Duration::from_secs(5);
        assert!(tokio::time::timeout(late, limiter.enter(ip("192.0.2.2"))).await.is_err());
        assert!(first.slot.waiting(Instant::now()));
        let second = {
            let leaves = async {
                asked(&first).await;
                assert!(first.is_evicted());
                drop(first);
            };
            tokio::join!(limiter.enter(ip("192.0.2.2")), leaves).0
        };
        assert!(second.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_peer_has_its_share_and_an_exempt_one_has_all() {
        let limiter = ConnectionLimiter::new("test", 8, 2, vec!["10.0.0.0/8".parse().expect("a range")]);
        let mut places = Vec::new();
        for address in ["2001:db8::1", "2001:db8::2"] {
            let place = limiter.enter(ip(address)).await.expect("room");
            assert!(place.slot.busy());
            places.push(place);
        }
        assert!(limiter.enter(ip("2001:db8::3")).await.is_none(), "the same /64");
        places.push(limiter.enter(ip("2001:db8:0:1::1")).await.expect("another one"));
        for _ in 0..5 {
            let place = limiter.enter(ip("::ffff:10.1.2.3")).await.expect("exempt, also when it is mapped");
            assert!(place.slot.busy());
            places.push(place);
        }
        assert!(places[0].slot.waiting(Instant::now()));
        tokio::time::advance(Duration::from_millis(GRACE_MS)).await;
        assert_eq!(limiter.evict(Some(hooklatch_core::net::peer_of(ip("2001:db8::9")))), 1);
        assert!(is_asked(&places[0]).await, "its own give way to it");
        places.clear();
        assert!(limiter.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_freed_from_the_oldest_partial_request_only() {
        let limiter = ConnectionLimiter::new("test", 9, 9, Vec::new());
        let mut places = Vec::new();
        for n in 1..=5 {
            places.push(limiter.enter(ip(&format!("192.0.2.{n}"))).await.expect("room"));
        }
        let [keeping, idle, working, proven, asking] = &places[..] else { panic!("five") };
        assert!(
            keeping.slot.receiving(Instant::now())
                && idle.slot.waiting(Instant::now())
                && working.slot.busy()
        );
        proven.slot.answered(true, Instant::now());
        assert!(proven.slot.receiving(Instant::now()));
        assert!(asking.slot.receiving(Instant::now()));
        tokio::time::advance(Duration::from_millis(MEMORY_GRACE_MS - 50)).await;
        assert!(!limiter.with_memory(&asking.slot, &mut || false).await, "the others have only begun");
        assert!(!is_asked(keeping).await && !is_asked(proven).await);
        tokio::time::advance(Duration::from_millis(50)).await;
        let mut looks_n = 0;
        let has_memory = limiter
            .with_memory(&asking.slot, &mut || {
                looks_n += 1;
                looks_n == 2
            })
            .await;
        assert!(has_memory && is_asked(keeping).await, "the oldest that is not verified");
        for other in [idle, working, proven, asking] {
            assert!(!is_asked(other).await);
        }
        assert!(keeping.is_evicted());
        // Memory of our own work comes back when that is done: no connection is evicted for it, and the newcomer gets
        // 503.
        assert!(working.slot.receiving(Instant::now()) && working.slot.busy() && proven.slot.busy());
        assert!(!limiter.with_memory(&asking.slot, &mut || false).await);
        assert!(!is_asked(asking).await && asking.slot.busy());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_signals_every_connection_and_waits_for_the_last_one() {
        let limiter = ConnectionLimiter::new("test", 3, 3, Vec::new());
        let first = limiter.enter(ip("192.0.2.1")).await.expect("room");
        tokio::time::advance(Duration::from_millis(1)).await;
        let late = limiter.enter(ip("192.0.2.2")).await.expect("room");
        let signal = async |place: &ConnectionPermit, is_listening: &mut bool| {
            std::future::poll_fn(|cx| place.slot.poll_signal(cx, is_listening)).await
        };
        let connections = async {
            let mut is_listening = false;
            assert_eq!(signal(&first, &mut is_listening).await, ConnectionSignal::Stop);
            let silence =
                tokio::time::timeout(Duration::from_secs(1), signal(&first, &mut is_listening)).await;
            assert!(silence.is_err(), "a signal arrives once");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(limiter.evict(None), 1);
            assert_eq!(
                signal(&first, &mut is_listening).await,
                ConnectionSignal::Evict,
                "and the next signal arrives"
            );
            drop(first);
            assert_eq!(
                signal(&late, &mut false).await,
                ConnectionSignal::Stop,
                "it was signalled before it listened"
            );
            drop(late);
        };
        futures_util::join!(limiter.stop(), connections);
    }
}
