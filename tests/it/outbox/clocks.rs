//! Clocks that differ between nodes and the database, and clocks that are set back, cost no lease and stop
//! nothing.

use std::collections::BTreeMap;

use hooklatch::App;
use hooklatch::testing::AppExt;
use hooklatch_core::config::{DestinationConfig, OutboxConfig, RetryConfig, UnknownPolicy};
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};
use hooklatch_outbox::Outbox;
use hooklatch_store::Store;
use tokio::task::JoinSet;

use super::{Fixture, HOUR_MS};
use crate::database::{Database, On, on_both};
use crate::process::{Server, until};
use crate::store::{admit, admit_at_once, event, message, name};
use crate::stub::{Mode, Stub};

on_both!(
    a_clock_that_is_set_back_by_an_hour_stops_nothing,
    a_clock_that_is_set_back_by_an_hour_does_not_keep_a_breaker_open,
    a_message_written_before_the_clock_was_set_back_is_sent_after_a_restart,
    a_message_claimed_before_the_clock_was_set_back_is_sent_after_a_restart,
    each_lease_and_due_time_uses_one_clock,
    a_clock_that_is_set_forward_does_not_end_the_leases_of_calls_under_way,
    a_message_that_is_handed_over_after_the_clock_was_set_back_is_not_old,
);

/// How far the other node's clock is ahead, twice the lease.
const AHEAD_MS: i64 = 60_000;

fn outbox(store: &Store, clock: Clock, config: DestinationConfig, node: &str) -> Outbox {
    let destinations = BTreeMap::from([(name("billing"), config)]);
    let outbox = OutboxConfig { lease_ms: 30_000, poll_ms: 50, stop_timeout_ms: 3_000 };
    Outbox::new(store.clone(), clock, outbox, destinations, node.to_owned()).unwrap()
}

