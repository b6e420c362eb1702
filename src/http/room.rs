//! Who is connected, and who has to go when there is no room: the connection that has waited for its peer the longest.
//!
//! A connection either waits for its peer (for a request, for more of one, for its answer to be read) or is busy with our own
//! work. Only those that wait can be closed, so that nothing of ours is cut off. First go those that had answers and were never
//! believed, then those that were not heard yet, last those on which something was believed. Whoever keeps connections,
//! silent or asking without end, therefore takes nothing from others: they come in, and it loses its own.

mod slot;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::stop;
pub(super) use slot::{Slot, Told};
use slot::{Standing, ms_between};

/// A connection that has waited for less than this is left alone: its peer may be about to go on. Not when it had its
/// answers already and was never believed.
const GRACE_MS: u64 = 100;
/// How often a connection that found no room looks again whether one can be closed for it.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Of so many connections one is closed at a time, so that the search is paid for by several newcomers.
const BATCH_PART: usize = 64;

/// The same for those that keep memory, of which each may have little.
const MEMORY_BATCH_PART: usize = 16;
/// A part of a request that is kept for less than this is on its way: in a rush of honest senders nobody's is thrown away
/// for another's.
const MEMORY_GRACE_MS: u64 = 1_000;
/// How often somebody looks for memory before it hears that there is none: for a fifth of a second.
const MEMORY_LOOKS_N: usize = 20;

/// A peer whose own connections were just asked to go may have so many above its share.
const SHARE_SLACK_N: usize = 8;

/// The open connections of one listener.
pub(super) struct Room {
    name: &'static str,
    permits: Arc<Semaphore>,
    permits_n: u32,
    peer_n_max: usize,
    exempt: Vec<IpNet>,
    opened: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next_id: u64,
    slots: HashMap<u64, Arc<Slot>>,
    peers: HashMap<IpAddr, usize>,
}

/// A place in the room, until it is dropped.
pub(super) struct Place {
    pub(super) slot: Arc<Slot>,
    room: Arc<Room>,
    _permit: OwnedSemaphorePermit,
}

impl Room {
    /// Room for `connections_n_max`, of which one peer may have `peer_n_max` unless it is `exempt`.
    pub(super) fn new(
        name: &'static str,
        connections_n_max: usize,
        peer_n_max: usize,
        exempt: Vec<IpNet>,
    ) -> Arc<Self> {
        let permits_n = u32::try_from(connections_n_max).unwrap_or(u32::MAX);
        Arc::new(Self {
            name,
            permits: Arc::new(Semaphore::new(permits_n as usize)),
            permits_n,
            peer_n_max: peer_n_max.max(1),
            exempt,
            opened: Instant::now(),
            inner: Mutex::default(),
        })
    }

