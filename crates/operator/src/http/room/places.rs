//! The connections of a listener. When there is no room, the one that has waited for its peer the longest is evicted.
//!
//! A connection either waits for its peer (for a request, for more of one, for its answer to be read) or is busy with
//! our own work. Only those that wait can be evicted, so that nothing of ours is cut off. First go those that had
//! answers and no verified request, then those without an answer yet, last those with a verified request. A peer that
//! keeps connections, silent or with endless requests, therefore takes nothing from others: they get in, and it loses
//! its own.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::slot::{ConnectionSignal, ConnectionSlot, EvictionRank, ms_between};
use hooklatch_core::net::peer_of;
use hooklatch_core::stop;

/// A connection that has waited for less than this is left alone: its peer may be about to go on. Not when it had its
/// answers already and no verified request.
pub(super) const GRACE_MS: u64 = 100;
/// Pause after which a newcomer that found no room looks again for a connection that can be closed.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// One connection of this many is closed at a time, so that several newcomers share the cost of the search.
const BATCH_PART: usize = 64;

/// The same for those that keep memory, of which each may have little.
const MEMORY_BATCH_PART: usize = 16;
/// A part of a request that is kept for less than this is on its way: in a rush of honest senders, no request is thrown
/// away for another.
pub(super) const MEMORY_GRACE_MS: u64 = 1_000;
/// Number of attempts to get memory before a client gets 503: a fifth of a second in all.
const MEMORY_LOOKS_N: usize = 20;

/// A peer may have this many above its share while some of its connections are being evicted.
const SHARE_SLACK_N: usize = 8;

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
    pub slot: Arc<ConnectionSlot>,
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
        let peer_n = if is_exempt { 0 } else { self.peer_n(peer) };
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
        stop::to_end(self.permits.acquire_many(self.permits_n)).await;
    }

    fn peer_n(&self, peer: IpAddr) -> usize {
        self.inner().peers.get(&peer).copied().unwrap_or_default()
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

impl OpenConnections {
    fn leave(&mut self, slot: &ConnectionSlot) {
        if self.slots.remove(&slot.id).is_none() {
            return;
        }
        if let Some(n) = self.peers.get_mut(&slot.peer) {
            *n -= 1;
            if *n == 0 {
                self.peers.remove(&slot.peer);
            }
        }
    }
}

impl ConnectionPermit {
    /// Counts that its connection was closed for this reason.
    pub(crate) fn count(&self, reason: &'static str) {
        self.limiter.count(reason);
    }

    /// True when its connection is evicted, after another look at the bytes that arrived.
    pub(crate) fn is_evicted(&self) -> bool {
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
        inner.leave(&self.slot);
        self.limiter.publish(&inner);
    }
}
