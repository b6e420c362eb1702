//! Faults of one event, provider or node: all others continue, and the fault is visible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hooklatch::prelude::*;
use hooklatch_core::types::{EventState, IncomingEvent};
use hooklatch_store::{EventUpdate, Latched, Writes};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use crate::app::{TestApp, event_body, stripe_kind};
use crate::database::{Database, on_both};
use crate::handlers_blocked::is_ready;
use crate::process::{SECRET, Server, client, now_s, stripe_header, until};
use crate::store::{candidates, event, key, message, numbered};

on_both!(
    a_failed_dispatch_is_logged_counted_and_shown,
    what_waits_for_removed_names_is_logged_and_shown,
    a_message_to_an_unknown_destination_fails_its_event,
    an_event_whose_commit_is_refused_is_put_off_and_delays_no_other,
    a_provider_with_slow_handlers_delays_no_other_retries,
    an_event_whose_body_is_gone_is_put_aside_with_the_reason,
    an_event_that_the_database_refuses_refuses_no_other,
    slow_transactional_handlers_refuse_no_other_requests,
    the_handlers_of_one_request_have_a_bounded_time_together,
    of_two_copies_in_one_batch_the_second_is_judged_by_what_stands,
    readiness_says_no_while_the_database_takes_no_event_and_yes_when_it_refuses_only_one,
);

/// Runs `sql` beside whatever process has the database.
pub(crate) async fn execute(database: &Database, sql: &str) {
    let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    if database.url.starts_with("sqlite") {
        SqliteConnection::connect(&database.url).await.unwrap().execute(sql).await.unwrap();
    } else {
        PgConnection::connect(&database.url).await.unwrap().execute(sql).await.unwrap();
    }
}

async fn state(database: &Database, id: &str) -> String {
    let sql = "SELECT state || ' ' || attempts_n || ' ' || COALESCE(error, '') FROM processed_webhook_events WHERE event_id = $1";
    database.text(sql, id).await.unwrap_or_default()
}

async fn stands(database: &Database, id: &str, want: &str) {
    let within = Duration::from_secs(20);
    let what = format!("{id} is {want}");
    until(&what, within, String::new, async || state(database, id).await.starts_with(want)).await;
}

const TOKEN: &str = "[admin]\ntokens = [{ name = \"ops\", role = \"viewer\", token = \"0123456789abcdef\" }]";

async fn backlog(server: &Server) -> serde_json::Value {
    let request = client().get(format!("http://{}/v1/backlog", server.admin)).bearer_auth("0123456789abcdef");
    serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
}

async fn start(database: &Database, more: &str) -> Server {
    let mut server = Server::prepare(&database.url, more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("[admin]", TOKEN)).unwrap();
    server.spawn().await;
    server
}

async fn a_failed_dispatch_is_logged_counted_and_shown(database: &Database) {
    let more = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"nowhere\"\nlane = \"/customer\"\n\
                [destinations.nowhere]\nurl = \"http://127.0.0.1:9/\"\n";
    let server = start(database, more).await;
    let (body, url) = (event_body("evt_1", "invoice.paid", 1), server.url("/webhooks/stripe"));
    let sent = client().post(url).header("stripe-signature", stripe_header(&body, now_s())).body(body);
    assert_eq!(sent.send().await.unwrap().headers()["hooklatch-outcome"], "accepted", "the sender is right");
    let log = server.log();
    let line =
        log.lines().find(|line| line.contains("its dispatch failed")).unwrap_or_else(|| panic!("{log}"));
    for part in ["WARN", "stripe", "evt_1", "failed", "/customer"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let counted = "hooklatch_dispatch_failures_total{provider=\"stripe\",state=\"failed\"} 1";
    let shown = "hooklatch_events{provider=\"stripe\",state=\"failed\"} 1";
    until(
        "both numbers are there",
        Duration::from_mins(1),
        || server.log(),
        async || {
            let metrics = server.admin_text("/metrics").await;
            metrics.contains(counted) && metrics.contains(shown)
        },
    )
    .await;
    let one = backlog(&server).await["events"][0].clone();
    assert_eq!((one["state"].as_str(), one["events_n"].as_u64()), (Some("failed"), Some(1)));
}

async fn what_waits_for_removed_names_is_logged_and_shown(database: &Database) {
    let store = database.store().await;
    let gone = IncomingEvent {
        key: hooklatch_core::types::EventKey { provider: crate::store::name("gone"), ..key("evt_1") },
        ..event("evt_1", "{}")
    };
    let candidates = candidates(&store, &[&gone, &event("evt_2", "{}")], EventState::Handled).await;
    let retry = EventUpdate {
        event_seq: candidates[0].event_seq,
        key: gone.key.clone(),
        state: EventState::Retry,
        error: None,
        attempts_n: 1,
        due_at_ms: Some(1),
        processed_at_ms: 1,
    };
    let messages = numbered(&candidates[1], &[message("away")]);
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&candidates).await.unwrap();
    tx.write(&Writes { messages, updates: vec![retry] }).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    drop(store);
    let server = start(database, "").await;
    until(
        "both are reported",
        Duration::from_secs(10),
        || server.log(),
        async || {
            let log = server.log();
            let is_logged =
                |what: &str, who: &str| log.lines().any(|line| line.contains(what) && line.contains(who));
            is_logged("their provider is not configured", "gone")
                && is_logged("destination that is not configured", "away")
        },
    )
    .await;
    let metrics = server.admin_text("/metrics").await;
    assert!(metrics.contains("hooklatch_events{provider=\"gone\",state=\"retry\"} 1"), "{metrics}");
    let backlog = backlog(&server).await;
    assert_eq!(backlog["events"][0]["is_configured"], false, "{backlog}");
    assert_eq!(backlog["messages"][0]["is_configured"], false, "{backlog}");
}

