//! Other content under a known id, with the real program: kept, shown, and dispatched or dismissed by operators.

use std::time::Duration;

use hooklatch::prelude::*;
use serde_json::Value;

use crate::app::{TestApp, event_body, stripe_kind};
use crate::database::{Database, on_both};
use crate::process::{Server, client, now_s, stripe_header, until};

on_both!(
    a_kept_conflict_is_shown_with_its_event_and_dispatched_when_a_person_says_so,
    with_dispatch_every_content_is_handled_once_under_keys_of_its_own,
    conflicting_contents_that_come_at_once_and_a_kill_lose_none_and_act_once,
    what_a_person_dispatches_late_is_tried_again_like_any_other,
    of_two_people_who_dismiss_and_dispatch_at_once_one_decides,
);

fn counting() -> Provider {
    stripe_kind().on("x", |event: Event<Value>| {
        Ok(Effects::new().call("billing", json!({ "paid": event.payload["amount_paid"], "id": event.id })))
    })
}

async fn calls_n(app: &TestApp, n: usize) {
    let (seen, asked) = (app.destination.clone(), app.destination.clone());
    until(
        &format!("{n} calls are made"),
        Duration::from_secs(20),
        move || format!("{:?}", seen.calls()),
        async move || asked.calls().len() == n,
    )
    .await;
}

async fn with_dispatch_every_content_is_handled_once_under_keys_of_its_own(database: &Database) {
    let app = TestApp::start(database, counting(), "on_conflict = \"dispatch\"").await;
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    for amount in [2, 2, 3, 1, 3] {
        let outcome = app.event("evt_1", "x", amount).await;
        assert_eq!(outcome, if amount == 1 { "duplicate" } else { "conflict" }, "{amount}");
        app.clock.advance(10);
    }
    calls_n(&app, 3).await;
    assert_eq!(app.event("evt_2", "x", 9).await, "accepted");
    calls_n(&app, 4).await;
    let (keys, bodies): (Vec<String>, Vec<String>) = app.destination.calls().into_iter().unzip();
    let mut paid: Vec<i64> = bodies
        .iter()
        .map(|body| serde_json::from_str::<Value>(body).unwrap()["paid"].as_i64().unwrap())
        .collect();
    paid.sort_unstable();
    assert_eq!(paid, [1, 2, 3, 9], "each content once");
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), 4, "{keys:?}");
    let done = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled' AND event_id LIKE 'conflict:%'";
    assert_eq!(database.count(done).await, 2);
    app.running.stop().await;
}

const ROUTED: &str = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"nowhere\"\n\
                      [destinations.nowhere]\nurl = \"http://127.0.0.1:9\"\nunknown = \"hold\"\n";

const TOKEN: &str = "operator-token-0123456789";

/// A server with an operator's token.
async fn operated(database: &Database) -> Server {
    let mut server = Server::prepare(&database.url, ROUTED);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let tokens =
        format!("tokens = [{{ name = \"ops\", role = \"operator\", token = \"{TOKEN}\" }}]\n[database]");
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    server
}

async fn send(server: &Server, id: &str, amount: i64) -> Option<String> {
    let body = event_body(id, "x", amount);
    let header = stripe_header(&body, now_s());
    let request = client().post(server.url("/webhooks/stripe")).header("stripe-signature", header);
    let answer = request.header("x-amount", amount).body(body).send().await.ok()?;
    Some(answer.headers().get("hooklatch-outcome")?.to_str().ok()?.to_owned())
}

/// `hooklatch events …` against the server: whether it went well, and what it said.
fn events(server: &Server, args: &[&str]) -> (bool, String) {
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .arg("--config")
        .arg(server.config())
        .arg("events")
        .args(args)
        .args((args[0] == "show").then_some("--json"))
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8(said).unwrap())
}

/// Ids of the contents that a ledger lists as kept beside its event.
fn conflict_ids(ledger: &Value) -> Vec<String> {
    let entries = ledger["entries"].as_array().unwrap();
    let kept = entries.iter().filter(|one| one["what"] == "conflict");
    kept.map(|one| one["event"]["event_id"].as_str().unwrap().to_owned()).collect()
}

