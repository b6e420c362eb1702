//! The operators' API and its commands, on the real binary.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::database::{Database, On, on_both};
use crate::process::{SECRET, Server, client, now_s, post_stripe, stripe_signed, until};
use crate::stub::{Mode, Stub};

on_both!(
    a_person_decides_about_what_is_held_and_it_happens_once,
    an_event_is_run_again_under_new_keys_on_a_persons_word,
    a_destination_whose_pause_has_ended_resumes_by_itself,
    a_paused_provider_answers_and_waits_until_it_is_resumed,
    a_refusal_is_explained_to_operators_alone,
    what_a_person_decides_is_not_left_until_the_next_look,
);

const OPERATOR: &str = "operator-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";

/// A server that routes everything to `stub`, with `unknown = "hold"`.
async fn serve(database: &Database, stub: &Stub) -> Server {
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [destinations.billing]\nurl = \"{}\"\nunknown = \"hold\"\n",
        stub.url()
    );
    let mut server = Server::prepare(&database.url, &more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let tokens = format!(
        "tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}, \
         {{ name = \"looker\", role = \"viewer\", token = \"{VIEWER}\" }}]\n[database]"
    );
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    server
}

async fn what_a_person_decides_is_not_left_until_the_next_look(database: &Database) {
    let stub = Stub::start().await;
    let mut server = serve(database, &stub).await;
    server.kill();
    let config = std::fs::read_to_string(server.config()).unwrap();
    // Far longer than a test may take.
    let config = config.replace("[database]", "[outbox]\npoll_ms = 60000\n[database]");
    std::fs::write(server.config(), config).unwrap();
    server.spawn().await;
    let order = |act: &str| json!({ "act": act, "reason": "looked" });
    let decided = async |path: &str, key: &str, act: &str| {
        let answer = decide(&server, path, (OPERATOR, Some(key)), &order(act)).await;
        assert_eq!(answer.0, 200, "{act}: {answer:?}");
    };
    let called = async |what: &str, n: u32| {
        let log = || server.log();
        until(what, Duration::from_secs(10), log, async || stub.requests_n() >= n).await;
    };
    stub.next(&[Mode::ActThenStatus(504)]);
    let url = server.url("/webhooks/stripe");
    post_stripe(&client(), &url, "evt_1").await.unwrap();
    let id = message_in(&server, "held").await;
    decided(&format!("/messages/{id}/decide"), "k-1", "send").await;
    called("it is sent again", 2).await;

    decided("/destinations/billing/decide", "k-2", "pause").await;
    post_stripe(&client(), &url, "evt_2").await.unwrap();
    decided("/destinations/billing/decide", "k-3", "resume").await;
    called("the destination is used again", 3).await;

    decided("/events/stripe/evt_2/decide", "k-4", "rerun").await;
    called("the event is dispatched again", 4).await;
}

async fn a_destination_whose_pause_has_ended_resumes_by_itself(database: &Database) {
    let stub = Stub::start().await;
    let mut server = serve(database, &stub).await;
    let until_ms = (now_s() + 3_600) * 1_000;
    let order = json!({ "act": "pause", "reason": "they move", "until_ms": until_ms });
    let answer = decide(&server, "/destinations/billing/decide", (OPERATOR, Some("k-1")), &order).await;
    assert_eq!(answer.0, 200, "{answer:?}");
    let (_, shown) = get(&server, "/destinations/billing", VIEWER).await;
    assert_eq!(shown["pause"]["until_ms"], until_ms);
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    // A server looks when it starts, and every half minute.
    server.kill();
    database.run("UPDATE destination_pauses SET until_ms = paused_at_ms + 1").await.unwrap();
    server.spawn().await;
    let log = || server.log();
    until("it is called", Duration::from_secs(20), log, async || stub.requests_n() == 1).await;
    assert_eq!(get(&server, "/destinations/billing", VIEWER).await.1["pause"], Value::Null);
}

