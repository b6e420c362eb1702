//! Messages that reach the sender right after their commit, without a look at the database.

use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::AttemptResult;
use hooklatch_store::{LeasedMessage, NewMessage};
use tokio::task::JoinSet;

use super::{Fixture, HOUR_MS};
use crate::database::{Database, on_both};
use crate::store::{admit, event, message};
use crate::stub::Mode;

on_both!(
    a_handed_over_message_is_sent_and_settled,
    nothing_is_handed_over_while_older_messages_wait,
    no_more_is_handed_over_than_there_are_slots,
    nothing_is_handed_over_where_an_operator_would_have_to_decide,
    a_message_handed_over_during_shutdown_is_handed_back,
);

/// Commits a message that is written with `lease`, as admission does.
async fn committed(fixture: &Fixture, id: &str, lease: hooklatch_store::InitialLease) -> LeasedMessage {
    let sent = event(id, "{\"a\":1}");
    let mut new = NewMessage { lease: Some(lease), ..message("billing") };
    new.message_id = admit(&fixture.store, &sent, std::slice::from_ref(&new)).await[0];
    new.to_leased(&sent, &fixture.installation_id).unwrap()
}

/// Polls so seldom that only what is handed over or woken for is sent.
fn seldom(fixture: &Fixture, config: DestinationConfig) -> hooklatch_outbox::Outbox {
    fixture.outbox_polling(config, HOUR_MS.unsigned_abs())
}

/// Ends when the first look found nothing, so that slots are given.
async fn until_drained(handover: &hooklatch_outbox::Handover) {
    let given = async {
        while handover.take("billing").is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), given).await.unwrap();
}

async fn a_handed_over_message_is_sent_and_settled(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = seldom(&fixture, fixture.config(UnknownPolicy::Retry));
    let handover = outbox.handover();
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    until_drained(&handover).await;
    for n in 0..20 {
        let id = format!("evt_{n}");
        let (lease, start) = handover.take("billing").unwrap();
        start(committed(&fixture, &id, lease).await);
        fixture.until(&id, "done").await;
        assert_eq!(fixture.row(&id).await.attempts_n, 1);
        assert_eq!(fixture.stub.counts(&fixture.key(&id, "billing")), (1, 1));
    }
    assert!(handover.take("nowhere").is_none());
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn nothing_is_handed_over_while_older_messages_wait(database: &Database) {
    let fixture = Fixture::new(database).await;
    for n in 0..6 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    fixture.stub.next(&vec![Mode::WhenReleased; 6]);
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    let handover = outbox.handover();
    assert!(handover.take("billing").is_none(), "no worker has looked yet");
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    fixture.until_called(&fixture.key("evt_3", "billing")).await;
    assert!(handover.take("billing").is_none(), "two are waiting");
    for n in 0..6 {
        let settled = async {
            while fixture.state(&format!("evt_{n}")).await != "done" {
                fixture.stub.release();
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), settled).await.unwrap();
    }
    until_drained(&handover).await;
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn no_more_is_handed_over_than_there_are_slots(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox =
        seldom(&fixture, DestinationConfig { concurrency_n: 2, ..fixture.config(UnknownPolicy::Retry) });
    let (handover, waker) = (outbox.handover(), outbox.waker());
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    until_drained(&handover).await;
    let (_, first) = handover.take("billing").unwrap();
    let (_, second) = handover.take("billing").unwrap();
    assert!(handover.take("billing").is_none());
    drop(first);
    assert!(
        handover.take("billing").is_none(),
        "what was refused a slot waits in the database, and is older"
    );
    waker.wake();
    until_drained(&handover).await;
    stopper.stop();
    drop(second);
    running.join_next().await.unwrap().unwrap();
}

async fn nothing_is_handed_over_where_an_operator_would_have_to_decide(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Hold));
    let handover = outbox.handover();
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    fixture.message("evt_1", &["billing"]).await;
    fixture.until("evt_1", "done").await;
    assert!(handover.take("billing").is_none());
    stopper.stop();
    running.join_next().await.unwrap().unwrap();
}

async fn a_message_handed_over_during_shutdown_is_handed_back(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = seldom(&fixture, fixture.config(UnknownPolicy::Retry));
    let handover = outbox.handover();
    let (stopper, stopping) = Stop::channel();
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    until_drained(&handover).await;
    let (lease, start) = handover.take("billing").unwrap();
    stopper.stop();
    start(committed(&fixture, "evt_1", lease).await);
    running.join_next().await.unwrap().unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!(
        (row.state.as_str(), row.last_result.map(AttemptResult::as_str)),
        ("ready", Some("released")),
        "{row:?}"
    );
    assert_eq!(fixture.stub.counts(&fixture.key("evt_1", "billing")), (0, 0));
    assert!(handover.take("billing").is_none(), "no more");
}
