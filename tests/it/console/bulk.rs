//! Operations on all rows of a filter on the console: counted, confirmed, followed and cancelled.

use std::time::Duration;

use super::Browser;
use super::acts::{filled, serve};
use super::form::{Form, has, has_not, text};
use crate::database::{Database, on_sqlite};
use crate::look::{add_event, add_message};
use crate::operations::{MANY_ROWS_N, many_dead_messages};
use crate::process::{Server, until};

on_sqlite!(
    an_operation_is_counted_confirmed_and_run,
    a_number_that_moved_is_confirmed_anew,
    a_set_that_changed_with_its_number_kept_is_confirmed_anew,
    the_list_by_calls_leads_to_an_operation_on_these_events,
    who_typed_a_reason_and_hit_the_wrong_page_does_nothing,
    the_same_operation_is_begun_twice_only_by_who_says_so,
    an_operation_is_watched_and_cancelled,
);

/// Reloads the page, as a browser without scripts does, until it says this.
async fn look_until(browser: &Browser, server: &Server, path: &str, wanted: &str) -> String {
    let mut shown = String::new();
    until(
        wanted,
        Duration::from_mins(1),
        || server.log(),
        async || {
            shown = text(browser, path).await;
            shown.contains(wanted)
        },
    )
    .await;
    shown
}

async fn an_operation_is_counted_confirmed_and_run(database: &Database) {
    let (server, ann) = filled(database).await;
    let shown = text(&ann, "/operations/new?subject=messages&state=dead&destination=billing").await;
    has(&shown, &["1 dead message to billing", "href=\"/messages?destination=billing&amp;state=dead\""]);
    has_not(&shown, &["<form class=\"act\""]);
    let page = "/operations/new/discard?destination=billing&amp;state=dead&amp;subject=messages";
    has(&shown, &[&format!("href=\"{page}\"")]);
    let shown = text(&ann, &page.replace("&amp;", "&")).await;
    has(&shown, &["May lose an effect.", "class=\"act dangerous\"", "type the number"]);
    let form = Form::of(&shown, "/operations");
    assert_eq!(
        (form.value("counted_n"), form.acts.join(" ").as_str()),
        ("1", "discard"),
        "one act, and no other"
    );
    let order = form.act("discard", "not wanted").with("typed_n", "1");
    let (first, second) = tokio::join!(order.send(&ann), order.send(&ann));
    assert_eq!((first.status, second.status), (303, 303), "{} {}", first.text, second.text);
    let third = order.send(&ann).await;
    for again in [&second, &third] {
        assert_eq!((again.status, again.header("location")), (303, first.header("location")));
    }
    let begun = first.header("location");
    assert_eq!(database.count("SELECT COUNT(*) FROM operations").await, 1);
    let shown = look_until(&ann, &server, begun, "1 changed, 0 passed over").await;
    has(&shown, &["discard 1 dead message to billing", "not wanted", "<progress max=\"1\" value=\"1\""]);
    let shown = look_until(&ann, &server, begun, "chip good\">done").await;
    has_not(&shown, &["data-refresh", "<noscript>", "<form class=\"act\""]);
    let listed = text(&ann, "/operations").await;
    has(&listed, &[&format!("href=\"{begun}\""), "1 of 1", "discard 1 dead message to billing"]);
    has(&text(&ann, "/messages/5120").await, &["message_discard", &format!("href=\"{begun}\"")]);
    // What is there to do depends on the state, and there may be nothing.
    let path = "/operations/new?subject=messages&state=dead&destination=billing";
    has(&text(&ann, path).await, &["0 dead messages to billing", "There is nothing to do."]);
    let shown = text(&ann, "/operations/new?subject=events&state=handled&provider=stripe").await;
    has(&shown, &["7 handled events from stripe", "href=\"/events?provider=stripe&amp;state=handled\""]);
    has(&shown, &["/operations/new/rerun?", "/operations/new/erase?", "cannot tell them from a new order"]);
    has(&shown, &["/operations/new/erase_and_discard?"]);
    has_not(&shown, &["<form class=\"act"]);
    let erase = text(&ann, "/operations/new/erase?subject=events&state=handled&provider=stripe").await;
    assert_eq!(Form::of(&erase, "/operations").acts, ["erase"]);
    has_not(&erase, &["/operations/new/rerun?"]);
    // Each act says what it does itself.
    let shown = text(&ann, "/operations/new?subject=events&state=failed&provider=stripe").await;
    has_not(&shown, &["the same"]);
    has(&text(&ann, "/operations/new?subject=messages&state=done").await, &["Nothing can be done"]);
    for (query, status) in [
        ("", 400),
        ("?subject=messages", 400),
        ("?subject=lanes&state=dead", 400),
        ("?subject=messages&state=failed", 400),
        ("?subject=messages&state=dead&destination=A%20B", 400),
    ] {
        assert_eq!(ann.get(&format!("/operations/new{query}")).await.status, status, "{query}");
        assert_eq!(ann.get(&format!("/operations/new/send{query}")).await.status, status, "{query}");
    }
    for odd in ["rerun", "burn", "%3Cscript%3E"] {
        let path = format!("/operations/new/{odd}?subject=messages&state=dead");
        assert_eq!(ann.get(&path).await.status, 400, "{odd}");
    }
    assert_eq!(ann.get("/operations/absent").await.status, 404);
    assert_eq!(ann.get("/operations?cursor=x").await.status, 404);
}

