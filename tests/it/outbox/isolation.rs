//! What is wrong with one message costs no other: rows that cannot be read, addresses that may not be called,
//! claims whose answer was lost, unknown destinations.

use std::time::Duration;

use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::AttemptResult;
use hooklatch_store::{LostClaims, NewMessage};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tokio::task::JoinSet;

use super::{Fixture, HOUR_MS};
use crate::brokers::proxy::Mode as ProxyMode;
use crate::database::{Database, On, on_both};
use crate::process::{Server, until};
use crate::store::{admit, event, message, name};
use crate::stub::Stub;

on_both!(
    a_message_without_its_body_is_held_and_blocks_no_other,
    a_message_that_cannot_be_read_is_held_and_its_lane_alone_waits,
    addresses_that_may_not_be_called_are_dead_at_once_and_open_no_breaker,
    a_claim_with_a_lost_response_is_returned_unchanged,
    messages_to_unknown_destinations_are_counted,
);

/// The number of an event, in SQL.
pub(super) const OF_EVT_1: &str = "(SELECT event_seq FROM processed_webhook_events WHERE event_id = 'evt_1')";

/// Does what no session should, beside whatever has the database.
pub(super) async fn meddle(database: &Database, sql: &str) {
    let sql = AssertSqlSafe(sql.to_owned());
    if database.url.starts_with("postgres") {
        let mut db = PgConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut db).await.unwrap();
        db.close().await.unwrap();
    } else {
        let mut db = SqliteConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut db).await.unwrap();
        db.close().await.unwrap();
    }
}

async fn a_message_without_its_body_is_held_and_blocks_no_other(database: &Database) {
    let fixture = Fixture::new(database).await;
    for id in ["evt_1", "evt_2"] {
        fixture.message(id, &["billing", "ledger"]).await;
    }
    fixture.message("evt_3", &["ledger"]).await;
    meddle(database, &format!("DELETE FROM webhook_payloads WHERE event_seq = {OF_EVT_1}")).await;
    let config = || fixture.config(UnknownPolicy::Hold);
    let outbox = fixture.outbox_to([("billing", config()), ("ledger", config())]);
    assert_eq!(outbox.run_due().await.unwrap(), 3);
    let mut rows = Vec::new();
    for id in ["evt_1", "evt_2", "evt_3"] {
        rows.extend(fixture.store.message_list_of_event(&crate::store::key(id)).await.unwrap());
    }
    let states: Vec<_> = rows.iter().map(|row| (row.key.event_id.as_str(), row.state.as_str())).collect();
    let (held, done) = (("evt_1", "held"), ("evt_2", "done"));
    assert_eq!(states, [held, held, done, done, ("evt_3", "done")]);
    assert_eq!(rows[0].last_error.as_deref(), Some("its body is no longer kept"));
    assert_eq!(outbox.run_due().await.unwrap(), 0, "it is not taken again and again");
}

async fn a_message_that_cannot_be_read_is_held_and_its_lane_alone_waits(database: &Database) {
    let fixture = Fixture::new(database).await;
    for (id, lane) in [("evt_1", "a"), ("evt_2", "a"), ("evt_3", "b")] {
        let laned = NewMessage { lane: Some(lane.to_owned()), ..message("billing") };
        admit(&fixture.store, &event(id, "{}"), &[laned]).await;
    }
    meddle(
        database,
        &format!("UPDATE outbox_contents SET headers = 'broken' WHERE message_id / 1024 = {OF_EVT_1}"),
    )
    .await;
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    outbox.run_due().await.unwrap();
    let error = fixture.row("evt_1").await.last_error.unwrap();
    assert!(error.starts_with("it cannot be read"), "{error}");
    let states = [fixture.state("evt_1").await, fixture.state("evt_2").await, fixture.state("evt_3").await];
    assert_eq!(states, ["held", "waiting", "done"]);
}

