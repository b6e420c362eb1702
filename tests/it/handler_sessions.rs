//! What a transactional handler leaves in the session that it was given: nothing of it is there for whoever comes next,
//! nor for what is written after it.

use std::time::{Duration, Instant};

use hooklatch::prelude::*;
use hooklatch::store::{Store, StoreSettings};
use serde_json::Value as Json;

use crate::app::{TestApp, event_body, is_given_up, stripe_kind};
use crate::database::{Database, On, on_both};
use crate::process::{SECRET, client, stripe_header, until};

on_both!(
    an_event_whose_handler_commits_its_transaction_is_shown_as_failed,
    a_handler_that_commits_when_it_runs_again_is_not_run_a_third_time,
    tables_that_a_handler_makes_for_itself_are_gone_with_its_transaction,
    a_statement_of_a_handler_that_never_ends_holds_up_nobody,
);

/// Runs statements by themselves, before the app does.
async fn prepared(database: &Database, statements: &[&'static str]) {
    let store = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 2 }).await.unwrap();
    let mut admission = store.admission_begin().await.unwrap();
    for sql in statements {
        admission.tx().execute(sql, &[]).await.unwrap();
    }
    admission.commit().await.unwrap();
    store.close().await;
}

async fn commits(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("INSERT INTO ledger (n) VALUES (1)", &[]).await.map_err(anyhow::Error::from)?;
    tx.execute("COMMIT", &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new().forward("billing"))
}

async fn an_event_whose_handler_commits_its_transaction_is_shown_as_failed(database: &Database) {
    prepared(database, &["CREATE TABLE ledger (n BIGINT)"]).await;
    let app = TestApp::start(database, stripe_kind().on_tx("broken", commits), "").await;
    let said = app.event("ended", "broken", 1).await;
    assert!(["accepted", "duplicate"].contains(&said.as_str()), "{said}");
    assert_eq!(app.event("other", "other", 1).await, "accepted");
    app.running.stop().await;
    let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
    assert_eq!(database.text(sql, "ended").await.as_deref(), Some("failed"));
    let sql = "SELECT COUNT(*) FROM outbox_messages WHERE event_id = 'ended'";
    assert_eq!(database.count(sql).await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger").await, 1, "it runs once");
}

async fn commits_later(tx: &mut Tx, event: Event<Json>) -> Handled {
    if event.attempt_n == 1 {
        return Err(anyhow::anyhow!("not yet").into());
    }
    commits(tx, event).await
}

async fn a_handler_that_commits_when_it_runs_again_is_not_run_a_third_time(database: &Database) {
    prepared(database, &["CREATE TABLE ledger (n BIGINT)"]).await;
    let app = TestApp::start(database, stripe_kind().on_tx("broken", commits_later), "").await;
    assert_eq!(app.event("ended", "broken", 1).await, "accepted");
    let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
    until("it is shown", Duration::from_secs(10), String::new, async || {
        app.clock.advance(3_600_000);
        database.text(sql, "ended").await.as_deref() == Some("failed")
    })
    .await;
    app.running.stop().await;
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger").await, 1);
}

async fn scribbles(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("CREATE TEMP TABLE scratch (n BIGINT)", &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new())
}

async fn tables_that_a_handler_makes_for_itself_are_gone_with_its_transaction(database: &Database) {
    let app = TestApp::start(database, stripe_kind().on_tx("scribbles", scribbles), "").await;
    for n in 0..3 {
        assert_eq!(app.event(&format!("evt_{n}"), "scribbles", 1).await, "accepted");
    }
    app.running.stop().await;
    let sql = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled'";
    assert_eq!(database.count(sql).await, 3);
}

async fn never_ends(tx: &mut Tx, _: Event<Json>) -> Handled {
    let sql =
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT COUNT(*) FROM c WHERE n > 1";
    tx.fetch_i64(sql, &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new())
}

async fn a_statement_of_a_handler_that_never_ends_holds_up_nobody(database: &Database) {
    is_given_up(database, stripe_kind().on_tx("broken", never_ends)).await;
}

/// What a handler may leave behind, and how the next one sees that it is gone.
const LEFT: [(&str, &str); 9] = [
    ("SET synchronous_commit = off", "SELECT (current_setting('synchronous_commit') <> 'on')::int::bigint"),
    (
        "SET LOCAL synchronous_commit = off",
        "SELECT (current_setting('synchronous_commit') <> 'on')::int::bigint",
    ),
    ("SET lock_timeout = 0", "SELECT (current_setting('lock_timeout') <> '2s')::int::bigint"),
    ("SET search_path = nowhere", "SELECT (current_setting('search_path') LIKE '%nowhere%')::int::bigint"),
    ("SET statement_timeout = '10s'", "SELECT (current_setting('statement_timeout') <> '0')::int::bigint"),
    (
        "SET client_min_messages = error",
        "SELECT (current_setting('client_min_messages') = 'error')::int::bigint",
    ),
    ("SET ROLE weak", "SELECT (current_user = 'weak')::int::bigint"),
    (
        "CREATE TEMP TABLE scratch (n BIGINT)",
        "SELECT COUNT(*) FROM pg_class WHERE relname = 'scratch' AND relpersistence = 't'",
    ),
    (
        "SELECT pg_advisory_lock(77)",
        "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77",
    ),
];

async fn leaves(tx: &mut Tx, event: Event<Json>) -> Handled {
    let n = usize::try_from(event.payload["amount_paid"].as_i64().unwrap()).unwrap();
    tx.execute(LEFT[n].0, &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new().forward("billing"))
}

async fn finds(tx: &mut Tx, event: Event<Json>) -> Handled {
    let n = usize::try_from(event.payload["amount_paid"].as_i64().unwrap()).unwrap();
    let found = tx.fetch_i64(LEFT[n].1, &[]).await.map_err(anyhow::Error::from)?;
    if found == Some(0) {
        Ok(Effects::new())
    } else {
        Err(HandlerError::Refused("it is still there".to_owned()))
    }
}
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_leaves_in_its_session_is_gone_with_its_transaction() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    prepared(&database, &["DO $$ BEGIN CREATE ROLE weak; EXCEPTION WHEN duplicate_object THEN NULL; END $$"])
        .await;
    let kind = stripe_kind().on_tx("leaves", leaves).on_tx("finds", finds);
    let app = TestApp::start(&database, kind, "").await;
    let mut found = Vec::new();
    for (n, (left, _)) in LEFT.iter().enumerate() {
        let said = app.event(&format!("leaves_{n}"), "leaves", i64::try_from(n).unwrap()).await;
        let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
        let state = database.text(sql, &format!("leaves_{n}")).await;
        let mut finds = Vec::new();
        for m in 0..3 {
            app.event(&format!("finds_{n}_{m}"), "finds", i64::try_from(n).unwrap()).await;
            finds.push(database.text(sql, &format!("finds_{n}_{m}")).await);
        }
        if said != "accepted"
            || state.as_deref() != Some("handled")
            || finds.iter().any(|f| f.as_deref() != Some("handled"))
        {
            found.push(format!("{left}: {said} {state:?} {finds:?}"));
        }
    }
    app.running.stop().await;
    assert!(found.is_empty(), "{found:#?}");
}