async fn a_number_that_moved_is_confirmed_anew(database: &Database) {
    let (server, ann) = filled(database).await;
    let path = "/operations/new/done?subject=messages&state=dead&destination=billing";
    let form = Form::of(&text(&ann, path).await, "/operations")
        .act("done", "they confirmed it")
        .with("typed_n", "1");
    add_event(database, "stripe", 20, "handled").await;
    add_message(database, 20, "dead", "billing", "").await;
    let moved = form.send(&ann).await;
    assert_eq!(moved.status, 409);
    has(
        &moved.text,
        &[
            "Nothing was done",
            "the filter finds another number now",
            "The number is now 2",
            "2 dead messages to billing",
        ],
    );
    let again = Form::of(&moved.text, "/operations");
    assert_eq!(again.value("counted_n"), "2");
    assert_ne!(again.value("key"), form.value("key"));
    let begun = again.act("done", "they confirmed it").with("typed_n", "2").send(&ann).await;
    assert_eq!(begun.status, 303);
    look_until(&ann, &server, begun.header("location"), "2 changed, 0 passed over").await;
}

async fn a_set_that_changed_with_its_number_kept_is_confirmed_anew(database: &Database) {
    let (_server, ann) = filled(database).await;
    let path = "/operations/new/done?subject=messages&state=dead&destination=billing";
    let form = Form::of(&text(&ann, path).await, "/operations")
        .act("done", "they confirmed it")
        .with("typed_n", "1");
    let discarded =
        Form::of(&text(&ann, "/messages/5120").await, "/messages/5120/decide").act("discard", "r");
    assert_eq!(discarded.send(&ann).await.status, 303);
    add_event(database, "stripe", 20, "handled").await;
    add_message(database, 20, "dead", "billing", "").await;
    let moved = form.send(&ann).await;
    assert_eq!(moved.status, 409);
    has(
        &moved.text,
        &["the filter finds as many as before, but not the same ones", "1 dead message to billing"],
    );
    let again = Form::of(&moved.text, "/operations").act("done", "they confirmed it").with("typed_n", "1");
    assert_eq!((again.value("counted_n"), again.send(&ann).await.status), ("1", 303));
}