async fn a_paused_provider_answers_and_waits_until_it_is_resumed(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let path = "/providers/stripe/decide";
    let until_ms = (now_s() + 3_600) * 1_000;
    let pause = json!({ "act": "pause", "reason": "a bad deploy", "until_ms": until_ms });
    assert_eq!(decide(&server, path, (VIEWER, Some("k-0")), &pause).await.0, 403);
    let unknown = decide(&server, "/providers/absent/decide", (OPERATOR, Some("k-0")), &pause).await;
    assert_eq!(unknown.0, 404, "{unknown:?}");
    let answer = decide(&server, path, (OPERATOR, Some("k-1")), &pause).await;
    assert_eq!(answer.0, 200, "{answer:?}");
    let (_, shown) = get(&server, "/providers/stripe", VIEWER).await;
    assert_eq!((&shown["pause"]["until_ms"], &shown["pause"]["actor"]), (&json!(until_ms), &json!("ops")));
    let sent_n = std::cell::Cell::new(0);
    let log = || server.log();
    until("the node has seen the pause", Duration::from_secs(10), log, async || {
        sent_n.set(sent_n.get() + 1);
        let id = format!("evt_{}", sent_n.get());
        post_stripe(&client(), &server.url("/webhooks/stripe"), &id).await.unwrap();
        let (_, event) = get(&server, &format!("/events/stripe/{id}"), VIEWER).await;
        event["event"]["error"] == "provider paused by ops: a bad deploy"
            || event["error"] == "provider paused by ops: a bad deploy"
    })
    .await;
    let metric = |text: String, name: &str| text.lines().any(|line| line == name);
    until("it is a metric", Duration::from_secs(20), log, async || {
        let text = client()
            .get(format!("http://{}/metrics", server.admin))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        metric(text, "hooklatch_provider_paused{provider=\"stripe\"} 1")
    })
    .await;
    assert!(stub.requests_n() < sent_n.get());
    let answer =
        decide(&server, path, (OPERATOR, Some("k-2")), &json!({ "act": "resume", "reason": "better" })).await;
    assert_eq!(answer.0, 200, "{answer:?}");
    until("all are called", Duration::from_secs(20), log, async || stub.requests_n() == sent_n.get()).await;
    assert_eq!(get(&server, "/providers/stripe", VIEWER).await.1["pause"], Value::Null);
}

