//! Limits the rate at which wrong operator tokens are refused with 401: after some of them their sender, and after many
//! every sender of a wrong token, gets 429.
//!
//! A valid token is never throttled, whatever its address or others sent before: an attacker who could lock operators
//! out by guessing would do so when they are needed most.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use hooklatch_core::net::peer_of;

/// Cost of a wrong token to its sender, and the most that may be owed at once: 10 of them, then one a second.
const PEER_COST: Duration = Duration::from_secs(1);
const PEER_OWED_MAX: Duration = Duration::from_secs(10);
/// The same for all together: 60, then ten a second.
const ALL_COST: Duration = Duration::from_millis(100);
const ALL_OWED_MAX: Duration = Duration::from_secs(6);
/// Most peers that are kept in mind; for further ones only the bound for all holds.
const PEERS_N_MAX: usize = 4_096;

/// Counts wrong operator tokens, by peer and for all together.
#[derive(Default)]
pub(super) struct Throttle(Mutex<WrongTokens>);

#[derive(Default)]
struct WrongTokens {
    /// An IPv4 address or an IPv6 /64, each.
    peers: HashMap<IpAddr, Owed>,
    all: Owed,
}

/// The time until which callers wait for the wrong tokens so far.
#[derive(Default)]
struct Owed(Option<Instant>);

impl Owed {
    fn left(&self, now: Instant) -> Duration {
        self.0.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Owes one more; or how long until one more may be owed.
    fn owe(&mut self, cost: Duration, max: Duration, now: Instant) -> Option<Duration> {
        let over = (self.left(now) + cost).saturating_sub(max);
        if over.is_zero() {
            self.0 = Some(now + self.left(now) + cost);
            return None;
        }
        Some(over)
    }
}

impl Throttle {
    /// A wrong token was presented; how many seconds its sender has to wait, when these were too many.
    pub(crate) fn wrong(&self, address: IpAddr) -> Option<u32> {
        let (peer, now) = (peer_of(address), Instant::now());
        let mut inner = self.inner();
        if inner.peers.len() >= PEERS_N_MAX {
            inner.peers.retain(|_, owed| !owed.left(now).is_zero());
        }
        let has_room = inner.peers.len() < PEERS_N_MAX || inner.peers.contains_key(&peer);
        let wait = if has_room {
            inner.peers.entry(peer).or_default().owe(PEER_COST, PEER_OWED_MAX, now)
        } else {
            None
        };
        // Who has to wait anyway has spent nothing of what others have.
        wait.or_else(|| inner.all.owe(ALL_COST, ALL_OWED_MAX, now)).map(seconds)
    }

    fn inner(&self) -> MutexGuard<'_, WrongTokens> {
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
    async fn ten_wrong_tokens_are_answered_at_once_and_then_one_a_second() {
        let throttle = Throttle::default();
        for _ in 0..10 {
            assert_eq!(throttle.wrong(ip(1)), None);
        }
        assert_eq!(throttle.wrong(ip(1)), Some(1));
        assert_eq!(throttle.wrong(ip(2)), None, "others do not wait");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((throttle.wrong(ip(1)), throttle.wrong(ip(1))), (None, Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn all_guessing_peers_share_ten_a_second_and_a_64_is_one_peer() {
        let throttle = Throttle::default();
        let unthrottled_n = (0..1_000).filter(|n| throttle.wrong(ip(n % 100)).is_none()).count();
        assert_eq!(unthrottled_n, 60);
        tokio::time::advance(Duration::from_secs(100)).await;
        let v6 = |n: u128| IpAddr::V6((0x2001_0db8_u128 << 96 | n).into());
        assert_eq!((0..1_000).filter(|n| throttle.wrong(v6(*n)).is_none()).count(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_in_mind_of_peers_is_bounded() {
        let throttle = Throttle::default();
        for n in 0..20_000 {
            throttle.wrong(ip(n));
        }
        assert!(throttle.inner().peers.len() <= PEERS_N_MAX);
    }
}
