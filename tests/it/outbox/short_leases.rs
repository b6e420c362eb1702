//! Leases that are shorter than what a result may wait for.

use hooklatch::config::{OutboxConfig, UnknownPolicy};
use hooklatch::outbox::Outbox;
use hooklatch::stop::Stop;
use hooklatch::types::Clock;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use super::Fixture;
use crate::database::{Database, On};
use crate::store::{admit, event, message, name};
use crate::stub::Mode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_not_repeated_because_its_lease_ends_while_another_ones_lock_holds_up_its_result() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let fixture = Fixture::new(&database).await;
    let mut first = message("billing");
    first.lane = Some("customer".to_owned());
    admit(&fixture.store, &event("evt_0", "{}"), &[first]).await;
    fixture.stub.next(&[Mode::WhenTold]);
    let mut somebody = PgConnection::connect(&database.url).await.unwrap();
    // A statement waits two seconds for a lock, so these end meanwhile.
    let outbox = OutboxConfig { lease_ms: 1_700, poll_ms: 100, stop_timeout_ms: 3_000 };
    let mut config = fixture.config(UnknownPolicy::Retry);
    config.timeout_ms = 1_400;
    let destinations = [(name("billing"), config)].into();
    let (stopper, stopping) = Stop::channel();
    let store = fixture.store.clone();
    let outbox = Outbox::new(store, Clock::system(), outbox, destinations, "node-1".to_owned()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    fixture.until_called(&fixture.key("evt_0", "billing")).await;
    let lock = "BEGIN; SELECT 1 FROM outbox_lanes WHERE lane = 'customer' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut somebody).await.unwrap();
    fixture.stub.tell();
    // What is known of these waits behind it.
    for id in ["evt_1", "evt_2", "evt_3"] {
        fixture.message(id, &["billing"]).await;
    }
    for id in ["evt_1", "evt_2", "evt_3"] {
        fixture.until(id, "done").await;
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut somebody).await.unwrap();
    fixture.until("evt_0", "done").await;
    for id in ["evt_0", "evt_1", "evt_2", "evt_3"] {
        assert_eq!(fixture.stub.counts(&fixture.key(id, "billing")), (1, 1), "{id}");
    }
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}
