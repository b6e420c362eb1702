//! The delivery state of an event: by its worst call, in every list and on every page, and never as if all calls had
//! succeeded when they have not.

use hooklatch_contract::{EventFilter, EventView};
use hooklatch_core::types::{DeliveryFilter, Role, UnixMs};
use hooklatch_store::{Cuts, EventQuery, Unsearched};
use serde_json::Value;

use crate::console::Browser;
use crate::database::{Database, on_both};
use crate::look::{TOKENS, add_event, add_message, fill, run, serve, with};
use crate::process::Server;
use crate::store::retention::{cuts, round};
use crate::store::scoped;

on_both!(
    an_event_is_named_after_its_worst_call,
    earlier_runs_count_as_long_as_they_are_open,
    a_filter_by_calls_finds_each_event_once_page_by_page,
    an_error_of_a_destination_out_of_scope_is_not_shown,
    what_was_pruned_is_never_taken_for_nothing_or_for_delivered,
    fifty_four_events_whose_calls_are_dead_are_nowhere_as_if_all_were_well,
    an_event_says_what_happened_and_what_each_act_on_it_risks,
    an_event_is_shown_by_its_id_alone_and_what_is_not_there_is_named,
);

const NOW_MS: UnixMs = 10_000_000_000;
/// In the year 2100: nothing is called.
const DUE_MS: UnixMs = 4_102_444_800_000;

fn token(role: &str) -> &'static str {
    TOKENS.iter().find(|(one, _)| *one == role).unwrap().1
}

/// A message with this place, run and state; open ones were sent, unless they are `ready`. `settled`: an operator said that it
/// was done.
async fn message(database: &Database, (seq, place, generation): (i64, i64, i64), state: &str, error: &str) {
    let id = seq * 1_024 + place;
    let (state, result) = if state == "settled" { ("done", "refused") } else { (state, "done") };
    let sql = if matches!(state, "done" | "discarded") {
        format!(
            "INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n,
                 generation, shard, state, destination, last_error, last_result)
             VALUES ({id}, 1, 1, 2, 1, {generation}, 0, '{state}', 'billing', NULLIF('{error}', ''),
                 CASE WHEN '{error}' = '' THEN '{result}' ELSE 'refused' END)"
        )
    } else {
        format!(
            "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, first_sent_at_ms, attempts_n,
                 generation, shard, state, destination, last_error)
             VALUES ({id}, {DUE_MS}, 1, CASE WHEN '{state}' = 'ready' THEN NULL ELSE 1 END,
                 CASE WHEN '{state}' = 'ready' THEN 0 ELSE 1 END, {generation}, 0, '{state}',
                 'billing', NULLIF('{error}', ''))"
        )
    };
    run(database, sql).await;
}

/// The delivery of each event, the newest first: id, state, and how many of how many were delivered.
fn deliveries(events: &[EventView]) -> Vec<(String, String)> {
    let summary = |event: &EventView| {
        let delivery = &event.delivery;
        (
            event.event_id.clone(),
            format!("{} {}/{}", delivery.state, delivery.delivered_n, delivery.messages_n),
        )
    };
    events.iter().map(summary).collect()
}

async fn listed(database: &Database) -> Vec<(String, String)> {
    let store = database.store().await;
    let people = scoped(&store, Role::Viewer, None, None);
    let page = people.event_page(EventQuery { limit: 100, ..EventQuery::default() }, NOW_MS).await.unwrap();
    deliveries(&page.items)
}