async fn get(server: &Server, path: &str, token: &str) -> (u16, Value) {
    let url = format!("http://{}/v1{path}", server.admin);
    let response = client().get(url).bearer_auth(token).send().await.unwrap();
    (response.status().as_u16(), serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
}

/// The messages in a ledger.
fn effects(ledger: &Value) -> Vec<Value> {
    let entries = ledger["entries"].as_array().unwrap();
    entries.iter().filter(|one| one["what"] == "effect").map(|one| one["message"].clone()).collect()
}

async fn decide(
    server: &Server,
    path: &str,
    (token, key): (&str, Option<&str>),
    order: &Value,
) -> (u16, Value, bool) {
    let url = format!("http://{}/v1{path}", server.admin);
    let mut request = client().post(url).bearer_auth(token).body(order.to_string());
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let response = request.send().await.unwrap();
    let is_again = response.headers().contains_key("idempotency-replayed");
    (
        response.status().as_u16(),
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default(),
        is_again,
    )
}

/// The id of the first message, once it stands in `state`.
async fn message_in(server: &Server, state: &str) -> String {
    let mut id = String::new();
    until(
        "a message stands there",
        Duration::from_secs(20),
        || server.log(),
        async || {
            let (_, found) = get(server, &format!("/messages?state={state}"), VIEWER).await;
            found["items"][0]["message_id"].as_str().unwrap_or_default().clone_into(&mut id);
            !id.is_empty()
        },
    )
    .await;
    id
}

async fn a_person_decides_about_what_is_held_and_it_happens_once(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::ActThenDrop, Mode::Drop]);
    let server = serve(database, &stub).await;
    let url = server.url("/webhooks/stripe");
    post_stripe(&client(), &url, "evt_1").await.unwrap();
    let id = message_in(&server, "held").await;
    let (status, shown) = get(&server, &format!("/messages/{id}"), VIEWER).await;
    assert_eq!((status, &shown["attempts"][0]["result"]), (200, &json!("unknown")), "{shown}");
    let key = shown["message"]["idempotency_key"].as_str().unwrap().to_owned();
    let path = format!("/messages/{id}/decide");
    let order = json!({ "act": "done", "reason": "seen in their ledger" });
    assert_eq!(decide(&server, &path, (VIEWER, Some("k1")), &order).await.0, 403);
    assert_eq!(decide(&server, &path, (OPERATOR, None), &order).await.0, 400);
    assert_eq!(
        decide(&server, &path, (OPERATOR, Some("k1")), &order).await,
        (200, json!({"outcome": "changed", "messages_n": 1}), false)
    );
    assert!(decide(&server, &path, (OPERATOR, Some("k1")), &order).await.2, "the same request again");
    let other = json!({ "act": "send", "reason": "once more" });
    assert_eq!(decide(&server, &path, (OPERATOR, Some("k1")), &other).await.0, 422);
    let (status, refused, _) = decide(&server, &path, (OPERATOR, Some("k2")), &other).await;
    assert_eq!((status, &refused["state"]), (409, &json!("done")));
    assert_eq!(stub.counts(&key), (1, 1), "it was not sent again");
    let (_, shown) = get(&server, &format!("/messages/{id}"), VIEWER).await;
    assert_eq!(shown["decisions"][0]["actor"], "ops");
    assert_eq!(shown["decisions"][0]["detail"], "seen in their ledger");

    post_stripe(&client(), &url, "evt_2").await.unwrap();
    let id = message_in(&server, "held").await;
    let command = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let run = command.args(args).arg("--config").arg(server.config()).output().unwrap();
        (
            run.status.success(),
            String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr),
        )
    };
    let (_, listed) = command(&["messages", "list", "--state", "held"]);
    assert!(listed.contains(&id) && listed.contains("evt_2"), "{listed}");
    let (is_fine, said) = command(&["messages", "send", "--state", "held", "--reason", "they lost it"]);
    assert!(!is_fine && said.contains("1 message with state held"), "{said}");
    let one = said.split("--yes ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let (is_fine, said) =
        command(&["messages", "send", "--state", "held", "--reason", "they lost it", "--yes", one]);
    assert!(is_fine && said.contains("1 of 1"), "{said}");
    until(
        "it is sent again",
        Duration::from_secs(20),
        || server.log(),
        async || get(&server, &format!("/messages/{id}"), VIEWER).await.1["message"]["state"] == "done",
    )
    .await;
    let (_, shown) = get(&server, "/events/stripe/evt_2", VIEWER).await;
    let key = effects(&shown)[0]["idempotency_key"].as_str().unwrap().to_owned();
    assert_eq!(stub.counts(&key), (2, 1), "under the same key");
    let (is_fine, said) = command(&["messages", "discard", &id, "--reason", "too late"]);
    assert!(!is_fine && said.contains("409") && said.contains("done"), "{said}");
    let paused = command(&["destinations", "pause", "billing", "--reason", "they migrate"]);
    assert_eq!(paused, (true, "billing: paused\n".to_owned()));
    post_stripe(&client(), &url, "evt_3").await.unwrap();
    let (_, listed) = command(&["destinations", "show", "billing"]);
    assert!(listed.contains("paused by") && listed.contains("they migrate"), "{listed}");
    let (is_fine, said) = command(&["destinations", "pause", "nowhere", "--reason", "x"]);
    assert!(!is_fine && said.contains("404"), "{said}");
    let waiting = effects(&get(&server, "/events/stripe/evt_3", VIEWER).await.1)[0]["attempts_n"].clone();
    assert_eq!(waiting, 0);
    assert!(command(&["destinations", "resume", "billing", "--reason", "they are back"]).0);
    until(
        "it goes on",
        Duration::from_secs(20),
        || server.log(),
        async || effects(&get(&server, "/events/stripe/evt_3", VIEWER).await.1)[0]["state"] == "done",
    )
    .await;
    let (_, shown) = command(&["events", "show", "stripe", "evt_2", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["event"]["state"], "handled", "{shown}");
}

#[tokio::test]
async fn what_the_api_cannot_take_is_said_plainly() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = serve(&database, &Stub::start().await).await;
    let cases = [
        ("/messages", "", 401),
        ("/messages", "wrong-token-0123456789", 401),
        ("/messages?state=lost", VIEWER, 400),
        ("/messages?stat=held", VIEWER, 400),
        ("/messages?limit=0", VIEWER, 400),
        ("/messages?limit=501", VIEWER, 400),
        ("/messages?destination=A%20B", VIEWER, 400),
        ("/messages/absent", VIEWER, 404),
        ("/events/stripe/evt_0", VIEWER, 404),
        ("/events?state=held", VIEWER, 400),
        ("/nothing", VIEWER, 404),
        ("/events", VIEWER, 200),
    ];
    for (path, token, status) in cases {
        assert_eq!(get(&server, path, token).await.0, status, "{path}");
    }
    let long = json!({ "act": "send", "reason": "x".repeat(20_000) });
    let orders = [
        ("/messages/absent/decide", json!({ "act": "send", "reason": "r" }), 404),
        ("/messages/absent/decide", json!({ "act": "sell", "reason": "r" }), 400),
        ("/messages/absent/decide", json!({ "act": "pause", "reason": "r" }), 400),
        ("/messages/absent/decide", json!({ "act": "send", "reason": "r", "provider": "stripe" }), 400),
        ("/destinations/billing/decide", json!({ "act": "pause", "reason": "r", "state": "held" }), 400),
        ("/destinations/billing/decide", json!({ "act": "send", "reason": "r" }), 400),
        ("/destinations/absent/decide", json!({ "act": "pause", "reason": "r" }), 404),
        ("/destinations/billing/decide", json!({ "act": "resume", "reason": "r" }), 409),
        ("/destinations/billing/decide", json!({ "act": "resume", "reason": "r", "until_ms": 9e12 }), 409),
        ("/destinations/billing/decide", json!({ "act": "pause", "reason": "r", "until_ms": 1 }), 409),
        ("/messages/absent/decide", json!({ "act": "send", "reason": " " }), 400),
        ("/messages/absent/decide", json!({ "act": "send" }), 400),
        ("/messages/absent/decide", json!({ "act": "send", "reason": "r", "state": "dead" }), 400),
        ("/messages/absent/decide", json!({ "act": "send", "reason": "r", "force": true }), 400),
        ("/messages/absent/decide", long, 413),
        ("/messages/decide", json!({ "act": "send", "reason": "r" }), 405),
    ];
    for (n, (path, order, status)) in orders.iter().enumerate() {
        let key = format!("k{n}");
        assert_eq!(decide(&server, path, (OPERATOR, Some(&key)), order).await.0, *status, "{path} {order}");
    }
}

