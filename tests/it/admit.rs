//! Admission with handlers: how each result of a handler affects its event, its effects and the answer to the sender.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hooklatch::prelude::*;
use hooklatch_store::{Store, StoreSettings};

use crate::app::{TestApp, event_body, stripe_kind};
use crate::database::{Database, on_both};
use crate::process::until;

#[derive(Deserialize)]
pub struct Invoice {
    id: String,
    amount_paid: i64,
}

on_both!(
    a_handlers_effects_are_sent_once_under_a_stable_key,
    each_answer_of_a_handler_is_a_state_of_its_event,
    a_failing_handler_harms_its_own_event_alone,
    a_failed_event_is_dispatched_again_until_it_works,
    a_failed_event_is_given_up_in_the_end,
    a_clock_that_is_set_back_puts_off_no_event,
    with_reject_nothing_is_stored_and_the_sender_gets_an_error,
    a_conflict_is_recorded_and_the_first_copy_stands,
    an_older_version_is_superseded,
    a_copy_within_the_window_of_a_signal_has_it_handled_once_more_when_that_ends,
    what_may_repeat_is_handled_again_once,
    a_transactional_handler_leaves_all_or_nothing,
    bad_sql_of_a_transactional_handler_fails_no_other_event,
    a_panic_in_a_transactional_handler_is_its_events_alone,
    a_template_makes_the_call_and_one_that_does_not_fit_fails_its_event_alone,
);

/// State, dispatches and error of an event, read beside the app.
async fn row(database: &Database, id: &str) -> Option<(String, u32, String)> {
    let state = database.text("SELECT state || '|' || attempts_n || '|' || COALESCE(error, '') FROM processed_webhook_events WHERE event_id = $1", id).await?;
    let mut parts = state.splitn(3, '|');
    let mut next = || parts.next().unwrap().to_owned();
    Some((next(), next().parse().unwrap(), next()))
}

pub async fn state(database: &Database, id: &str) -> (String, u32, String) {
    row(database, id).await.unwrap_or_else(|| panic!("{id} is not there"))
}

pub async fn calls_n(app: &TestApp, n: usize) {
    let what = format!("{n} calls reached the destination");
    until(
        &what,
        Duration::from_secs(10),
        || format!("{:?}", app.destination.calls()),
        async || app.destination.calls().len() == n,
    )
    .await;
}

async fn a_handlers_effects_are_sent_once_under_a_stable_key(database: &Database) {
    let kind = stripe_kind().on("invoice.*", |event: Event<Invoice>| {
        Ok(Effects::new()
            .call("billing", json!({ "invoice": event.payload.id }))
            .message(Message::to("billing").named("again").body("raw").header("x-a", "b")))
    });
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("evt_1", "invoice.paid", 5).await, "accepted");
    assert_eq!(app.event("evt_1", "invoice.paid", 5).await, "duplicate");
    assert_eq!(app.event("evt_2", "charge.refunded", 5).await, "accepted");
    calls_n(&app, 2).await;
    let mut calls = app.destination.calls();
    calls.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(
        calls.iter().map(|(_, body)| body.as_str()).collect::<Vec<_>>(),
        ["raw", r#"{"invoice":"in_evt_1"}"#]
    );
    assert_ne!(calls[0].0, calls[1].0, "each effect has a key of its own");
    app.running.stop().await;
    assert_eq!(state(database, "evt_2").await.0, "ignored");
}

