//! A provider that an operator has paused: its events are answered and kept, wait in their order, and are dispatched once
//! it is resumed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hooklatch::prelude::*;

use crate::admit::{book, calls_n, create_ledger, state};
use crate::app::{TestApp, event_body, stripe_kind};
use crate::database::{Database, on_both};
use crate::process::until;

on_both!(
    events_of_a_paused_provider_wait_over_a_restart_and_go_in_order_at_its_end,
    a_pause_of_another_node_is_seen_and_new_events_queue_behind_those_that_waited,
    events_that_queue_after_a_pause_are_dispatched_at_once_under_steady_traffic,
    events_of_a_pause_are_dispatched_in_order_by_one_node_at_a_time,
    transactional_handlers_run_once_after_a_pause,
    a_newer_version_received_during_a_pause_supersedes,
    a_provider_that_rejects_keeps_what_fails_after_a_pause_and_a_pause_makes_nothing_old,
);

/// Pauses the provider, as another node would.
async fn pause(database: &Database) {
    let sql = "INSERT INTO provider_pauses (provider, actor, reason, paused_at_ms)
        VALUES ('stripe', 'ann', 'a bad deploy', 1)";
    database.run(sql).await.unwrap();
}

/// The same before the first start, when there are no tables yet.
async fn paused_from_the_start(database: &Database) {
    database.store().await.close().await;
    pause(database).await;
}

/// Resumes it at the time of the app's clock.
async fn resume(database: &Database, app: &TestApp) {
    let sql = format!("UPDATE provider_pauses SET ended_at_ms = {}", app.clock.now_ms());
    database.run(&sql).await.unwrap();
}

/// A kind whose handler writes down which events it saw, and at which attempt.
fn noting() -> (Provider, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let kind = stripe_kind().on("x", move |event: Event<serde_json::Value>| {
        noted.lock().unwrap().push(format!("{} {}", event.id, event.attempt_n));
        Ok(Effects::new().forward("billing"))
    });
    (kind, seen)
}

async fn events_of_a_paused_provider_wait_over_a_restart_and_go_in_order_at_its_end(database: &Database) {
    paused_from_the_start(database).await;
    let (kind, seen) = noting();
    let app = TestApp::start(database, kind, "").await;
    for n in [3, 1, 2, 5] {
        assert_eq!(app.event(&format!("evt_{n}"), "x", 1).await, "accepted");
        assert_eq!(app.event(&format!("evt_{n}"), "x", 1).await, "duplicate");
    }
    assert_eq!(app.event("evt_0", "not wanted", 1).await, "accepted");
    app.running.stop().await;
    let app = TestApp::start(database, noting().0, "").await;
    assert_eq!(app.event("evt_4", "x", 1).await, "accepted", "the pause holds over a restart");
    assert!(seen.lock().unwrap().is_empty());
    let waits = ("retry".to_owned(), 0, "provider paused by ann: a bad deploy".to_owned());
    for n in 1..=5 {
        assert_eq!(state(database, &format!("evt_{n}")).await, waits);
    }
    assert_eq!(state(database, "evt_0").await.0, "ignored");
    app.running.stop().await;
    let (kind, seen) = noting();
    let app = TestApp::start(database, kind, "").await;
    resume(database, &app).await;
    calls_n(&app, 5).await;
    app.running.stop().await;
    assert_eq!(*seen.lock().unwrap(), ["evt_3 1", "evt_1 1", "evt_2 1", "evt_5 1", "evt_4 1"]);
    assert_eq!(state(database, "evt_3").await, ("handled".to_owned(), 1, String::new()));
}

async fn a_pause_of_another_node_is_seen_and_new_events_queue_behind_those_that_waited(database: &Database) {
    let (kind, seen) = noting();
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("first", "x", 1).await, "accepted");
    calls_n(&app, 1).await;
    pause(database).await;
    let sent = Mutex::new(0);
    until("the pause is seen", Duration::from_secs(10), String::new, async || {
        *sent.lock().unwrap() += 1;
        let id = format!("evt_{}", sent.lock().unwrap());
        assert_eq!(app.event(&id, "x", 1).await, "accepted");
        state(database, &id).await.0 == "retry"
    })
    .await;
    // One that failed before waits with it.
    let failed = "UPDATE processed_webhook_events SET state = 'retry', due_at_ms = 1, attempts_n = 1 WHERE event_id = 'first'";
    database.run(failed).await.unwrap();
    let before_n = seen.lock().unwrap().len();
    assert_eq!(app.event("last", "x", 1).await, "accepted");
    assert_eq!((state(database, "last").await.0.as_str(), seen.lock().unwrap().len()), ("retry", before_n));
    assert_eq!(state(database, "first").await.0, "retry");
    resume(database, &app).await;
    until("all are dispatched", Duration::from_secs(20), String::new, async || {
        database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE state <> 'handled'").await == 0
    })
    .await;
    until("new events do not wait any more", Duration::from_secs(20), String::new, async || {
        *sent.lock().unwrap() += 1;
        let id = format!("evt_{}", sent.lock().unwrap());
        assert_eq!(app.event(&id, "x", 1).await, "accepted");
        state(database, &id).await.0 == "handled"
    })
    .await;
    app.running.stop().await;
}