async fn an_event_is_run_again_under_new_keys_on_a_persons_word(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    message_in(&server, "done").await;
    let path = "/events/stripe/evt_1/decide";
    let order = json!({ "act": "rerun", "reason": "billing lost its database" });
    assert_eq!(decide(&server, path, (VIEWER, Some("k1")), &order).await.0, 403);
    assert_eq!(
        decide(&server, path, (OPERATOR, Some("k0")), &json!({"act": "send", "reason": "x"})).await.0,
        400
    );
    assert_eq!(decide(&server, "/events/stripe/evt_9/decide", (OPERATOR, Some("k0")), &order).await.0, 404);
    assert_eq!(decide(&server, path, (OPERATOR, Some("k1")), &order).await.0, 200);
    assert!(decide(&server, path, (OPERATOR, Some("k1")), &order).await.2, "the same request runs it once");
    let mut keys = Vec::new();
    until(
        "both generations are done",
        Duration::from_secs(20),
        || server.log(),
        async || {
            let (_, found) = get(&server, "/messages?state=done", VIEWER).await;
            let messages = found["items"].as_array().unwrap();
            keys = messages.iter().map(|one| one["idempotency_key"].as_str().unwrap().to_owned()).collect();
            keys.len() == 2
        },
    )
    .await;
    assert_ne!(keys[0], keys[1], "a new key for a new call");
    assert!(keys.iter().all(|key| stub.counts(key) == (1, 1)));
    let (_, shown) = get(&server, "/events/stripe/evt_1", VIEWER).await;
    assert_eq!(shown["event"]["state"], "handled", "{shown}");
    assert_eq!(post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap(), "duplicate");

    let config = server.config();
    let rerun = ["events", "rerun", "stripe", "evt_1", "--reason", "again", "--config"];
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(rerun).arg(&config).args(more);
        let run = command.args(["--token", OPERATOR, "--url", &format!("http://{}", server.admin)]).output();
        let run = run.unwrap();
        (run.status.code(), String::from_utf8(run.stderr).unwrap())
    };
    // Another operator reran it already: one who has not seen that does not run it a third time.
    let (ended, said) = run(&[]);
    assert!(
        ended == Some(4) && said.contains("decided about this first") && said.contains("--if-match"),
        "{said}"
    );
    let (ended, said) = run(&["--if-match", "*"]);
    assert_eq!(ended, Some(0), "{said}");
}

