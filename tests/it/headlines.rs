//! Headlines of an event, a search or a backlog: they count all runs, what waits beside it, what it waits for, and what
//! was not searched.

use std::process::Command;

use serde_json::{Value, json};

use crate::console::Browser;
use crate::contract::Operator;
use crate::database::{Database, on_both, on_sqlite};
use crate::look::{TOKENS, add_event, add_message, add_payload, run, serve, with};
use crate::process::{SECRET, Server, client, now_s, post_stripe, stripe_signed};

on_both!(
    a_headline_judges_the_calls_of_every_run,
    a_re_run_that_waits_for_a_paused_provider_says_so_everywhere,
    a_search_says_that_there_are_more_matches_and_how_to_see_them,
    a_message_is_judged_wherever_it_is_shown,
    a_call_that_waits_for_an_operator_is_nowhere_shown_as_scheduled,
    a_search_that_finds_only_beginnings_says_so_and_opens_nothing,
);

mod one_database {
    use super::*;
    on_sqlite!(
        another_body_under_the_same_id_is_in_the_headline_of_the_first_event,
        a_search_without_access_to_bodies_never_claims_that_nothing_was_received,
    );
}

fn token(role: &str) -> &'static str {
    TOKENS.iter().find(|(one, _)| *one == role).unwrap().1
}

async fn headline(who: &Operator, id: &str) -> String {
    let ledger = who.get(&format!("/events/stripe/{id}")).await;
    ledger.body["judgement"]["headline"].as_str().unwrap_or_else(|| panic!("{:#}", ledger.body)).to_owned()
}

fn command(server: &Server, arguments: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .args(arguments)
        .arg("--config")
        .arg(server.config())
        .env("HOOKLATCH_TOKEN", token("viewer"))
        .env("HOME", server.config().parent().unwrap())
        .output()
        .unwrap();
    String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap()
}

/// A message of the event with this number, from its first run or from the second one.
async fn call(database: &Database, (seq, generation): (i64, i64), state: &str) {
    let id = seq * 1_024 + generation;
    let (table, time, result) = match state {
        "done" => ("outbox_finished", "finished_at_ms", "done"),
        "discarded" => ("outbox_finished", "finished_at_ms", "refused"),
        _ => ("outbox_queue", "visible_at_ms", "refused"),
    };
    run(
        database,
        format!(
            "INSERT INTO {table} (message_id, created_at_ms, first_sent_at_ms, {time}, attempts_n, generation, shard,
                 state, destination, last_result)
             VALUES ({id}, 1, 1, 2, 1, {generation}, 0, '{state}', 'billing', '{result}')"
        ),
    )
    .await;
}

async fn a_headline_judges_the_calls_of_every_run(database: &Database) {
    drop(database.store().await);
    // What the first run left, what the second one left, and what is said.
    let cases = [
        (
            "held",
            Some("done"),
            "Handled. In run 2 of 2, its only call was delivered. Calls of earlier runs: 1 on hold. Decide",
        ),
        (
            "dead",
            Some("done"),
            "Handled. In run 2 of 2, its only call was delivered. Calls of earlier runs: 1 given up. Decide",
        ),
        ("done", Some("done"), "Calls of earlier runs: 1 delivered. No action needed."),
        ("discarded", Some("done"), "Calls of earlier runs: 1 discarded. No action needed."),
        (
            "done",
            Some("held"),
            "In run 2 of 2, its only call is on hold, and not sent until someone decides.",
        ),
        ("dead", Some("held"), "Calls of earlier runs: 1 given up."),
        ("done", None, "Handled. In run 1 of 2, its only call was delivered. No action needed."),
    ];
    for (seq, (first, second, _)) in (1_i64..).zip(cases) {
        add_event(database, "stripe", seq, "handled").await;
        call(database, (seq, 0), first).await;
        if let Some(second) = second {
            call(database, (seq, 1), second).await;
        }
    }
    run(database, "UPDATE processed_webhook_events SET generation = 1".to_owned()).await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    for (seq, (first, second, want)) in (1_i64..).zip(cases) {
        let said = headline(&viewer, &format!("evt_{seq}")).await;
        assert!(said.contains(want), "{first} {second:?}: {said}");
        let waits = [Some(first), second].iter().any(|one| matches!(one, Some("held" | "dead")));
        assert_eq!(said.contains("No action needed"), !waits, "{said}");
    }
    let page = Browser::signed_in(server.admin, token("viewer")).await.get("/events/stripe/evt_1").await.text;
    assert!(page.contains("In run 2 of 2, its only call was delivered."), "{page}");
    assert!(command(&server, &["events", "show", "evt_1"]).contains("Calls of earlier runs: 1 on hold."));
}

