//! Another session keeps one row locked, from a console or a stopped node: nothing else waits for it, and what is
//! known of its call is not lost. Nor is it when the database refuses to take it.

use std::time::{Duration, Instant};

use hooklatch_core::config::{DestinationConfig, OutboxConfig, UnknownPolicy};
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::Clock;
use hooklatch_outbox::Outbox;
use hooklatch_store::NewMessage;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;

use super::Fixture;
use super::isolation::meddle;
use crate::database::{Database, On, on_both};
use crate::store::{admit, event, message, name};
use crate::stub::Mode;

on_both!(a_call_is_not_repeated_while_the_database_refuses_its_result);

/// Short, so that it ends while the row is locked.
const LEASE_MS: u64 = 10_000;
/// From the call on: well after its lease would have ended.
const LEASE_OVER: Duration = Duration::from_millis(LEASE_MS + 2_000);

/// One node that works with leases of `lease_ms`, and waits `timeout_ms` for an answer.
pub(super) fn run(
    fixture: &Fixture,
    unknown: UnknownPolicy,
    (lease_ms, timeout_ms): (u64, u64),
) -> (JoinSet<()>, Stopper) {
    let (stopper, stopping) = Stop::channel();
    let outbox = OutboxConfig { lease_ms, poll_ms: 100, stop_timeout_ms: 3_000 };
    let config = DestinationConfig { timeout_ms, ..fixture.config(unknown) };
    let destinations = [(name("billing"), config)].into();
    let store = fixture.store.clone();
    let outbox = Outbox::new(store, Clock::system(), outbox, destinations, "node-1".to_owned()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    (running, stopper)
}

/// Locks what `sql` finds while a call of `evt_0`, in a lane, is under way; then that call ends, and others follow.
async fn assert_lock_blocks_no_other_work(sql: &str) {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let fixture = Fixture::new(&database).await;
    let mut first = message("billing");
    first.lane = Some("customer".to_owned());
    admit(&fixture.store, &event("evt_0", "{}"), &[first]).await;
    fixture.stub.next(&[Mode::WhenReleased]);
    // Before: the call, which has its time-out, waits for the lock.
    let mut session = PgConnection::connect(&database.url).await.unwrap();
    let (mut running, stopper) = run(&fixture, UnknownPolicy::Hold, (LEASE_MS, 5_000));
    fixture.until_called(&fixture.key("evt_0", "billing")).await;
    let locking = AssertSqlSafe(format!("BEGIN; {sql} FOR UPDATE"));
    sqlx::raw_sql(locking).execute(&mut session).await.unwrap();
    let locked_at = Instant::now();
    fixture.stub.release();

    for n in 1..=20 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    for n in 1..=20 {
        fixture.until(&format!("evt_{n}"), "done").await;
    }
    let took = locked_at.elapsed();
    assert!(took < Duration::from_millis(LEASE_MS), "none waits for the locked one: {took:?}");
    let left = (locked_at + LEASE_OVER).saturating_duration_since(Instant::now());
    // Until the lease would have ended.
    tokio::time::sleep(left).await;
    assert_eq!(fixture.state("evt_0").await, "leased");

    sqlx::raw_sql("ROLLBACK").execute(&mut session).await.unwrap();
    fixture.until("evt_0", "done").await;
    assert_eq!(
        (fixture.row("evt_0").await.attempts_n, fixture.stub.counts(&fixture.key("evt_0", "billing"))),
        (1, (1, 1))
    );
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn a_call_is_not_repeated_while_the_database_refuses_its_result(database: &Database) {
    let fixture = Fixture::new(database).await;
    let is_sqlite = database.url.starts_with("sqlite");
    let refuse = if is_sqlite {
        "CREATE TRIGGER refuse BEFORE DELETE ON outbox_queue WHEN old.effect_name = 'evt_0'
         BEGIN SELECT RAISE(ABORT, 'no'); END"
    } else {
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '42501'; END $$;
         CREATE TRIGGER refuse BEFORE DELETE ON outbox_queue FOR EACH ROW
             WHEN (old.effect_name = 'evt_0') EXECUTE FUNCTION refuse()"
    };
    meddle(database, refuse).await;
    let named = NewMessage { effect_name: "evt_0".to_owned(), ..message("billing") };
    admit(&fixture.store, &event("evt_0", "{}"), &[named]).await;
    let key = fixture.row("evt_0").await.idempotency_key;
    let (mut running, stopper) = run(&fixture, UnknownPolicy::Hold, (LEASE_MS, 5_000));
    fixture.until_called(&key).await;
    let called_at = Instant::now();
    fixture.message("evt_1", &["billing"]).await;
    fixture.until("evt_1", "done").await;
    let left = (called_at + LEASE_OVER).saturating_duration_since(Instant::now());
    // Until the lease would have ended.
    tokio::time::sleep(left).await;
    let again = if is_sqlite { "DROP TRIGGER refuse" } else { "DROP TRIGGER refuse ON outbox_queue" };
    meddle(database, again).await;
    fixture.until("evt_0", "done").await;
    assert_eq!((fixture.row("evt_0").await.attempts_n, fixture.stub.counts(&key)), (1, (1, 1)));
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_message_blocks_no_other_work() {
    assert_lock_blocks_no_other_work("SELECT 1 FROM outbox_queue WHERE lane = 'customer'").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_lane_blocks_no_other_work() {
    assert_lock_blocks_no_other_work("SELECT 1 FROM outbox_lanes WHERE lane = 'customer'").await;
}