async fn a_refusal_is_explained_to_operators_alone(database: &Database) {
    let stub = Stub::start().await;
    let mut server = serve(database, &stub).await;
    let more = "[providers.stripe_test]\nkind = \"stripe\"\nsecrets = [\"whsec_another_one_0123456789\"]\n";
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config + more).unwrap();
    server.kill();
    server.spawn().await;
    let refused = async |body: &str, signature: String| {
        let request = client().post(server.url("/webhooks/stripe")).header("stripe-signature", signature);
        let answer = request.body(body.to_owned()).send().await.unwrap();
        assert_eq!(answer.status(), 401);
        assert!(answer.text().await.unwrap().contains("the request was not believed"), "and no more");
    };
    let body = r#"{"id":"evt_1","type":"x"}"#;
    let by = |body: &str, secret: &str, age_s: i64| stripe_signed(body, secret, now_s() - age_s);
    refused(body, by(body, "whsec_another_one_0123456789", 0)).await;
    refused(&format!("{body}\n"), by(body, SECRET, 0)).await;
    refused(&body.replace(':', ": ").replace(',', ", "), by(body, SECRET, 0)).await;
    refused(body, by(body, SECRET, 412)).await;
    refused(body, by(body, "whsec_nobody_has_this", 0)).await;
    let mut found = Vec::new();
    until(
        "all are noted",
        Duration::from_secs(20),
        || server.log(),
        async || {
            let (_, list) = get(&server, "/rejected?provider=stripe", VIEWER).await;
            found = list["items"].as_array().cloned().unwrap_or_default();
            found.len() == 5
        },
    )
    .await;
    found.reverse();
    let wanted = [
        ("other_secret", "matches the secret of provider `stripe_test`"),
        ("rewritten_body", "with a trailing newline removed"),
        ("rewritten_body", "without white space"),
        ("stale", "timestamp is AGE s old, tolerance is 300 s; at its own time it would be believed"),
        ("mismatch", "does not match the configured secret"),
    ];
    for (one, (reason, detail)) in found.iter().zip(wanted) {
        assert_eq!(one["reason"], reason, "{one}");
        // Seconds may pass between signing and judging.
        let shown = one["detail"].as_str().unwrap();
        let is_shown = (412..=440).any(|age_s| shown.contains(&detail.replace("AGE", &age_s.to_string())));
        assert!(is_shown, "{one}");
        assert!(!one["headers"].to_string().contains("v1="), "no signature is kept: {one}");
    }
    let metrics = server.admin_text("/metrics").await;
    assert!(metrics.contains(r#"hooklatch_rejected_total{provider="stripe",reason="rewritten_body"} 2"#));
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let run = command.args(args).arg("--config").arg(server.config()).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap()
    };
    let url = format!("http://{}", server.admin);
    assert!(run(&["explain", "--recent", "--url", &url]).contains("stripe_test"));
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    until(
        "the secret's use is noted",
        Duration::from_secs(20),
        || server.log(),
        async || run(&["providers", "--live", "--url", &url]).contains("last matched "),
    )
    .await;
    assert!(run(&["providers", "--live", "--url", &url]).contains("has not matched yet"));
}