async fn an_event_is_named_after_its_worst_call(database: &Database) {
    drop(database.store().await);
    let cases: [(&str, &[&str], &str); 16] = [
        ("handled", &[], "none 0/0"),
        ("handled", &["done"], "delivered 1/1"),
        ("handled", &["settled"], "settled 0/1"),
        ("handled", &["done", "settled"], "settled 1/2"),
        ("handled", &["done", "ready"], "open 1/2"),
        ("handled", &["done", "leased"], "open 1/2"),
        ("handled", &["waiting"], "open 0/1"),
        ("handled", &["done", "ready", "discarded"], "discarded 1/3"),
        ("handled", &["done", "discarded", "dead", "ready"], "dead 1/4"),
        ("handled", &["done", "dead", "held", "ready"], "held 1/4"),
        ("retry", &[], "not_sent 0/0"),
        ("failed", &[], "not_sent 0/0"),
        ("ignored", &[], "not_sent 0/0"),
        ("conflict", &[], "not_sent 0/0"),
        ("failed", &["done"], "delivered 1/1"),
        ("retry", &["held"], "held 0/1"),
    ];
    let mut wanted = Vec::new();
    for (seq, (state, messages, want)) in (100_i64..).zip(cases) {
        add_event(database, "stripe", seq, state).await;
        for (place, state) in (0..).zip(messages) {
            message(database, (seq, place, 0), state, "").await;
        }
        wanted.push((format!("evt_{seq}"), want.to_owned()));
    }
    wanted.reverse();
    assert_eq!(listed(database).await, wanted);
}

async fn earlier_runs_count_as_long_as_they_are_open(database: &Database) {
    drop(database.store().await);
    let cases: [(&[(i64, &str)], &str); 5] = [
        (&[(0, "dead"), (1, "done")], "dead 1/2"),
        (&[(0, "discarded"), (1, "done")], "delivered 1/1"),
        (&[(0, "done"), (1, "dead")], "dead 0/1"),
        (&[(0, "held"), (1, "dead"), (1, "done")], "held 1/3"),
        (&[(0, "done"), (0, "done")], "delivered 2/2"),
    ];
    let mut wanted = Vec::new();
    for (seq, (messages, want)) in (100_i64..).zip(cases) {
        add_event(database, "stripe", seq, "handled").await;
        for (place, (generation, state)) in (0..).zip(messages) {
            message(database, (seq, place, *generation), state, "").await;
        }
        wanted.push((format!("evt_{seq}"), want.to_owned()));
    }
    run(database, "UPDATE processed_webhook_events SET generation = 1".to_owned()).await;
    wanted.reverse();
    assert_eq!(listed(database).await, wanted);
}

async fn a_filter_by_calls_finds_each_event_once_page_by_page(database: &Database) {
    fill(database).await;
    // Several calls of one event, of which one fits.
    add_event(database, "stripe", 20, "handled").await;
    for (place, state) in [(0, "held"), (1, "dead"), (2, "dead"), (3, "ready")] {
        message(database, (20, place, 0), state, "").await;
    }
    let store = database.store().await;
    let people = scoped(&store, Role::Viewer, None, None);
    let stripe = scoped(&store, Role::Viewer, Some(&["stripe"]), None);
    for (delivery, want, want_of_stripe) in [
        (DeliveryFilter::Held, "20 9 6", "20 6"),
        (DeliveryFilter::Dead, "20 8 5", "20 5"),
        (DeliveryFilter::Stuck, "20 9 8 6 5", "20 6 5"),
        (DeliveryFilter::Open, "20 3 2 1", "20 3 2 1"),
    ] {
        for (people, want) in [(&people, want), (&stripe, want_of_stripe)] {
            for limit in [1, 2, 100] {
                let (mut found, mut place) = (Vec::new(), None);
                loop {
                    let query = EventQuery {
                        filter: EventFilter { delivery: Some(delivery), ..EventFilter::default() },
                        place,
                        limit,
                    };
                    let page = people.event_page(query, NOW_MS).await.unwrap();
                    assert_eq!(page.since, None, "calls change after their event arrived");
                    found.extend(page.items.iter().map(|one| one.event_id.replace("evt_", "")));
                    let Some(next) = page.next else { break };
                    place = hooklatch_store::EventPlace::parse(&next);
                }
                assert_eq!(found.join(" "), want, "{delivery} by {limit}");
            }
        }
    }
    drop((people, stripe, store));
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let page = viewer.get("/events?delivery=stuck&provider=adyen").await;
    assert_eq!((page.status, page.body["items"].as_array().unwrap().len()), (200, 2), "{:#}", page.body);
    let bad = viewer.get("/events?delivery=broken").await;
    let detail = bad.body["detail"].as_str().unwrap().to_owned();
    assert!(bad.status == 400 && detail.contains("`held`, `dead`, `stuck`, `open`"), "{detail}");
    let bad = viewer.get("/events?state=done").await;
    assert!(bad.body["detail"].as_str().unwrap().contains("`handled`, `ignored`, `retry`"), "{:#}", bad.body);
    assert_eq!(viewer.get("/events?delivery=open&since=a7").await.status, 404);
}