async fn another_body_under_the_same_id_is_in_the_headline_of_the_first_event(database: &Database) {
    let server = serve(database).await;
    let url = server.url("/webhooks/stripe");
    assert_eq!(post_stripe(&client(), &url, "evt_1").await.unwrap(), "accepted");
    let viewer = with(&server, "viewer");
    let before = headline(&viewer, "evt_1").await;
    assert!(!before.contains("under the same id"), "{before}");
    for n in 1..=2 {
        let body = json!({ "id": "evt_1", "type": "invoice.paid", "created": now_s(), "data": { "object": { "n": n } } });
        let body = body.to_string();
        let signed = stripe_signed(&body, SECRET, now_s());
        let sent = client().post(&url).header("stripe-signature", signed).body(body).send().await.unwrap();
        assert_eq!(sent.headers()["hooklatch-outcome"], "conflict");
        let said = headline(&viewer, "evt_1").await;
        let want =
            ["Another body arrived under the same id", "2 other bodies arrived under the same id"][n - 1];
        assert!(said.contains(want) && said.contains("until someone decides"), "{said}");
        assert!(!said.contains("No action needed"), "{said}");
    }
}

async fn a_re_run_that_waits_for_a_paused_provider_says_so_everywhere(database: &Database) {
    drop(database.store().await);
    add_event(database, "stripe", 1, "handled").await;
    add_payload(database, 1).await;
    call(database, (1, 0), "done").await;
    let server = serve(database).await;
    let (viewer, operator) = (with(&server, "viewer"), with(&server, "operator"));
    assert_eq!(
        headline(&viewer, "evt_1").await,
        "Handled, and its only call was delivered. No action needed."
    );
    // 2100-01-01.
    let until_ms = 4_102_444_800_000_i64;
    let pause = json!({ "act": "pause", "reason": "a bad deploy", "until_ms": until_ms });
    assert_eq!(operator.post("/providers/stripe/decide", "pause", &pause).await.status, 200);
    let rerun = json!({ "act": "rerun", "reason": "again" });
    assert_eq!(operator.post("/events/stripe/evt_1/decide", "rerun", &rerun).await.status, 200);
    let said = headline(&viewer, "evt_1").await;
    assert_eq!(
        said,
        "A re-run is queued: run 2 of 2. It waits because `stripe` is paused until 2100-01-01 00:00:00 UTC. In run 1 of 2, its only call was delivered."
    );
    let backlog = viewer.get("/backlog").await.body;
    let waiting = &backlog["events"][0];
    assert_eq!(
        (&waiting["state"], &waiting["pause"]["until_ms"]),
        (&json!("retry"), &json!(until_ms)),
        "{backlog:#}"
    );
    let person = Browser::signed_in(server.admin, token("viewer")).await;
    for page in ["/", "/senders", "/senders/stripe"] {
        let text = person.get(page).await.text;
        assert!(text.contains("paused") && text.contains("2100-01-01"), "{page}: {text}");
    }
    let resume = json!({ "act": "resume", "reason": "rolled back" });
    assert_eq!(operator.post("/providers/stripe/decide", "resume", &resume).await.status, 200);
    assert!(!headline(&viewer, "evt_1").await.contains("paused"));
    assert!(viewer.get("/backlog").await.body["events"][0].get("pause").is_none());
}

async fn a_search_says_that_there_are_more_matches_and_how_to_see_them(database: &Database) {
    drop(database.store().await);
    for seq in 100_001..=100_051 {
        add_event(database, "stripe", seq, "handled").await;
    }
    run(database, "UPDATE processed_webhook_events SET object = 'in_77'".to_owned()).await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let person = Browser::signed_in(server.admin, token("viewer")).await;
    for (id, how) in
        [("in_77", "hooklatch events list --object in_77"), ("evt_100", "search for more of the id")]
    {
        let found = viewer.get(&format!("/search?id={id}")).await.body;
        assert_eq!((found["found"].as_array().unwrap().len(), &found["is_cut"]), (50, &json!(true)), "{id}");
        let page = person.get(&format!("/search?id={id}")).await.text;
        let output = command(&server, &["search", id]);
        for text in [found["notes"].to_string(), page, output] {
            assert!(text.contains("More than 50 events") && text.contains(how), "{id}: {text}");
        }
        let said = found["headline"].as_str().unwrap();
        assert!(said.contains("More match than the 50 that are listed"), "{said}");
    }
    run(database, "DELETE FROM processed_webhook_events WHERE event_seq = 100051".to_owned()).await;
    let found = viewer.get("/search?id=in_77").await.body;
    assert_eq!((&found["is_cut"], &found["headline"]), (&json!(false), &json!("50 matches.")), "{found:#}");
}

