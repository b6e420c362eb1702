//! What people do on the console: decide about a message, pause a destination, act on all that a filter finds.

use std::time::Duration;

use super::person::{Form, Person};
use crate::database::{Database, on_both};
use crate::look::{add_event, add_message, fill, run};
use crate::operations::dead_messages;
use crate::process::{Server, until};

on_both!(
    a_held_message_is_decided_once_however_often_its_form_is_sent,
    a_form_about_what_has_changed_meanwhile_is_told_so,
    forms_of_strangers_and_half_forms_do_nothing,
    what_waits_for_a_person_comes_first_and_all_else_by_filters,
    lanes_and_destinations_say_why_nothing_moves,
    a_destination_is_paused_and_resumed_by_who_saw_how_it_stands,
    an_operation_is_counted_confirmed_and_run,
    a_number_that_moved_is_confirmed_anew,
    an_operation_is_watched_and_cancelled,
);

/// A server with `--dev` that calls nobody who is there.
pub(super) async fn serve(database: &Database) -> (Server, Person) {
    let more = "[outbox]\npoll_ms = 60000\n[retention]\nevery_ms = 0\n\
                [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\nconcurrency_n = 3\nrate_per_s = 7\n";
    let mut server = Server::prepare(&database.url, more).in_dev();
    server.spawn().await;
    let person = Person::at(&server);
    (server, person)
}

/// The rows of [`fill`], of which that with the number 6 was sent and not answered.
async fn filled(database: &Database) -> (Server, Person) {
    fill(database).await;
    let unknown = "UPDATE outbox_queue SET last_result = 'unknown', last_error = 'no answer within 30 s',
        first_sent_at_ms = 5, key_valid_until_ms = 4102444800000 WHERE message_id = 6144";
    run(database, unknown.to_owned()).await;
    serve(database).await
}

#[track_caller]
fn has(text: &str, wanted: &[&str]) {
    for one in wanted {
        assert!(text.contains(one), "`{one}` is not in: {text}");
    }
}

#[track_caller]
fn has_not(text: &str, unwanted: &[&str]) {
    for one in unwanted {
        assert!(!text.contains(one), "`{one}` is in: {text}");
    }
}

async fn a_held_message_is_decided_once_however_often_its_form_is_sent(database: &Database) {
    let (_server, ann) = filled(database).await;
    let shown = ann.text("/messages/6144").await;
    has(
        &shown,
        &[
            "nobody knows whether it took effect",
            "safe to send again until 2100-01-01 00:00:00",
            "no answer within 30 s",
            "It happened: settle as done",
            "href=\"/events/stripe/evt_6\"",
        ],
    );
    let form = Form::of(&shown, "/messages/6144/decide");
    assert_eq!(form.acts, ["done", "send", "discard"]);
    let done = form.act("done", "the bank has it");
    let (first, second) = tokio::join!(ann.send(&done), ann.send(&done));
    for (n, answer) in [first, second, ann.send(&done).await].iter().enumerate() {
        assert_eq!(
            (answer.status, answer.location.as_str()),
            (303, "/messages/6144"),
            "{n}: {}",
            answer.text
        );
    }
    let settled = "SELECT COUNT(*) FROM outbox_finished WHERE message_id = 6144 AND state = 'done'";
    let told = "SELECT COUNT(*) FROM audit_log WHERE action = 'message_done' AND message_id = 6144";
    assert_eq!((database.count(settled).await, database.count(told).await), (1, 1));
    let shown = ann.text("/messages/6144").await;
    has(&shown, &["message_done", "the bank has it", "chip good\">done"]);
    has_not(&shown, &["<form class=\"act\"", "nobody knows"]);
    // The same key with another word is another request.
    let other = ann.send(&form.act("discard", "no")).await;
    assert_eq!(other.status, 409);
    has(&other.text, &["was used for another request", "href=\"/messages/6144\""]);
}

