//! Explain over the API: saved requests, checked by the configured providers.

use serde_json::{Value, json};

use crate::contract::{Answer, Operator};
use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, now_s, post_stripe, stripe_header};

on_sqlite!(
    a_saved_request_is_checked_step_by_step_and_a_known_event_is_reported,
    another_secret_that_matches_is_shown_within_the_scope_of_the_caller,
    changed_line_ends_are_reported,
    what_is_no_request_is_said_and_who_may_not_ask_hears_nothing,
);

const TOKENS: &str = "[[admin.tokens]]\nname = \"rita\"\nrole = \"reader\"\ntoken = \"reader-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"narrow\"\nrole = \"reader\"\ntoken = \"narrow-token-0123456789\"\n\
    providers = [\"stripe\"]\n\
    [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"viewer-token-0123456789\"\n\
    [providers.stripe_eu]\nkind = \"stripe\"\nsecrets = [\"whsec_another_one_0123456789\"]\n";

async fn serve(database: &Database) -> (Server, Operator) {
    let server = Server::start(&database.url, TOKENS).await;
    let reader = Operator::new(server.admin, "reader-token-0123456789");
    (server, reader)
}

/// The text of a request that is signed at this time.
fn saved(provider: &str, body: &str, at_s: i64) -> String {
    let header = stripe_header(body, at_s);
    format!("POST /webhooks/{provider} HTTP/1.1\nStripe-Signature: {header}\n\n{body}")
}

async fn explain(reader: &Operator, order: &Value) -> Answer {
    reader.ask("POST", "/explain", &[], Some(order.to_string())).await
}

async fn found(reader: &Operator, order: &Value) -> Value {
    let answer = explain(reader, order).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    answer.body
}

async fn a_saved_request_is_checked_step_by_step_and_a_known_event_is_reported(database: &Database) {
    let (server, reader) = serve(database).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    for (id, known) in [("evt_1", json!("ignored")), ("evt_2", Value::Null)] {
        let body = format!(r#"{{"id":"{id}","type":"invoice.paid"}}"#);
        let view = found(&reader, &json!({ "request": saved("stripe", &body, now_s()) })).await;
        assert_eq!((&view["verdict"], &view["provider"]), (&json!("believed"), &json!("stripe")), "{view:#}");
        let event = &view["events"][0];
        assert_eq!((&event["event_id"], &event["known_state"]), (&json!(id), &known), "{view:#}");
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 1, "nothing follows");
    let old = saved("stripe", "{}", now_s() - 3_600);
    let view = found(&reader, &json!({ "request": old })).await;
    assert_eq!((&view["failed_at"], &view["reason"]), (&json!("timestamp"), &json!("stale")), "{view:#}");
    assert!((3_599..3_700).contains(&view["age_s"].as_i64().unwrap()), "{view:#}");
    let hint = "at its own time it would be believed";
    assert!(view["steps"].to_string().contains(hint), "{view:#}");
    for order in [
        json!({ "request": old, "at_own_time": true }),
        json!({ "request": old, "at_ms": (now_s() - 3_600) * 1_000 }),
        json!({ "request": format!("# now={}\n{old}", now_s() - 3_600) }),
    ] {
        assert_eq!(found(&reader, &order).await["verdict"], "believed", "{order}");
    }
    let parts = json!({ "provider": "stripe", "request": {
        "headers": [{ "name": "stripe-signature", "value": stripe_header("{}", now_s()) }], "body_base64": "e30=",
    } });
    assert_eq!(found(&reader, &parts).await["verdict"], "believed");
}

async fn another_secret_that_matches_is_shown_within_the_scope_of_the_caller(database: &Database) {
    let (server, reader) = serve(database).await;
    // Signed with the secret of `stripe`.
    let order = json!({ "request": saved("stripe_eu", "{}", now_s()) });
    let view = found(&reader, &order).await;
    assert_eq!(view["reason"], "other_secret", "{view:#}");
    assert!(view["steps"].to_string().contains("secret of provider `stripe`"), "{view:#}");
    let narrow = Operator::new(server.admin, "narrow-token-0123456789");
    assert_eq!(explain(&narrow, &order).await.status, 404);
    let forged =
        json!({ "request": "POST /webhooks/stripe\nstripe-signature: t=1,v1=00\n\n{}", "at_ms": 1_000 });
    let view = found(&narrow, &forged).await;
    assert_eq!((&view["verdict"], &view["reason"]), (&json!("not_believed"), &json!("mismatch")), "{view:#}");
    assert!(!view.to_string().contains("stripe_eu"), "{view:#}");
}

async fn changed_line_ends_are_reported(database: &Database) {
    let (_server, reader) = serve(database).await;
    for (signed, given, lines) in [
        ("{\n}", "{\n}", "as_given"),
        ("{\r\n}", "{\r\n}", "as_given"),
        ("{\n}", "{\r\n}", "lf"),
        ("{\r\n}", "{\n}", "crlf"),
    ] {
        let request = saved("stripe", signed, now_s()).replace(signed, given);
        let view = found(&reader, &json!({ "request": request })).await;
        assert_eq!((&view["verdict"], &view["lines"]), (&json!("believed"), &json!(lines)), "{view:#}");
    }
}

async fn what_is_no_request_is_said_and_who_may_not_ask_hears_nothing(database: &Database) {
    let (server, reader) = serve(database).await;
    for (request, why) in [
        ("", "no empty line"),
        ("POST /webhooks/stripe\nx\n\n", "is not `NAME: VALUE`"),
        ("POST /hooks\n\n", "say which one"),
    ] {
        let view = found(&reader, &json!({ "request": request })).await;
        assert_eq!(view["verdict"], "not_read", "{view:#}");
        assert!(view["steps"][0]["text"].as_str().unwrap().contains(why), "{view:#}");
    }
    let nowhere = json!({ "request": "POST /webhooks/nowhere\n\n" });
    assert_eq!(explain(&reader, &nowhere).await.status, 404);
    let long = |n: usize| json!({ "request": format!("POST /webhooks/stripe\n\n{}", "x".repeat(n)) });
    assert_eq!(explain(&reader, &long(900 << 10)).await.status, 200);
    assert_eq!(explain(&reader, &long(1 << 20)).await.status, 413);
    let viewer = Operator::new(server.admin, "viewer-token-0123456789");
    assert_eq!(explain(&viewer, &nowhere).await.status, 403);
}
