//! Test events: an operator creates them, they are marked everywhere, and they have effects only on request. No webhook
//! request creates one, and none blocks a real event.

use std::time::Duration;

use hooklatch_verify::{Hash, base64_text, hmac};
use serde_json::{Value, json};

use crate::console::Browser;
use crate::contract::Operator;
use crate::database::{Database, on_both};
use crate::process::{SECRET, Server, client, now_s, post_stripe, stripe_header, until};
use crate::stub::{Call, Stub};

on_both!(
    a_test_event_is_marked_everywhere_and_nothing_follows_from_it,
    each_call_of_a_routed_test_event_is_marked_as_a_test,
    nothing_in_a_request_makes_an_event_a_test_event,
    an_invented_version_supersedes_no_real_event,
    a_bulk_re_run_passes_test_events_over,
);

const OPERATOR: &str = "operator-token-0123456789";
const NARROW: &str = "narrow-token-0123456789";

/// A server whose Stripe and Shopify events all go to `stub`, in a lane for each type or of objects the latest alone.
async fn serve(database: &Database, stub: &Stub) -> Server {
    let route = "routes = [{ on = [\"*\"], to = \"billing\" }]\n";
    let in_lanes = route.replace("\"billing\" }", "\"billing\", lane = \"envelope.type\" }");
    let latest = route.replace("\"billing\" }", "\"billing\", latest = true }");
    let token = |name: &str, token: &str, more: &str| {
        format!("[[admin.tokens]]\nname = \"{name}\"\nrole = \"operator\"\ntoken = \"{token}\"\n{more}")
    };
    let more = format!(
        "{in_lanes}[providers.shopify]\ntypes = [\"orders/*\"]\nsecrets = [\"{SECRET}\"]\n{latest}[destinations.billing]\nurl = \"{}\"\n{}{}",
        stub.url(),
        token("ops", OPERATOR, ""),
        token("narrow", NARROW, "providers = [\"shopify\"]\ndestinations = [\"billing\"]\n"),
    );
    Server::start(&database.url, &more).await
}

async fn made(operator: &Operator, provider: &str, key: &str, order: &Value) -> String {
    let answer = operator.post(&format!("/providers/{provider}/test-events"), key, order).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let ids = answer.body["event_ids"].as_array().unwrap();
    let id = ids[0].as_str().unwrap().to_owned();
    assert!(ids.len() == 1 && id.starts_with("test:"), "{}", answer.body);
    id
}