    /// A place for a connection of this address, as soon as there is one; `None` when its peer has its share already
    /// and all of that is busy.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let peer = peer_of(address);
        let is_exempt = self.exempt.iter().any(|net| net.contains(&address.to_canonical()));
        let peer_n = if is_exempt { 0 } else { self.peer_n(peer) };
        if peer_n >= self.peer_n_max
            && (peer_n >= self.peer_n_max + SHARE_SLACK_N || self.give_way(Some(peer)) == 0)
        {
            self.count("share");
            return None;
        }
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                break permit;
            }
            self.give_way(None);
            let someone_left = Arc::clone(&self.permits).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(LOOK_EVERY, someone_left).await {
                break permit.ok()?;
            }
        };
        let mut inner = self.inner();
        inner.next_id += 1;
        let slot = Arc::new(Slot::new(inner.next_id, peer, self.opened));
        inner.slots.insert(slot.id, Arc::clone(&slot));
        *inner.peers.entry(peer).or_default() += 1;
        Some(Place { slot, room: Arc::clone(self), _permit: permit })
    }

    /// Asks those that have waited longest to go, of one peer or of all; how many.
    pub(super) fn give_way(&self, of: Option<IpAddr>) -> usize {
        self.give_way_of(BATCH_PART, |slot| of.is_none_or(|peer| slot.peer == peer))
    }

    /// Does what needs memory. While there is none, those that have kept parts of requests the longest go: who sends a
    /// body but for its last byte takes nothing from others either. `false` when our own work holds all of it.
    pub(super) async fn with_memory(&self, own: &Slot, is_done: &mut (dyn FnMut() -> bool + Send)) -> bool {
        if is_done() {
            return true;
        }
        let is_in_request = own.is_in_request();
        // It waits for us now, not for its peer.
        if !own.busy() {
            return std::future::pending().await;
        }
        let has_memory = self.has_memory_made(is_done).await;
        if is_in_request {
            own.receiving(Instant::now());
        }
        has_memory
    }

    async fn has_memory_made(&self, is_done: &mut (dyn FnMut() -> bool + Send)) -> bool {
        for _ in 0..MEMORY_LOOKS_N {
            let before_ms = self.now_ms().saturating_sub(MEMORY_GRACE_MS);
            let is_held = |slot: &Slot| {
                slot.is_in_request() && slot.waits_since_ms().is_some_and(|since_ms| since_ms <= before_ms)
            };
            if self.give_way_of(MEMORY_BATCH_PART, is_held) == 0 {
                return false;
            }
            stop::pass(LOOK_EVERY).await;
            if is_done() {
                return true;
            }
        }
        false
    }

    /// Of so many slots that are meant one goes, and one at least.
    fn give_way_of(&self, part: usize, is_meant: impl Fn(&Slot) -> bool) -> usize {
        let now_ms = self.now_ms();
        let inner = self.inner();
        let slots = inner.slots.values().filter(|slot| is_meant(slot));
        let mut waiting: Vec<(Standing, u64, &Arc<Slot>)> = slots
            .filter_map(|slot| {
                let (standing, since_ms) = (slot.standing(), slot.waits_since_ms()?);
                let has_grace = standing != Standing::Doubted && now_ms.saturating_sub(since_ms) < GRACE_MS;
                (!has_grace).then_some((standing, since_ms, slot))
            })
            .collect();
        let wanted_n = inner.slots.len() / part + 1;
        if wanted_n < waiting.len() {
            waiting.select_nth_unstable_by_key(wanted_n, |(standing, since_ms, _)| (*standing, *since_ms));
            waiting.truncate(wanted_n);
        }
        // It may have become busy meanwhile.
        waiting.retain(|(_, since_ms, slot)| slot.ask(*since_ms));
        for (_, _, slot) in &waiting {
            slot.tell(Told::Go);
        }
        waiting.len()
    }

    /// Tells every connection to stop, and waits until none is left. Nobody may enter any more.
    pub(super) async fn stop(&self) {
        let slots: Vec<Arc<Slot>> = self.inner().slots.values().map(Arc::clone).collect();
        for slot in slots {
            slot.tell(Told::Stop);
        }
        stop::to_end(self.permits.acquire_many(self.permits_n)).await;
    }

    fn peer_n(&self, peer: IpAddr) -> usize {
        self.inner().peers.get(&peer).copied().unwrap_or_default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can be left half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never [`BUSY`].
    fn now_ms(&self) -> u64 {
        ms_between(self.opened, Instant::now())
    }

    fn count(&self, reason: &'static str) {
        metrics::counter!("hooklatch_connections_closed_total", "listener" => self.name, "reason" => reason)
            .increment(1);
    }
}

impl Inner {
    fn leave(&mut self, slot: &Slot) {
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

impl Place {
    /// Whether its connection goes, after it was asked and had another look at what has come in.
    pub(super) fn is_left(&self) -> bool {
        let is_left = self.slot.go();
        if is_left {
            self.room.count("gave_way");
        }
        is_left
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.inner().leave(&self.slot);
    }
}

/// Whom an address belongs to: of IPv6 one has a /64 at least.
pub(super) fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests;
