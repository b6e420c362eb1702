//! Events follow a backup, the database is restored, senders retry and send new events: the destination checks its
//! keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use hooklatch_core::types::Clock;

use super::world::{Callee, Saved, World};
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, now_s, post_stripe, until};
use crate::stub::{Mode, Stub};

on_both!(
    no_used_key_is_reused_for_another_content,
    a_restored_database_serves_no_request_before_it_is_taken_over,
    an_operators_order_before_the_backup_is_not_repeated_automatically,
    a_destination_is_queried_only_after_the_lost_time,
);

async fn seen(world: &World, destination: &str, event_id: &str, calls_n: usize) {
    let log = || format!("{:?}\n{}", world.far.seen(), world.server.log());
    until(&format!("{event_id} at {destination}"), Duration::from_secs(20), log, async || {
        world.far.of(destination, event_id).len() >= calls_n
    })
    .await;
}

async fn held_n(database: &Database) -> i64 {
    database.count("SELECT COUNT(*) FROM outbox_queue WHERE state = 'held'").await
}

async fn no_used_key_is_reused_for_another_content(database: &Database) {
    let mut world = World::start(database).await;
    let before_s = now_s() - 60;
    assert_eq!(world.post("evt_1", before_s).await, "accepted");
    seen(&world, "billing", "evt_1", 1).await;
    seen(&world, "ledger", "evt_1", 1).await;
    until(
        "it is written",
        Duration::from_secs(20),
        || world.server.log(),
        async || database.count("SELECT COUNT(*) FROM outbox_finished").await == 2,
    )
    .await;
    let saved = Saved::of(database, &world.server);

    // What the backup does not contain: two events, and an operator's second run of the first one.
    for id in ["evt_2", "evt_3"] {
        assert_eq!(world.post(id, before_s).await, "accepted");
        seen(&world, "billing", id, 1).await;
        seen(&world, "ledger", id, 1).await;
    }
    let rerun = ["events", "rerun", "stripe", "evt_1", "--reason", "r"];
    assert_eq!(world.run(&rerun).0, 0);
    seen(&world, "billing", "evt_1", 2).await;
    world.server.kill();
    let lost = world.far.seen();

    saved.restore(database).await;
    let taken = world.run(&["restore-check", "--yes", "--reason", "disk lost"]);
    assert_eq!(taken.0, 0, "{taken:?}");
    world.server.spawn().await;

    // The sender resends one of them; a newer event follows; an operator runs the first one once more.
    assert_eq!(world.post("evt_1", before_s).await, "duplicate");
    assert_eq!(world.post("evt_2", before_s).await, "accepted");
    seen(&world, "billing", "evt_2", 2).await;
    assert_eq!(world.post("evt_9", now_s() + 60).await, "accepted");
    seen(&world, "billing", "evt_9", 1).await;
    seen(&world, "ledger", "evt_9", 1).await;
    assert_eq!(world.run(&rerun).0, 0);
    seen(&world, "billing", "evt_1", 3).await;

    world.far.check_names();
    let again = world.far.of("billing", "evt_2");
    assert_eq!(again[0].key, again[1].key, "the destination knows it, and does nothing twice");
    let runs = world.far.of("billing", "evt_1");
    assert_ne!(runs[1].key, runs[2].key, "a person's further run is not swallowed as one that is lost");
    assert_eq!(
        world.far.of("ledger", "evt_2").len(),
        1,
        "who knows no keys is called by a person's word alone"
    );
    until("it is held", Duration::from_secs(20), || world.server.log(), async || held_n(database).await == 1)
        .await;
    assert!(lost.len() >= 6);
}