async fn slow(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("SELECT pg_sleep(1.5)", &[]).await.map_err(anyhow::Error::from)?;
    Err(anyhow::anyhow!("not yet").into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handlers_of_many_providers_leave_sessions_to_everybody_else() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let more: String = ["two", "three", "four"]
        .map(|name| format!("[providers.{name}]\nkind = \"stripe\"\nsecrets = [\"{SECRET}\"]\n"))
        .concat();
    let plain = |_: Event<Json>| Ok(Effects::new().forward("billing"));
    let app = TestApp::start(&database, stripe_kind().on_tx("slow", slow).on("plain", plain), &more).await;
    let other = |name: &str, id: String| {
        let body = event_body(&id, "slow", 1);
        let header = stripe_header(&body, app.clock.now_ms() / 1_000);
        let url = format!("http://{}/webhooks/{name}", app.running.receiver_addr);
        let request = client().post(url).header("stripe-signature", header).body(body);
        async move { drop(request.send().await) }
    };
    let mut flood = tokio::task::JoinSet::new();
    for n in 0..24 {
        flood.spawn(other(["stripe", "two", "three", "four"][n % 4], format!("slow_{n}")));
    }
    let waiting = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'retry'";
    until("each provider has events to dispatch again", Duration::from_secs(30), String::new, async || {
        database.count(waiting).await >= 8
    })
    .await;
    app.clock.advance(3_600_000);
    for n in 24..48 {
        flood.spawn(other(["stripe", "two", "three", "four"][n % 4], format!("slow_{n}")));
    }
    let mut waits = Vec::new();
    for n in 0..12 {
        let since = Instant::now();
        assert_eq!(app.event(&format!("plain_{n}"), "plain", 1).await, "accepted");
        waits.push(since.elapsed());
    }
    // One may have met a stall of the disk; behind the slow ones, each would wait.
    waits.sort();
    assert!(waits[10] < Duration::from_secs(1), "they waited for {waits:?}");
    flood.abort_all();
    app.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_warns_of_its_tables_with_each_write_refuses_nobody() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    database.store().await.close().await;
    // What PostgreSQL says for days before it runs out of transactions; it takes writes all the same.
    let function = "CREATE FUNCTION warns() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE WARNING 'database \"x\" must be vacuumed within 39999999 transactions'; RETURN NULL; END $$";
    prepared(
        &database,
        &[
            function,
            "CREATE TRIGGER warns AFTER INSERT ON processed_webhook_events EXECUTE FUNCTION warns()",
            "CREATE TRIGGER warns AFTER DELETE ON outbox_queue EXECUTE FUNCTION warns()",
        ],
    )
    .await;
    let app = TestApp::start(
        &database,
        stripe_kind(),
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"",
    )
    .await;
    for n in 0..5 {
        assert_eq!(app.event(&format!("evt_{n}"), "any", 1).await, "accepted");
    }
    until("they are done", Duration::from_secs(10), String::new, async || {
        database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'").await == 5
    })
    .await;
    app.running.stop().await;
}
