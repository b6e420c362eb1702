//! Tests of which connection gives way to which.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::places::{ConnectionLimiter, ConnectionPermit, GRACE_MS, MEMORY_GRACE_MS};
use super::slot::ConnectionSignal;

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
        keeping.slot.receiving(Instant::now()) && idle.slot.waiting(Instant::now()) && working.slot.busy()
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
    assert!(has_memory && is_asked(keeping).await, "whoever is oldest, and not believed");
    for other in [idle, working, proven, asking] {
        assert!(!is_asked(other).await);
    }
    assert!(keeping.is_evicted());
    // Memory of our own work comes back when that is done: no connection is evicted for it, and the newcomer gets 503.
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
        let silence = tokio::time::timeout(Duration::from_secs(1), signal(&first, &mut is_listening)).await;
        assert!(silence.is_err(), "it is told once");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(limiter.evict(None), 1);
        assert_eq!(
            signal(&first, &mut is_listening).await,
            ConnectionSignal::Evict,
            "and hears what comes after it"
        );
        drop(first);
        assert_eq!(signal(&late, &mut false).await, ConnectionSignal::Stop, "it was told before it listened");
        drop(late);
    };
    futures_util::join!(limiter.stop(), connections);
}
