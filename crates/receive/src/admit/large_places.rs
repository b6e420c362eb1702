//! Places for large bodies. Parsed, such a body takes up several times its length, so only [`LARGE_N_MAX`] are read,
//! verified and stored at a time; the others wait.
//!
//! A free place goes to the request that has waited longest of those whose peer has no place, and only then to others of
//! the same peer: however many bodies one peer sends, another peer has one of the places. While requests wait, those
//! whose bodies arrive too slowly give up their places, the slowest first.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

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
        let other = is_granted(&mut other).await.expect("it came later, from another peer");
        drop(second);
        assert!(is_granted(&mut third).await.is_some());
        drop(other);
        assert_eq!(places.taken_n(), 0);
    }

    #[tokio::test]
    async fn the_slowest_is_evicted_first_and_only_as_many_as_wait() {
        let places = LargePlaces::default();
        let (slow, slower) = (places.enter(Some(peer(1))).await, places.enter(Some(peer(2))).await);
        assert!(!slower.is_wanted(Some(1)) && !slow.is_wanted(Some(2)), "nobody waits");
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
}