fn run(outbox: Outbox) -> (JoinSet<()>, Stopper) {
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    (running, stopper)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_ahead_steals_no_call_under_way() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let fixture = Fixture::new(&database).await;
    let policies = [UnknownPolicy::Hold, fixture.query(), UnknownPolicy::Retry];
    for (n, policy) in policies.into_iter().enumerate() {
        for (honest, other) in [(Clock::system(), AHEAD_MS), (Clock::system_ahead(-AHEAD_MS), 0)] {
            let id = format!("evt_{n}_{other}");
            fixture.message(&id, &["billing"]).await;
            fixture.stub.next(&[Mode::WhenReleased]);
            let config = fixture.config(policy.clone());
            let (mut running, stopper) = run(outbox(&fixture.store, honest, config.clone(), "node-1"));
            let key = fixture.key(&id, "billing");
            fixture.until_called(&key).await;
            let thief = outbox(&fixture.store, Clock::system_ahead(other), config, "node-2");
            assert_eq!(thief.run_due().await.unwrap(), 0, "{id}: it is held");
            fixture.stub.release();
            fixture.until(&id, "done").await;
            assert_eq!((fixture.row(&id).await.attempts_n, fixture.stub.counts(&key)), (1, (1, 1)));
            stopper.stop();
            running.join_next().await.unwrap().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_node_with_a_wrong_clock_are_due_in_time() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let fixture = Fixture::new(&database).await;
    let right = Clock::system();
    for off_ms in [AHEAD_MS, -AHEAD_MS] {
        let clock = Clock::system_ahead(off_ms);
        let (ready, again) = (format!("evt_new_{off_ms}"), format!("evt_again_{off_ms}"));
        let mut new = message("billing");
        new.created_at_ms = clock.now_ms();
        admit(&fixture.store, &event(&ready, "{}"), &[new]).await;
        let honest = outbox(&fixture.store, right.clone(), fixture.config(UnknownPolicy::Hold), "node-1");
        assert_eq!(honest.run_due().await.unwrap(), 1, "due at once, for everybody");
        assert_eq!(fixture.state(&ready).await, "done");

        fixture.message(&again, &["billing"]).await;
        fixture.stub.next(&[Mode::With(503, &[("retry-after", "20")])]);
        let wrong = outbox(&fixture.store, clock, fixture.config(UnknownPolicy::Hold), "node-2");
        assert_eq!(wrong.run_due().await.unwrap(), 1);
        let row = fixture.row(&again).await;
        let in_ms = row.visible_at_ms - right.now_ms();
        assert!((10_000..=20_100).contains(&in_ms), "20 s from now by the database's clock: {in_ms}");
        let age_ms = right.now_ms() - row.first_sent_at_ms.unwrap();
        assert!((0..10_000).contains(&age_ms), "{age_ms}");
        let held_ms = row.key_valid_until_ms.unwrap() - right.now_ms();
        assert!((22 * HOUR_MS..24 * HOUR_MS).contains(&held_ms), "{held_ms}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_handed_over_at_a_node_with_a_wrong_clock_is_held_for_a_lease() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let fixture = Fixture::new(&database).await;
    for (off_ms, is_at_once) in [(AHEAD_MS, false), (-AHEAD_MS, false), (AHEAD_MS, true), (-AHEAD_MS, true)] {
        let clock = Clock::system_ahead(off_ms);
        let config = fixture.config(UnknownPolicy::Retry);
        let outbox = outbox(&fixture.store, clock.clone(), config, "node-1");
        let handover = outbox.handover();
        let (running, stopper) = run(outbox);
        let taken = async {
            loop {
                if let Some((lease, start)) = handover.take("billing") {
                    return (lease, start);
                }
                tokio::task::yield_now().await;
            }
        };
        let (lease, start) = tokio::time::timeout(std::time::Duration::from_secs(20), taken).await.unwrap();
        let id = format!("evt_{off_ms}_{is_at_once}");
        let mut new = message("billing");
        (new.created_at_ms, new.lease) = (clock.now_ms(), Some(lease));
        let sent = event(&id, "{}");
        if is_at_once {
            let admitted = admit_at_once(&fixture.store, &sent, std::slice::from_ref(&new)).await;
            new.message_id = admitted.writes.messages[0].message_id;
        } else {
            new.message_id = admit(&fixture.store, &sent, std::slice::from_ref(&new)).await[0];
        }
        let row = fixture.row(&id).await;
        let (left_ms, now_ms) = (row.visible_at_ms - Clock::system().now_ms(), Clock::system().now_ms());
        assert!((20_000..=30_100).contains(&left_ms), "{left_ms} ms of its lease are left");
        assert!((now_ms - row.first_sent_at_ms.unwrap()).abs() < 10_000);
        start(new.to_leased(&sent, &fixture.installation_id).unwrap());
        fixture.until(&id, "done").await;
        assert_eq!(fixture.row(&id).await.attempts_n, 1);
        stopper.stop();
        drop(running);
    }
}

async fn a_message_that_is_handed_over_after_the_clock_was_set_back_is_not_old(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.clock.advance(72 * HOUR_MS);
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    let handover = outbox.handover();
    let (_running, stopper) = run(outbox);
    fixture.clock.set_by(-48 * HOUR_MS);
    let taken = async {
        loop {
            if let Some(taken) = handover.take("billing") {
                return taken;
            }
            tokio::task::yield_now().await;
        }
    };
    let (lease, start) = tokio::time::timeout(std::time::Duration::from_secs(20), taken).await.unwrap();
    let mut new = message("billing");
    (new.created_at_ms, new.lease) = (fixture.clock.now_ms(), Some(lease));
    let sent = event("evt_1", "{}");
    new.message_id = admit(&fixture.store, &sent, std::slice::from_ref(&new)).await[0];
    fixture.stub.next(&[Mode::Status(503)]);
    start(new.to_leased(&sent, &fixture.installation_id).unwrap());
    fixture.until("evt_1", "ready").await;
    fixture.clock.advance(70_000);
    fixture.until("evt_1", "done").await;
    stopper.stop();
}

async fn a_clock_that_is_set_back_by_an_hour_stops_nothing(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.clock.advance(2 * HOUR_MS);
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::Status(503), Mode::Drop]);
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    assert_eq!(outbox.run_due().await.unwrap(), 1);
    fixture.clock.advance(-HOUR_MS);
    fixture.clock.advance(1_000);
    assert_eq!(outbox.run_due().await.unwrap(), 1, "its back-off is over, whatever the clock shows");
    fixture.clock.advance(-HOUR_MS);
    fixture.clock.advance(2_000);
    assert_eq!(outbox.run_due().await.unwrap(), 1);
    assert_eq!(fixture.state("evt_1").await, "done");
}

async fn a_clock_that_is_set_back_by_an_hour_does_not_keep_a_breaker_open(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.clock.advance(2 * HOUR_MS);
    for n in 0..3 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    fixture.stub.next(&[Mode::Status(503)]);
    let config = DestinationConfig {
        concurrency_n: 1,
        breaker_failures_n: 1,
        breaker_open_ms: 1_000,
        retry: RetryConfig { first_ms: 1, max_ms: 1, attempts_n: 9, age_max_ms: 80_000_000 },
        ..fixture.config(UnknownPolicy::Retry)
    };
    let (mut running, stopper) = run(fixture.outbox(config));
    fixture.until_called(&fixture.key("evt_0", "billing")).await;
    fixture.until("evt_0", "ready").await;
    fixture.clock.advance(-HOUR_MS);
    fixture.clock.advance(1_000);
    for n in 0..3 {
        fixture.until(&format!("evt_{n}"), "done").await;
    }
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn a_message_written_before_the_clock_was_set_back_is_sent_after_a_restart(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.clock.advance(2 * HOUR_MS);
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::Status(503)]);
    fixture.outbox(fixture.config(UnknownPolicy::Retry)).run_due().await.unwrap();
    let clock = Clock::manual(fixture.clock.now_ms() - HOUR_MS);
    let outbox = outbox(&fixture.store, clock.clone(), fixture.config(UnknownPolicy::Retry), "node-2");
    outbox.run_due().await.unwrap();
    clock.advance(1_000);
    outbox.run_due().await.unwrap();
    assert_eq!(fixture.state("evt_1").await, "done");
}

async fn a_message_claimed_before_the_clock_was_set_back_is_sent_after_a_restart(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::Status(503)]);
    let before =
        outbox(&fixture.store, fixture.clock.clone(), fixture.config(UnknownPolicy::Retry), "node-1");
    before.run_due().await.unwrap();
    // It was wrong by half a day when the second attempt was claimed, by a worker that then died.
    fixture.clock.advance(12 * HOUR_MS);
    super::die_until_lapse(&fixture).await;
    let clock = Clock::manual(fixture.clock.now_ms() - 12 * HOUR_MS);
    let after = outbox(&fixture.store, clock.clone(), fixture.config(UnknownPolicy::Retry), "node-2");
    after.run_due().await.unwrap();
    clock.advance(30_000);
    after.run_due().await.unwrap();
    assert_eq!(fixture.state("evt_1").await, "done");
}

