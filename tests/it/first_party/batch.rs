//! Several commands in one request: a line each, with a key each.

use super::*;
use crate::database::{Database, on_both};

on_both!(a_batch_is_one_transaction_with_an_outcome_for_each_line);

const LINES: &str = "application/x-ndjson";

fn lines(server: &Server, body: &str) -> reqwest::RequestBuilder {
    let request = client().post(server.url("/webhooks/shop")).bearer_auth(TOKEN);
    request.header("content-type", LINES).body(body.to_owned())
}

fn line(key: &str, order: u32) -> String {
    format!("{{\"key\":\"{key}\",\"type\":\"order.placed\",\"data\":{{\"order\":{order}}}}}\n")
}

async fn a_batch_is_one_transaction_with_an_outcome_for_each_line(database: &Database) {
    let server = serve(database).await;
    let three = [line("a", 1), line("b", 2), line("c", 3)].concat();
    let first = CommandResponse::of(lines(&server, &three)).await.unwrap();
    let want = r#"{"events":[{"event_id":"a","outcome":"accepted"},{"event_id":"b","outcome":"accepted"},{"event_id":"c","outcome":"accepted"}]}"#;
    assert_eq!((first.status, first.body.as_str(), first.is_replayed()), (202, want, false));
    let again = CommandResponse::of(lines(&server, &three)).await.unwrap();
    assert_eq!((again.status, again.body.as_str(), again.is_replayed()), (202, want, true));
    let one = CommandResponse::of(lines(&server, &line("d", 4))).await.unwrap();
    assert_eq!(
        one.body, r#"{"events":[{"event_id":"d","outcome":"accepted"}]}"#,
        "a batch of one is a batch"
    );

    let mixed = [line("a", 9), line("e", 5), line("e", 5), line("b", 2)].concat();
    let first = CommandResponse::of(lines(&server, &mixed)).await.unwrap();
    let outcomes: Vec<String> = first.json()["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", one["event_id"].as_str().unwrap(), one["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!((first.status, first.code().as_str()), (422, "idempotency_key_reused"));
    assert_eq!(outcomes, ["a conflict", "e accepted", "e accepted", "b accepted"]);
    let again = CommandResponse::of(lines(&server, &mixed)).await.unwrap();
    assert_eq!((again.status, &again.body, again.is_replayed()), (422, &first.body, true));

    let before = "SELECT COUNT(*) FROM processed_webhook_events";
    let events_n = database.count(before).await;
    for (what, second, code) in [
        ("no key", r#"{"type":"order.placed"}"#, "idempotency_key_missing"),
        ("an empty key", r#"{"key":"","type":"order.placed"}"#, "idempotency_key_malformed"),
        ("a key with a blank", r#"{"key":"a b","type":"order.placed"}"#, "idempotency_key_malformed"),
        ("a key that is ours", r#"{"key":"signal:1","type":"order.placed"}"#, "idempotency_key_malformed"),
        ("two keys", r#"{"key":"x","key":"y","type":"order.placed"}"#, "command_unreadable"),
        ("no type", r#"{"key":"x"}"#, "type_missing"),
        ("no JSON", "oops", "command_unreadable"),
    ] {
        let body = format!("{}{second}\n{}", line("f", 6), line("g", 7));
        let response = CommandResponse::of(lines(&server, &body)).await.unwrap();
        assert_eq!((response.status, response.code().as_str()), (400, code), "{what}: {}", response.body);
        assert!(response.body.contains("command 2"), "{what}: {}", response.body);
    }
    let many: String = (0..1_001).map(|n| line(&format!("n{n}"), n)).collect();
    assert_eq!(CommandResponse::of(lines(&server, &many)).await.unwrap().code(), "command_unreadable");
    assert_eq!(CommandResponse::of(lines(&server, "\n\n")).await.unwrap().code(), "body_missing");
    assert_eq!(database.count(before).await, events_n, "all of it or nothing");
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages").await, 5, "a to e, once each");
}
