//! One command: auth × key × content.

use std::fmt::Write;

use super::*;
use crate::database::{Database, on_both};
use crate::process::SECRET as STRIPE_SECRET;

on_both!(
    every_caller_is_believed_by_what_it_shows_and_by_nothing_else,
    every_key_and_content_has_its_answer,
    a_caller_that_signs_is_answered_as_configured,
    of_a_hundred_at_once_one_is_new_and_all_hear_the_same,
);

async fn every_caller_is_believed_by_what_it_shows_and_by_nothing_else(database: &Database) {
    let server = serve(database).await;
    let post = |caller: &str| {
        let request = client().post(server.url(&format!("/webhooks/{caller}"))).body(BODY);
        request.header("content-type", "application/json")
    };
    let own = |text: &str| vec![("authorization", text.to_owned())];
    let shown = |sha256: &str| vec![("hooklatch-client-certificate", sha256.to_owned())];
    let signed = |key: &str| signature(key, BODY).to_vec();
    let mut late = signed("late");
    late[1].1 = (now_s() - 3_600).to_string();
    let cases = [
        ("newest token", "shop", own(&format!("Bearer {TOKEN}")), 202),
        ("older token", "shop", own(&format!("Bearer {OLD_TOKEN}")), 202),
        ("scheme in lower case", "shop", own(&format!("bearer {TOKEN}")), 202),
        ("another token", "shop", own("Bearer tok_other_0123456789abcdef0123"), 401),
        ("half a token", "shop", own(&format!("Bearer {}", TOKEN.split_at(20).0)), 401),
        ("no scheme", "shop", own(TOKEN), 401),
        ("basic", "shop", own(&format!("Basic {TOKEN}")), 401),
        ("nothing", "shop", vec![], 401),
        ("a signature for a token", "shop", signed("n8"), 401),
        ("a signature", "ledger", signed("n9"), 200),
        ("the secret itself", "ledger", own(&format!("Bearer {SECRET}")), 401),
        ("an old signature", "ledger", late, 401),
        ("another caller's token", "ledger", own(&format!("Bearer {TOKEN}")), 401),
        ("a certificate that TLS knows nothing of", "vault", shown(CERTIFICATE), 401),
        ("a token for a certificate", "vault", own(&format!("Bearer {TOKEN}")), 401),
    ];
    for (n, (what, caller, headers, status)) in cases.iter().enumerate() {
        let key = format!("n{n}");
        let request = with(post(caller), headers).header("idempotency-key", key);
        let response = CommandResponse::of(request).await.unwrap();
        assert_eq!(response.status, *status, "{what}: {response:?}");
        if *status == 401 {
            assert_eq!(response.code(), "rejected", "{what}: a stranger hears no more");
        }
    }
    let log = server.log();
    for secret in [TOKEN, OLD_TOKEN, SECRET, STRIPE_SECRET] {
        assert!(!log.contains(secret), "{log}");
    }
}

