//! Wrong operator tokens cost time: after some of them their sender, and after many all whom we do not know, wait.
//!
//! Who waits is not looked at, so that guessing goes no faster. A peer that presented a good token lately is known, and
//! waits for wrong tokens alone: whoever shares its address, or guesses from a thousand others, locks no operator out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What a wrong token costs its sender, and how much of that may be owed at once: 10 of them, then one a second.
const PEER_COST: Duration = Duration::from_secs(1);
const PEER_OWED_MAX: Duration = Duration::from_secs(10);
/// The same for all that are not known together: 60, then ten a second.
const ALL_COST: Duration = Duration::from_millis(100);
const ALL_OWED_MAX: Duration = Duration::from_secs(6);
/// How long a peer is known for its last good token.
const KNOWN_FOR: Duration = Duration::from_hours(1);
/// Most peers that are kept in mind; for further ones only the bound for all holds.
const PEERS_N_MAX: usize = 4_096;

/// Counts wrong tokens.
#[derive(Default)]
pub(super) struct Throttle(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    peers: HashMap<IpAddr, Peer>,
    all: Owed,
}

#[derive(Default)]
struct Peer {
    owed: Owed,
    known_until: Option<Instant>,
}

/// Until when the last wrong token is paid for.
#[derive(Default)]
struct Owed(Option<Instant>);

impl Owed {
    fn left(&self, now: Instant) -> Duration {
        self.0.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    fn add(&mut self, cost: Duration, now: Instant) {
        self.0 = Some(now + self.left(now) + cost);
    }

    /// How long until one more may be owed.
    fn wait(&self, cost: Duration, max: Duration, now: Instant) -> Option<Duration> {
        let over = (self.left(now) + cost).saturating_sub(max);
        (!over.is_zero()).then_some(over)
    }
}

impl Peer {
    fn is_known(&self, now: Instant) -> bool {
        self.known_until.is_some_and(|until| until > now)
    }
}

impl Throttle {
    /// How many seconds a peer has to wait before its token is looked at.
    pub(super) fn wait_s(&self, peer: IpAddr) -> Option<u32> {
        let now = Instant::now();
        let inner = self.inner();
        let known = inner.peers.get(&peer);
        if known.is_some_and(|peer| peer.is_known(now)) {
            return None;
        }
        let own = known.and_then(|peer| peer.owed.wait(PEER_COST, PEER_OWED_MAX, now));
        own.max(inner.all.wait(ALL_COST, ALL_OWED_MAX, now)).map(seconds)
    }

    /// A wrong token was presented; how many seconds its sender has to wait, when these were too many.
    pub(super) fn wrong(&self, peer: IpAddr) -> Option<u32> {
        let now = Instant::now();
        let mut inner = self.inner();
        if inner.peers.len() >= PEERS_N_MAX {
            inner.peers.retain(|_, peer| peer.is_known(now) || !peer.owed.left(now).is_zero());
        }
        let has_room = inner.peers.len() < PEERS_N_MAX || inner.peers.contains_key(&peer);
        let is_known = inner.peers.get(&peer).is_some_and(|peer| peer.is_known(now));
        // Whoever shares an operator's address has only that one to spend.
        if !is_known && inner.all.wait(ALL_COST, ALL_OWED_MAX, now).is_none() {
            inner.all.add(ALL_COST, now);
        }
        if !has_room {
            return None;
        }
        let one = inner.peers.entry(peer).or_default();
        let wait = one.owed.wait(PEER_COST, PEER_OWED_MAX, now);
        if wait.is_none() {
            one.owed.add(PEER_COST, now);
        }
        wait.map(seconds)
    }

    /// A good token was presented.
    pub(super) fn good(&self, peer: IpAddr) {
        let now = Instant::now();
        let mut inner = self.inner();
        if inner.peers.len() < PEERS_N_MAX || inner.peers.contains_key(&peer) {
            inner.peers.entry(peer).or_default().known_until = Some(now + KNOWN_FOR);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whole seconds, rounded up.
fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4((0xc000_0200 + n).into())
    }

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_tokens_are_answered_and_then_one_a_second() {
        let throttle = Throttle::default();
        for _ in 0..10 {
            assert_eq!((throttle.wait_s(ip(1)), throttle.wrong(ip(1))), (None, None));
        }
        assert_eq!(throttle.wait_s(ip(1)), Some(1));
        assert_eq!(throttle.wait_s(ip(2)), None, "others do not wait");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((throttle.wait_s(ip(1)), throttle.wrong(ip(1))), (None, None));
        assert_eq!(throttle.wait_s(ip(1)), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_had_a_good_token_is_not_locked_out_by_guesses_from_anywhere() {
        let throttle = Throttle::default();
        throttle.good(ip(1));
        for n in 0..1_000 {
            throttle.wrong(ip(n % 100));
        }
        assert_eq!(
            throttle.wait_s(ip(200)),
            Some(1),
            "a newcomer waits until the others' guesses are paid for"
        );
        assert_eq!(throttle.wait_s(ip(1)), None, "also when guesses come from its own address");
        assert!(throttle.wrong(ip(1)).is_some(), "which are told to wait");
        tokio::time::advance(KNOWN_FOR).await;
        assert_eq!(throttle.wait_s(ip(200)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_in_mind_of_peers_is_bounded() {
        let throttle = Throttle::default();
        for n in 0..20_000 {
            throttle.wrong(ip(n));
            throttle.good(ip(n + 100_000));
        }
        assert!(throttle.inner().peers.len() <= PEERS_N_MAX);
    }
}