async fn each_answer_of_a_handler_is_a_state_of_its_event(database: &Database) {
    let kind = stripe_kind()
        .on("done", |_: Event<Invoice>| Ok(Effects::new()))
        .on("ignore", |_: Event<Invoice>| ignore("of no interest"))
        .on("refuse", |_: Event<Invoice>| refuse("never"))
        .on("retry", |_: Event<Invoice>| Err(anyhow::anyhow!("not now").into()))
        .on("shape", |_: Event<Vec<u8>>| Ok(Effects::new()))
        .on("twice", |_: Event<Invoice>| Ok(Effects::new().forward("billing").forward("billing")))
        .on("header", |_: Event<Invoice>| {
            Ok(Effects::new().message(Message::to("billing").header("idempotency-key", "mine")))
        })
        .on("panic", |event: Event<Invoice>| -> Handled { panic!("on {}", event.id) });
    let app = TestApp::start(database, kind, "").await;
    for event_type in ["done", "ignore", "refuse", "retry", "shape", "twice", "header", "panic", "other"] {
        assert_eq!(app.event(event_type, event_type, 1).await, "accepted", "{event_type}");
    }
    app.running.stop().await;
    let check = async |id: &str, want: (&str, u32, &str)| {
        let (state, attempts_n, error) = state(database, id).await;
        assert_eq!((state.as_str(), attempts_n), (want.0, want.1), "{id}: {error}");
        assert!(error.contains(want.2), "{id}: {error}");
    };
    check("done", ("handled", 1, "")).await;
    check("ignore", ("ignored", 1, "of no interest")).await;
    check("refuse", ("failed", 1, "never")).await;
    check("retry", ("retry", 1, "not now")).await;
    check("shape", ("failed", 1, "does not fit")).await;
    check("twice", ("failed", 1, "two effects are named `billing`")).await;
    check("header", ("failed", 1, "idempotency-key")).await;
    check("panic", ("retry", 1, "on panic")).await;
    check("other", ("ignored", 0, "")).await;
    assert_eq!(app.destination.calls(), []);
}

async fn a_failing_handler_harms_its_own_event_alone(database: &Database) {
    let kind = stripe_kind().on("*", |event: Event<Invoice>| match event.payload.amount_paid {
        0 => panic!("poison"),
        1 => refuse("poison"),
        amount => Ok(Effects::new().call("billing", json!({ "amount": amount }))),
    });
    let app = Arc::new(TestApp::start(database, kind, "").await);
    let all = (0..60_i64).map(|n| {
        let app = Arc::clone(&app);
        tokio::spawn(async move { app.event(&format!("evt_{n}"), "x", n % 10).await })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), "accepted");
    }
    calls_n(&app, 48).await;
    assert_eq!(
        database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled'").await,
        48
    );
}

async fn a_failed_event_is_dispatched_again_until_it_works(database: &Database) {
    let tries_n = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries_n);
    let kind = stripe_kind().on("invoice.paid", move |event: Event<Invoice>| {
        counted.fetch_add(1, Ordering::SeqCst);
        if event.attempt_n < 3 {
            return Err(anyhow::anyhow!("not yet").into());
        }
        Ok(Effects::new().call("billing", json!({ "attempt": event.attempt_n })))
    });
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("evt_1", "invoice.paid", 1).await, "accepted");
    for tries in 2..=3 {
        until("it is dispatched again", Duration::from_secs(20), String::new, async || {
            // Each time: when it is due is decided on this clock, after its handler has counted.
            app.clock.advance(5_000);
            tries_n.load(Ordering::SeqCst) >= tries
        })
        .await;
    }
    calls_n(&app, 1).await;
    assert_eq!(app.event("evt_1", "invoice.paid", 1).await, "duplicate");
    app.running.stop().await;
    assert_eq!(app.destination.calls()[0].1, r#"{"attempt":3}"#);
    assert_eq!(state(database, "evt_1").await, ("handled".to_owned(), 3, String::new()));
}

async fn a_failed_event_is_given_up_in_the_end(database: &Database) {
    let kind = stripe_kind().on("*", |_: Event<Invoice>| -> Handled { Err(anyhow::anyhow!("never").into()) });
    let app = TestApp::start(database, kind, "retry = { attempts_n = 2 }").await;
    app.event("evt_1", "x", 1).await;
    app.clock.advance(3_600_000);
    until("it is given up", Duration::from_secs(10), String::new, async || {
        state(database, "evt_1").await.0 == "failed"
    })
    .await;
    assert_eq!(state(database, "evt_1").await, ("failed".to_owned(), 2, "never".to_owned()));
    app.running.stop().await;
}