/// An operator who means to rerun opens the page that erases, types a reason, and presses Enter or the button.
async fn who_typed_a_reason_and_hit_the_wrong_page_does_nothing(database: &Database) {
    let (_server, ann) = filled(database).await;
    let path = "/operations/new/erase_and_discard?subject=events&state=handled&provider=stripe";
    let shown = text(&ann, path).await;
    let guard = "<button class=\"unseen\" type=\"submit\" disabled aria-hidden=\"true\"></button>";
    let form = shown.split("class=\"act dangerous\"").nth(1).unwrap();
    let places = [guard, "name=\"typed_n\"", "name=\"reason\"", "<button type=\"submit\""]
        .map(|one| form.find(one).unwrap());
    assert!(places.is_sorted(), "Enter presses what is disabled: {form}");
    has(form, &["Erase 7 and discard open calls", "class=\"main danger\""]);
    let form = Form::of(&shown, "/operations").act("erase_and_discard", "meant re-run");
    for typed in ["", "6", "seven", "-7", "07x"] {
        let refused = form.with("typed_n", typed).send(&ann).await;
        assert_eq!(refused.status, 400, "{typed}");
        has(&refused.text, &["Nothing was done", "Erase them and discard open calls"]);
    }
    assert_eq!(form.send(&ann).await.status, 400, "a form without the field");
    assert_eq!(database.count("SELECT COUNT(*) FROM operations").await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log WHERE action <> 'sign_in'").await, 0);
}

async fn the_same_operation_is_begun_twice_only_by_who_says_so(database: &Database) {
    let (server, ann) = filled(database).await;
    let path = "/operations/new/done?subject=messages&state=dead&destination=billing";
    let tabs = [text(&ann, path).await, text(&ann, path).await];
    let [first, second] =
        tabs.map(|tab| Form::of(&tab, "/operations").act("done", "seen at the bank").with("typed_n", "1"));
    let begun = first.send(&ann).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    look_until(&ann, &server, begun.header("location"), "1 changed").await;
    add_event(database, "stripe", 20, "handled").await;
    add_message(database, 20, "dead", "billing", "").await;
    let refused = second.send(&ann).await;
    assert_eq!(refused.status, 409);
    has(&refused.text, &["another operation has the same act", begun.header("location"), "name=\"again\""]);
    // The page says so before it is refused, too.
    let shown = text(&ann, path).await;
    has(&shown, &["The same was ordered before", begun.header("location")]);
    let form = Form::of(&shown, "/operations").act("done", "another one").with("typed_n", "1");
    assert_eq!(form.send(&ann).await.status, 409);
    assert_eq!(form.with("again", "true").send(&ann).await.status, 303);
}

async fn an_operation_is_watched_and_cancelled(database: &Database) {
    drop(database.store().await);
    many_dead_messages(database, MANY_ROWS_N).await;
    let (server, ann) = serve(database).await;
    let path = "/operations/new/discard?subject=messages&state=dead&destination=billing";
    let form = Form::of(&text(&ann, path).await, "/operations");
    assert_eq!(form.value("counted_n"), MANY_ROWS_N.to_string());
    let begun = form.act("discard", "an old test").with("typed_n", "40,000").send(&ann).await;
    let shown = text(&ann, begun.header("location")).await;
    let running =
        ["id=\"progress\" data-refresh=\"2\"", "<noscript>", "Look again", " of 40,000", "an old test"];
    has(&shown, &running);
    let cancel = Form::of(&shown, &format!("{}/cancel", begun.header("location")))
        .with("reason", "that was the wrong one");
    // It does not wait for us: nothing else is looked at before it is cancelled.
    let has_begun = async || database.count("SELECT changed_n FROM operations").await > 0;
    until("it goes on", Duration::from_secs(20), || server.log(), has_begun).await;
    for _ in 0..2 {
        let answer = cancel.send(&ann).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, begun.header("location")),
            "{}",
            answer.text
        );
    }
    let shown = text(&ann, begun.header("location")).await;
    has(&shown, &["chip quiet\">cancelled", "left as they were"]);
    has_not(&shown, &["data-refresh", "<noscript>", "<form class=\"act\""]);
    let late = cancel.with("key", "another").send(&ann).await;
    assert_eq!(late.status, 409);
    has(&late.text, &["Its state is", "cancelled", &format!("href=\"{}\"", begun.header("location"))]);
    let left_n = database.count("SELECT COUNT(*) FROM outbox_queue WHERE state = 'dead'").await;
    assert!((1..i64::from(MANY_ROWS_N)).contains(&left_n), "{left_n}");
}

async fn the_list_by_calls_leads_to_an_operation_on_these_events(database: &Database) {
    let (server, ann) = filled(database).await;
    let listed = text(&ann, "/events?delivery=dead").await;
    let path = "/operations/new?delivery=dead&amp;state=handled&amp;subject=events";
    has(&listed, &["Act on those of these that are done", &format!("href=\"{path}\"")]);
    let shown = text(&ann, &path.replace("&amp;", "&")).await;
    has(&shown, &["handled events with dead calls", "href=\"/events?delivery=dead&amp;state=handled\""]);
    let shown = text(&ann, "/operations/new/rerun?subject=events&state=handled&delivery=dead").await;
    let form = Form::of(&shown, "/operations").act("rerun", "the handler was wrong");
    let counted_n = form.value("counted_n").to_owned();
    let begun = form.with("typed_n", &counted_n).send(&ann).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    look_until(&ann, &server, begun.header("location"), "handled events with dead calls").await;
}
