//! Acts on one message and one destination on the console, and the lists that lead to them.

use super::Browser;
use super::form::{Form, has, has_not, text};
use crate::database::{Database, on_sqlite};
use crate::look::{add_event, add_message, fill, run};
use crate::process::Server;

on_sqlite!(
    a_held_message_is_decided_once_however_often_its_form_is_sent,
    a_form_about_what_has_changed_meanwhile_is_refused,
    forms_of_strangers_and_half_forms_do_nothing,
    what_waits_for_a_person_comes_first_and_all_else_by_filters,
    lanes_and_destinations_say_why_nothing_moves,
    a_destination_is_paused_and_resumed_by_who_saw_how_it_stands,
    a_provider_is_paused_and_resumed_on_its_page,
    who_may_only_look_has_no_buttons_and_no_way_around_them,
);

const OPERATOR: &str = "operator-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";
/// A configuration whose destination does not answer.
const QUIET: &str = "[outbox]\npoll_ms = 60000\n[retention]\nevery_ms = 0\n\
    [[admin.tokens]]\nname = \"ann\"\nrole = \"operator\"\ntoken = \"operator-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"viewer-token-0123456789\"\n\
    [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\nconcurrency_n = 3\nrate_per_s = 7\n";

/// A server whose destination does not answer, and an operator who is signed in.
pub(super) async fn serve(database: &Database) -> (Server, Browser) {
    let server = Server::start(&database.url, QUIET).await;
    let ann = Browser::signed_in(server.admin, OPERATOR).await;
    (server, ann)
}

/// The rows of [`fill`], of which that with the number 6 was sent and not answered.
pub(super) async fn filled(database: &Database) -> (Server, Browser) {
    fill(database).await;
    let unknown = "UPDATE outbox_queue SET last_result = 'unknown', last_error = 'no answer within 30 s',
        first_sent_at_ms = 5, key_valid_until_ms = 4102444800000, sent_under = 'retry' WHERE message_id = 6144";
    run(database, unknown.to_owned()).await;
    serve(database).await
}

async fn a_held_message_is_decided_once_however_often_its_form_is_sent(database: &Database) {
    let (_server, ann) = filled(database).await;
    let shown = text(&ann, "/messages/6144").await;
    has(
        &shown,
        &[
            "it is not known whether it took effect",
            "ask the destination whether the effect of this event happened: by the idempotency key if it still has it",
            // It was sent so long ago that the present key_valid_for_ms is over, whatever its row says.
            "The destination may have forgotten the key since 1970-01-01 22:48:00 UTC",
            "no answer within 30 s",
            "unknown = &quot;retry&quot;",
            "class=\"danger\" aria-describedby=\"act-send\"",
            "href=\"/events/stripe/evt_6\"",
        ],
    );
    let form = Form::of(&shown, "/messages/6144/decide");
    assert_eq!(form.acts, ["done", "discard", "send"], "what may happen twice comes last");
    let done = form.act("done", "the bank has it");
    let (first, second) = tokio::join!(done.send(&ann), done.send(&ann));
    for (n, answer) in [first, second, done.send(&ann).await].iter().enumerate() {
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, "/messages/6144"),
            "{n}: {}",
            answer.text
        );
    }
    let settled = "SELECT COUNT(*) FROM outbox_finished WHERE message_id = 6144 AND state = 'done'";
    let audited = "SELECT COUNT(*) FROM audit_log WHERE action = 'message_done' AND message_id = 6144";
    assert_eq!((database.count(settled).await, database.count(audited).await), (1, 1));
    let shown = text(&ann, "/messages/6144").await;
    has(&shown, &["message_done", "the bank has it", "chip good\">done"]);
    has_not(&shown, &["<form class=\"act", "it is not known", "Key remembered"]);
    // The same key with another word is another request.
    let other = form.act("discard", "no").send(&ann).await;
    assert_eq!(other.status, 422);
    has(&other.text, &["was used for another request", "href=\"/messages/6144\""]);
}