async fn a_clock_that_is_set_back_puts_off_no_event(database: &Database) {
    let is_broken = Arc::new(AtomicU32::new(1));
    let broken = Arc::clone(&is_broken);
    let kind = stripe_kind().on("*", move |_: Event<Invoice>| -> Handled {
        if broken.load(Ordering::SeqCst) == 1 {
            return Err(anyhow::anyhow!("not now").into());
        }
        Ok(Effects::new().forward("billing"))
    });
    let app = TestApp::start(database, kind, "").await;
    app.clock.advance(7_200_000);
    app.event("evt_1", "x", 1).await;
    assert_eq!(state(database, "evt_1").await.0, "retry");
    is_broken.store(0, Ordering::SeqCst);
    app.clock.set_by(-7_200_000);
    app.clock.advance(60_000);
    calls_n(&app, 1).await;
    app.running.stop().await;
}

async fn with_reject_nothing_is_stored_and_the_sender_gets_an_error(database: &Database) {
    let is_broken = Arc::new(AtomicU32::new(1));
    let broken = Arc::clone(&is_broken);
    let kind = stripe_kind().on("x", move |_: Event<Invoice>| {
        if broken.load(Ordering::SeqCst) == 1 {
            refuse("broken")
        } else {
            Ok(Effects::new().forward("billing"))
        }
    });
    let app = TestApp::start(database, kind, "on_handler_error = \"reject\"").await;
    let (status, _, text) = app.post(&event_body("evt_1", "x", 1)).await;
    assert_eq!((status, text.contains("handler_failed")), (500, true), "{text}");
    assert!(row(database, "evt_1").await.is_none());
    is_broken.store(0, Ordering::SeqCst);
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    calls_n(&app, 1).await;
    assert_eq!(app.destination.calls()[0].1, event_body("evt_1", "x", 1), "the event's own bytes");
    app.running.stop().await;
}

async fn a_conflict_is_recorded_and_the_first_copy_stands(database: &Database) {
    let kind = stripe_kind().on("x", |event: Event<Invoice>| {
        Ok(Effects::new().call("billing", json!(event.payload.amount_paid)))
    });
    let app = TestApp::start(database, kind, "first_party = true").await;
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    let (status, outcome, text) = app.post(&event_body("evt_1", "x", 2)).await;
    assert_eq!((status, outcome.as_str()), (409, "conflict"), "{text}");
    calls_n(&app, 1).await;
    assert_eq!(
        database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'conflict'").await,
        1
    );
    app.running.stop().await;
}

/// Stripe with another rule for what two copies of an event are, whose handler calls.
fn identified(identity: &str) -> Provider {
    let spec = include_str!("../../providers/stripe/provider.toml");
    let (before, rest) = spec.split_once("[[event.identity]]").unwrap();
    let (_, after) = rest.split_once("[event_types]").unwrap();
    let spec = format!("{before}[[event.identity]]\n{identity}\n[event_types]{after}");
    Provider::from_spec(&spec).on("x", |event: Event<Invoice>| {
        Ok(Effects::new().call("billing", json!({ "id": event.payload.id })))
    })
}

async fn a_copy_within_the_window_of_a_signal_has_it_handled_once_more_when_that_ends(database: &Database) {
    let kind = identified("is = \"signal\"\nsigned = true\nwindow_s = 5\nwindow_rearms = true");
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    calls_n(&app, 1).await;
    for outcome in ["accepted", "duplicate", "duplicate"] {
        app.clock.advance(1_000);
        assert_eq!(app.event("evt_1", "x", 1).await, outcome);
    }
    let waiting = "SELECT error FROM processed_webhook_events WHERE state = 'retry' AND event_id LIKE 'signal:%#1+' AND event_id = $1";
    let id =
        database.texts("SELECT event_id FROM processed_webhook_events WHERE state = 'retry'").await.remove(0);
    assert!(database.text(waiting, &id).await.unwrap().contains("within the window"));
    assert_eq!(app.destination.calls().len(), 1, "not before its window ends");
    app.clock.advance(4_000);
    calls_n(&app, 2).await;
    // The window is over: this one is the next firing, at once.
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    calls_n(&app, 3).await;
    let keys: std::collections::BTreeSet<String> =
        app.destination.calls().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), 3, "each has a key of its own");
    app.running.stop().await;
}

