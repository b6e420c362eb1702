//! Rows with a value that no version writes: they are left out and named, and all other rows are served.

use std::collections::BTreeSet;
use std::time::Duration;

use hooklatch::prelude::*;
use serde_json::Value;

use crate::app::{TestApp, stripe_kind};
use crate::console::Browser;
use crate::contract::Operator;
use crate::database::{Database, on_both};
use crate::look::{TOKENS, add_event, add_message, refusal, run, serve, with};
use crate::process::{Server, until};

on_both!(
    one_damaged_row_fails_no_page_and_is_named,
    an_event_that_cannot_be_read_is_put_aside_and_stops_no_retry,
);

/// A text that is not UTF-8, which PostgreSQL does not store: there, a word that is none.
fn no_text(database: &Database, word: &str) -> String {
    if database.url.starts_with("sqlite") {
        "CAST(x'7bc17d' AS TEXT)".to_owned()
    } else {
        format!("'{word}'")
    }
}

/// All items of a list, one a page, and the keys of the rows that its pages name as damaged.
async fn walk(operator: &Operator, path: &str) -> (Vec<Value>, BTreeSet<String>) {
    let (mut items, mut damaged, mut cursor) = (Vec::new(), BTreeSet::new(), String::new());
    for _ in 0..40 {
        let answer = operator.get(&format!("{path}?limit=1{cursor}")).await;
        assert_eq!(answer.status, 200, "{path}: {:#}", answer.body);
        items.extend(answer.body["items"].as_array().unwrap().iter().cloned());
        let rows = answer.body["damaged"].as_array().cloned().unwrap_or_default();
        damaged.extend(rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()));
        match answer.body["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (items, damaged),
        }
    }
    panic!("{path} has no end");
}

async fn filled(database: &Database) -> Server {
    let store = database.store().await;
    store.rejections_insert(&[1, 2, 3].map(|n| refusal(n, "stripe"))).await.unwrap();
    drop(store);
    for seq in 1..=7 {
        add_event(database, "stripe", seq, "handled").await;
        add_message(database, seq, "held", "billing", &format!("in_{seq}")).await;
    }
    serve(database).await
}