async fn a_form_about_what_has_changed_meanwhile_is_told_so(database: &Database) {
    let (_server, ann) = filled(database).await;
    let of_ann = Form::of(&ann.text("/messages/6144").await, "/messages/6144/decide");
    let of_bob = Form::of(&ann.text("/messages/6144").await, "/messages/6144/decide");
    assert_ne!(of_ann.value("key"), of_bob.value("key"));
    assert_eq!(ann.send(&of_bob.act("send", "they are back")).await.status, 303);
    let late = ann.send(&of_ann.act("discard", "nobody wants it")).await;
    assert_eq!(late.status, 412);
    has(&late.text, &["It has changed meanwhile", "href=\"/messages/6144\">Look at it again"]);
    let shown = ann.text("/messages/6144").await;
    has(&shown, &["chip busy\">ready"]);
    assert_eq!(Form::of(&shown, "/messages/6144/decide").acts, ["discard"]);
}

async fn forms_of_strangers_and_half_forms_do_nothing(database: &Database) {
    let (_server, ann) = filled(database).await;
    let form = Form::of(&ann.text("/messages/6144").await, "/messages/6144/decide").act("done", "r");
    for headers in [
        &[][..],
        &[("origin", "https://evil.example")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
    ] {
        let refused = ann.status_from(&form, headers).await;
        assert_eq!(refused, 403, "{headers:?}");
    }
    for (form, status) in [
        (form.with("key", ""), 400),
        (form.with("key", "two words"), 400),
        (form.with("reason", ""), 400),
        (form.with("reason", &"x".repeat(256)), 400),
        (form.with("act", ""), 400),
        (form.with("act", "rerun"), 400),
        (form.with("if_match", "\"0123456789abcdef\""), 412),
        (Form { action: "/messages/1/decide".to_owned(), ..form.clone() }, 404),
        (Form { action: "/messages/x/decide".to_owned(), ..form.clone() }, 404),
        (Form { action: "/operations".to_owned(), ..form.clone() }, 400),
        (Form { action: "/operations/nobody/cancel".to_owned(), ..form.clone() }, 404),
        (Form { action: "/destinations/nobody/decide".to_owned(), ..form.with("act", "done") }, 400),
    ] {
        let answer = ann.send(&form).await;
        assert_eq!(answer.status, status, "{form:?}: {}", answer.text);
    }
    let acted = "SELECT COUNT(*) FROM audit_log";
    assert_eq!(database.count(acted).await, 0);
}

async fn what_waits_for_a_person_comes_first_and_all_else_by_filters(database: &Database) {
    let (_server, ann) = filled(database).await;
    let shown = ann.text("/messages").await;
    let places = ["id=\"held\"", "id=\"dead\"", "id=\"newest\""].map(|one| shown.find(one).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    has(&shown, &["/operations/new?state=held&amp;subject=messages", "no answer within 30 s"]);
    #[rustfmt::skip]
    let cases: [(&str, &[i64]); 6] = [
        ("?state=held", &[9, 6]), ("?destination=ledger", &[8]), ("?provider=adyen&state=dead", &[8]),
        ("?lane=in_1", &[9, 2]), ("?created_before=1970-01-01T00:00:03Z", &[2, 1]), ("?state=&destination=&lane=nobody", &[]),
    ];
    for (query, wanted) in cases {
        let shown = ann.text(&format!("/messages{query}")).await;
        for seq in 1..=9_i64 {
            let row = format!("href=\"/messages/{}\"", seq * 1_024);
            assert_eq!(shown.contains(&row), wanted.contains(&seq), "{query}: {seq}");
        }
    }
    for (query, status) in
        [("?state=lost", 400), ("?created_before=soon", 400), ("?cursor=x", 404), ("/x", 404)]
    {
        assert_eq!(ann.get(&format!("/messages{query}")).await.status, status, "{query}");
    }
    for seq in 100..160 {
        add_event(database, "stripe", seq, "done").await;
        add_message(database, seq, "done", "billing", "").await;
    }
    let mut seen = 0;
    let mut path = "/messages".to_owned();
    loop {
        let shown = ann.text(&path).await;
        assert!(shown.len() < 60_000, "{path} has {} bytes", shown.len());
        seen +=
            (100..160).filter(|seq| shown.contains(&format!("href=\"/messages/{}\"", seq * 1_024))).count();
        let Some((_, next)) = shown.split_once("rel=\"next\" href=\"") else { break };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(seen, 60, "each once");
}

async fn lanes_and_destinations_say_why_nothing_moves(database: &Database) {
    let (_server, ann) = filled(database).await;
    let lanes = ann.text("/lanes").await;
    has(
        &lanes,
        &["href=\"/messages?destination=billing&amp;lane=in_1\"", "href=\"/messages/2048\"", "paused"],
    );
    has(&ann.text("/lanes?destination=ledger").await, &["No lane has open messages."]);
    assert_eq!(ann.get("/lanes?cursor=x").await.status, 404);
    let all = ann.text("/destinations").await;
    has(
        &all,
        &["href=\"/destinations/billing\"", "href=\"/destinations/ledger\"", "not configured", "paused"],
    );
    has(&all, &["href=\"/messages?state=dead&amp;destination=ledger\" aria-label=\"1 dead\""]);
    let ledger = ann.text("/destinations/ledger").await;
    has(&ledger, &["has no destination of this name", "What waits for it stays"]);
    let billing = ann.text("/destinations/billing").await;
    has(
        &billing,
        &["chip good\">closed", "at most 3 of this node", "at most 7 calls a second", "they migrate"],
    );
    assert_eq!(ann.get("/destinations/nobody").await.status, 404);
    assert_eq!(ann.get("/destinations/A%20B").await.status, 404);
}

async fn a_destination_is_paused_and_resumed_by_who_saw_how_it_stands(database: &Database) {
    let (_server, ann) = filled(database).await;
    let action = "/destinations/billing/decide";
    let of_ann = Form::of(&ann.text("/destinations/billing").await, action);
    let of_bob = Form::of(&ann.text("/destinations/billing").await, action);
    assert_eq!(of_ann.acts, ["resume"]);
    let resumed = of_ann.act("resume", "they are done");
    for _ in 0..2 {
        let answer = ann.send(&resumed).await;
        assert_eq!((answer.status, answer.location.as_str()), (303, "/destinations/billing"));
    }
    assert_eq!(ann.send(&of_bob.act("resume", "so am I")).await.status, 412);
    let shown = ann.text("/destinations/billing").await;
    has_not(&shown, &["they migrate"]);
    let pause = Form::of(&shown, action);
    assert_eq!(pause.acts, ["pause"]);
    assert_eq!(ann.send(&pause.act("pause", "they move <house>")).await.status, 303);
    has(&ann.text("/destinations/billing").await, &["they move &lt;house&gt;", "paused it at", ">Resume<"]);
    let told = "SELECT COUNT(*) FROM audit_log WHERE action IN ('destination_pause', 'destination_resume')";
    assert_eq!(database.count(told).await, 2);
}

/// Looks again, as somebody without scripts does, until the page says this.
async fn look_until(person: &Person, server: &Server, path: &str, wanted: &str) -> String {
    let mut shown = String::new();
    until(
        wanted,
        Duration::from_mins(1),
        || server.log(),
        async || {
            shown = person.text(path).await;
            shown.contains(wanted)
        },
    )
    .await;
    shown
}

async fn an_operation_is_counted_confirmed_and_run(database: &Database) {
    let (server, ann) = filled(database).await;
    let shown = ann.text("/operations/new?subject=messages&state=dead&destination=billing").await;
    has(&shown, &["1 dead message to billing", "href=\"/messages?destination=billing&amp;state=dead\""]);
    let form = Form::of(&shown, "/operations");
    assert_eq!((form.value("counted_n"), form.acts.join(" ").as_str()), ("1", "send done discard"));
    let order = form.act("discard", "nobody wants them");
    let (first, second) = tokio::join!(ann.send(&order), ann.send(&order));
    assert_eq!((first.status, second.status), (303, 303), "{} {}", first.text, second.text);
    assert_eq!((&first.location, &ann.send(&order).await.location), (&second.location, &second.location));
    assert_eq!(database.count("SELECT COUNT(*) FROM operations").await, 1);
    let shown = look_until(&ann, &server, &first.location, "1 changed, 0 passed over").await;
    has(
        &shown,
        &["discard 1 dead message to billing", "nobody wants them", "<progress max=\"1\" value=\"1\""],
    );
    let shown = look_until(&ann, &server, &first.location, "chip good\">done").await;
    has_not(&shown, &["data-refresh", "<noscript>", "<form class=\"act\""]);
    let listed = ann.text("/operations").await;
    has(&listed, &[&format!("href=\"{}\"", first.location), "1 of 1", "discard 1 dead message to billing"]);
    has(&ann.text("/messages/5120").await, &["message_discard", &format!("href=\"{}\"", first.location)]);
    // What is there to do depends on the state, and there may be nothing.
    let path = "/operations/new?subject=messages&state=dead&destination=billing";
    has(&ann.text(path).await, &["0 dead messages to billing", "There is nothing to do."]);
    let shown = ann.text("/operations/new?subject=events&state=done&provider=stripe").await;
    has(&shown, &["7 done events from stripe", "href=\"/events?provider=stripe&amp;state=done\""]);
    assert_eq!(Form::of(&shown, "/operations").acts, ["rerun", "erase", "erase_and_discard"]);
    has(&ann.text("/operations/new?subject=messages&state=done").await, &["Nothing can be done"]);
    for (query, status) in [
        ("", 400),
        ("?subject=messages", 400),
        ("?subject=lanes&state=dead", 400),
        ("?subject=messages&state=failed", 400),
        ("?subject=messages&state=dead&destination=A%20B", 400),
    ] {
        assert_eq!(ann.get(&format!("/operations/new{query}")).await.status, status, "{query}");
    }
    assert_eq!(ann.get("/operations/nobody").await.status, 404);
    assert_eq!(ann.get("/operations?cursor=x").await.status, 404);
}

async fn a_number_that_moved_is_confirmed_anew(database: &Database) {
    let (server, ann) = filled(database).await;
    let path = "/operations/new?subject=messages&state=dead&destination=billing";
    let form = Form::of(&ann.text(path).await, "/operations").act("done", "they told us");
    add_event(database, "stripe", 20, "done").await;
    add_message(database, 20, "dead", "billing", "").await;
    let moved = ann.send(&form).await;
    assert_eq!(moved.status, 409);
    has(
        &moved.text,
        &["Nothing was done", "there were 1, and now there are 2", "2 dead messages to billing"],
    );
    let again = Form::of(&moved.text, "/operations");
    assert_eq!(again.value("counted_n"), "2");
    assert_ne!(again.value("key"), form.value("key"));
    let begun = ann.send(&again.act("done", "they told us")).await;
    assert_eq!(begun.status, 303);
    look_until(&ann, &server, &begun.location, "2 changed, 0 passed over").await;
}

async fn an_operation_is_watched_and_cancelled(database: &Database) {
    drop(database.store().await);
    dead_messages(database).await;
    let (server, ann) = serve(database).await;
    let path = "/operations/new?subject=messages&state=dead&destination=billing";
    let form = Form::of(&ann.text(path).await, "/operations");
    assert_eq!(form.value("counted_n"), "10000");
    let begun = ann.send(&form.act("discard", "an old test")).await;
    let shown = ann.text(&begun.location).await;
    let running =
        ["id=\"progress\" data-refresh=\"2\"", "<noscript>", "Look again", " of 10,000", "an old test"];
    has(&shown, &running);
    let cancel =
        Form::of(&shown, &format!("{}/cancel", begun.location)).with("reason", "that was the wrong one");
    look_until(&ann, &server, &begun.location, " to go").await;
    for _ in 0..2 {
        let answer = ann.send(&cancel).await;
        assert_eq!((answer.status, &answer.location), (303, &begun.location), "{}", answer.text);
    }
    let shown = ann.text(&begun.location).await;
    has(&shown, &["chip quiet\">cancelled", "left as they were"]);
    has_not(&shown, &["data-refresh", "<noscript>", "<form class=\"act\""]);
    let late = ann.send(&cancel.with("key", "another")).await;
    assert_eq!(late.status, 409);
    has(&late.text, &["It stands in", "cancelled", &format!("href=\"{}\"", begun.location)]);
    let left_n = database.count("SELECT COUNT(*) FROM outbox_queue WHERE state = 'dead'").await;
    assert!((1..10_000).contains(&left_n), "{left_n}");
}
