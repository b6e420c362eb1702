//! A message that is due between two polls does not wait for the next one: back-off, rates, probes.

use std::time::{Duration, Instant};

use hooklatch_core::config::{DestinationConfig, OutboxConfig, RetryConfig, UnknownPolicy};
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::Clock;
use hooklatch_outbox::Outbox;
use tokio::task::JoinSet;

use super::Fixture;
use crate::database::{Database, on_both};
use crate::store::name;
use crate::stub::Mode;

on_both!(
    a_back_off_that_is_over_is_not_left_until_the_next_look,
    a_rate_is_used_up_between_two_looks,
    a_breaker_is_probed_when_its_time_is_over,
);

/// Far longer than a test may take.
const POLL_MS: u64 = 60_000;
/// What a test may take.
const BOUND: Duration = Duration::from_secs(15);

fn run(fixture: &Fixture, config: DestinationConfig) -> (JoinSet<()>, Stopper) {
    let (stopper, stopping) = Stop::channel();
    let outbox = OutboxConfig { lease_ms: 30_000, poll_ms: POLL_MS, stop_timeout_ms: 3_000 };
    let destinations = [(name("billing"), config)].into();
    let store = fixture.store.clone();
    let outbox = Outbox::new(store, Clock::system(), outbox, destinations, "node-1".to_owned()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    (running, stopper)
}

async fn all_done(fixture: &Fixture, messages_n: usize, started: Instant) -> Duration {
    for n in 0..messages_n {
        fixture.until(&format!("evt_{n}"), "done").await;
    }
    let took = started.elapsed();
    assert!(took < BOUND, "{took:?}");
    took
}

async fn a_back_off_that_is_over_is_not_left_until_the_next_look(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_0", &["billing"]).await;
    fixture.stub.next(&[Mode::Status(503), Mode::Drop, Mode::Status(429)]);
    let retry = RetryConfig { first_ms: 200, max_ms: 400, attempts_n: 9, age_max_ms: 80_000_000 };
    let config = DestinationConfig { retry, ..fixture.config(UnknownPolicy::Retry) };
    let (_running, stopper) = run(&fixture, config);
    all_done(&fixture, 1, Instant::now()).await;
    stopper.stop();
}

async fn a_rate_is_used_up_between_two_looks(database: &Database) {
    let fixture = Fixture::new(database).await;
    for n in 0..60 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    let config =
        DestinationConfig { rate_per_s: 20, concurrency_n: 60, ..fixture.config(UnknownPolicy::Retry) };
    let started = Instant::now();
    let (_running, stopper) = run(&fixture, config);
    let took = all_done(&fixture, 60, started).await;
    assert!(
        took > Duration::from_millis(1_500),
        "a second's worth at once, the others at the rate: {took:?}"
    );
    stopper.stop();
}

async fn a_breaker_is_probed_when_its_time_is_over(database: &Database) {
    let fixture = Fixture::new(database).await;
    for n in 0..6 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    fixture.stub.next(&[Mode::Status(503), Mode::Status(503), Mode::Status(503)]);
    let config = DestinationConfig {
        concurrency_n: 1,
        breaker_failures_n: 2,
        breaker_open_ms: 300,
        retry: RetryConfig { first_ms: 50, max_ms: 50, attempts_n: 9, age_max_ms: 80_000_000 },
        ..fixture.config(UnknownPolicy::Retry)
    };
    let (_running, stopper) = run(&fixture, config);
    all_done(&fixture, 6, Instant::now()).await;
    stopper.stop();
}
