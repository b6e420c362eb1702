//! A panic in any part of the outbox is counted, affects its own message, and stops nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::AttemptResult;
use hooklatch_store::{SettleTo, Settlement};
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tokio::task::JoinSet;
use tracing::span;

use super::Fixture;
use crate::database::{Database, On};
use crate::process::until;
use crate::store::name;
use crate::stub::Mode;

/// Only what concerns this destination panics: other tests may share the process.
const PANICKY: &str = "panicky";

/// Panics once where a counter of that name is raised for [`PANICKY`], and counts panics.
struct Trap {
    counter: &'static str,
    sprung_n: AtomicU32,
    counted: Arc<Counted>,
}

#[derive(Default)]
struct Counted(AtomicU32);

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        self.0.fetch_add(u32::try_from(value).unwrap(), Ordering::SeqCst);
    }
    fn absolute(&self, _: u64) {}
}

impl Recorder for &'static Trap {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let is_meant = key.name() == self.counter && key.labels().any(|label| label.value() == PANICKY);
        assert!(!is_meant || self.sprung_n.fetch_add(1, Ordering::SeqCst) > 0, "the trap springs");
        if key.name() == "hooklatch_panics_total" {
            return Counter::from_arc(Arc::clone(&self.counted));
        }
        Counter::noop()
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn trap(counter: &'static str) -> &'static Trap {
    let trap = Trap { counter, sprung_n: AtomicU32::new(0), counted: Arc::default() };
    let trap: &'static Trap = Box::leak(Box::new(trap));
    metrics::set_global_recorder(trap).unwrap();
    trap
}

/// Panics once where the loop warns.
struct WarningTrap(Arc<AtomicU32>);

impl tracing::Subscriber for WarningTrap {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "hooklatch_outbox::worker" && *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "the trap springs");
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn run(fixture: &Fixture, config: DestinationConfig) -> (JoinSet<()>, Stopper) {
    let (stopper, stopping) = Stop::channel();
    let outbox = fixture.outbox_to([(PANICKY, config.clone()), ("billing", config)]);
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    (running, stopper)
}

async fn ended(mut running: JoinSet<()>, stopper: &Stopper) {
    stopper.stop();
    let in_time = tokio::time::timeout(Duration::from_secs(30), running.join_next()).await;
    in_time.expect("it stops in time").unwrap().expect("and well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_inside_a_probe_is_counted_and_the_breaker_is_probed_again() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let fixture = Fixture::new(&database).await;
    let config = DestinationConfig {
        concurrency_n: 1,
        breaker_failures_n: 1,
        breaker_open_ms: 1_000,
        ..fixture.config(UnknownPolicy::Retry)
    };
    for id in ["evt_1", "evt_2", "evt_3"] {
        fixture.message(id, &[PANICKY]).await;
    }
    fixture.stub.next(&[Mode::Status(503)]);
    let (running, stopper) = run(&fixture, config);
    fixture.until_called(&fixture.key("evt_1", PANICKY)).await;
    fixture.until("evt_1", "ready").await;
    // The next one is the probe.
    let trap = trap("hooklatch_attempts_total");
    fixture.clock.advance(1_000);
    let counted = async || trap.counted.0.load(Ordering::SeqCst) == 1;
    until("the panic is counted", Duration::from_secs(20), String::new, counted).await;
    fixture.message("evt_4", &["billing"]).await;
    fixture.until("evt_4", "done").await;
    fixture.clock.advance(31_000);
    for id in ["evt_1", "evt_2", "evt_3"] {
        fixture.until(id, "done").await;
    }
    ended(running, &stopper).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_where_results_are_written_stops_no_other_result() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let fixture = Fixture::new(&database).await;
    fixture.message("evt_1", &[PANICKY]).await;
    fixture.stub.next(&[Mode::WhenReleased]);
    let (running, stopper) = run(&fixture, fixture.config(UnknownPolicy::Retry));
    fixture.until_called(&fixture.key("evt_1", "panicky")).await;
    // Another node takes and settles it, so the first result is fenced, which is counted.
    let trap = trap("hooklatch_fenced_total");
    let row = fixture.row("evt_1").await;
    let stolen = Settlement {
        message_id: row.message_id,
        destination: name(PANICKY),
        lane: None,
        attempt_n: 1,
        to: SettleTo::Dead,
        result: AttemptResult::Refused,
        http_status: None,
        error: None,
        response: None,
        is_unsent: false,
        sent_under: None,
        settled_at_ms: fixture.clock.now_ms(),
    };
    assert_eq!(fixture.store.message_settle(&[stolen]).await.unwrap(), [true]);
    fixture.stub.release();
    let counted = async || trap.counted.0.load(Ordering::SeqCst) == 1;
    until("the panic is counted", Duration::from_secs(20), String::new, counted).await;
    for n in 2..6 {
        let id = format!("evt_{n}");
        fixture.message(&id, &[PANICKY]).await;
        fixture.until(&id, "done").await;
    }
    assert_eq!(fixture.state("evt_1").await, "dead", "what stands is not undone");
    ended(running, &stopper).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loop_begins_again_after_a_panic_and_readiness_knows_meanwhile() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let fixture = Fixture::new(&database).await;
    let trap = trap("no counter");
    let warned_n = Arc::new(AtomicU32::new(0));
    tracing::subscriber::set_global_default(WarningTrap(Arc::clone(&warned_n))).unwrap();
    let destinations = [(name("billing"), fixture.config(UnknownPolicy::Hold))].into();
    let config = hooklatch_core::config::OutboxConfig { lease_ms: 30_000, poll_ms: 50, stop_timeout_ms: 300 };
    let (store, clock) = (fixture.store.clone(), fixture.clock.clone());
    let outbox =
        hooklatch_outbox::Outbox::new(store, clock, config, destinations, "node-1".to_owned()).unwrap();
    let is_well = outbox.is_well();
    super::isolation::meddle(&database, "ALTER TABLE outbox_queue RENAME TO gone").await;
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    // Its look at the database fails and is logged, and the trap fires.
    let counted = async || trap.counted.0.load(Ordering::SeqCst) == 1;
    until("the panic is counted", Duration::from_secs(20), String::new, counted).await;
    assert!(!is_well.load(Ordering::SeqCst));
    super::isolation::meddle(&database, "ALTER TABLE gone RENAME TO outbox_queue").await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.until("evt_1", "done").await;
    assert!(is_well.load(Ordering::SeqCst));
    ended(running, &stopper).await;
}
