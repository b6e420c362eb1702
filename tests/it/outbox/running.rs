//! The outbox loop: waking, slots, shutdown, and a database that becomes unreachable.

use std::sync::Arc;
use std::time::Duration;

use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_outbox::Outbox;
use sqlx::{Connection, PgConnection, SqliteConnection};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{Fixture, die_holding};
use crate::database::{Database, on_both};
use crate::stub::{Mode, Stub};

/// Longer than a statement waits for a lock (2 s on either database).
const BLOCKED_MS: u64 = 2_600;

on_both!(
    the_loop_sends_what_it_is_woken_for,
    a_dead_destination_delays_no_other,
    more_than_the_slots_is_sent_in_turn,
    a_stop_hands_back_what_was_not_sent,
    a_stop_settles_what_it_cuts_off,
    the_result_of_a_call_is_written_when_the_database_is_back,
    while_the_database_is_away_nothing_is_sent_and_then_everything_once,
);

/// An outbox that runs, and what stops it.
fn run(outbox: Outbox) -> (JoinSet<()>, Stopper) {
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    (running, stopper)
}

async fn ended(mut running: JoinSet<()>) {
    let in_time = tokio::time::timeout(Duration::from_secs(30), running.join_next()).await;
    in_time.expect("it stops in time").unwrap().unwrap();
}

async fn the_loop_sends_what_it_is_woken_for(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    let waker = outbox.waker();
    let (running, stopper) = run(outbox);
    for n in 0..3 {
        let id = format!("evt_{n}");
        fixture.message(&id, &["billing"]).await;
        waker.wake();
        fixture.until(&id, "done").await;
    }
    stopper.stop();
    ended(running).await;
}

async fn a_dead_destination_delays_no_other(database: &Database) {
    let fixture = Fixture::new(database).await;
    let dead = Stub::start().await;
    dead.next(&vec![Mode::ActThenHang; 40]);
    // A long time-out: its calls hang as long as the test looks.
    let slow = DestinationConfig {
        url: dead.url(),
        concurrency_n: 2,
        timeout_ms: 25_000,
        ..fixture.config(UnknownPolicy::Retry)
    };
    for n in 0..20 {
        fixture.message(&format!("evt_{n}"), &["dead"]).await;
    }
    let outbox = fixture.outbox_to([("dead", slow), ("billing", fixture.config(UnknownPolicy::Retry))]);
    let waker = outbox.waker();
    let (running, stopper) = run(outbox);
    for n in 20..40 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
        waker.wake();
    }
    for n in 20..40 {
        fixture.until(&format!("evt_{n}"), "done").await;
    }
    let counts = fixture.store.open_counts().await.unwrap().messages;
    let leased = counts.iter().find(|count| count.state.as_str() == "leased").map(|count| count.messages_n);
    assert_eq!(leased, Some(2), "no more than its slots are held: {counts:?}");
    stopper.stop();
    ended(running).await;
}

async fn more_than_the_slots_is_sent_in_turn(database: &Database) {
    let fixture = Fixture::new(database).await;
    for n in 0..30 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    let (running, stopper) = run(fixture.outbox(fixture.config(UnknownPolicy::Hold)));
    for n in 0..30 {
        fixture.until(&format!("evt_{n}"), "done").await;
        assert_eq!(fixture.stub.counts(&fixture.key(&format!("evt_{n}"), "billing")), (1, 1));
    }
    stopper.stop();
    ended(running).await;
}

async fn a_stop_hands_back_what_was_not_sent(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    die_holding(&fixture).await;
    let (stopper, stopping) = Stop::channel();
    // The stop falls between the query and the call that it allows.
    let raise = stopper.clone();
    fixture.stub.on_question(move || raise.stop());
    let mut running = JoinSet::new();
    running.spawn(fixture.outbox(fixture.config(fixture.query())).run(stopping));
    ended(running).await;
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", fixture.clock.now_ms()));
    assert_eq!(fixture.stub.counts(&fixture.key("evt_1", "billing")), (0, 0));
}

async fn a_stop_settles_what_it_cuts_off(database: &Database) {
    let fixture = Fixture::new(database).await;
    for (policy, state) in [(UnknownPolicy::Retry, "ready"), (UnknownPolicy::Hold, "held")] {
        let id = format!("evt_{state}");
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[Mode::ActThenHang]);
        let config = DestinationConfig { timeout_ms: 25_000, ..fixture.config(policy) };
        let (running, stopper) = run(fixture.outbox(config));
        let key = fixture.key(&id, "billing");
        fixture.until_called(&key).await;
        stopper.stop();
        ended(running).await;
        assert_eq!(fixture.state(&id).await, state);
        fixture.clock.advance(120_000);
    }
}

/// Real time, for what depends on the database's own clock.
async fn pass(for_ms: u64) {
    tokio::time::sleep(Duration::from_millis(for_ms)).await;
}

/// Keeps every writer out of the database until `release`.
async fn block(database: &Database, release: Arc<Notify>) {
    let (blocked, is_blocked) = tokio::sync::oneshot::channel();
    let url = database.url.clone();
    tokio::spawn(async move {
        if url.starts_with("postgres") {
            let mut db = PgConnection::connect(&url).await.unwrap();
            sqlx::raw_sql("BEGIN; LOCK TABLE outbox_queue IN EXCLUSIVE MODE").execute(&mut db).await.unwrap();
            blocked.send(()).unwrap();
            release.notified().await;
            db.close().await.unwrap();
        } else {
            let mut db = SqliteConnection::connect(&url).await.unwrap();
            sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut db).await.unwrap();
            blocked.send(()).unwrap();
            release.notified().await;
            db.close().await.unwrap();
        }
    });
    is_blocked.await.unwrap();
}

async fn the_result_of_a_call_is_written_when_the_database_is_back(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::WhenReleased]);
    let (running, stopper) = run(fixture.outbox(fixture.config(UnknownPolicy::Hold)));
    fixture.until_called(&fixture.key("evt_1", "billing")).await;
    let release = Arc::new(Notify::new());
    block(database, Arc::clone(&release)).await;
    fixture.stub.release();
    // The first write has failed by then.
    pass(BLOCKED_MS).await;
    assert_eq!(fixture.state("evt_1").await, "leased");
    fixture.clock.advance(31_000);
    // Time enough for a loop that does not wait for the write to take the message once more.
    pass(BLOCKED_MS / 4).await;
    release.notify_one();
    fixture.until("evt_1", "done").await;
    assert_eq!(
        fixture.stub.counts(&fixture.key("evt_1", "billing")),
        (1, 1),
        "the write is repeated, never the call"
    );
    stopper.stop();
    ended(running).await;
}

async fn while_the_database_is_away_nothing_is_sent_and_then_everything_once(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let release = Arc::new(Notify::new());
    block(database, Arc::clone(&release)).await;
    let (running, stopper) = run(fixture.outbox(fixture.config(UnknownPolicy::Hold)));
    // The first look has failed by then.
    pass(BLOCKED_MS).await;
    assert_eq!(
        fixture.stub.counts(&fixture.key("evt_1", "billing")),
        (0, 0),
        "no byte leaves before the claim is written"
    );
    release.notify_one();
    fixture.until("evt_1", "done").await;
    assert_eq!(fixture.stub.counts(&fixture.key("evt_1", "billing")), (1, 1));
    stopper.stop();
    ended(running).await;
}
