//! Leases that are shorter than the longest wait of a result for the database.

use hooklatch_core::config::UnknownPolicy;
use sqlx::{Connection, PgConnection};

use super::Fixture;
use super::locked::run;
use crate::database::{Database, On};
use crate::store::{admit, event, message};
use crate::stub::Mode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_not_repeated_because_its_lease_ends_while_another_ones_lock_holds_up_its_result() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let fixture = Fixture::new(&database).await;
    let mut first = message("billing");
    first.lane = Some("customer".to_owned());
    admit(&fixture.store, &event("evt_0", "{}"), &[first]).await;
    fixture.stub.next(&[Mode::WhenReleased]);
    let mut session = PgConnection::connect(&database.url).await.unwrap();
    // A statement waits two seconds for a lock, so these end meanwhile.
    let (mut running, stopper) = run(&fixture, UnknownPolicy::Retry, (1_700, 1_400));
    fixture.until_called(&fixture.key("evt_0", "billing")).await;
    let lock = "BEGIN; SELECT 1 FROM outbox_lanes WHERE lane = 'customer' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut session).await.unwrap();
    fixture.stub.release();
    // What is known of these waits behind it.
    for id in ["evt_1", "evt_2", "evt_3"] {
        fixture.message(id, &["billing"]).await;
    }
    for id in ["evt_1", "evt_2", "evt_3"] {
        fixture.until(id, "done").await;
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut session).await.unwrap();
    fixture.until("evt_0", "done").await;
    for id in ["evt_0", "evt_1", "evt_2", "evt_3"] {
        assert_eq!(fixture.stub.counts(&fixture.key(id, "billing")), (1, 1), "{id}");
    }
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}
