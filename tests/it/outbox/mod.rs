//! The outbox against a destination that misbehaves, on both databases, on a clock that the test moves.

mod calls;
mod clocks;
mod damaged;
mod handover;
mod http;
mod isolation;
mod lanes;
mod locked;
mod outage;
mod panics;
mod reruns;
mod running;
mod short_leases;
mod sooner;
pub(crate) mod tls;
mod unknown;

use std::collections::BTreeMap;
use std::time::Duration;

use hooklatch_core::config::{
    DestinationConfig, Format, HttpConfig, OutboxConfig, QueryConfig, RetryConfig, Secret, Target,
    UnknownPolicy,
};
use hooklatch_core::types::Clock;
use hooklatch_outbox::Outbox;
use hooklatch_store::{LeaseWant, MessageRow, Store};

use crate::brokers::proxy::Proxy;
use crate::database::Database;
use crate::store::{admit, event, key, message, name};
use crate::stub::Stub;

const START_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600_000;
/// How long after an attempt the destination may still be at work.
const AFTER_MS: u64 = 30_000;

/// One store, one clock, one destination called `billing`.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) stub: Stub,
    pub(crate) installation_id: uuid::Uuid,
}

impl Fixture {
    pub(crate) async fn new(database: &Database) -> Self {
        let store = database.store().await;
        let installation_id = store.installation_id().await.unwrap();
        Self { store, clock: Clock::manual(START_MS), stub: Stub::start().await, installation_id }
    }

    /// The same destination, and a node whose connections to PostgreSQL go through a proxy. That knows a claim by the
    /// node's name, also one that comes with a settlement.
    async fn through_proxy(&self, database: &Database) -> (Proxy, Self) {
        let mut url = reqwest::Url::parse(&database.url).unwrap();
        let proxy = Proxy::before(url.port().unwrap_or(5_432), b"node-1/", false).await;
        url.set_port(Some(proxy.port)).unwrap();
        let node = Self::new(&Database::at(url.to_string())).await;
        (proxy, Self { stub: self.stub.clone(), ..node })
    }

    /// The key that the calls of this event's message to `destination` carry.
    pub(crate) fn key(&self, event_id: &str, destination: &str) -> String {
        hooklatch_core::types::idempotency_key(&self.installation_id, &key(event_id), 0, destination)
    }

    /// Admits an event with one message to each destination.
    pub(crate) async fn message(&self, event_id: &str, destinations: &[&str]) {
        let messages: Vec<_> = destinations.iter().map(|to| message(to)).collect();
        admit(&self.store, &event(event_id, "{\"a\":1}"), &messages).await;
    }

    pub(crate) fn config(&self, unknown: UnknownPolicy) -> DestinationConfig {
        DestinationConfig {
            url: self.stub.url(),
            headers: BTreeMap::from([("authorization".to_owned(), Secret::new("Bearer canary"))]),
            unknown,
            timeout_ms: 5_000,
            concurrency_n: 4,
            adaptive: false,
            retry: RetryConfig { first_ms: 1_000, max_ms: 60_000, attempts_n: 3, age_max_ms: 80_000_000 },
            retry_after_max_ms: 600_000,
            key_valid_for_ms: 24 * 3_600_000,
            rate_per_s: 0,
            breaker_failures_n: 0,
            breaker_open_ms: 1_000,
            target: Target::http(),
            format: Format::Raw,
            statuses: BTreeMap::new(),
            sign_secrets: Vec::new(),
            heartbeat: false,
            http: HttpConfig::default(),
        }
    }

    pub(crate) fn query(&self) -> UnknownPolicy {
        UnknownPolicy::Query(QueryConfig {
            url: self.stub.query_url(),
            pointer: String::new(),
            equals: None,
            pending: Vec::new(),
            absent: Vec::new(),
            after_ms: AFTER_MS,
        })
    }

    pub(crate) fn outbox(&self, config: DestinationConfig) -> Outbox {
        self.outbox_to([("billing", config)])
    }

    fn outbox_leasing(&self, config: DestinationConfig, lease_ms: u64) -> Outbox {
        self.outbox_with(config, OutboxConfig { lease_ms, poll_ms: 50, stop_timeout_ms: 300 })
    }

    fn outbox_polling(&self, config: DestinationConfig, poll_ms: u64) -> Outbox {
        self.outbox_with(config, OutboxConfig { lease_ms: 30_000, poll_ms, stop_timeout_ms: 3_000 })
    }

    fn outbox_with(&self, config: DestinationConfig, outbox: OutboxConfig) -> Outbox {
        let destinations = BTreeMap::from([(name("billing"), config)]);
        Outbox::new(self.store.clone(), self.clock.clone(), outbox, destinations, "node-1".to_owned())
            .unwrap()
    }

    pub(crate) fn outbox_to<const N: usize>(&self, destinations: [(&str, DestinationConfig); N]) -> Outbox {
        let config = OutboxConfig { lease_ms: 30_000, poll_ms: 50, stop_timeout_ms: 300 };
        let destinations = destinations.into_iter().map(|(to, config)| (name(to), config)).collect();
        Outbox::new(self.store.clone(), self.clock.clone(), config, destinations, "node-1".to_owned())
            .unwrap()
    }

    pub(crate) async fn row(&self, event_id: &str) -> MessageRow {
        self.store.message_list_of_event(&key(event_id)).await.unwrap().remove(0)
    }

    pub(crate) async fn state(&self, event_id: &str) -> String {
        self.row(event_id).await.state.as_str().to_owned()
    }

    /// Waits until the message stands there; the test's own time limit ends it otherwise.
    pub(crate) async fn until(&self, event_id: &str, state: &str) {
        let reached = async {
            while self.state(event_id).await != state {
                // The pause between two looks, within the bound below.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), reached).await;
        assert!(in_time.is_ok(), "{event_id} never was {state}: {:?}", self.row(event_id).await);
    }

    /// Waits until the destination has a request under this key.
    pub(crate) async fn until_called(&self, key: &str) {
        let called = async {
            while self.stub.counts(key).0 == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), called).await.unwrap();
    }

    /// Steps the outbox and the clock until nothing has moved for a day of the clock.
    pub(crate) async fn step_to_the_end(&self, outbox: &Outbox) {
        let mut idle_n = 0;
        while idle_n < 24 {
            idle_n = if outbox.run_due().await.unwrap() > 0 { 0 } else { idle_n + 1 };
            self.clock.advance(if idle_n == 0 { 70_000 } else { HOUR_MS });
        }
    }
}

/// Takes what is due as a worker that then dies, and waits until its call can no longer be under way at the
/// destination.
async fn die_holding(fixture: &Fixture) {
    die_until_lapse(fixture).await;
    fixture.clock.advance(i64::try_from(AFTER_MS).unwrap());
}

/// Takes what is due as a worker that then dies, and waits until its lease has ended.
async fn die_until_lapse(fixture: &Fixture) {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 9,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 24 * HOUR_MS,
    };
    let leased =
        fixture.store.message_lease(&[want], fixture.clock.now_ms(), 30_000, "node-0").await.unwrap();
    assert_eq!(leased.len(), 1);
    fixture.clock.advance(30_000);
}