async fn a_search_without_access_to_bodies_never_claims_that_nothing_was_received(database: &Database) {
    let server = serve(database).await;
    let found = with(&server, "viewer").get("/search?id=pi_1").await.body;
    assert_eq!(found["skips_ids_inside"], json!(true));
    let said = found["headline"].as_str().unwrap();
    assert!(said.contains("searched for the role `reader` only"), "{said}");
    assert!(said.contains("does not say that the event never arrived"), "{said}");
    let page = Browser::signed_in(server.admin, token("viewer")).await.get("/search?id=pi_1").await.text;
    for text in ["<h1>Not found in what you may search</h1>", "role"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(command(&server, &["search", "pi_1"]).contains(said));
    // An operator is a reader, too.
    let found = with(&server, "operator").get("/search?id=pi_1").await.body;
    assert_eq!(found["skips_ids_inside"], json!(false), "{found:#}");
    assert!(!found["headline"].as_str().unwrap().contains("reader"));
}

async fn a_message_is_judged_wherever_it_is_shown(database: &Database) {
    drop(database.store().await);
    add_event(database, "stripe", 1, "handled").await;
    add_message(database, 1, "held", "billing", "").await;
    let server = serve(database).await;
    let (viewer, operator) = (with(&server, "viewer"), with(&server, "operator"));
    let alone = viewer.get("/messages/1024").await.body["message"]["judgement"].clone();
    assert!(alone["headline"].is_string(), "{alone}");
    let list = viewer.get("/messages").await.body["items"][0]["judgement"].clone();
    let ledger = viewer.get("/events/stripe/evt_1").await.body["entries"].clone();
    let effect = ledger.as_array().unwrap().iter().find(|one| one["what"] == "effect").unwrap();
    let found = viewer.get("/search?id=1024").await.body["found"][0]["message"]["judgement"].clone();
    let choice = json!({ "messages": { "state": "held" } });
    let preview = operator.ask("POST", "/operations/preview", &[], Some(choice.to_string())).await.body;
    let preview: &Value = &preview["messages"][0]["judgement"];
    for (place, judgement) in [
        ("list", &list),
        ("ledger", &effect["message"]["judgement"]),
        ("search", &found),
        ("preview", preview),
    ] {
        assert_eq!(judgement, &alone, "{place}");
    }
}

async fn a_call_that_waits_for_an_operator_is_nowhere_shown_as_scheduled(database: &Database) {
    drop(database.store().await);
    for (seq, state, destination, lane) in [
        (1, "dead", "billing", "cus_1"),
        (2, "waiting", "billing", "cus_1"),
        (3, "ready", "billing", ""),
        (4, "ready", "nowhere", ""),
    ] {
        add_event(database, "stripe", seq, "handled").await;
        add_payload(database, seq).await;
        add_message(database, seq, state, destination, lane).await;
    }
    let pause = "INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms)
        VALUES ('billing', 'ops', 'they migrate', 5)";
    run(database, pause.to_owned()).await;
    let server = serve(database).await;
    let (viewer, person) = (with(&server, "viewer"), Browser::signed_in(server.admin, token("viewer")).await);
    for (id, want) in [
        ("evt_2", "1 open call waits in a lane behind a message that is on hold or was given up"),
        ("evt_3", "1 open call waits because the destination is paused"),
        ("evt_4", "1 open call waits for a destination that this node does not have"),
    ] {
        let said = headline(&viewer, id).await;
        assert!(said.contains(want) && !said.contains("by itself"), "{id}: {said}");
        let page = person.get(&format!("/events/stripe/{id}")).await.text;
        assert!(page.contains(want) && !page.contains("by itself"), "{id}: {page}");
        assert!(command(&server, &["events", "show", id]).contains(want), "{id}");
    }
}

async fn a_search_that_finds_only_beginnings_says_so_and_opens_nothing(database: &Database) {
    drop(database.store().await);
    add_event(database, "stripe", 104_711, "handled").await;
    let server = serve(database).await;
    let (viewer, person) = (with(&server, "viewer"), Browser::signed_in(server.admin, token("viewer")).await);
    let only = "No event has the id `evt_10471`, and none has it inside";
    let found = viewer.get("/search?id=evt_10471").await.body;
    assert!(found["notes"].to_string().contains(only), "{found:#}");
    let page = person.get("/search?id=evt_10471").await;
    assert_eq!(page.status, 200, "it is another event: no redirect leads there");
    assert!(page.text.contains("only begin with it"), "{}", page.text);
    assert!(command(&server, &["search", "evt_10471"]).contains(only));
    let missing = person.get("/events/stripe/evt_10471").await.text;
    assert!(!missing.contains("has an event of this id"), "{missing}");
    for id in ["evt_104711", "EVT_104711"] {
        assert_eq!(person.get(&format!("/search?id={id}")).await.status, 303, "{id}");
    }
}
