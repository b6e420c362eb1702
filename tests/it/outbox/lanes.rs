//! A lane at work: the commit that ends its head takes what is next.

use std::time::Duration;

use hooklatch_core::config::UnknownPolicy;
use hooklatch_core::stop::Stop;
use hooklatch_store::NewMessage;
use tokio::task::JoinSet;

use super::{Fixture, HOUR_MS};
use crate::brokers::proxy::Mode as ProxyMode;
use crate::database::{Database, On, on_both};
use crate::process::until;
use crate::store::{admit, event, message};
use crate::stub::Mode;

const MESSAGES_N: usize = 12;

on_both!(a_lane_is_called_to_its_end_while_nobody_looks, what_a_stop_finds_taken_in_a_lane_is_handed_back);

async fn add(fixture: &Fixture, lane: &str, n: usize) -> String {
    let id = format!("evt_{lane}_{n:02}");
    let new = NewMessage { lane: Some(lane.to_owned()), ..message("billing") };
    admit(&fixture.store, &event(&id, &id), &[new]).await;
    id
}

async fn a_lane_is_called_to_its_end_while_nobody_looks(database: &Database) {
    let fixture = Fixture::new(database).await;
    for n in 0..MESSAGES_N {
        for lane in ["a", "b"] {
            add(&fixture, lane, n).await;
        }
    }
    let outbox = fixture.outbox_polling(fixture.config(UnknownPolicy::Retry), HOUR_MS.unsigned_abs());
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    for lane in ["a", "b"] {
        fixture.until(&format!("evt_{lane}_{:02}", MESSAGES_N - 1), "done").await;
    }
    for lane in ["a", "b"] {
        for n in 0..MESSAGES_N {
            let key = fixture.key(&format!("evt_{lane}_{n:02}"), "billing");
            assert_eq!(fixture.stub.counts(&key), (1, 1), "lane {lane}, {n}");
        }
    }
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn what_a_stop_finds_taken_in_a_lane_is_handed_back(database: &Database) {
    let fixture = Fixture::new(database).await;
    let (first, second) = (add(&fixture, "a", 1).await, add(&fixture, "a", 2).await);
    fixture.stub.next(&[Mode::WhenReleased]);
    let outbox = fixture.outbox_polling(fixture.config(UnknownPolicy::Hold), HOUR_MS.unsigned_abs());
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    fixture.until_called(&fixture.key(&first, "billing")).await;
    stopper.stop();
    fixture.stub.release();
    running.join_next().await.unwrap().unwrap();
    assert_eq!(fixture.state(&first).await, "done");
    assert_eq!(fixture.state(&second).await, "ready", "nobody has it, and it was not sent");
    assert_eq!(fixture.stub.requests_n(), 1);
}

/// The next of the lane was claimed by the statement that settled the head, and nobody knows: it was not sent, and the
/// head was called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_in_a_lane_is_given_back_when_the_answer_is_lost() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let direct = Fixture::new(&database).await;
    let (proxy, fixture) = direct.through_proxy(&database).await;
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(add(&fixture, "a", n).await);
    }
    // The first makes the session know the statement.
    fixture.stub.next(&[Mode::Status(200), Mode::WhenReleased]);
    let outbox = fixture.outbox_polling(fixture.config(UnknownPolicy::Hold), HOUR_MS.unsigned_abs());
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    direct.until_called(&direct.key(&ids[1], "billing")).await;
    proxy.is(ProxyMode::LoseAnswer);
    fixture.stub.release();
    let taken = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'leased' AND lane_seq = 3";
    until("the third is taken with the settlement", Duration::from_secs(20), String::new, async || {
        database.count(taken).await > 0
    })
    .await;
    proxy.is(ProxyMode::Pass);
    for id in &ids {
        direct.until(id, "done").await;
        assert_eq!(direct.stub.counts(&fixture.key(id, "billing")), (1, 1), "{id}");
    }
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}