async fn a_form_about_what_has_changed_meanwhile_is_refused(database: &Database) {
    let (_server, ann) = filled(database).await;
    let of_ann = Form::of(&text(&ann, "/messages/6144").await, "/messages/6144/decide");
    let of_bob = Form::of(&text(&ann, "/messages/6144").await, "/messages/6144/decide");
    assert_ne!(of_ann.value("key"), of_bob.value("key"));
    assert_eq!(of_bob.act("send", "they are back").send(&ann).await.status, 303);
    let late = of_ann.act("discard", "not wanted").send(&ann).await;
    assert_eq!(late.status, 412);
    has(&late.text, &["It has changed in the meantime", "href=\"/messages/6144\">Look at it again"]);
    let shown = text(&ann, "/messages/6144").await;
    has(&shown, &["chip busy\">ready"]);
    assert_eq!(Form::of(&shown, "/messages/6144/decide").acts, ["discard"]);
}

async fn forms_of_strangers_and_half_forms_do_nothing(database: &Database) {
    let (_server, ann) = filled(database).await;
    let form = Form::of(&text(&ann, "/messages/6144").await, "/messages/6144/decide").act("done", "r");
    for headers in [
        &[][..],
        &[("origin", "https://evil.example")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
    ] {
        let refused = form.status_from(&ann, headers).await;
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
        (form.to("/messages/1/decide"), 404),
        (form.to("/messages/x/decide"), 404),
        (form.to("/operations"), 400),
        (form.to("/operations/absent/cancel"), 404),
        (form.with("act", "done").to("/destinations/absent/decide"), 400),
    ] {
        let answer = form.send(&ann).await;
        assert_eq!(answer.status, status, "{form:?}: {}", answer.text);
    }
    let acted = "SELECT COUNT(*) FROM audit_log WHERE action <> 'sign_in'";
    assert_eq!(database.count(acted).await, 0);
}

async fn what_waits_for_a_person_comes_first_and_all_else_by_filters(database: &Database) {
    let (_server, ann) = filled(database).await;
    let shown = text(&ann, "/messages").await;
    let places = ["id=\"held\"", "id=\"dead\"", "id=\"newest\""].map(|one| shown.find(one).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    has(&shown, &["/operations/new?state=held&amp;subject=messages", "no answer within 30 s"]);
    #[rustfmt::skip]
    let cases: [(&str, &[i64]); 6] = [
        ("?state=held", &[9, 6]), ("?destination=ledger", &[8]), ("?provider=adyen&state=dead", &[8]),
        ("?lane=in_1", &[9, 2]), ("?created_before=1970-01-01T00:00:03Z", &[2, 1]), ("?state=&destination=&lane=absent", &[]),
    ];
    for (query, wanted) in cases {
        let shown = text(&ann, &format!("/messages{query}")).await;
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
        add_event(database, "stripe", seq, "handled").await;
        add_message(database, seq, "done", "billing", "").await;
    }
    let mut seen = 0;
    let mut path = "/messages".to_owned();
    loop {
        let shown = text(&ann, &path).await;
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
    let lanes = text(&ann, "/lanes").await;
    has(
        &lanes,
        &["href=\"/messages?destination=billing&amp;lane=in_1\"", "href=\"/messages/2048\"", "paused"],
    );
    has(&text(&ann, "/lanes?destination=ledger").await, &["No lane has open messages."]);
    assert_eq!(ann.get("/lanes?cursor=x").await.status, 404);
    let all = text(&ann, "/destinations").await;
    has(
        &all,
        &["href=\"/destinations/billing\"", "href=\"/destinations/ledger\"", "not configured", "paused"],
    );
    has(&all, &["href=\"/messages?state=dead&amp;destination=ledger\" aria-label=\"1 dead\""]);
    let ledger = text(&ann, "/destinations/ledger").await;
    has(&ledger, &["has no destination of this name", "What waits for it stays"]);
    let billing = text(&ann, "/destinations/billing").await;
    has(
        &billing,
        &["chip good\">closed", "at most 3 of this node", "at most 7 calls a second", "they migrate"],
    );
    assert_eq!(ann.get("/destinations/absent").await.status, 404);
    assert_eq!(ann.get("/destinations/A%20B").await.status, 404);
}

async fn a_destination_is_paused_and_resumed_by_who_saw_how_it_stands(database: &Database) {
    let (_server, ann) = filled(database).await;
    let action = "/destinations/billing/decide";
    let of_ann = Form::of(&text(&ann, "/destinations/billing").await, action);
    let of_bob = Form::of(&text(&ann, "/destinations/billing").await, action);
    assert_eq!(of_ann.acts, ["resume"]);
    let resumed = of_ann.act("resume", "they are done");
    for _ in 0..2 {
        let answer = resumed.send(&ann).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/destinations/billing"));
    }
    assert_eq!(of_bob.act("resume", "so am I").send(&ann).await.status, 412);
    let shown = text(&ann, "/destinations/billing").await;
    has_not(&shown, &["they migrate"]);
    let pause = Form::of(&shown, action);
    assert_eq!(pause.acts, ["pause"]);
    assert_eq!(pause.act("pause", "they move <house>").send(&ann).await.status, 303);
    has(&text(&ann, "/destinations/billing").await, &["they move &lt;house&gt;", "paused it at", ">Resume<"]);
    let audited =
        "SELECT COUNT(*) FROM audit_log WHERE action IN ('destination_pause', 'destination_resume')";
    assert_eq!(database.count(audited).await, 2);
}

async fn a_provider_is_paused_and_resumed_on_its_page(database: &Database) {
    let (_server, ann) = filled(database).await;
    let (page, action) = ("/senders/stripe", "/senders/stripe/decide");
    let pause = Form::of(&text(&ann, page).await, action);
    assert_eq!(pause.acts, ["pause"]);
    let answer = pause.act("pause", "a bad <deploy>").send(&ann).await;
    assert_eq!((answer.status, answer.header("location")), (303, page));
    let shown = text(&ann, page).await;
    has(&shown, &["a bad &lt;deploy&gt;", "paused it at", "kept, and not dispatched", ">Resume<"]);
    has(&text(&ann, "/").await, &["a bad &lt;deploy&gt;", "href=\"/senders/stripe\""]);
    has(&text(&ann, "/senders").await, &[">paused<"]);
    let resume = Form::of(&shown, action);
    assert_eq!(resume.acts, ["resume"]);
    assert_eq!(resume.act("resume", "a good one").send(&ann).await.status, 303);
    has_not(&text(&ann, page).await, &["a bad &lt;deploy&gt;", ">Resume<"]);
    let audited = "SELECT COUNT(*) FROM audit_log WHERE action IN ('provider_pause', 'provider_resume')";
    assert_eq!(database.count(audited).await, 2);
}

async fn who_may_only_look_has_no_buttons_and_no_way_around_them(database: &Database) {
    let (server, ann) = filled(database).await;
    let answer = "INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, http_status, shard, node,
        result, error, response) VALUES (6144, 1, 6001, 6002, 502, 0, 'n', 'unknown', 'status 502', 'the balance is 5')";
    run(database, answer.to_owned()).await;
    let vic = Browser::signed_in(server.admin, VIEWER).await;
    for path in [
        "/messages",
        "/messages?state=held",
        "/messages/6144",
        "/lanes",
        "/destinations",
        "/destinations/billing",
        "/senders/stripe",
    ] {
        has_not(&text(&vic, path).await, &["method=\"post\"", "/operations/new", "the balance is 5"]);
    }
    has(&text(&vic, "/messages/6144").await, &["shown to the role", "status 502", "chip needed\">unknown"]);
    has(
        &text(&vic, "/operations/new?subject=messages&state=dead").await,
        &["2 dead messages", "takes the role"],
    );
    let of_ann = text(&ann, "/messages/6144").await;
    has(&of_ann, &["the balance is 5"]);
    let message = Form::of(&of_ann, "/messages/6144/decide").act("done", "r");
    let destination = Form::of(&text(&ann, "/destinations/billing").await, "/destinations/billing/decide");
    let path = "/operations/new/discard?subject=messages&state=dead";
    let operation = Form::of(&text(&ann, path).await, "/operations").act("discard", "r").with("typed_n", "2");
    for form in [message, destination.act("resume", "r"), operation] {
        let refused = form.send(&vic).await;
        assert_eq!(refused.status, 403, "{}: {}", form.action, refused.text);
        has(&refused.text, &["it needs the role `operator`"]);
    }
    assert_eq!(
        database.count("SELECT COUNT(*) FROM audit_log WHERE actor = 'vic' AND action <> 'sign_in'").await,
        0
    );
}
