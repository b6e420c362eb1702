//! Lanes, destinations, providers and refused requests.

use std::collections::BTreeSet;

use hooklatch_store::Rejection;
use serde_json::{Value, json};

use super::{add_event, add_message, add_payload, fill, refusal, run, serve, with};
use crate::database::{Database, on_both};

on_both!(
    lanes_show_their_heads_and_why_they_do_not_move,
    destinations_are_shown_with_what_waits_whether_they_are_configured_or_not,
    providers_are_shown_with_what_their_senders_need_and_did,
    refused_requests_are_listed_page_by_page_and_their_headers_are_for_readers,
);

async fn lanes_show_their_heads_and_why_they_do_not_move(database: &Database) {
    drop(database.store().await);
    for (seq, state, lane) in [
        (1, "held", "a"),
        (2, "waiting", "a"),
        (3, "dead", "b/ü"),
        (4, "leased", "c"),
        (5, "ready", "d"),
        (6, "waiting", "d"),
        (7, "ready", "e"),
    ] {
        add_event(database, "stripe", seq, "handled").await;
        add_message(database, seq, state, "billing", lane).await;
        if lane != "d" {
            add_payload(database, seq).await;
        }
    }
    add_event(database, "stripe", 8, "handled").await;
    add_message(database, 8, "ready", "ledger", "a").await;
    run(
        database,
        "UPDATE outbox_queue SET visible_at_ms = 9999999999999 WHERE state IN ('ready', 'leased');
         UPDATE outbox_queue SET attempts_n = 0 WHERE lane IN ('a', 'd') AND state = 'ready';
         INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms) VALUES ('ledger', 'ops', 'r', 5)"
            .to_owned(),
    )
    .await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let mut found = Vec::new();
    let mut query = "/lanes?limit=2".to_owned();
    loop {
        let page = viewer.get(&query).await;
        for lane in page.body["items"].as_array().unwrap() {
            let word = |key: &str| lane[key].as_str().unwrap_or("-").to_owned();
            found.push(format!(
                "{} {} {} {}",
                word("destination"),
                word("lane"),
                lane["depth_n"],
                word("blocked_by")
            ));
        }
        let Some(next) = page.body["next"].as_str() else { break };
        query = format!("/lanes?limit=2&cursor={next}");
    }
    let wanted = [
        "billing a 2 held",
        "billing b/ü 1 dead",
        "billing c 1 -",
        "billing d 2 unreadable",
        "billing e 1 backing_off",
        "ledger a 1 not_configured",
    ];
    assert_eq!(found, wanted);
    let of_one = viewer.get("/lanes?destination=ledger").await.body;
    assert_eq!(of_one["items"][0]["head"]["message_id"], "8192");
    assert_eq!(of_one["items"][0]["since_ms"], 8_000);
    assert_eq!(viewer.get("/lanes?destination=nowhere").await.body["items"], json!([]));
    for wrong in ["?destination=A%20B", "?limit=501", "?lane=a"] {
        assert_eq!(viewer.get(&format!("/lanes{wrong}")).await.status, 400, "{wrong}");
    }
}