async fn one_damaged_row_fails_no_page_and_is_named(database: &Database) {
    let server = filled(database).await;
    let (odd, is_sqlite) = (no_text(database, "odd"), database.url.starts_with("sqlite"));
    let mut damages = vec![
        format!("UPDATE processed_webhook_events SET state = {odd} WHERE event_seq = 2"),
        "UPDATE processed_webhook_events SET attempts_n = -1 WHERE event_seq = 4".to_owned(),
        format!("UPDATE outbox_queue SET state = {odd} WHERE message_id = 3 * 1024"),
        "UPDATE outbox_queue SET attempts_n = -1 WHERE message_id = 5 * 1024".to_owned(),
    ];
    if is_sqlite {
        damages.extend([
            format!("UPDATE processed_webhook_events SET event_type = {odd} WHERE event_seq = 7"),
            format!("UPDATE outbox_queue SET lane = {odd} WHERE message_id = 6 * 1024"),
            format!("UPDATE rejected_requests SET detail = {odd} WHERE rejection_id = '01900002'"),
        ]);
    }
    for damage in damages {
        run(database, damage).await;
    }
    let operator = with(&server, "operator");
    let keys = |keys: &[i64]| keys.iter().map(i64::to_string).collect::<BTreeSet<_>>();

    let (events, damaged) = walk(&operator, "/events").await;
    let ids: Vec<&str> = events.iter().map(|one| one["event_id"].as_str().unwrap()).collect();
    if is_sqlite {
        assert_eq!(ids, ["evt_6", "evt_5", "evt_3", "evt_1"]);
        assert_eq!(damaged, keys(&[2, 4, 7]));
    } else {
        assert_eq!(ids, ["evt_7", "evt_6", "evt_5", "evt_3", "evt_1"]);
        assert_eq!(damaged, keys(&[2, 4]));
    }
    let with_damage = events.iter().find(|one| one["event_id"] == "evt_3").unwrap();
    assert_eq!(with_damage["delivery"]["state"], "held", "its call is nothing that was delivered");
    let error = with_damage["delivery"]["error"].as_str().unwrap();
    assert!(error.starts_with("its row is damaged"), "{error}");

    let (messages, damaged) = walk(&operator, "/messages").await;
    let numbers: Vec<i64> = messages
        .iter()
        .map(|one| one["message_id"].as_str().unwrap().parse::<i64>().unwrap() / 1_024)
        .collect();
    if is_sqlite {
        // The type of event 7 stands beside its messages, too.
        assert_eq!(numbers, [4, 2, 1]);
        assert_eq!(damaged, keys(&[3 * 1024, 5 * 1024, 6 * 1024, 7 * 1024]));
    } else {
        assert_eq!(numbers, [7, 6, 4, 2, 1]);
        assert_eq!(damaged, keys(&[3 * 1024, 5 * 1024]));
    }
    let (lanes, _) = walk(&operator, "/lanes").await;
    assert_eq!(lanes.len(), if is_sqlite { 3 } else { 5 }, "{lanes:#?}");
    let (refused, damaged) = walk(&operator, "/rejected").await;
    assert_eq!((refused.len(), damaged.len()), if is_sqlite { (2, 1) } else { (3, 0) });

    for (path, text) in [
        ("/events/stripe/evt_2", "`processed_webhook_events` row `2`: column `state`"),
        ("/messages/3072", "`outbox_messages` row `3072`: column `state`"),
    ] {
        let answer = operator.get(path).await;
        assert_eq!((answer.status, &answer.body["code"]), (500, &"row_damaged".into()), "{path}");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains(text) && detail.contains("docs/runbooks/row-damaged.md"), "{detail}");
    }
    let ledger = operator.get("/events/stripe/evt_3").await;
    assert_eq!(
        (ledger.status, &ledger.body["damaged"][0]["key"]),
        (200, &"3072".into()),
        "{:#}",
        ledger.body
    );
    for (query, n) in [("evt_1", 1), ("evt_2", 0), ("evt_", 0)] {
        let found = operator.get(&format!("/search?id={query}")).await;
        assert_eq!(found.status, 200, "{:#}", found.body);
        assert!(found.body["found"].as_array().unwrap().len() >= n, "{query}");
        let notes = found.body["notes"].to_string();
        assert_eq!(notes.contains("damaged"), query == "evt_2", "{query}: {notes}");
    }
    let counts = operator.get("/backlog").await;
    assert_eq!(counts.status, 200);

    let ops = Browser::signed_in(server.admin, TOKENS[1].1).await;
    for (path, status, text) in [
        ("/", 200, ""),
        ("/events", 200, "`processed_webhook_events` `2`"),
        ("/messages", 200, "`outbox_messages` `3072`"),
        ("/rejected", 200, ""),
        ("/audit", 200, ""),
        ("/operations", 200, ""),
        ("/events/stripe/evt_2", 500, "docs/runbooks/row-damaged.md"),
        ("/events/stripe/evt_3", 200, "`outbox_messages` `3072`"),
        ("/messages/3072", 500, "docs/runbooks/row-damaged.md"),
    ] {
        let shown = ops.get(path).await;
        assert_eq!(shown.status, status, "{path}: {}", shown.text);
        assert!(shown.text.contains(text), "{path}: {}", shown.text);
    }
    let metrics = server.admin_text("/metrics").await;
    let counted = "hooklatch_damaged_rows_total{table=\"processed_webhook_events\"}";
    assert!(metrics.contains(counted), "{metrics}");
    let log = server.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("row is damaged and was left out")).collect();
    let of = |table: &str, key: &str| {
        let named = format!("\"table\":\"{table}\",\"key\":\"{key}\"");
        lines.iter().filter(|line| line.contains(&named) && line.contains("ERROR")).count()
    };
    for key in [2, 4] {
        assert_eq!(of("processed_webhook_events", &key.to_string()), 1, "one line for event {key}: {log}");
    }
    for key in [3 * 1_024, 5 * 1_024] {
        assert_eq!(of("outbox_messages", &key.to_string()), 1, "one line for message {key}: {log}");
    }
}

async fn an_event_that_cannot_be_read_is_put_aside_and_stops_no_retry(database: &Database) {
    let is_sqlite = database.url.starts_with("sqlite");
    let kind = stripe_kind().on("x", |event: Event<Value>| -> Handled {
        if event.attempt_n == 1 {
            return Err(anyhow::anyhow!("not yet").into());
        }
        Ok(Effects::new().forward("billing"))
    });
    let app = TestApp::start(database, kind, "").await;
    for id in ["evt_1", "evt_2", "evt_3", "evt_4"] {
        assert_eq!(app.event(id, "x", 1).await, "accepted");
    }
    // Two cannot be read and are due before all others; one has lost its time, and SQLite's index has that one first.
    let odd = no_text(database, "evt_odd");
    let due = |id: &str, more: &str| {
        format!("UPDATE processed_webhook_events SET due_at_ms = 1 {more} WHERE event_id = '{id}'")
    };
    run(database, "UPDATE processed_webhook_events SET due_at_ms = NULL WHERE event_id = 'evt_3'".to_owned())
        .await;
    run(database, due("evt_1", if is_sqlite { ", attempts_n = -1" } else { "" })).await;
    run(database, due("evt_2", &format!(", event_id = {odd}"))).await;
    app.clock.advance(3_600_000);
    let handled = if is_sqlite { 2 } else { 4 };
    until("the others are dispatched", Duration::from_secs(20), String::new, async || {
        database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled'").await
            == handled
    })
    .await;
    if is_sqlite {
        assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'failed' AND error LIKE 'its row cannot be read%'").await, 2);
    }
    assert_eq!(
        database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'retry'").await,
        0
    );
}