async fn a_restored_database_serves_no_request_before_it_is_taken_over(database: &Database) {
    let mut world = World::start(database).await;
    assert_eq!(world.post("evt_1", now_s() - 60).await, "accepted");
    seen(&world, "ledger", "evt_1", 1).await;
    let saved = Saved::of(database, &world.server);
    assert!(world.server.terminate());
    // What ran last may run again, as often as it likes.
    assert_eq!(world.run(&["restore-check"]).0, 0);
    world.server.spawn().await;
    assert!(world.server.terminate());

    saved.restore(database).await;
    let (code, _, said) = world.run(&["serve"]);
    assert!(code == 1 && said.contains("hooklatch restore-check") && said.contains("sent again"), "{said}");
    // Nor does a command that opens the database itself change anything in it.
    for command in [&["prune", "--yes"][..], &["keys", "reseal"]] {
        let (code, _, said) = world.run(command);
        assert!(
            code == 1 && said.contains("nothing was changed") && said.contains("restore-check"),
            "{said}"
        );
    }
    assert_eq!(world.run(&["prune", "--dry-run"]).0, 0, "what only looks may look");
    let (code, out, _) = world.run(&["restore-check"]);
    assert_eq!(code, 7, "{out}");
    for wanted in ["stripe (Stripe)", "720 h old at most", "https://docs.stripe.com", "Nothing was changed"] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    let (code, out, _) = world.run(&["restore-check", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, found["providers"][0]["asking"].as_str()), (7, Some("possible")), "{found}");
    assert!(found["from_ms"].as_i64() <= found["to_ms"].as_i64() && found["from"].is_string(), "{found}");

    // Paused, nothing is called, not even for what is new.
    let taken = world.run(&["restore-check", "--yes", "--pause", "--reason", "r", "--json"]);
    assert_eq!(taken.0, 0, "{taken:?}");
    let done: serde_json::Value = serde_json::from_str(&taken.1).unwrap();
    assert_eq!(done["taken_over"]["paused_n"], 2, "{done}");
    world.server.spawn().await;
    assert_eq!(world.run(&["restore-check"]).0, i32::from(database.url.starts_with("sqlite")));
    assert_eq!(world.post("evt_2", now_s() + 60).await, "accepted");
    assert_eq!(world.run(&["destinations", "resume", "billing", "--reason", "r"]).0, 0);
    seen(&world, "billing", "evt_2", 1).await;
    assert!(world.far.of("ledger", "evt_2").is_empty());
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log WHERE action = 'restore_take_over'").await, 1);
}

/// SQLite: `moved.rs`.
#[tokio::test]
async fn a_database_that_is_restored_under_a_running_node_is_left_by_it() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (mut world, before_s) = (World::start(&database).await, now_s() - 60);
    assert_eq!(world.post("evt_1", before_s).await, "accepted");
    let saved = Saved::of(&database, &world.server);
    assert_eq!(world.post("evt_2", before_s).await, "accepted");
    seen(&world, "billing", "evt_2", 1).await;
    saved.restore(&database).await;
    let noticed = async || world.server.log().contains("Put back under a running server");
    until("it is noticed", Duration::from_secs(20), || world.server.log(), noticed).await;
    for id in ["evt_1", "evt_2"] {
        let posted = post_stripe(&client(), &world.server.url("/webhooks/stripe"), id).await;
        assert_eq!(posted, Err("503".to_owned()), "{id}");
    }
    let ready = client().get(format!("http://{}/readyz", world.server.admin)).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert!(world.server.terminate());
    assert_eq!(world.run(&["restore-check"]).0, 7);
    assert_eq!(world.run(&["restore-check", "--yes", "--reason", "r"]).0, 0);
    world.server.spawn().await;
    assert_eq!(world.post("evt_1", before_s).await, "duplicate");
    assert_eq!(world.far.of("billing", "evt_2").len(), 1, "nothing was called meanwhile");
}