#[derive(Deserialize)]
pub(crate) struct Invoice {
    amount_paid: i64,
}

async fn a_message_to_an_unknown_destination_fails_its_event(database: &Database) {
    let kind = stripe_kind().on("*", |event: Event<Invoice>| {
        Ok(Effects::new().forward(if event.payload.amount_paid == 1 { "billing" } else { "biling" }))
    });
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("good", "x", 1).await, "accepted");
    assert_eq!(app.event("bad", "x", 2).await, "accepted");
    app.running.stop().await;
    assert_eq!(state(database, "bad").await, "failed 1 no destination is called `biling`");
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages").await, 1);
}

/// At its first dispatch everything fails for now; at the next ones an event of 13 leaves a broken constraint that
/// only the commit finds.
async fn owing(tx: &mut Tx, event: Event<Invoice>) -> Handled {
    if event.attempt_n == 1 {
        return Err(anyhow::anyhow!("not yet").into());
    }
    if event.payload.amount_paid == 13 {
        tx.execute("INSERT INTO entries (account) VALUES (99)", &[]).await.map_err(anyhow::Error::from)?;
    }
    Ok(Effects::new())
}

async fn an_event_whose_commit_is_refused_is_put_off_and_delays_no_other(database: &Database) {
    database.store().await.close().await;
    execute(
        database,
        "CREATE TABLE accounts (account BIGINT PRIMARY KEY);
         CREATE TABLE entries (account BIGINT REFERENCES accounts (account) DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    let app = TestApp::start(database, stripe_kind().on_tx("*", owing), "retry = { attempts_n = 3 }").await;
    assert_eq!(app.event("poison", "x", 13).await, "accepted");
    for n in 0..4 {
        assert_eq!(app.event(&format!("evt_{n}"), "x", 1).await, "accepted");
    }
    app.clock.advance(5_000);
    for n in 0..4 {
        stands(database, &format!("evt_{n}"), "handled 2").await;
    }
    stands(database, "poison", "retry 2").await;
    // PostgreSQL checks deferred rules when the handler returns, SQLite when it commits.
    let why = state(database, "poison").await;
    assert!(why.contains("could not be committed") || why.contains("foreign key constraint"), "{why}");
    app.clock.advance(60_000);
    stands(database, "poison", "failed 3").await;
    app.running.stop().await;
}

async fn hanging(_: &mut Tx, event: Event<Invoice>) -> Handled {
    if event.attempt_n == 1 {
        return Err(anyhow::anyhow!("not yet").into());
    }
    if event.provider.as_str() == "slow" {
        std::future::pending::<()>().await;
    }
    Ok(Effects::new())
}

async fn send_to(app: &TestApp, provider: &str, id: &str, amount: i64) -> String {
    let body = event_body(id, "x", amount);
    let header = stripe_header(&body, app.clock.now_ms() / 1_000);
    let url = format!("http://{}/webhooks/{provider}", app.running.receiver_addr);
    let answer = client().post(url).header("stripe-signature", header).body(body).send().await.unwrap();
    answer.headers().get("hooklatch-outcome").map_or_else(String::new, |one| one.to_str().unwrap().to_owned())
}

async fn a_provider_with_slow_handlers_delays_no_other_retries(database: &Database) {
    let more = format!("[providers.slow]\nkind = \"stripe\"\nsecrets = [\"{SECRET}\"]\n");
    let app = TestApp::start(database, stripe_kind().on_tx("*", hanging), &more).await;
    for n in 0..10 {
        assert_eq!(send_to(&app, "slow", &format!("slow_{n}"), 1).await, "accepted");
    }
    app.clock.advance(100);
    assert_eq!(send_to(&app, "stripe", "quick", 1).await, "accepted");
    let since = Instant::now();
    app.clock.advance(5_000);
    stands(database, "quick", "handled 2").await;
    assert!(since.elapsed() < Duration::from_secs(10), "the slow ones take 20 s: {:?}", since.elapsed());
    app.running.stop().await;
}

async fn an_event_whose_body_is_gone_is_put_aside_with_the_reason(database: &Database) {
    let kind = stripe_kind().on("*", |event: Event<Invoice>| {
        if event.attempt_n == 1 { Err(anyhow::anyhow!("not yet").into()) } else { Ok(Effects::new()) }
    });
    let app = TestApp::start(database, kind, "").await;
    for id in ["gone", "there"] {
        assert_eq!(app.event(id, "x", 1).await, "accepted");
    }
    execute(database, "DELETE FROM webhook_payloads WHERE event_seq = (SELECT event_seq FROM processed_webhook_events WHERE event_id = 'gone')").await;
    app.clock.advance(5_000);
    stands(database, "there", "handled 2").await;
    stands(database, "gone", "failed 2 its body is no longer kept").await;
    app.running.stop().await;
}

async fn an_event_that_the_database_refuses_refuses_no_other(database: &Database) {
    database.store().await.close().await;
    let sql = if database.url.starts_with("sqlite") {
        "CREATE TRIGGER refuse BEFORE INSERT ON processed_webhook_events WHEN NEW.event_id LIKE 'poison%'
         BEGIN SELECT RAISE(ABORT, 'no'); END"
    } else {
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.event_id = 'poison_1' THEN RAISE EXCEPTION 'no' USING ERRCODE = '08P01'; END IF;
             IF NEW.event_id = 'poison_2' THEN RAISE EXCEPTION 'no' USING ERRCODE = '54000'; END IF;
             RETURN NEW; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON processed_webhook_events
             FOR EACH ROW EXECUTE FUNCTION refuse()"
    };
    execute(database, sql).await;
    let kind = stripe_kind().on("x", |_: Event<Invoice>| Ok(Effects::new()));
    let app = Arc::new(TestApp::start(database, kind, "").await);
    let all = (0..40).map(|n| {
        let (app, id) = (
            Arc::clone(&app),
            match n {
                11 => "poison_1".to_owned(),
                23 => "poison_2".to_owned(),
                n => format!("evt_{n}"),
            },
        );
        tokio::spawn(async move { (id.clone(), app.event(&id, "x", 1).await) })
    });
    for one in all.collect::<Vec<_>>() {
        let (id, outcome) = one.await.unwrap();
        assert_eq!(outcome, if id.starts_with("poison") { "" } else { "accepted" }, "{id}");
    }
}

async fn slow_transactional_handlers_refuse_no_other_requests(database: &Database) {
    async fn slow(_: &mut Tx, _: Event<Invoice>) -> Handled {
        std::future::pending().await
    }
    let kind = stripe_kind().on_tx("slow", slow).on("plain", |_: Event<Invoice>| Ok(Effects::new()));
    let more = format!("[providers.other]\nkind = \"stripe\"\nsecrets = [\"{SECRET}\"]\n");
    // Less than the slow ones take one after the other: who waits for all of them is refused.
    let app = TestApp::start_with(database, kind, "answer_timeout_ms = 10000", &more).await;
    let app = Arc::new(app);
    let slow = |n: u32| {
        let app = Arc::clone(&app);
        tokio::spawn(async move { app.event(&format!("slow_{n}"), "slow", 1).await })
    };
    let slow_ones: Vec<_> = (0..6).map(slow).collect();
    for n in 0..12 {
        assert_eq!(app.event(&format!("plain_{n}"), "plain", 1).await, "accepted", "{n}");
        if n == 0 {
            assert_eq!(send_to(&app, "other", "other", 1).await, "accepted");
            assert!(slow_ones.iter().any(|one| !one.is_finished()), "it waited for all the slow ones");
        }
    }
    for one in slow_ones {
        one.await.unwrap();
    }
}

async fn the_handlers_of_one_request_have_a_bounded_time_together(database: &Database) {
    static RAN_N: AtomicU32 = AtomicU32::new(0);
    async fn slow(_: &mut Tx, event: Event<serde_json::Value>) -> Handled {
        if event.attempt_n > 1 {
            return Ok(Effects::new());
        }
        RAN_N.fetch_add(1, Ordering::SeqCst);
        // Each takes half a second and ends well.
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(Effects::new())
    }
    RAN_N.store(0, Ordering::SeqCst);
    let kind = Provider::from_spec(&batches()).on_tx("*", slow);
    let app = TestApp::start_with(database, kind, "answer_timeout_ms = 20000", "").await;
    let events: Vec<String> = (0..40).map(|n| format!(r#"{{"id":"evt_{n}","type":"x"}}"#)).collect();
    let since = Instant::now();
    let (status, outcome, _) = app.post(&format!(r#"{{"events":[{}]}}"#, events.join(","))).await;
    assert_eq!((status, outcome.as_str()), (200, "accepted"), "after {:?}", since.elapsed());
    assert!(RAN_N.load(Ordering::SeqCst) <= 8, "{RAN_N:?} of 40 ran within two seconds");
    assert!(state(database, "evt_39").await.contains("handlers of its request took longer"));
    app.clock.advance(5_000);
    stands(database, "evt_0", "handled 2").await;
    stands(database, "evt_39", "handled 2").await;
    app.running.stop().await;
}

/// Stripe's scheme around lists of events.
fn batches() -> String {
    let spec = include_str!("../../providers/stripe/provider.toml");
    spec.replace("[[event]]", "[[event]]\neach = \"/events\"")
        .replace("payload = \"/data/object\"", "payload = \"\"")
}

async fn of_two_copies_in_one_batch_the_second_is_judged_by_what_stands(database: &Database) {
    let store = database.store().await;
    let (stands, other) = (event("evt_1", "a"), event("evt_1", "b"));
    let insert = async |events: &[&IncomingEvent]| {
        let candidates = candidates(&store, events, EventState::Handled).await;
        let mut tx = store.admission_begin().await.unwrap();
        let found = tx.events_insert(&candidates).await.unwrap();
        tx.commit().await.unwrap();
        found
    };
    assert_eq!(insert(&[&stands]).await, [Latched::New]);
    let conflict = Latched::Conflict { first: stands.digest, first_event_id: "evt_1".to_owned() };
    assert_eq!(insert(&[&other, &stands, &other]).await, [conflict.clone(), Latched::Duplicate, conflict]);
}

async fn readiness_says_no_while_the_database_takes_no_event_and_yes_when_it_refuses_only_one(
    database: &Database,
) {
    let more = "routes = [{ on = [\"*\"], to = \"billing\" }]";
    let app = TestApp::start(database, stripe_kind(), more).await;
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    let is_sqlite = database.url.starts_with("sqlite");
    let refuse = async |table: &str, condition: &str| {
        let sql = if is_sqlite {
            format!(
                "DROP TRIGGER IF EXISTS refuse; CREATE TRIGGER refuse BEFORE INSERT ON {table} {condition}
                 BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
        } else {
            format!(
                "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     RAISE EXCEPTION 'refused'; END $$;
                 DROP TRIGGER IF EXISTS refuse ON outbox_queue;
                 CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW {condition} EXECUTE FUNCTION refuse()"
            )
        };
        execute(database, &sql).await;
    };
    let within = Duration::from_secs(30);
    refuse("outbox_queue", "").await;
    until("it is not ready while it admits nothing", within, String::new, async || {
        assert_eq!(app.event("evt_2", "x", 1).await, "");
        !is_ready(&app).await
    })
    .await;
    refuse("processed_webhook_events", "WHEN (NEW.event_id = 'evt_2')").await;
    until("it is ready though one event is refused", within, String::new, async || {
        assert_eq!(app.event("evt_2", "x", 1).await, "");
        is_ready(&app).await
    })
    .await;
    assert_eq!(app.event("evt_3", "x", 1).await, "accepted");
    app.running.stop().await;
}