async fn every_key_and_content_has_its_answer(database: &Database) {
    let server = serve(database).await;
    let send =
        async |key: &str, body: &str| CommandResponse::of(by_token(&server, Some(key), body)).await.unwrap();
    let first = send("k1", BODY).await;
    let accepted = r#"{"event_id":"k1","outcome":"accepted"}"#;
    assert_eq!((first.status, first.body.as_str(), first.outcome()), (202, accepted, "accepted"));
    assert_eq!(first.headers["location"], "/webhooks/shop/k1");
    assert!(!first.is_replayed());
    for again in ["k1", "\"k1\"", " \"k1\" "] {
        let again = send(again, BODY).await;
        assert_eq!((again.status, again.body.as_str(), again.outcome()), (202, accepted, "duplicate"));
        assert!(again.is_replayed());
        assert_eq!(again.headers["location"], first.headers["location"]);
    }
    let same = send("k1", r#"{ "data": {"order":"o1"}, "type": "order.placed" }"#).await;
    assert_eq!((same.status, same.outcome()), (202, "duplicate"), "written in another way");
    for other in [
        r#"{"type":"order.placed","data":{"order":"o2"}}"#,
        r#"{"type":"order.placed","data":{"order":"o1","n":1.0}}"#,
    ] {
        let response = send("k1", other).await;
        assert_eq!(
            (response.status, response.code().as_str(), response.outcome()),
            (422, "idempotency_key_reused", "conflict")
        );
        assert_eq!(response.headers["content-type"], "application/problem+json");
    }
    assert_eq!(
        send("k2", BODY).await.outcome(),
        "accepted",
        "the same content under another key is another command"
    );
    let long = "x".repeat(256);
    for (key, code) in [
        ("", "idempotency_key_malformed"),
        ("a b", "idempotency_key_malformed"),
        ("a,b", "idempotency_key_malformed"),
        ("\"a\";q=1", "idempotency_key_malformed"),
        ("\"a", "idempotency_key_malformed"),
        ("content:1", "idempotency_key_malformed"),
        (long.as_str(), "idempotency_key_malformed"),
    ] {
        let response = send(key, BODY).await;
        assert_eq!((response.status, response.code().as_str()), (400, code), "{key}: {}", response.body);
    }
    let missing = CommandResponse::of(by_token(&server, None, BODY)).await.unwrap();
    assert_eq!((missing.status, missing.code().as_str()), (400, "idempotency_key_missing"));
    let twice = by_token(&server, Some("a"), BODY).header("idempotency-key", "a");
    assert_eq!(CommandResponse::of(twice).await.unwrap().code(), "idempotency_key_malformed");
    for (body, code) in [
        ("", "body_missing"),
        ("oops", "command_unreadable"),
        ("{}", "type_missing"),
        (r#"{"type":7.5}"#, "type_missing"),
        (r#"{"type":""}"#, "type_missing"),
    ] {
        let response = send("k3", body).await;
        assert_eq!((response.status, response.code().as_str()), (400, code), "{body}: {}", response.body);
    }
    let mut events = String::new();
    for row in database
        .texts("SELECT event_id || ' ' || state FROM processed_webhook_events ORDER BY event_seq")
        .await
    {
        writeln!(events, "{row}").unwrap();
    }
    let conflicts_n = events.matches(" conflict").count();
    assert_eq!((events.lines().count(), conflicts_n), (4, 2), "what was refused is nowhere:\n{events}");
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages").await, 2, "one for each command");
    let url = server.url("/webhooks/shop");
    assert_eq!(client().put(&url).bearer_auth(TOKEN).send().await.unwrap().status(), 405);
}

async fn a_caller_that_signs_is_answered_as_configured(database: &Database) {
    let server = serve(database).await;
    let first = CommandResponse::of(by_signature(&server, "k1", BODY)).await.unwrap();
    assert_eq!((first.status, first.body.as_str()), (200, r#"{"event_id":"k1","outcome":"accepted"}"#));
    let again = CommandResponse::of(by_signature(&server, "k1", BODY).header("idempotency-key", "\"k1\""))
        .await
        .unwrap();
    assert_eq!((again.status, &again.body, again.is_replayed()), (200, &first.body, true));
    let other = CommandResponse::of(by_signature(&server, "k1", r#"{"type":"order.paid"}"#)).await.unwrap();
    assert_eq!((other.status, other.code().as_str()), (409, "idempotency_key_reused"));
    let unsigned =
        CommandResponse::of(by_signature(&server, "k1", BODY).header("idempotency-key", "k2")).await.unwrap();
    assert_eq!((unsigned.status, unsigned.code().as_str()), (400, "idempotency_key_unsigned"));
    // A captured signed request, sent again as a batch, makes no further command.
    let line = r#"{"key":"x1","type":"order.placed"}"#;
    let signed = signature("k5", line);
    let sent = async |content_type: &str| {
        let request = client().post(server.url("/webhooks/ledger")).header("content-type", content_type);
        CommandResponse::of(with(request.body(line), &signed)).await.unwrap()
    };
    assert_eq!(sent("application/json").await.outcome(), "accepted");
    let flipped = sent("application/x-ndjson").await;
    assert_ne!(flipped.outcome(), "accepted", "{flipped:?}");
}

async fn of_a_hundred_at_once_one_is_new_and_all_hear_the_same(database: &Database) {
    let server = serve(database).await;
    let all: Vec<_> =
        (0..100).map(|_| tokio::spawn(CommandResponse::of(by_token(&server, Some("k"), BODY)))).collect();
    let mut new_n = 0;
    for one in all {
        let response = one.await.unwrap().unwrap();
        assert_eq!(
            (response.status, response.body.as_str()),
            (202, r#"{"event_id":"k","outcome":"accepted"}"#)
        );
        new_n += i32::from(!response.is_replayed());
    }
    assert_eq!(new_n, 1);
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages").await, 1);
}
