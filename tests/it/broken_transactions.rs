//! What a transactional handler can do to its transaction: whatever it is, a 200 means that its event is kept, and
//! no other event is affected.

use std::time::Duration;

use hooklatch::prelude::*;
use hooklatch_store::{Store, StoreSettings};
use serde_json::Value as Json;

use crate::app::{TestApp, is_given_up, stripe_kind};
use crate::database::{Database, on_both};
use crate::process::until;

on_both!(
    an_event_whose_handler_swallows_a_failing_statement_is_kept,
    an_event_whose_handler_ends_its_transaction_is_kept_as_failed_for_now,
    a_savepoint_that_a_handler_forgot_ends_with_what_it_did_before_it,
    a_statement_that_rolls_everything_back_stops_no_other_event,
    a_broken_deferred_rule_is_its_events_alone,
    a_handler_cancelled_in_the_middle_of_a_statement_delays_no_other,
);

/// Makes the table that the handlers below write.
async fn ledger(database: &Database) {
    let store = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 2 }).await.unwrap();
    let mut admission = store.admission_begin().await.unwrap();
    for sql in [
        "CREATE TABLE ledger (invoice TEXT PRIMARY KEY)",
        "INSERT INTO ledger (invoice) VALUES ('booked')",
        "CREATE TABLE entry (invoice TEXT REFERENCES ledger (invoice) DEFERRABLE INITIALLY DEFERRED)",
    ] {
        admission.tx().execute(sql, &[]).await.unwrap();
    }
    admission.commit().await.unwrap();
    store.close().await;
}

/// The state of an event that must be there.
async fn state(database: &Database, id: &str) -> String {
    let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
    database.text(sql, id).await.unwrap_or_else(|| panic!("`{id}` was answered with 200 and is not there"))
}

/// Sends an event to a broken handler, the same again, and one to a good handler; stops the app.
async fn check(database: &Database, kind: Provider, id: &str) {
    ledger(database).await;
    let kind = kind.on_tx("good", good).on("plain", |_: Event<Json>| Ok(Effects::new().forward("billing")));
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event(id, "broken", 1).await, "accepted");
    assert_eq!(app.event(id, "broken", 1).await, "duplicate", "what was accepted is kept");
    for n in 0..6 {
        assert_eq!(app.event(&format!("good_{n}"), "good", 1).await, "accepted", "others are not hindered");
        assert_eq!(app.event(&format!("plain_{n}"), "plain", 1).await, "accepted", "others are not hindered");
    }
    until("the plain ones are sent", Duration::from_secs(10), String::new, async || {
        app.destination.calls().len() == 6
    })
    .await;
    app.running.stop().await;
    for n in 0..6 {
        assert_eq!(state(database, &format!("good_{n}")).await, "handled");
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger WHERE invoice LIKE 'in_good%'").await, 6);
}

async fn good(tx: &mut Tx, event: Event<Json>) -> Handled {
    let id = event.payload["id"].as_str().unwrap_or_default();
    tx.execute("INSERT INTO ledger (invoice) VALUES ($1)", &[id.into()])
        .await
        .map_err(anyhow::Error::from)?;
    Ok(Effects::new())
}

async fn swallows(tx: &mut Tx, _: Event<Json>) -> Handled {
    // "Already booked is no error": the likeliest code there is.
    drop(tx.execute("INSERT INTO ledger (invoice) VALUES ('booked')", &[]).await);
    Ok(Effects::new())
}

async fn an_event_whose_handler_swallows_a_failing_statement_is_kept(database: &Database) {
    check(database, stripe_kind().on_tx("broken", swallows), "swallowed").await;
    // SQLite undoes the one statement, PostgreSQL aborts the transaction.
    let wanted = if database.url.starts_with("sqlite") { "handled" } else { "retry" };
    assert_eq!(state(database, "swallowed").await, wanted);
}

async fn ends(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("ROLLBACK", &[]).await.map_err(anyhow::Error::from)?;
    // Outside of any transaction now.
    tx.execute("INSERT INTO ledger (invoice) VALUES ('stray')", &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new().forward("billing"))
}

async fn an_event_whose_handler_ends_its_transaction_is_kept_as_failed_for_now(database: &Database) {
    check(database, stripe_kind().on_tx("broken", ends), "ended").await;
    assert_eq!(state(database, "ended").await, "retry");
    let sql = "SELECT COUNT(*) FROM outbox_messages WHERE event_id = 'ended'";
    assert_eq!(database.count(sql).await, 0, "nothing is written outside of its transaction");
}

async fn forgets(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.batch("SAVEPOINT mine; INSERT INTO ledger (invoice) VALUES ('forgotten')")
        .await
        .map_err(anyhow::Error::from)?;
    Ok(Effects::new())
}

async fn a_savepoint_that_a_handler_forgot_ends_with_what_it_did_before_it(database: &Database) {
    check(database, stripe_kind().on_tx("broken", forgets), "forgotten").await;
    assert_eq!(state(database, "forgotten").await, "handled");
    let sql = "SELECT COUNT(*) FROM ledger WHERE invoice = 'forgotten'";
    assert_eq!(database.count(sql).await, 1, "it is there with its event, once");
}

async fn rolls_back(tx: &mut Tx, _: Event<Json>) -> Handled {
    let sql = match hooklatch_store::tx_dialect(tx) {
        "sqlite" => "INSERT OR ROLLBACK INTO ledger (invoice) VALUES ('booked')",
        _ => "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$",
    };
    drop(tx.execute(sql, &[]).await);
    Ok(Effects::new().forward("billing"))
}

async fn a_statement_that_rolls_everything_back_stops_no_other_event(database: &Database) {
    check(database, stripe_kind().on_tx("broken", rolls_back), "undone").await;
    assert_eq!(state(database, "undone").await, "retry");
}

async fn defers(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("INSERT INTO entry (invoice) VALUES ('absent')", &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new())
}

async fn a_broken_deferred_rule_is_its_events_alone(database: &Database) {
    check(database, stripe_kind().on_tx("broken", defers), "deferred").await;
    assert_eq!(state(database, "deferred").await, "retry");
}

async fn stalls(tx: &mut Tx, _: Event<Json>) -> Handled {
    if hooklatch_store::tx_dialect(tx) == "postgres" {
        tx.execute("SELECT pg_sleep(60)", &[]).await.map_err(anyhow::Error::from)?;
    } else {
        // It has no statement that waits; what it does holds the only writer.
        std::future::pending::<()>().await;
    }
    Ok(Effects::new())
}

async fn a_handler_cancelled_in_the_middle_of_a_statement_delays_no_other(database: &Database) {
    is_given_up(database, stripe_kind().on_tx("broken", stalls)).await;
}