async fn destinations_are_shown_with_what_waits_whether_they_are_configured_or_not(database: &Database) {
    fill(database).await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let listed = viewer.get("/destinations").await;
    let names: Vec<&str> =
        listed.body["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["billing", "ledger"]);
    let shown = viewer.get("/destinations/billing").await;
    let (before, billing) = (shown.headers["etag"].clone(), shown.body);
    assert_eq!(billing, listed.body["items"][0]);
    assert_eq!((&billing["kind"], &billing["breaker"]), (&json!("http"), &json!("closed")));
    assert_eq!(billing["call_times"], Value::Null, "nothing was called yet");
    assert_eq!((&billing["concurrency_n"], &billing["rate_per_s"]), (&json!(3), &json!(7.0)));
    let backlog: BTreeSet<String> = billing["backlog"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {}", one["state"].as_str().unwrap(), one["messages_n"], one["is_more"]))
        .collect();
    let wanted = ["dead 1 false", "held 2 false", "leased 1 false", "ready 1 false", "waiting 1 false"];
    assert_eq!(backlog, wanted.map(str::to_owned).into());
    assert_eq!(billing["oldest_due_at_ms"], 1_500);
    let ledger = viewer.get("/destinations/ledger").await.body;
    assert_eq!((&ledger["is_configured"], &ledger["breaker"]), (&json!(false), &Value::Null));
    assert_eq!(ledger["backlog"][0]["state"], "dead");
    assert_eq!(viewer.get("/destinations/nowhere").await.status, 404);
    assert_eq!(viewer.get("/destinations/A%20B").await.status, 404);
    assert_eq!(
        (&billing["pause"]["actor"], &billing["pause"]["reason"], &ledger["pause"]),
        (&json!("ops"), &json!("they migrate"), &Value::Null)
    );
    let waiting = viewer.get("/backlog").await.body;
    assert_eq!(waiting["events"][0]["provider"], "adyen");
    assert_eq!(
        (&waiting["events"][0]["state"], &waiting["events"][0]["is_configured"]),
        (&json!("retry"), &json!(false))
    );
    let messages = waiting["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 6, "{waiting:#}");
    assert_eq!(
        (&messages[5]["destination"], &messages[5]["is_configured"]),
        (&json!("ledger"), &json!(false))
    );
    let resume = json!({ "act": "resume", "reason": "they are back" });
    let resumed = with(&server, "operator").post("/destinations/billing/decide", "k1", &resume).await;
    assert_eq!(resumed.status, 200, "{:#}", resumed.body);
    let shown = viewer.get("/destinations/billing").await;
    assert_eq!(shown.body["pause"], Value::Null);
    assert_ne!(shown.headers["etag"], before, "it has changed");
}

async fn providers_are_shown_with_what_their_senders_need_and_did(database: &Database) {
    fill(database).await;
    add_event(database, "stripe", 20, "failed").await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let listed = viewer.get("/providers").await.body;
    let shown = viewer.get("/providers/stripe").await.body;
    assert_eq!(listed["items"], json!([shown]), "configured ones alone");
    assert!(shown["url"].as_str().unwrap().ends_with("/webhooks/stripe"), "{shown}");
    assert_eq!((&shown["kind"], &shown["identity"]), (&json!("stripe"), &json!("sender/1")));
    assert_eq!(shown["last_event"]["event_id"], "evt_20");
    assert_eq!(shown["waiting"][0]["state"], "failed");
    assert_eq!(
        (&shown["waiting"][0]["events_n"], &shown["waiting"][0]["oldest_received_at_ms"]),
        (&json!(1), &json!(20_000))
    );
    assert_eq!((&shown["secrets"][0]["position"], &shown["secrets"][0]["matched_n"]), (&json!(1), &json!(0)));
    for absent in ["adyen", "absent", "A%20B"] {
        assert_eq!(viewer.get(&format!("/providers/{absent}")).await.status, 404, "{absent}");
    }
    run(
        database,
        "INSERT INTO pairing_secrets (provider, secret, paired_at_ms) VALUES ('stripe', 'pairing', 5)"
            .to_owned(),
    )
    .await;
    let pairing = |role: &'static str| {
        let asking = with(&server, role);
        async move { asking.post("/providers/stripe/pairing", "k1", &json!({})).await }
    };
    assert_eq!(pairing("viewer").await.status, 403);
    let answer = pairing("operator").await;
    assert_eq!((answer.status, &answer.body["secret"]), (200, &json!("pairing")));
    assert_eq!(database.count("SELECT COUNT(*) FROM pairing_secrets").await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log WHERE action = 'pairing_read'").await, 1);
}

async fn refused_requests_are_listed_page_by_page_and_their_headers_are_for_readers(database: &Database) {
    let store = database.store().await;
    let all: Vec<Rejection> =
        (0..7).map(|n| refusal(n, if n % 2 == 0 { "stripe" } else { "adyen" })).collect();
    store.rejections_insert(&all).await.unwrap();
    store.close().await;
    drop(store);
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    for (query, wanted) in
        [("", vec![6, 5, 4, 3, 2, 1, 0]), ("provider=adyen&", vec![5, 3, 1]), ("provider=x&", vec![])]
    {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = viewer.get(&format!("/rejected?{query}limit=2{cursor}")).await.body;
            let items = page["items"].as_array().unwrap().clone();
            found.extend(items.iter().map(|one| one["received_at_ms"].as_i64().unwrap()));
            assert!(items.iter().all(|one| one["headers"] == json!({})), "{page:#}");
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, wanted, "{query}");
    }
    let looked = "SELECT COUNT(*) FROM audit_log";
    assert_eq!(database.count(looked).await, 0, "no header was shown");
    let refused = with(&server, "operator").get("/rejected?limit=1").await.body;
    let read = "SELECT COUNT(*) FROM audit_log WHERE action = 'headers_read' AND actor = 'operator'
        AND provider = 'stripe' AND detail = '1 refused request'";
    assert_eq!(database.count(read).await, 1);
    with(&server, "operator").get(&format!("/search?id={}", "ab".repeat(32))).await;
    assert_eq!(database.count(looked).await, 3, "those that a search shows, of each provider");
    assert_eq!(refused["items"][0]["headers"]["user-agent"], json!(["Stripe/1.0"]));
    assert_eq!(refused["items"][0]["body_digest"], "ab".repeat(32));
    for wrong in ["?provider=A", "?limit=x"] {
        assert_eq!(viewer.get(&format!("/rejected{wrong}")).await.status, 400, "{wrong}");
    }
    for nobodys in ["/rejected?cursor=", "/rejected?cursor=%00", "/lanes?cursor=x"] {
        assert_eq!(viewer.get(nobodys).await.status, 404, "{nobodys}");
    }
    assert_eq!(viewer.get("/rejected?cursor=zz").await.body["code"], "cursor_unknown");
}
