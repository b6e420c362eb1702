//! Room for what is under way: the memory that requests hold, from their first byte until their events are written or
//! given up. It travels with them, so a client that hangs up frees nothing that is still there.
//!
//! A large body takes up several times its length once it is parsed, so only [`LARGE_N_MAX`] are read, verified and
//! stored at a time; the others wait. A free place goes to the request that has waited longest of those whose peer has
//! no place, and only then to others of the same peer: however many bodies one peer sends, another peer has one of the
//! places. While requests wait, those whose bodies arrive too slowly give up their places, the slowest first.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Large bodies at a time.
const LARGE_N_MAX: usize = 2;

/// All places. Clones share them.
#[derive(Clone, Default)]
pub(super) struct LargePlaces(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    next_id: u64,
    taken: Vec<TakenPlace>,
    /// In the order of arrival.
    waiting: Vec<Waiting>,
}

struct TakenPlace {
    id: u64,
    peer: Option<IpAddr>,
    /// Bytes a second at which its body arrives; most while that is not known, and once it is complete.
    rate: u64,
}

struct Waiting {
    id: u64,
    peer: Option<IpAddr>,
    granted: oneshot::Sender<()>,
}

/// A place, or the wait for one; dropping it gives it to the next request.
pub(super) struct LargePlace {
    places: LargePlaces,
    id: u64,
}

impl LargePlaces {
    /// Waits for a place for a body of this peer; `None`: not known.
    pub(crate) async fn enter(&self, peer: Option<IpAddr>) -> LargePlace {
        let (place, is_granted) = {
            let mut queue = self.queue();
            queue.next_id += 1;
            let id = queue.next_id;
            let (granted, is_granted) = oneshot::channel();
            queue.waiting.push(Waiting { id, peer, granted });
            queue.grant();
            (LargePlace { places: self.clone(), id }, is_granted)
        };
        // Its sender is dropped with the place alone.
        drop(is_granted.await);
        place
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn taken_n(&self) -> usize {
        self.queue().taken.len()
    }
}

impl Queue {
    /// Gives free places to those that wait.
    fn grant(&mut self) {
        while self.taken.len() < LARGE_N_MAX && !self.waiting.is_empty() {
            let is_new =
                |one: &Waiting| one.peer.is_none() || self.taken.iter().all(|taken| taken.peer != one.peer);
            let next = self.waiting.iter().position(is_new).unwrap_or(0);
            let Waiting { id, peer, granted } = self.waiting.remove(next);
            self.taken.push(TakenPlace { id, peer, rate: u64::MAX });
            // A waiter that has gone drops its place.
            let _is_awaited = granted.send(());
        }
    }
}

impl LargePlace {
    /// Records at how many bytes a second its body arrives, `None` once it is complete. Returns whether it is among the
    /// slowest whose places others wait for.
    pub(crate) fn is_wanted(&self, rate: Option<u64>) -> bool {
        let rate = rate.unwrap_or(u64::MAX);
        let mut queue = self.places.queue();
        if let Some(own) = queue.taken.iter_mut().find(|one| one.id == self.id) {
            own.rate = rate;
        }
        queue.taken.iter().filter(|one| one.rate < rate).count() < queue.waiting.len()
    }
}

impl Drop for LargePlace {
    fn drop(&mut self) {
        let mut queue = self.places.queue();
        queue.taken.retain(|one| one.id != self.id);
        queue.waiting.retain(|one| one.id != self.id);
        queue.grant();
    }
}

/// Size of one unit of the count, in bytes.
const UNIT_BYTES: usize = 1024;
/// Memory that an event takes besides its own bytes: its texts, its row, its messages and their statement.
pub(crate) const EVENT_BYTES: usize = 2_048;

/// A body beyond this is large. Bytes.
pub const LARGE_BYTES: usize = 1 << 20;

/// A bound on bytes. Cloning shares it.
#[derive(Clone)]
pub struct MemoryRoom {
    units: Arc<Semaphore>,
    units_n_max: usize,
    large: LargePlaces,
}

/// The memory that one request holds of a [`MemoryRoom`]; dropping it gives it back.
pub struct HeldMemory {
    room: MemoryRoom,
    units: Option<OwnedSemaphorePermit>,
    bytes_n: usize,
    /// Its place among the large ones.
    large: Option<LargePlace>,
}

impl MemoryRoom {
    /// Makes room for `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        let units_n_max = bytes_max.div_ceil(UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units_n_max)), units_n_max, large: LargePlaces::default() }
    }

    /// Returns how many bytes are held.
    pub fn held_bytes(&self) -> usize {
        (self.units_n_max - self.units.available_permits()) * UNIT_BYTES
    }

    /// Holds `bytes_n`; `None` when there is no room.
    pub fn hold(&self, bytes_n: usize) -> Option<HeldMemory> {
        let mut held = HeldMemory { room: self.clone(), units: None, bytes_n: 0, large: None };
        held.add(bytes_n).then_some(held)
    }
}

impl HeldMemory {
    /// Waits for a place among the large ones, for a body of this peer.
    pub async fn large(&mut self, peer: Option<IpAddr>) {
        if self.large.is_none() {
            self.large = Some(self.room.large.enter(peer).await);
        }
    }

