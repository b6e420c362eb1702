//! The list of messages with each of its filters, and one message with its attempts.

use hooklatch_core::types::MessageState;
use serde_json::{Value, json};

use super::{add_event, add_message, fill, ids, run, serve, with};
use crate::contract::Answer;
use crate::database::{Database, on_both};

on_both!(
    messages_are_listed_by_every_filter,
    a_list_of_messages_holds_still_while_rows_arrive,
    one_message_shows_its_answers_to_readers_and_says_so_in_the_audit_log,
    responses_shown_in_a_ledger_are_audited_without_their_content,
);

async fn messages_are_listed_by_every_filter(database: &Database) {
    fill(database).await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let mut cases: Vec<(String, Vec<i64>)> = vec![
        (String::new(), vec![9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ("?limit=2".to_owned(), vec![9, 8]),
        ("?destination=ledger".to_owned(), vec![8]),
        ("?destination=nowhere".to_owned(), vec![]),
        ("?provider=adyen".to_owned(), vec![9, 8]),
        ("?provider=adyen&destination=billing&state=held".to_owned(), vec![9]),
        ("?provider=stripe&state=held".to_owned(), vec![6]),
        ("?lane=in_1".to_owned(), vec![9, 2]),
        ("?lane=in_1&state=waiting".to_owned(), vec![2]),
        ("?lane=in_1&destination=billing&state=held".to_owned(), vec![9]),
        ("?lane=absent".to_owned(), vec![]),
        ("?created_before_ms=3000".to_owned(), vec![2, 1]),
        ("?created_before_ms=0".to_owned(), vec![]),
        (format!("?created_before_ms=7000&cursor={}", 4 * 1_024), vec![3, 2, 1]),
    ];
    for (seq, state) in (1_i64..).zip(MessageState::ALL) {
        let mut wanted = vec![seq];
        match state {
            MessageState::Held => wanted.insert(0, 9),
            MessageState::Dead => wanted.insert(0, 8),
            _ => {}
        }
        cases.push((format!("?state={state}"), wanted));
    }
    for (query, wanted) in cases {
        let found = viewer.get(&format!("/messages{query}")).await;
        assert_eq!(ids(&found), wanted, "{query}");
    }
    let first = viewer.get("/messages?state=done").await.body["items"][0].clone();
    assert_eq!((&first["attempts_n"], &first["finished_at_ms"]), (&json!(2), &json!(4_002)));
    assert_eq!(first["idempotency_key"].as_str().map(str::len), Some(36));
    for wrong in [
        "?state=lost",
        "?limit=0",
        "?destination=A%20B",
        "?created_before_ms=now",
        "?lane=",
        "?before=1",
        "?state=held&state=dead",
    ] {
        assert_eq!(viewer.get(&format!("/messages{wrong}")).await.status, 400, "{wrong}");
    }
    for nobodys in ["x", "-1", ""] {
        assert_eq!(viewer.get(&format!("/messages?cursor={nobodys}")).await.status, 404, "{nobodys}");
    }
}

async fn a_list_of_messages_holds_still_while_rows_arrive(database: &Database) {
    drop(database.store().await);
    for seq in 1..=20 {
        add_event(database, "stripe", seq, "handled").await;
        add_message(database, seq, if seq % 2 == 0 { "held" } else { "done" }, "billing", "").await;
    }
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let mut found = Vec::new();
    let mut query = "/messages?limit=3".to_owned();
    for n in 0.. {
        let page = viewer.get(&query).await;
        found.extend(ids(&page));
        // One more arrives, and one that was held is done.
        add_event(database, "stripe", 100 + n, "handled").await;
        add_message(database, 100 + n, "held", "billing", "").await;
        run(database, format!("DELETE FROM outbox_queue WHERE message_id = {}", (20 - 2 * n) * 1_024)).await;
        if n < 10 {
            add_message(database, 20 - 2 * n, "done", "billing", "").await;
        }
        let Some(next) = page.body["next"].as_str() else { break };
        query = format!("/messages?limit=3&cursor={next}");
    }
    assert_eq!(found, (1..=20).rev().collect::<Vec<i64>>(), "each once, in order");
}

async fn one_message_shows_its_answers_to_readers_and_says_so_in_the_audit_log(database: &Database) {
    fill(database).await;
    run(
        database,
        "INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, http_status, shard, node,
             result, error, response)
         VALUES (4096, 1, 4001, 4002, 503, 0, 'n', 'retry', 'status 503', NULL),
                (4096, 2, 4003, 4004, 200, 0, 'n', 'done', NULL, 'the balance is 5')"
            .to_owned(),
    )
    .await;
    let server = serve(database).await;
    let looked = "SELECT COUNT(*) FROM audit_log WHERE action = 'answer_read'";
    let shown = with(&server, "viewer").get("/messages/4096").await;
    assert_eq!((shown.status, &shown.body["message"]["state"]), (200, &json!("done")));
    let attempts = shown.body["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["attempt_n"], &attempts[0]["http_status"]), (&json!(2), &json!(200)));
    assert_eq!((&attempts[0]["response"], &attempts[1]["error"]), (&Value::Null, &json!("status 503")));
    assert_eq!(database.count(looked).await, 0, "nothing was shown");
    let version =
        |answer: &Answer| answer.headers["etag"].to_str().unwrap().split_once('.').unwrap().0.to_owned();
    let tag = version(&shown);
    let shown = with(&server, "operator").get("/messages/4096").await;
    assert_eq!(version(&shown), tag, "as long as nothing has changed");
    assert_eq!(shown.body["attempts"][0]["response"], "the balance is 5");
    assert_eq!(shown.body["decisions"], json!([]), "views are in the audit log alone");
    let held = with(&server, "operator").get("/messages/6144").await;
    assert_ne!(version(&held), tag);
    assert_eq!(database.count(looked).await, 1, "a message without kept answers shows nothing");
    let log = with(&server, "operator").get("/audit?limit=1").await;
    assert_eq!((log.status, &log.body["items"][0]["action"]), (200, &json!("answer_read")));
    assert_eq!((&log.body["items"][0]["message_id"], &log.body["next"]), (&json!("4096"), &json!("1")));
    assert_eq!(with(&server, "operator").get("/audit?cursor=1").await.body["items"], json!([]));
    assert_eq!(with(&server, "operator").get("/audit?cursor=x").await.status, 404);
    assert_eq!(with(&server, "viewer").get("/audit").await.status, 403);
    for absent in ["1", "0", "x", "99999999999999999999", "-1024"] {
        assert_eq!(with(&server, "viewer").get(&format!("/messages/{absent}")).await.status, 404, "{absent}");
    }
}

async fn responses_shown_in_a_ledger_are_audited_without_their_content(database: &Database) {
    fill(database).await;
    let answers = "INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, http_status, shard,
             node, result, error, response)
         VALUES (4096, 1, 4001, 4002, 503, 0, 'n', 'retry', NULL, 'the balance is 4'),
                (4096, 2, 4003, 4004, 200, 0, 'n', 'done', NULL, 'the balance is 5')";
    run(database, answers.to_owned()).await;
    let server = serve(database).await;
    let looked = "SELECT COUNT(*) FROM audit_log WHERE action = 'answer_read' AND event_id = 'evt_4'
        AND detail = '2 kept answers'";
    let answers_of = |answer: &Answer| {
        let entries = answer.body["entries"].as_array().unwrap().iter();
        let attempts = entries.filter(|entry| entry["what"] == "attempt");
        attempts.map(|entry| entry["attempt"]["response"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let shown = with(&server, "viewer").get("/events/stripe/evt_4").await;
    assert_eq!((shown.status, answers_of(&shown)), (200, vec![None, None]));
    assert_eq!(database.count(looked).await, 0, "nothing was shown");
    let shown = with(&server, "operator").get("/events/stripe/evt_4").await;
    let wanted = [4, 5].map(|n| Some(format!("the balance is {n}")));
    assert_eq!((shown.status, answers_of(&shown)), (200, wanted.to_vec()));
    assert_eq!(shown.body["content_missing"], "pruned");
    assert_eq!(database.count(looked).await, 1);
    with(&server, "operator").get("/events/stripe/evt_9").await;
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log").await, 1, "no answer, no row");
}