async fn events_that_queue_after_a_pause_are_dispatched_at_once_under_steady_traffic(database: &Database) {
    paused_from_the_start(database).await;
    let (kind, seen) = noting();
    let app = TestApp::start(database, kind, "").await;
    for n in 0..50 {
        assert_eq!(app.event(&format!("evt_{n:03}"), "x", 1).await, "accepted");
    }
    resume(database, &app).await;
    // Without a break: at each check an event is on its way.
    let sent = Mutex::new(50);
    until("new events do not wait any more", Duration::from_secs(30), String::new, async || {
        let n = *sent.lock().unwrap();
        *sent.lock().unwrap() += 1;
        let id = format!("evt_{n:03}");
        assert_eq!(app.event(&id, "x", 1).await, "accepted");
        seen.lock().unwrap().len() > 50 && state(database, &id).await.0 == "handled"
    })
    .await;
    let sent_n = *sent.lock().unwrap();
    calls_n(&app, sent_n).await;
    app.running.stop().await;
    let seen = seen.lock().unwrap();
    assert!(seen.is_sorted(), "in their order: {seen:?}");
}

async fn events_of_a_pause_are_dispatched_in_order_by_one_node_at_a_time(database: &Database) {
    paused_from_the_start(database).await;
    let app = TestApp::start(database, noting().0, "").await;
    for n in 1..=2 {
        assert_eq!(app.event(&format!("evt_{n}"), "x", 1).await, "accepted");
    }
    app.running.stop().await;
    database.run("UPDATE provider_pauses SET ended_at_ms = 1").await.unwrap();
    let one = database.store().await;
    let names = [hooklatch_core::types::Name::parse("stripe").unwrap()];
    let mut first = one.admission_begin().await.unwrap();
    let taken = first.event_take_due(i64::MAX, &names).await.unwrap().unwrap();
    assert_eq!(taken.key.event_id, "evt_1");
    if database.url.starts_with("postgres") {
        let other = database.store().await;
        let mut second = other.admission_begin().await.unwrap();
        assert!(second.event_take_due(i64::MAX, &names).await.unwrap().is_none(), "the first is not done");
        second.rollback().await.unwrap();
        database
            .run("UPDATE processed_webhook_events SET attempts_n = 1 WHERE event_id = 'evt_2'")
            .await
            .unwrap();
        let mut second = other.admission_begin().await.unwrap();
        let failed = second.event_take_due(i64::MAX, &names).await.unwrap().unwrap();
        assert_eq!(failed.key.event_id, "evt_2", "what failed does not wait");
        second.rollback().await.unwrap();
    }
    first.rollback().await.unwrap();
}

async fn transactional_handlers_run_once_after_a_pause(database: &Database) {
    create_ledger(database).await;
    paused_from_the_start(database).await;
    let app = TestApp::start(database, stripe_kind().on_tx("invoice.paid", book), "").await;
    for _ in 0..2 {
        app.event("good", "invoice.paid", 5).await;
    }
    assert_eq!(state(database, "good").await.0, "retry");
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger").await, 0);
    resume(database, &app).await;
    calls_n(&app, 1).await;
    assert_eq!(app.event("good", "invoice.paid", 5).await, "duplicate");
    app.running.stop().await;
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger WHERE invoice = 'in_good'").await, 2);
}

async fn a_newer_version_received_during_a_pause_supersedes(database: &Database) {
    let spec = include_str!("../../providers/stripe/provider.toml").replace(
        "payload = \"/data/object\"",
        "payload = \"/data/object\"\nobject = [{ json = \"/object\" }]\nversion = { json = \"/version\" }",
    );
    let kind = Provider::from_spec(&spec).on_latest("order.*", |event: Event<serde_json::Value>| {
        Ok(Effects::new().call("billing", json!(event.id)))
    });
    paused_from_the_start(database).await;
    let app = TestApp::start(database, kind, "").await;
    for (id, version, want) in
        [("evt_5", 5, "accepted"), ("evt_3", 3, "superseded"), ("evt_6", 6, "accepted")]
    {
        let body = format!(r#"{{"id":"{id}","type":"order.updated","object":"o","version":{version}}}"#);
        assert_eq!(app.post(&body).await.1, want, "{id}");
    }
    resume(database, &app).await;
    calls_n(&app, 1).await;
    assert_eq!(app.destination.calls()[0].1, r#""evt_6""#);
    app.running.stop().await;
    for (id, want) in [("evt_3", "superseded"), ("evt_5", "superseded"), ("evt_6", "handled")] {
        assert_eq!(state(database, id).await.0, want, "{id}");
    }
}

async fn a_provider_that_rejects_keeps_what_fails_after_a_pause_and_a_pause_makes_nothing_old(
    database: &Database,
) {
    const DAY_MS: i64 = 86_400_000;
    paused_from_the_start(database).await;
    let kind = stripe_kind().on("x", |event: Event<serde_json::Value>| {
        if event.attempt_n < 3 {
            return Err(anyhow::anyhow!("not yet").into());
        }
        Ok(Effects::new().forward("billing"))
    });
    let app = TestApp::start(database, kind, "on_handler_error = \"reject\"").await;
    assert_eq!(app.post(&event_body("evt_1", "x", 1)).await.0, 200, "no handler has run that could fail");
    for _ in 0..60 {
        app.clock.advance(DAY_MS);
    }
    resume(database, &app).await;
    for tries_n in 1..=2 {
        until("it failed, and is tried again", Duration::from_secs(20), String::new, async || {
            state(database, "evt_1").await.1 >= tries_n
        })
        .await;
        assert_eq!(state(database, "evt_1").await.0, "retry");
        app.clock.advance(60_000);
    }
    calls_n(&app, 1).await;
    app.running.stop().await;
    assert_eq!(state(database, "evt_1").await, ("handled".to_owned(), 3, String::new()));
}