async fn an_error_of_a_destination_out_of_scope_is_not_shown(database: &Database) {
    drop(database.store().await);
    add_event(database, "stripe", 5, "handled").await;
    message(database, (5, 0, 0), "dead", "refused with 422").await;
    let store = database.store().await;
    for (destinations, want) in [
        (None, Some("refused with 422")),
        (Some(&["billing"][..]), Some("refused with 422")),
        (Some(&["ledger"][..]), None),
    ] {
        let people = scoped(&store, Role::Viewer, None, destinations);
        let query = EventQuery { limit: 10, ..EventQuery::default() };
        let page = people.event_page(query, NOW_MS).await.unwrap();
        let delivery = &page.items[0].delivery;
        assert_eq!((delivery.dead_n, delivery.error.as_deref()), (1, want), "{destinations:?}");
        let found = people.search("evt_5", &Unsearched::default(), NOW_MS).await.unwrap();
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(json.contains("refused with 422"), want.is_some(), "{json}");
    }
}

async fn what_was_pruned_is_never_taken_for_nothing_or_for_delivered(database: &Database) {
    drop(database.store().await);
    for seq in 1..=5 {
        add_event(database, "stripe", seq, "handled").await;
    }
    message(database, (1, 0, 0), "done", "").await;
    message(database, (2, 0, 0), "discarded", "").await;
    message(database, (3, 0, 0), "done", "").await;
    message(database, (3, 1, 0), "dead", "").await;
    message(database, (5, 0, 0), "done", "").await;
    let expected = |event: i64, what: &str| (format!("evt_{event}"), what.to_owned());
    let before =
        [(5, "delivered 1/1"), (4, "none 0/0"), (3, "dead 1/2"), (2, "discarded 0/1"), (1, "delivered 1/1")];
    assert_eq!(listed(database).await, before.map(|(event, what)| expected(event, what)));
    let store = database.store().await;
    // Events received in the first three and a half seconds are old; the ids are remembered.
    round(&store, &Cuts { ids_ms: -1, ..cuts(3_500) }, 100, false).await;
    drop(store);
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_finished").await, 1);
    let after = [
        (5, "delivered 1/1"),
        (4, "none 0/0"),
        (3, "dead 0/1"),
        (2, "no_longer_known 0/0"),
        (1, "no_longer_known 0/0"),
    ];
    assert_eq!(listed(database).await, after.map(|(event, what)| expected(event, what)));
}

/// A command of a viewer: its exit code, and all that it said.
fn command(server: &Server, arguments: &[&str]) -> (i32, String) {
    server.command(token("viewer"), arguments)
}