async fn event(operator: &Operator, provider: &str, id: &str) -> Value {
    let answer = operator.get(&format!("/events/{provider}/{id}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// The calls that went out, once there are `n`.
async fn calls(stub: &Stub, n: u32) -> Vec<Call> {
    until("the calls are made", Duration::from_secs(20), String::new, async || stub.requests_n() >= n).await;
    stub.calls()
}

fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    call.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

async fn a_test_event_is_marked_everywhere_and_nothing_follows_from_it(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let reason = json!({ "reason": "a first look" });
    let id = made(&ops, "stripe", "k-1", &reason).await;
    // The same order once more is the same event.
    assert_eq!(made(&ops, "stripe", "k-1", &reason).await, id);
    let found = event(&ops, "stripe", &id).await;
    let view = &found["event"];
    assert_eq!((&view["synthetic"], &view["state"]), (&json!(true), &json!("ignored")), "{view}");
    assert_eq!((&view["identity"], &view["attempts_n"]), (&json!("operator/1"), &json!(0)));
    assert!(view["error"].as_str().unwrap().contains("test event"), "{view}");
    let decision = found["entries"].as_array().unwrap().iter().find(|one| one["what"] == "decision").unwrap();
    let row = &decision["decision"];
    assert_eq!((&row["actor"], &row["action"]), (&json!("ops"), &json!("test_event")));
    assert_eq!(row["detail"], "a first look");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE synthetic").await, 1);
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_queue").await, 0);
    // It is no sign of life of its sender, and no event of theirs.
    assert!(ops.get("/providers/stripe").await.body["last_event"].is_null());
    let metrics = server.admin_text("/metrics").await;
    assert!(metrics.contains("hooklatch_test_events_total{provider=\"stripe\"} 1"), "{metrics}");
    assert!(
        !metrics.contains("hooklatch_requests_total{provider=\"stripe\",outcome=\"accepted\"} 1"),
        "{metrics}"
    );
    assert!(!metrics.contains("hooklatch_ignored_total{"), "no alert counts it: {metrics}");
    for path in ["/events", &format!("/events/stripe/{id}"), &format!("/search?id={id}"), "/senders/stripe"] {
        let page = Browser::signed_in(server.admin, OPERATOR).await.get(path).await;
        assert!(page.text.contains("test event"), "{path}: {}", page.text);
    }

    // An operator's own body has the id of a real event that follows later, and does not take its place.
    let (body, _) = crate::process::stripe("evt_1", now_s());
    let own = made(&ops, "stripe", "k-2", &json!({ "reason": "r", "body": body })).await;
    assert_eq!(event(&ops, "stripe", &own).await["event"]["type"], "invoice.paid");
    let url = server.url("/webhooks/stripe");
    assert_eq!(post_stripe(&client(), &url, "evt_1").await.as_deref(), Ok("accepted"));
    assert_eq!(event(&ops, "stripe", "evt_1").await["event"]["synthetic"], false);
    assert_eq!(
        header(&calls(&stub, 1).await[0], "hooklatch-synthetic"),
        "",
        "a real one is called without a mark"
    );
    assert_eq!(ops.get("/providers/stripe").await.body["last_event"]["event_id"], "evt_1");

    for (n, (order, status, code)) in [
        (json!({ "reason": "r", "type": "no.such" }), 409, "no_sample"),
        (json!({ "reason": "r", "body": "not JSON" }), 409, "test_event_unreadable"),
        (json!({ "reason": "r", "body": "x".repeat((1 << 20) + 1) }), 413, "body_too_large"),
        (json!({ "reason": "" }), 400, "bad_request"),
        (json!({}), 400, "bad_request"),
        (json!({ "reason": "r", "synthetic": false }), 400, "bad_request"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = ops.post("/providers/stripe/test-events", &format!("wrong-{n}"), &order).await;
        assert_eq!((answer.status, answer.body["code"].as_str()), (status, Some(code)), "{}", answer.body);
    }
    let narrow = Operator::new(server.admin, NARROW);
    assert_eq!(narrow.post("/providers/stripe/test-events", "k-4", &reason).await.status, 404);
    assert_eq!(ops.post("/providers/absent/test-events", "k-5", &reason).await.status, 404);
    let routed = json!({ "reason": "r", "route": true });
    assert_eq!(narrow.post("/providers/shopify/test-events", "k-6", &routed).await.status, 403);
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE synthetic").await, 2);
}

async fn each_call_of_a_routed_test_event_is_marked_as_a_test(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let order = json!({ "reason": "does billing hear us?", "type": "charge.refunded", "route": true });
    let id = made(&ops, "stripe", "k-1", &order).await;
    let call = calls(&stub, 1).await.remove(0);
    assert_eq!(
        (header(&call, "hooklatch-synthetic"), header(&call, "hooklatch-event-id")),
        ("true", id.as_str())
    );
    let view = event(&ops, "stripe", &id).await;
    assert_eq!(view["event"]["state"], "handled");
    let in_lanes = "SELECT COUNT(*) FROM outbox_lanes";
    assert_eq!(database.count(in_lanes).await, 0, "no real call waits behind it");
    let effect = view["entries"].as_array().unwrap().iter().find(|one| one["what"] == "effect").unwrap();
    assert_eq!(effect["message"]["synthetic"], true);
    let page = Browser::signed_in(server.admin, OPERATOR).await;
    let message = effect["message"]["message_id"].as_str().unwrap();
    assert!(page.get(&format!("/messages/{message}")).await.text.contains("test event"));
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log WHERE action = 'test_event_route'").await, 1);
    // The same order again makes no second call.
    assert_eq!(made(&ops, "stripe", "k-1", &order).await, id);
    let again = json!({ "act": "rerun", "reason": "once more" });
    assert_eq!(ops.post(&format!("/events/stripe/{id}/decide"), "k-2", &again).await.status, 200);
    let calls = calls(&stub, 2).await;
    assert!(calls.iter().all(|call| header(call, "hooklatch-synthetic") == "true") && calls.len() == 2);
}

async fn nothing_in_a_request_makes_an_event_a_test_event(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let (url, client) = (server.url("/webhooks/stripe"), client());
    let marks =
        r#""synthetic":true,"Hooklatch-Synthetic":"true","route":false,"identity":"operator/1","test":true"#;
    for (n, id) in
        ["evt_marked", "test:00000000-0000-5000-8000-000000000000", "test:"].into_iter().enumerate()
    {
        let body = format!(
            r#"{{"id":"{id}",{marks},"type":"invoice.paid","data":{{"object":{{{marks},"n":{n}}}}}}}"#
        );
        let request = client
            .post(format!("{url}?synthetic=true&test=true"))
            .header("stripe-signature", stripe_header(&body, now_s()))
            .header("hooklatch-synthetic", "true")
            .header("hooklatch-test", "true")
            .header("x-hooklatch-synthetic", "true");
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.headers()["hooklatch-outcome"], "accepted", "{id}");
        assert!(!answer.headers().contains_key("hooklatch-test"), "it is no test server");
    }
    let calls = calls(&stub, 3).await;
    assert!(calls.len() == 3 && calls.iter().all(|call| !call.headers.contains_key("hooklatch-synthetic")));
    let events = ops.get("/events").await.body;
    let events = events["items"].as_array().unwrap();
    for event in events {
        assert_eq!((&event["synthetic"], &event["state"]), (&json!(false), &json!("handled")), "{event}");
        assert!(!event["event_id"].as_str().unwrap().starts_with("test:"), "{event}");
    }
    assert_eq!(events.len(), 3);
    assert!(database.count("SELECT COUNT(*) FROM outbox_lanes").await > 0, "those of real events have lanes");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE synthetic").await, 0);
}

async fn an_invented_version_supersedes_no_real_event(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let of_year = |year: u32| {
        format!(r#"{{"id":7,"created_at":"2026-01-01T00:00:00Z","updated_at":"{year}-01-01T00:00:00Z"}}"#)
    };
    let topic = "orders/updated";
    for (key, route) in [("k-1", false), ("k-2", true)] {
        let order = json!({ "reason": "r", "type": topic, "body": of_year(2099), "route": route });
        let id = made(&ops, "shopify", key, &order).await;
        assert_eq!(event(&ops, "shopify", &id).await["event"]["object"], "14:orders/updated,1:7");
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM object_versions").await, 0);
    let body = of_year(2026);
    let mac = base64_text(&hmac(Hash::Sha256, SECRET.as_bytes(), &[body.as_bytes()]));
    let sent = client()
        .post(server.url("/webhooks/shopify"))
        .header("x-shopify-hmac-sha256", mac)
        .header("x-shopify-topic", topic)
        .header("x-shopify-event-id", "real-1");
    assert_eq!(sent.body(body).send().await.unwrap().headers()["hooklatch-outcome"], "accepted");
    let marks: Vec<String> =
        calls(&stub, 2).await.iter().map(|call| header(call, "hooklatch-synthetic").to_owned()).collect();
    assert!(marks.contains(&"true".to_owned()) && marks.contains(&String::new()), "{marks:?}");
}

async fn a_bulk_re_run_passes_test_events_over(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let id = made(&ops, "stripe", "k-1", &json!({ "reason": "r" })).await;
    let order = json!({
        "subject": { "events": { "act": "rerun", "filter": { "state": "ignored", "provider": "stripe" } } },
        "counted_n": 1, "reason": "the route had a typing error",
    });
    let begun = ops.begin("k-2", &order).await;
    assert_eq!(begun.status, 202, "{}", begun.body);
    let path = format!("/operations/{}", begun.body["operation_id"].as_str().unwrap());
    until(
        "it is over",
        Duration::from_secs(20),
        || server.log(),
        async || ops.get(&path).await.body["state"] == "done",
    )
    .await;
    let operation = ops.get(&path).await.body;
    assert_eq!((&operation["changed_n"], &operation["skipped_n"]), (&json!(0), &json!(1)), "{operation}");
    assert_eq!(operation["skipped"][0]["outcome"], "test_event", "{operation}");
    // Nor one by one: only a test event that was created with calls makes any.
    let one = ops
        .post(&format!("/events/stripe/{id}/decide"), "k-3", &json!({ "act": "rerun", "reason": "r" }))
        .await;
    assert_eq!((one.status, &one.body["code"]), (409, &json!("test_event")), "{}", one.body);
    let view = event(&ops, "stripe", &id).await;
    assert_eq!(view["event"]["state"], "ignored");
    let judgement = view["judgement"].to_string();
    assert!(
        judgement.contains("A test event that was made without calls") && !judgement.contains("rerun"),
        "{judgement}"
    );
    assert_eq!(stub.requests_n(), 0);
}
