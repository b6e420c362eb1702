//! A destination that recovers while a backlog waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::stop::Stop;
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Fixture;
use crate::database::{Database, on_both};
use crate::process::until;

on_both!(
    after_an_outage_no_more_calls_are_under_way_than_there_are_slots,
    a_destination_that_bears_more_is_called_more,
);

/// Number of messages that wait for it.
const BACKLOG_N: usize = 60;
/// Number of messages for one that bears more.
const MESSAGES_N: usize = 300;
/// Number of calls that may be under way.
const SLOTS_N: u32 = 3;

/// Counts who is inside.
#[derive(Clone, Default)]
struct TestDestination {
    is_away: Arc<AtomicBool>,
    inside_n: Arc<AtomicUsize>,
    peak_n: Arc<AtomicUsize>,
    requests_n: Arc<AtomicUsize>,
}

async fn call(State(destination): State<TestDestination>) -> StatusCode {
    destination.requests_n.fetch_add(1, Ordering::SeqCst);
    let inside_n = destination.inside_n.fetch_add(1, Ordering::SeqCst) + 1;
    destination.peak_n.fetch_max(inside_n, Ordering::SeqCst);
    // Long enough for others to be admitted, if they may; quick for the outbox.
    tokio::time::sleep(Duration::from_millis(50)).await;
    destination.inside_n.fetch_sub(1, Ordering::SeqCst);
    if destination.is_away.load(Ordering::SeqCst) { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

async fn after_an_outage_no_more_calls_are_under_way_than_there_are_slots(database: &Database) {
    let fixture = Fixture::new(database).await;
    let destination = TestDestination::default();
    destination.is_away.store(true, Ordering::SeqCst);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new().fallback(call).with_state(destination.clone());
    let mut running = JoinSet::new();
    running.spawn(async move { axum::serve(listener, router).await.unwrap() });
    for n in 0..BACKLOG_N {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    let mut config =
        DestinationConfig { url, concurrency_n: SLOTS_N, ..fixture.config(UnknownPolicy::Retry) };
    config.retry.attempts_n = 1_000;
    let outbox = fixture.outbox(config);
    let (stopper, stopping) = Stop::channel();
    running.spawn(outbox.run(stopping));
    let called = async |n: usize| {
        while destination.requests_n.load(Ordering::SeqCst) < n {
            tokio::task::yield_now().await;
        }
    };
    let bound = Duration::from_secs(40);
    tokio::time::timeout(bound, called(BACKLOG_N)).await.expect("each was tried while it was away");
    destination.is_away.store(false, Ordering::SeqCst);
    let leased = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'leased'";
    let done = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'";
    until("the backlog is worked off", bound, String::new, async || {
        // Whatever their back-off spread is due at once. Not while calls are under way: it would end their leases.
        if database.count(leased).await == 0 {
            fixture.clock.advance(60_000);
        }
        database.count(done).await == i64::try_from(BACKLOG_N).unwrap()
    })
    .await;
    let peak_n = destination.peak_n.load(Ordering::SeqCst);
    assert!(peak_n <= SLOTS_N as usize, "{peak_n} at once");
    stopper.stop();
}

async fn a_destination_that_bears_more_is_called_more(database: &Database) {
    let fixture = Fixture::new(database).await;
    let destination = TestDestination::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new().fallback(call).with_state(destination.clone());
    let mut running = JoinSet::new();
    running.spawn(async move { axum::serve(listener, router).await.unwrap() });
    for n in 0..MESSAGES_N {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    let config =
        DestinationConfig { url, concurrency_n: 12, adaptive: true, ..fixture.config(UnknownPolicy::Retry) };
    let (stopper, stopping) = Stop::channel();
    running.spawn(fixture.outbox(config).run(stopping));
    let done = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'";
    until("all are done", Duration::from_secs(40), String::new, async || {
        database.count(done).await == i64::try_from(MESSAGES_N).unwrap()
    })
    .await;
    let peak_n = destination.peak_n.load(Ordering::SeqCst);
    assert!((9..=12).contains(&peak_n), "{peak_n} at once: more than it began with, no more than configured");
    assert_eq!(destination.requests_n.load(Ordering::SeqCst), MESSAGES_N);
    stopper.stop();
}