async fn what_may_repeat_is_handled_again_once(database: &Database) {
    // An id that no signature covers, and signed text without a time.
    let kind = identified(
        "is = \"sender\"\nid = [{ header = \"x-id\" }]\nsigned = false\nchanging = \"/data/object/updated\"\n[[event.identity]]\nis = \"content\"\nsigned = false",
    );
    let app = TestApp::start(database, kind, "").await;
    let body = event_body("evt_1", "x", 1);
    let sent = async |id: &str, body: &str| app.post_with(body, &[("x-id", id)]).await.1;
    assert_eq!(sent("d1", &body).await, "accepted");
    assert_eq!(sent("d1", &body).await, "duplicate");
    calls_n(&app, 1).await;
    assert_eq!(sent("d2", &body).await, "accepted");
    calls_n(&app, 2).await;
    for (id, outcome) in [("d2", "duplicate"), ("d3", "replayed"), ("d3", "duplicate")] {
        assert_eq!(sent(id, &body).await, outcome, "{id}");
    }
    let changing = body.replace("\"amount_paid\"", "\"updated\":1,\"amount_paid\"");
    assert_eq!(sent("e1", &changing).await, "accepted");
    assert_eq!(sent("e2", &changing).await, "replayed", "what changes with each event is in it");
    calls_n(&app, 3).await;
    app.running.stop().await;
    assert_eq!(state(database, "d2").await.0, "handled");
    assert_eq!(app.destination.calls().len(), 3);
}

async fn an_older_version_is_superseded(database: &Database) {
    let spec = include_str!("../../providers/stripe/provider.toml").replace(
        "payload = \"/data/object\"",
        "payload = \"/data/object\"\nobject = [{ json = \"/object\" }]\nversion = { json = \"/version\" }",
    );
    let kind = Provider::from_spec(&spec).on_latest("order.*", |event: Event<serde_json::Value>| {
        Ok(Effects::new().call("billing", json!(event.id)))
    });
    let app = TestApp::start(database, kind, "").await;
    let send = async |id: &str, version: i64| {
        app.post(&format!(r#"{{"id":"{id}","type":"order.updated","object":"o","version":{version}}}"#))
            .await
            .1
    };
    assert_eq!(send("evt_5", 5).await, "accepted");
    assert_eq!(send("evt_3", 3).await, "superseded");
    assert_eq!(send("evt_6", 6).await, "accepted");
    assert_eq!(send("evt_3", 3).await, "duplicate");
    calls_n(&app, 2).await;
    app.running.stop().await;
    assert_eq!(state(database, "evt_3").await.0, "superseded");
}

/// Makes the table of the transactional handlers below.
pub async fn create_ledger(database: &Database) {
    let store = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 2 }).await.unwrap();
    let mut admission = store.admission_begin().await.unwrap();
    let sql = "CREATE TABLE ledger (invoice TEXT NOT NULL, amount BIGINT NOT NULL CHECK (amount < 100))";
    admission.tx().execute(sql, &[]).await.unwrap();
    admission.commit().await.unwrap();
    store.close().await;
}

pub async fn book(tx: &mut Tx, event: Event<Invoice>) -> Handled {
    let sql = "INSERT INTO ledger (invoice, amount) VALUES ($1, $2)";
    tx.execute(sql, &[(&event.payload.id).into(), 1.into()]).await.map_err(anyhow::Error::from)?;
    // Half-way: the table refuses large amounts.
    tx.execute(sql, &[(&event.payload.id).into(), event.payload.amount_paid.into()])
        .await
        .map_err(anyhow::Error::from)?;
    assert_ne!(event.payload.amount_paid, 13, "unlucky");
    let entries_n =
        tx.fetch_i64("SELECT COUNT(*) FROM ledger WHERE invoice = $1", &[(&event.payload.id).into()]).await;
    Ok(Effects::new().call("billing", json!({ "entries": entries_n.map_err(anyhow::Error::from)? })))
}