    /// Records at how many bytes a second its body arrives, `None` once it is complete. Returns whether it has a place
    /// among the large ones that others wait for, and is the slowest of those.
    pub fn is_in_the_way(&self, rate: Option<u64>) -> bool {
        self.large.as_ref().is_some_and(|place| place.is_wanted(rate))
    }

    /// Holds `bytes_n` more; `false` when there is no room for them: then nothing has changed. What would not fit into
    /// the empty room may have all of it, so that it does not wait in vain.
    #[must_use]
    pub fn add(&mut self, bytes_n: usize) -> bool {
        let bytes_n = self.bytes_n.saturating_add(bytes_n);
        let wanted_n = bytes_n.div_ceil(UNIT_BYTES).min(self.room.units_n_max);
        let held_n = self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(more_n) = u32::try_from(wanted_n.saturating_sub(held_n)) else { return false };
        if more_n > 0 {
            let Ok(more) = Arc::clone(&self.room.units).try_acquire_many_owned(more_n) else { return false };
            match &mut self.units {
                Some(units) => units.merge(more),
                none => *none = Some(more),
            }
        }
        self.bytes_n = bytes_n;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use futures_util::future::poll_immediate;

    use super::*;

    fn peer(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    async fn is_granted(wait: &mut Pin<&mut impl Future<Output = LargePlace>>) -> Option<LargePlace> {
        poll_immediate(wait).await
    }

    #[tokio::test]
    async fn a_peer_with_a_place_waits_behind_peers_without_one() {
        let places = LargePlaces::default();
        let (first, second) = (places.enter(Some(peer(1))).await, places.enter(Some(peer(1))).await);
        let (mut third, mut other) = (pin!(places.enter(Some(peer(1)))), pin!(places.enter(Some(peer(2)))));
        assert!(is_granted(&mut third).await.is_none() && is_granted(&mut other).await.is_none());
        drop(first);
        assert!(is_granted(&mut third).await.is_none(), "its peer has a place");
        let other = is_granted(&mut other).await.expect("it arrived later, from another peer");
        drop(second);
        assert!(is_granted(&mut third).await.is_some());
        drop(other);
        assert_eq!(places.taken_n(), 0);
    }

    #[tokio::test]
    async fn the_slowest_is_evicted_first_and_only_as_many_as_wait() {
        let places = LargePlaces::default();
        let (slow, slower) = (places.enter(Some(peer(1))).await, places.enter(Some(peer(2))).await);
        assert!(!slower.is_wanted(Some(1)) && !slow.is_wanted(Some(2)), "no request waits");
        {
            let mut waits = pin!(places.enter(Some(peer(3))));
            assert!(is_granted(&mut waits).await.is_none());
            assert!(!slow.is_wanted(Some(2)) && slower.is_wanted(Some(1)));
            let mut waits = pin!(places.enter(Some(peer(4))));
            assert!(is_granted(&mut waits).await.is_none());
            assert!(slow.is_wanted(Some(2)) && slower.is_wanted(Some(1)));
            assert!(!slower.is_wanted(None) || slow.is_wanted(Some(2)), "complete: it is not slow any more");
        }
        assert!(!slow.is_wanted(Some(2)), "who waited has gone");
    }

    #[test]
    fn room_is_held_as_it_grows_and_given_back_whole() {
        let room = MemoryRoom::new(10 * UNIT_BYTES);
        let mut one = room.hold(1).expect("empty");
        assert!(one.add(UNIT_BYTES) && one.add(6 * UNIT_BYTES));
        assert_eq!(room.units.available_permits(), 2);
        let other = room.hold(2 * UNIT_BYTES).expect("two are left");
        assert!(!one.add(UNIT_BYTES) && room.hold(1).is_none());
        drop(other);
        assert!(one.add(UNIT_BYTES));
        drop(one);
        assert_eq!(room.units.available_permits(), 10);
    }

    #[test]
    fn what_is_larger_than_the_room_passes_alone() {
        let room = MemoryRoom::new(4 * UNIT_BYTES);
        let large = room.hold(9 * UNIT_BYTES).expect("alone");
        assert!(room.hold(1).is_none());
        drop(large);
        let _small = room.hold(1).expect("empty again");
        assert!(room.hold(9 * UNIT_BYTES).is_none());
    }

    #[tokio::test]
    async fn two_large_bodies_are_held_at_a_time_and_the_next_one_waits() {
        let room = MemoryRoom::new(10 * UNIT_BYTES);
        let held = || room.hold(1).expect("room");
        let (mut one, mut two, mut three) = (held(), held(), held());
        one.large(None).await;
        one.large(None).await;
        two.large(None).await;
        assert_eq!(room.large.taken_n(), 2, "one has a place once");
        let mut waiting = std::pin::pin!(three.large(None));
        assert!(futures_util::future::poll_immediate(&mut waiting).await.is_none());
        drop(one);
        waiting.await;
        assert_eq!(room.large.taken_n(), 2);
    }

    #[test]
    fn what_finds_no_room_changes_nothing() {
        let room = MemoryRoom::new(4 * UNIT_BYTES);
        let mut held = room.hold(3 * UNIT_BYTES).expect("empty");
        let other = room.hold(1).expect("one unit is left");
        assert!(!held.add(1) && held.add(0), "and what it holds it may keep");
        drop(other);
        assert!(held.add(UNIT_BYTES), "counted from what it held before");
        assert_eq!(room.units.available_permits(), 0);
    }
}
