//! After an operator's decision to send or dispatch again, attempts and age count from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hooklatch::prelude::{Effects, Event};
use hooklatch_contract::MessageAct;
use hooklatch_core::config::UnknownPolicy;

use super::isolation::meddle;
use super::{Fixture, HOUR_MS};
use crate::app::{TestApp, stripe_kind};
use crate::database::{Database, on_both};
use crate::process::until;
use crate::store::{decision_at, on_message, ops};
use crate::stub::Mode;

on_both!(
    an_old_event_that_is_dispatched_once_more_is_tried_as_often_as_a_new_one,
    an_old_message_that_is_sent_once_more_is_tried_as_often_as_a_new_one,
);

#[derive(serde::Deserialize)]
struct Invoice {}

async fn an_old_event_that_is_dispatched_once_more_is_tried_as_often_as_a_new_one(database: &Database) {
    let is_failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&is_failing);
    let kind = stripe_kind().on("*", move |_: Event<Invoice>| {
        if fails.load(Ordering::SeqCst) {
            return Err(anyhow::anyhow!("not now").into());
        }
        Ok(Effects::new())
    });
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("evt_1", "invoice.paid", 5).await, "accepted");
    is_failing.store(true, Ordering::SeqCst);
    app.clock.advance(30 * 24 * HOUR_MS);
    // As `hooklatch events rerun` does.
    meddle(
        database,
        "UPDATE processed_webhook_events
         SET state = 'retry', due_at_ms = 1, attempts_n = 0, generation = generation + 1",
    )
    .await;
    let text = async || {
        let sql = "SELECT state || ' ' || attempts_n FROM processed_webhook_events WHERE event_id = $1";
        database.text(sql, "evt_1").await.unwrap()
    };
    let reached = async |wanted: &str| {
        until(wanted, Duration::from_secs(20), String::new, async || text().await == wanted).await;
    };
    reached("retry 1").await;
    app.clock.advance(HOUR_MS);
    reached("retry 2").await;
    is_failing.store(false, Ordering::SeqCst);
    app.clock.advance(HOUR_MS);
    reached("handled 3").await;
    app.running.stop().await;
}

async fn an_old_message_that_is_sent_once_more_is_tried_as_often_as_a_new_one(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::Status(400)]);
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    outbox.run_due().await.unwrap();
    assert_eq!(fixture.state("evt_1").await, "dead");
    fixture.clock.advance(30 * 24 * HOUR_MS);
    let now_ms = fixture.clock.now_ms();
    let send = on_message(fixture.row("evt_1").await.message_id, MessageAct::Send);
    ops(&fixture.store).decide(&send, &decision_at("k", now_ms)).await.unwrap();
    fixture.stub.next(&[Mode::Status(503), Mode::Status(503)]);
    fixture.step_to_the_end(&outbox).await;
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.attempts_n), ("done", 4));
}