async fn a_clock_that_is_set_forward_does_not_end_the_leases_of_calls_under_way(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::WhenReleased]);
    let (mut running, stopper) = run(fixture.outbox(fixture.config(UnknownPolicy::Hold)));
    fixture.until_called(&fixture.key("evt_1", "billing")).await;
    fixture.clock.set_by(2 * HOUR_MS);
    // Looks pass: this one was not there when the clock was set.
    fixture.message("evt_2", &["billing"]).await;
    fixture.until("evt_2", "done").await;
    assert_eq!(fixture.row("evt_1").await.attempts_n, 1, "no other worker took it");
    fixture.stub.release();
    fixture.until("evt_1", "done").await;
    assert_eq!(fixture.stub.counts(&fixture.key("evt_1", "billing")), (1, 1));
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn each_lease_and_due_time_uses_one_clock(database: &Database) {
    let fixture = Fixture::new(database).await;
    let clock = Clock::system_ahead(if fixture.store.dialect() == "postgres" { AHEAD_MS } else { 0 });
    let store = fixture.store.clone().timed_by(&clock);
    fixture.message("evt_1", &["billing"]).await;
    let right = Clock::system();
    let want = hooklatch_store::LeaseWant {
        destination: name("billing"),
        free_n: 9,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: HOUR_MS,
    };
    let leased = store.message_lease(&[want], clock.now_ms(), 30_000, "node-1/1").await.unwrap().remove(0);
    let near = |found_ms: i64, wanted_ms: i64| (found_ms - wanted_ms).abs() < 5_000;
    assert!(near(leased.lease_until_ms, clock.now_ms() + 30_000), "in the times of the one who asks");
    assert!(near(leased.first_sent_at_ms, clock.now_ms()));
    assert!(near(leased.key_valid_until_ms, clock.now_ms() + HOUR_MS));
    let row = fixture.row("evt_1").await;
    assert!(near(row.visible_at_ms, right.now_ms() + 30_000), "and kept in those of the database");
    let id = leased.message_id;
    assert!(store.message_extend(id, leased.attempt_n, clock.now_ms(), 90_000).await.unwrap());
    assert!(near(fixture.row("evt_1").await.visible_at_ms, right.now_ms() + 90_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_watches_how_far_the_databases_clock_is_from_its_own() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let stub = Stub::start().await;
    let more = format!("[destinations.bank]\nurl = \"{}\"\n", stub.url());
    let server = Server::start(&database.url, &more).await;
    until(
        "the offset is measured",
        std::time::Duration::from_secs(20),
        || server.log(),
        async || {
            let metrics = server.admin_text("/metrics").await;
            let line = metrics.lines().find(|line| line.starts_with("hooklatch_clock_offset_seconds "));
            line.is_some_and(|line| line.split(' ').nth(1).unwrap().parse::<f64>().unwrap().abs() < 1.0)
        },
    )
    .await;
}

#[test]
fn a_clock_that_is_a_lease_away_from_the_databases_is_refused() {
    use hooklatch_outbox::clock_offset_ms_max;
    assert_eq!(clock_offset_ms_max(1_000), 1_000);
    assert_eq!(clock_offset_ms_max(30_000), 30_000);
    assert_eq!(clock_offset_ms_max(u64::MAX), 120_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_app_does_not_start_a_lease_away_from_the_databases_clock() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    let listen = "listen = \"127.0.0.1:0\"";
    let toml = format!("[server]\n{listen}\n[admin]\n{listen}\n[database]\nurl = \"{}\"\n", database.url);
    std::fs::write(&file, toml).unwrap();
    let settings = Settings { file: Some(file), ..Settings::default() };
    let config = load_for_tools(&settings, &Kinds::default()).unwrap_or_else(|why| panic!("{why:?}"));
    for off_ms in [40_000, -40_000] {
        let app = App::new(config.clone()).clock(Clock::system_ahead(off_ms));
        let refused = app.start().await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("at most 30000 ms are allowed"), "{refused}");
    }
}