/// A provider that is paused keeps what was ordered waiting, as a handler that fails for now does.
async fn an_operators_order_before_the_backup_is_not_repeated_automatically(database: &Database) {
    let mut world = World::start(database).await;
    let before_s = now_s() - 60;
    assert_eq!(world.post("evt_1", before_s).await, "accepted");
    assert_eq!(world.post("evt_2", before_s).await, "accepted");
    assert_eq!(world.post("evt_2", before_s - 1).await, "conflict");
    seen(&world, "ledger", "evt_1", 1).await;
    let word = |words: &[&str]| {
        let (code, out, err) = world.run(&[words, &["--reason", "r"]].concat());
        assert_eq!(code, 0, "{words:?}: {out}{err}");
    };
    word(&["providers", "pause", "stripe"]);
    word(&["events", "rerun", "stripe", "evt_1"]);
    let sql = "SELECT event_id FROM processed_webhook_events WHERE state = 'conflict'";
    let conflict = database.texts(sql).await.remove(0);
    word(&["events", "dispatch", "stripe", &conflict]);
    let saved = Saved::of(database, &world.server);
    word(&["providers", "resume", "stripe"]);
    seen(&world, "ledger", "evt_1", 2).await;
    seen(&world, "ledger", &conflict, 1).await;
    world.server.kill();

    saved.restore(database).await;
    let taken = world.run(&["restore-check", "--yes", "--reason", "disk lost"]);
    assert_eq!(taken.0, 0, "{taken:?}");
    world.server.spawn().await;
    let resumed = world.run(&["providers", "resume", "stripe", "--reason", "r"]);
    assert_eq!(resumed.0, 0, "{resumed:?}");
    // `ledger` does not honour keys: an operator decides. `billing` does, and is called again under the same key.
    until(
        "both are held",
        Duration::from_secs(20),
        || world.server.log(),
        async || held_n(database).await == 2,
    )
    .await;
    for (id, run) in [("evt_1", 1), (conflict.as_str(), 0)] {
        seen(&world, "billing", id, run + 2).await;
        assert_eq!(world.far.of("ledger", id).len(), run + 1, "{id}: it was sent in the time that is lost");
        let calls = world.far.of("billing", id);
        assert_eq!(calls[run].key, calls[run + 1].key, "{id}");
    }
    world.far.check_names();
}

const AFTER_MS: i64 = 2_000;

/// The message was tried before the backup, and once more in the time that is lost: that call is still worked on.
async fn a_destination_is_queried_only_after_the_lost_time(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::With(503, &[("retry-after", "2")]), Mode::WorkUntilReleased]);
    let more = format!(
        "[outbox]\npoll_ms = 50\n[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [destinations.billing]\nurl = \"{}\"\ntimeout_ms = 1500\nunknown = \"query\"\n\
         [destinations.billing.query]\nurl = \"{}\"\nafter_ms = {AFTER_MS}\npointer = \"/state\"\n",
        stub.url(),
        stub.query_url(),
    );
    let mut world = World { server: Server::start(&database.url, &more).await, far: Callee::default() };
    assert_eq!(world.post("evt_1", now_s() - 60).await, "accepted");
    let over = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND last_ended_at_ms IS NOT NULL";
    let log = || world.server.log();
    until("it is tried", Duration::from_secs(20), log, async || database.count(over).await == 1).await;
    let saved = Saved::of(database, &world.server);
    until("it is tried again", Duration::from_secs(20), log, async || stub.requests_n() == 2).await;
    world.server.kill();

    saved.restore(database).await;
    let taken = world.run(&["restore-check", "--yes", "--reason", "disk lost"]);
    assert_eq!(taken.0, 0, "{taken:?}");
    let until_ms = database.count("SELECT until_ms FROM restores").await;
    let asked = Arc::new(AtomicI64::new(0));
    let first_asked = Arc::clone(&asked);
    stub.on_question(move || {
        first_asked.compare_exchange(0, Clock::system().now_ms(), Relaxed, Relaxed).ok();
    });
    world.server.spawn().await;
    let log = || world.server.log();
    until("it is asked", Duration::from_secs(20), log, async || asked.load(Relaxed) > 0).await;
    let waited_ms = asked.load(Relaxed) - until_ms;
    assert!(waited_ms >= AFTER_MS, "asked {waited_ms} ms after the restore, while the call is worked on");
}