async fn fifty_four_events_whose_calls_are_dead_are_nowhere_as_if_all_were_well(database: &Database) {
    drop(database.store().await);
    for seq in 1..=54 {
        add_event(database, "stripe", seq, "handled").await;
        message(database, (seq, 0, 0), "dead", "refused with 422").await;
    }
    run(database, "UPDATE processed_webhook_events SET object = 'plan_1'".to_owned()).await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let are_dead = |items: &Value| {
        let items = items.as_array().unwrap();
        items.iter().filter(|one| one["delivery"]["state"] == "dead").count()
    };
    for path in ["/events?limit=100", "/events?limit=100&state=handled", "/events?limit=100&delivery=dead"] {
        assert_eq!(are_dead(&viewer.get(path).await.body["items"]), 54, "{path}");
    }
    for path in ["/events?delivery=held", "/events?delivery=open"] {
        assert_eq!(viewer.get(path).await.body["items"], serde_json::json!([]), "{path}");
    }
    let found = viewer.get("/search?id=plan_1").await.body;
    let found: Vec<Value> =
        found["found"].as_array().unwrap().iter().map(|hit| hit["event"].clone()).collect();
    assert_eq!(are_dead(&Value::from(found)), 50, "as many as a search shows");

    let person = Browser::signed_in(server.admin, token("viewer")).await;
    for (path, dead_n) in [
        ("/events", 50),
        ("/events?state=handled", 50),
        ("/events?delivery=dead", 50),
        ("/search?id=plan_1", 50),
        ("/events/stripe/evt_7", 1),
    ] {
        let page = person.get(path).await.text;
        assert!(page.matches("<span class=\"chip bad\">dead</span>").count() >= dead_n, "{path}: {page}");
        for well in ["chip good\">handled", "chip good\">delivered", ">done<", "No action needed"] {
            assert!(!page.contains(well), "{path} says {well}: {page}");
        }
        assert!(page.contains("refused with 422"), "{path} has no why");
    }
    let causes = viewer.get("/backlog").await.body["causes"].clone();
    assert_eq!(
        (&causes[0]["name"], &causes[0]["counted_n"], &causes[0]["error"], causes.as_array().unwrap().len()),
        (&Value::from("billing"), &Value::from(54), &Value::from("refused with 422"), 1),
        "{causes:#}"
    );
    let overview = person.get("/").await.text;
    assert!(overview.contains("Failures by cause") && overview.contains("refused with 422"), "{overview}");
    let timeline = person.get("/events/stripe/evt_7").await.text;
    assert!(!timeline.contains("<li class=\"good\"><div class=\"when\"> <strong>Handled"), "{timeline}");

    for arguments in [
        &["events", "list", "--limit", "60"][..],
        &["events", "list", "--limit", "60", "--delivery", "stuck"],
        &["events", "list", "--limit", "60", "--state", "handled"],
    ] {
        let (code, output) = command(&server, arguments);
        assert_eq!((code, output.matches(" dead 0/1 ").count()), (0, 54), "{arguments:?}: {output}");
        assert_eq!(output.matches("refused with 422").count(), 54, "{output}");
        assert!(!output.contains(" done ") && !output.contains("delivered"), "{output}");
    }
    let (_, output) = command(&server, &["search", "plan_1"]);
    assert!(output.matches(" dead 0/1 ").count() == 50 && !output.contains(" done "), "{output}");
    let (code, output) = command(&server, &["events", "list", "--delivery", "broken"]);
    assert!(code == 2 && output.contains("held, dead, stuck, open"), "{output}");
}