async fn addresses_that_may_not_be_called_are_dead_at_once_and_open_no_breaker(database: &Database) {
    let fixture = Fixture::new(database).await;
    let port = fixture.stub.addr.port();
    let mut config = DestinationConfig {
        url: "http://{{ payload.host }}/calls".to_owned(),
        breaker_failures_n: 3,
        breaker_open_ms: HOUR_MS.unsigned_abs(),
        ..fixture.config(UnknownPolicy::Retry)
    };
    config.http.private_hosts = vec!["127.0.0.2".to_owned()];
    let to = async |id: &str, path: String| {
        admit(&fixture.store, &event(id, "{}"), &[NewMessage { path, ..message("billing") }]).await;
    };
    for n in 0..25 {
        let host = if n % 2 == 0 { "10.0.0.1" } else { "localhost" };
        to(&format!("evt_{n}"), format!("http://{host}:{port}/calls")).await;
    }
    let honest = Stub::start_at("127.0.0.2").await;
    to("evt_honest", honest.url()).await;
    let outbox = fixture.outbox(config);
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    fixture.until("evt_honest", "done").await;
    for n in 0..25 {
        let id = format!("evt_{n}");
        fixture.until(&id, "dead").await;
        assert_eq!(fixture.row(&id).await.attempts_n, 1, "{id}");
    }
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn a_claim_with_a_lost_response_is_returned_unchanged(database: &Database) {
    let fixture = Fixture::new(database).await;
    for id in ["evt_1", "evt_2"] {
        fixture.message(id, &["billing"]).await;
    }
    let want = |free_n| hooklatch_store::LeaseWant {
        destination: name("billing"),
        free_n,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: HOUR_MS,
    };
    let now_ms = fixture.clock.now_ms();
    let kept = fixture.store.message_lease(&[want(1)], now_ms, 30_000, "node-1/1").await.unwrap();
    fixture.store.message_lease(&[want(1)], now_ms, 30_000, "node-1/2").await.unwrap();
    let lost = LostClaims {
        holders: vec!["node-1/2".to_owned(), "node-1/3".to_owned()],
        destinations: vec![name("billing")],
        age_ms: 0,
    };
    assert_eq!(fixture.store.message_release(&lost, now_ms).await.unwrap(), 1);
    assert_eq!(fixture.store.message_release(&lost, now_ms).await.unwrap(), 0);
    let given_back = if kept[0].key.event_id == "evt_1" { "evt_2" } else { "evt_1" };
    let row = fixture.row(given_back).await;
    assert_eq!((row.state.as_str(), row.last_result.map(AttemptResult::as_str)), ("ready", Some("released")));
    assert_eq!(fixture.state(&kept[0].key.event_id).await, "leased", "what was taken stays there");
    fixture.outbox(fixture.config(UnknownPolicy::Hold)).run_due().await.unwrap();
    assert_eq!(fixture.state(given_back).await, "done", "what was never sent needs no decision");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_call_that_was_never_sent_needs_no_decision() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let direct = Fixture::new(&database).await;
    let (proxy, fixture) = direct.through_proxy(&database).await;
    for n in 0..5 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    proxy.is(ProxyMode::LoseAnswer);
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(fixture.outbox(fixture.config(UnknownPolicy::Hold)).run(stopping));
    let claimed = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'leased'";
    until("a claim is made and its answer lost", Duration::from_secs(20), String::new, async || {
        database.count(claimed).await > 0
    })
    .await;
    proxy.is(ProxyMode::Pass);
    for n in 0..5 {
        let id = format!("evt_{n}");
        direct.until(&id, "done").await;
        assert_eq!(direct.stub.counts(&fixture.key(&id, "billing")), (1, 1));
    }
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn messages_to_unknown_destinations_are_counted(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["gone", "bank"]).await;
    drop(fixture.store);
    let stub = Stub::start().await;
    let more = format!("[destinations.bank]\nurl = \"{}\"\n", stub.url());
    let server = Server::start(&database.url, &more).await;
    until(
        "it is counted and said",
        Duration::from_secs(20),
        || server.log(),
        async || {
            let metrics = server.admin_text("/metrics").await;
            metrics.contains("hooklatch_outbox_stray_messages 1\n")
                && server.log().contains("messages wait for a destination that is not configured")
                && server.log().contains("gone")
        },
    )
    .await;
}