async fn a_transactional_handler_leaves_all_or_nothing(database: &Database) {
    create_ledger(database).await;
    let app = TestApp::start(database, stripe_kind().on_tx("invoice.paid", book), "").await;
    assert_eq!(app.event("good", "invoice.paid", 5).await, "accepted");
    assert_eq!(app.event("good", "invoice.paid", 5).await, "duplicate");
    assert_eq!(app.event("bad", "invoice.paid", 500).await, "accepted");
    calls_n(&app, 1).await;
    assert_eq!(app.destination.calls()[0].1, r#"{"entries":2}"#);
    app.running.stop().await;
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger WHERE invoice = 'in_good'").await, 2);
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger WHERE invoice = 'in_bad'").await, 0);
    let (state, attempts_n, error) = state(database, "bad").await;
    assert_eq!((state.as_str(), attempts_n), ("retry", 1));
    assert!(error.to_lowercase().contains("check"), "{error}");
}

async fn careless(tx: &mut Tx, _: Event<Invoice>) -> Handled {
    // The error is swallowed; on PostgreSQL the transaction is broken from here on.
    drop(tx.execute("INSERT INTO no_such_table VALUES (1)", &[]).await);
    Ok(Effects::new().forward("billing"))
}

async fn bad_sql_of_a_transactional_handler_fails_no_other_event(database: &Database) {
    let kind = stripe_kind()
        .on_tx("careless", careless)
        .on("plain", |_: Event<Invoice>| Ok(Effects::new().forward("billing")));
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("careless", "careless", 1).await, "accepted");
    assert_eq!(app.event("plain", "plain", 1).await, "accepted");
    app.running.stop().await;
    assert_eq!(state(database, "plain").await.0, "handled");
    let state = state(database, "careless").await.0;
    // SQLite undoes the one statement, PostgreSQL the transaction.
    assert!(state == "retry" || (state == "handled" && database.url.starts_with("sqlite")), "{state}");
}

async fn a_panic_in_a_transactional_handler_is_its_events_alone(database: &Database) {
    create_ledger(database).await;
    let app = TestApp::start(database, stripe_kind().on_tx("invoice.paid", book), "").await;
    assert_eq!(app.event("unlucky", "invoice.paid", 13).await, "accepted");
    assert_eq!(app.event("good", "invoice.paid", 5).await, "accepted");
    calls_n(&app, 1).await;
    app.running.stop().await;
    let (state, _, error) = state(database, "unlucky").await;
    assert_eq!((state.as_str(), error.contains("unlucky")), ("retry", true), "{error}");
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger WHERE invoice = 'in_unlucky'").await, 0);
}

async fn a_template_makes_the_call_and_one_that_does_not_fit_fails_its_event_alone(database: &Database) {
    let more = "routes = [{ on = [\"*\"], to = \"billing\" }]\n[destinations.billing]\n\
                body = '{\"paid\":{{ payload.amount_paid }},\"who\":{{ payload.id }},\"key\":{{ idempotency_key }}}'";
    let app = TestApp::start(database, stripe_kind(), more).await;
    assert_eq!(app.event("evt_1", "invoice.paid", 7).await, "accepted");
    let odd = r#"{"id":"evt_2","type":"invoice.paid","data":{"object":{"id":"in_2"}}}"#;
    assert_eq!(app.post(odd).await.1, "accepted", "the sender did nothing wrong");
    calls_n(&app, 1).await;
    let (key, body) = app.destination.calls().remove(0);
    assert_eq!(body, format!("{{\"paid\":7,\"who\":\"in_evt_1\",\"key\":\"{key}\"}}"));
    let (state, _, error) = state(database, "evt_2").await;
    assert_eq!(state, "failed");
    assert!(error.contains("template of destination `billing`, body: undefined value"), "{error}");
    app.running.stop().await;
}