async fn an_event_says_what_happened_and_what_each_act_on_it_risks(database: &Database) {
    drop(database.store().await);
    add_event(database, "stripe", 1, "handled").await;
    message(database, (1, 0, 0), "done", "").await;
    message(database, (1, 1, 0), "ready", "").await;
    message(database, (1, 2, 0), "dead", "refused with 422").await;
    add_event(database, "stripe", 2, "failed").await;
    let payload = "INSERT INTO webhook_payloads (event_seq, shard, headers, body) VALUES";
    let body = if database.url.starts_with("sqlite") { "x'7b7d'" } else { "'{}'" };
    for seq in [1, 2] {
        run(database, format!("{payload} ({seq}, 0, '{{}}', {body})")).await;
    }
    let server = serve(database).await;
    let operator = with(&server, "operator");
    let judged = operator.get("/events/stripe/evt_1").await.body["judgement"].clone();
    let headline = judged["headline"].as_str().unwrap();
    assert!(headline.starts_with("Handled, but 1 of 3 calls was given up"), "{headline}");
    let acts: Vec<(&str, &str)> = judged["acts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["act"].as_str().unwrap(), one["risk"].as_str().unwrap()))
        .collect();
    assert_eq!(acts, [("rerun", "may_repeat_effect"), ("erase_and_discard", "loses_effect")]);
    let discard = judged["acts"][1]["sentence"].as_str().unwrap();
    assert!(discard.contains("2 unfinished calls, of which 1 was never sent"), "{discard}");

    let olga = Browser::signed_in(server.admin, token("operator")).await;
    let page = olga.get("/events/stripe/evt_1").await.text;
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
    assert!(place(headline.split(':').next().unwrap()) < place("id=\"timeline\""), "before all the rest");
    assert!(place("id=\"risky\"") < place("value=\"rerun\" class=\"danger\""), "{page}");
    assert!(place("id=\"risky\"") < place("value=\"erase_and_discard\" class=\"danger\""), "{page}");
    for form in page.split("<form class=\"act").skip(1) {
        let first = form.split("<button ").nth(1).unwrap();
        assert!(first.starts_with("class=\"unseen\" type=\"submit\" disabled"), "Enter acts: {form}");
    }
    let page = olga.get("/events/stripe/evt_2").await.text;
    let (decide, risky) = page.split_once("id=\"risky\"").unwrap();
    assert!(
        decide.contains("value=\"rerun\" aria-describedby=\"act-rerun\">Run it again")
            && !decide.contains("class=\"danger\""),
        "{page}"
    );
    assert!(risky.contains("value=\"erase_and_discard\" class=\"danger\""), "{page}");
    let (code, output) = command(&server, &["events", "show", "stripe", "evt_1"]);
    assert_eq!(code, 0, "{output}");
    for said in [headline, "rerun (may repeat an effect): ", "erase and discard (loses an effect): ", discard]
    {
        assert!(output.contains(said), "no {said} in {output}");
    }
    // Each page was a view of the body; the audit log alone has them.
    for _ in 0..3 {
        assert_eq!(olga.get("/events/stripe/evt_1").await.status, 200);
    }
    assert!(database.count("SELECT COUNT(*) FROM audit_log WHERE action = 'body_read'").await >= 4);
    let entries = operator.get("/events/stripe/evt_1").await.body["entries"].to_string();
    assert!(!entries.contains("body_read"), "{entries}");
}

async fn an_event_is_shown_by_its_id_alone_and_what_is_not_there_is_named(database: &Database) {
    drop(database.store().await);
    add_event(database, "stripe", 1, "handled").await;
    add_event(database, "stripe", 2, "handled").await;
    add_event(database, "adyen", 3, "handled").await;
    add_message(database, 1, "held", "billing", "").await;
    run(database, "UPDATE processed_webhook_events SET event_id = 'evt_2' WHERE event_seq = 3".to_owned())
        .await;
    let server = serve(database).await;
    let (code, output) = command(&server, &["events", "show", "evt_1"]);
    assert!(code == 0 && output.contains("stripe") && output.contains("held"), "{output}");
    let (code, output) = command(&server, &["events", "show", "evt_2"]);
    assert_eq!(code, 2, "{output}");
    for way in ["hooklatch events show stripe evt_2", "hooklatch events show adyen evt_2"] {
        assert!(output.contains(way), "{output}");
    }
    for (arguments, want) in [
        (&["events", "show", "evt_9"][..], "no event has the id evt_9"),
        (&["events", "show", "stripe", "evt_9"], "event evt_9 of stripe"),
    ] {
        let (code, output) = command(&server, arguments);
        assert!(code == 3 && output.contains(want), "{output}");
    }
    let person = Browser::signed_in(server.admin, token("viewer")).await;
    let page = person.get("/events/absent/evt_1").await;
    assert_eq!(page.status, 404);
    for said in ["evt_1", "absent", "Provider `stripe` has an event of this id"] {
        assert!(page.text.contains(said), "no {said} in {}", page.text);
    }
    let page = person.get("/events/stripe/evt_9").await.text;
    assert!(
        page.contains("evt_9") && page.contains("this does not show that the sender never sent it"),
        "{page}"
    );
}