async fn a_kept_conflict_is_shown_with_its_event_and_dispatched_when_a_person_says_so(database: &Database) {
    let server = operated(database).await;
    assert_eq!(send(&server, "evt_1", 1).await.as_deref(), Some("accepted"));
    for amount in [2, 3, 2] {
        assert_eq!(send(&server, "evt_1", amount).await.as_deref(), Some("conflict"));
    }
    assert!(server.log().contains("received other content under an id"), "{}", server.log());
    let (_, shown) = events(&server, &["show", "stripe", "evt_1"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let ids = conflict_ids(&shown);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!((ids.len(), &shown["conflicts_unkept_n"]), (2, &json!(0)));
    assert_eq!(shown["content"]["body"], event_body("evt_1", "x", 1));
    assert_eq!(shown["event"]["identity"], "sender/1");
    let (_, kept) = events(&server, &["show", "stripe", ids[0]]);
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["content"]["body"], event_body("evt_1", "x", 2));
    assert_eq!(kept["content"]["headers"]["x-amount"][0], "2");
    assert!(events(&server, &["list", "--state", "conflict"]).1.contains(ids[0]));

    assert!(events(&server, &["dispatch", "stripe", ids[0], "--reason", "a second capture"]).0);
    assert!(events(&server, &["dismiss", "stripe", ids[1], "--reason", "a test of the sender"]).0);
    let (is_done, said) = events(&server, &["dispatch", "stripe", ids[0], "--reason", "again"]);
    assert!(!is_done && said.contains("409"), "{said}");
    let messages_n = "SELECT COUNT(*) FROM outbox_messages";
    until(
        "the content that was dispatched has its message",
        Duration::from_secs(20),
        || server.log(),
        async || database.count(messages_n).await == 2,
    )
    .await;
    let (_, shown) = events(&server, &["show", "stripe", ids[0]]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let entries = shown["entries"].as_array().unwrap();
    let effects_n = entries.iter().filter(|one| one["what"] == "effect").count();
    assert_eq!((&shown["event"]["state"], effects_n), (&json!("handled"), 1));
    let keys = database.call_keys().await;
    assert!(keys.len() == 2 && keys[0] != keys[1], "under a key of its own: {keys:?}");
    assert_eq!(
        send(&server, "evt_1", 2).await.as_deref(),
        Some("conflict"),
        "kept already, and stays dispatched"
    );
    assert_eq!(database.count(messages_n).await, 2);
    let audited = "SELECT COUNT(*) FROM audit_log WHERE action IN ('event_dispatch', 'event_dismiss')";
    assert_eq!(database.count(audited).await, 2);
}

async fn conflicting_contents_that_come_at_once_and_a_kill_lose_none_and_act_once(database: &Database) {
    let mut server = operated(database).await;
    for round in 0..3 {
        let url = server.url("/webhooks/stripe");
        let mut senders = tokio::task::JoinSet::new();
        for n in 0..30_i64 {
            let body = event_body("evt_1", "x", n % 10);
            let request =
                client().post(&url).header("stripe-signature", stripe_header(&body, now_s())).body(body);
            senders.spawn(async move { request.send().await.is_ok_and(|answer| answer.status() == 200) });
        }
        // In the midst of them, as a crash would.
        drop(senders.join_next().await);
        if round < 2 {
            server.kill();
        }
        while senders.join_next().await.is_some() {}
        if round < 2 {
            server.spawn().await;
        }
    }
    for n in 0..10 {
        let outcome = send(&server, "evt_1", n).await.unwrap();
        assert!(outcome == "conflict" || outcome == "duplicate", "{n}: {outcome}");
    }
    let (_, shown) = events(&server, &["show", "stripe", "evt_1"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let contents = |one: &Value| one["content"]["body"].as_str().unwrap().to_owned();
    let ids = conflict_ids(&shown);
    let show = |id: &String| serde_json::from_str(&events(&server, &["show", "stripe", id]).1).unwrap();
    let mut bodies: Vec<String> = ids.iter().map(show).map(|one: Value| contents(&one)).collect();
    bodies.push(contents(&shown));
    bodies.sort();
    let mut wanted: Vec<String> = (0..10).map(|n| event_body("evt_1", "x", n)).collect();
    wanted.sort();
    assert_eq!(bodies, wanted, "every content is there, once");

    let id = ids[0].clone();
    let url = format!("http://{}/v1/events/stripe/{id}/decide", server.admin);
    let mut deciding = tokio::task::JoinSet::new();
    for n in 0..8 {
        let request =
            client().post(&url).bearer_auth(TOKEN).header("idempotency-key", format!("decision-{n}"));
        let request = request.body(r#"{"act":"dispatch","reason":"seen"}"#);
        deciding.spawn(async move { request.send().await.unwrap().status().as_u16() });
    }
    let mut statuses = deciding.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
    until(
        "it has one message",
        Duration::from_secs(20),
        || server.log(),
        async || database.count("SELECT COUNT(*) FROM outbox_messages").await == 2,
    )
    .await;
}

async fn what_a_person_dispatches_late_is_tried_again_like_any_other(database: &Database) {
    let kind =
        stripe_kind().on("x", |event: Event<Value>| match (event.attempt_n, &event.payload["amount_paid"]) {
            (1, amount) if *amount == 2 => Err(HandlerError::Retry(anyhow::anyhow!("away for now"))),
            _ => Ok(Effects::new().call("billing", json!({}))),
        });
    let tokens = format!("[[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\ntoken = \"{TOKEN}\"");
    let app = TestApp::start(database, kind, &tokens).await;
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    assert_eq!(app.event("evt_1", "x", 2).await, "conflict");
    calls_n(&app, 1).await;
    // Longer than the attempts of an event may take together.
    app.clock.advance(60 * 24 * 3_600_000);
    let kept =
        "SELECT event_id FROM processed_webhook_events WHERE event_id LIKE 'conflict:%' AND provider = $1";
    let id = database.text(kept, "stripe").await.unwrap();
    let url = format!("http://{}/v1/events/stripe/{id}/decide", app.running.admin_addr);
    let order = client().post(url).bearer_auth(TOKEN).header("idempotency-key", "r-1");
    let answer = order.body(r#"{"act":"dispatch","reason":"a second capture"}"#).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let state = "SELECT state || ' after ' || attempts_n FROM processed_webhook_events WHERE event_id = $1";
    let mut seen = None;
    until("its handler failed once", Duration::from_secs(20), String::new, async || {
        seen = database.text(state, &id).await;
        seen.as_ref().is_some_and(|seen| seen.ends_with('1'))
    })
    .await;
    assert_eq!(seen.as_deref(), Some("retry after 1"));
    app.clock.advance(24 * 3_600_000);
    calls_n(&app, 2).await;
    app.running.stop().await;
}

/// A decision about one event, through `/v1`: its status and code.
async fn decide(server: &Server, id: &str, act: &str, version: Option<&str>) -> (u16, String) {
    let url = format!("http://{}/v1/events/stripe/{id}/decide", server.admin);
    let request =
        client().post(url).bearer_auth(TOKEN).header("idempotency-key", uuid::Uuid::new_v4().to_string());
    let request = version.into_iter().fold(request, |request, tag| request.header("if-match", tag));
    let answer =
        request.body(serde_json::json!({ "act": act, "reason": "r" }).to_string()).send().await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

async fn of_two_people_who_dismiss_and_dispatch_at_once_one_decides(database: &Database) {
    let server = operated(database).await;
    assert_eq!(send(&server, "evt_1", 1).await.as_deref(), Some("accepted"));
    for amount in 2..12 {
        assert_eq!(send(&server, "evt_1", amount).await.as_deref(), Some("conflict"));
    }
    let ids = database
        .texts("SELECT event_id FROM processed_webhook_events WHERE state = 'conflict' ORDER BY event_id")
        .await;
    assert_eq!(ids.len(), 10);
    for id in &ids {
        let both = tokio::join!(async { decide(&server, id, "dismiss", None).await }, async {
            decide(&server, id, "dispatch", None).await
        });
        let statuses = (both.0.0, both.1.0);
        assert!(matches!(statuses, (200, 409 | 428) | (409, 200)), "{both:?}");
    }
    // Who has seen that it was dismissed may dispatch it all the same.
    assert_eq!(send(&server, "evt_1", 99).await.as_deref(), Some("conflict"));
    let conflict = "SELECT event_id FROM processed_webhook_events WHERE state = 'conflict'";
    let last = database.texts(conflict).await.remove(0);
    assert_eq!(decide(&server, &last, "dismiss", None).await.0, 200);
    let late = decide(&server, &last, "dispatch", None).await;
    assert_eq!(late, (428, "version_needed".to_owned()));
    let url = format!("http://{}/v1/events/stripe/{last}", server.admin);
    let seen = client().get(url).bearer_auth(TOKEN).send().await.unwrap();
    let version = seen.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(decide(&server, &last, "dispatch", Some(&version)).await.0, 200);
}
