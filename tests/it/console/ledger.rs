//! The page of one event: the request as it was received, its ledger, and decisions by form.

use std::time::Duration;

use super::Browser;
use super::staged::{OPERATOR, READER, Stage, VIEWER};
use crate::database::{Database, on_sqlite};
use crate::process::until;
use crate::stub::Mode;

on_sqlite!(
    large_numbers_and_doubled_keys_stand_as_they_were_sent,
    the_ledger_lists_everything_in_order,
    a_viewer_sees_no_contents_a_reader_no_buttons_and_an_operator_both,
    a_decision_by_form_is_applied_once_and_an_outdated_form_is_refused,
    conflicting_content_is_shown_beside_the_event_until_a_decision,
    a_body_is_downloaded_as_a_file_and_only_by_those_who_may_see_it,
    an_event_that_is_not_there_has_a_page_that_says_so,
);

async fn large_numbers_and_doubled_keys_stand_as_they_were_sent(database: &Database) {
    let stage = Stage::set(database).await;
    let more = r#""n":12345678901234567890123,"m":1.10,"m":1E400,"u":"\u00e4\/","e":{},"z":-0.0"#;
    stage.send("evt_1", more).await;
    let page = stage.person(READER).await.get("/events/stripe/evt_1").await.text;
    for line in [
        "<b>&quot;n&quot;</b>: <i>12345678901234567890123</i>,\n",
        "<b>&quot;m&quot;</b>: <i>1.10</i>,\n",
        "<b>&quot;m&quot;</b>: <i>1E400</i>,\n",
        "<b>&quot;u&quot;</b>: &quot;\\u00e4\\/&quot;,\n",
        "<b>&quot;e&quot;</b>: {},\n",
        "<b>&quot;z&quot;</b>: <i>-0.0</i>\n",
    ] {
        assert!(page.contains(line), "no {line} in {page}");
    }
    let as_sent = stage.person(READER).await.get("/events/stripe/evt_1?body=sent").await.text;
    let sent = Stage::body("evt_1", more).replace('"', "&quot;");
    assert!(as_sent.contains(&sent), "{sent} in {as_sent}");
}

async fn the_ledger_lists_everything_in_order(database: &Database) {
    let stage = Stage::set(database).await;
    stage.stub.next(&[Mode::Status(429), Mode::ActThenDrop]);
    assert_eq!(stage.send("evt_1", r#""n":1"#).await, "accepted");
    assert_eq!(stage.send("evt_1", r#""n":1"#).await, "duplicate");
    let person = stage.person(OPERATOR).await;
    // Copies are counted now and then, and the call takes what it takes. Lists leave no look in the ledger.
    until(
        "the call was not answered",
        Duration::from_secs(30),
        || stage.server.log(),
        async || {
            person.get("/events").await.text.contains("and 1 duplicate")
                && person.get("/messages").await.text.contains(">held<")
        },
    )
    .await;
    let page = person.get("/events/stripe/evt_1").await.text;
    let timeline = page.split_once("<ol class=\"timeline\">").unwrap().1.split_once("</ol>").unwrap().0;
    let place = |word: &str| timeline.find(word).unwrap_or_else(|| panic!("no {word} in {timeline}"));
    let words =
        ["<strong>Received", "<strong>Latched", "<strong>Handled", "<strong>Effect", "<strong>Attempt"];
    for pair in words.windows(2) {
        assert!(place(pair[0]) < place(pair[1]), "{pair:?} in {timeline}");
    }
    for said in [
        "Secret 1 of the configuration matched",
        "Identified by the id that its sender gave it",
        "1 more copy arrived and changed nothing.",
        ">retry</span> HTTP 429",
        ">held</span> On hold until someone decides",
        ">+",
        "Message <a class=\"id\" href=\"/messages/",
    ] {
        assert!(timeline.contains(said), "no {said} in {timeline}");
    }
    assert!(
        page.contains("<dt>Effects</dt><dd>1 <span class=\"chip needed\">held</span>"),
        "the handler is done and its effect is not: {page}"
    );
    let list = person.get("/events").await.text;
    assert!(list.contains("<p class=\"hint\">and 1 duplicate</p>"), "a copy is found by looking: {list}");
    assert!(page.contains("Decide about message"), "{page}");
    // Each view is a row of the audit log, and no entry here.
    let again = person.get("/events/stripe/evt_1").await.text;
    assert!(!again.contains("body_read") && !again.contains("<strong>Decided"), "{again}");
}

async fn a_viewer_sees_no_contents_a_reader_no_buttons_and_an_operator_both(database: &Database) {
    let stage = Stage::set(database).await;
    stage.stub.next(&[Mode::Says("{\"canary\":\"of the answer\"}")]);
    stage.send("evt_1", r#""canary":"of the body""#).await;
    stage.until_done(1).await;
    let path = "/events/stripe/evt_1";
    for (token, sees, decides) in [(VIEWER, false, false), (READER, true, false), (OPERATOR, true, true)] {
        let person = stage.person(token).await;
        let page = person.get(path).await;
        assert_eq!(page.status, 200);
        for canary in ["of the body", "of the answer", "stripe-signature", "Download all of it"] {
            assert_eq!(page.text.contains(canary), sees, "{token}: {canary} in {}", page.text);
        }
        assert_eq!(page.text.contains("are for the role reader"), !sees, "{token}");
        assert_eq!(page.text.contains("Decisions are for the role operator"), !decides, "{token}");
        assert_eq!(page.text.contains("method=\"post\""), decides, "{token}");
        assert_eq!(
            page.text.contains("<button type=\"submit\" name=\"act\" value=\"rerun\" class=\"danger\""),
            decides
        );
        let forged = [("key", "k-1"), ("act", "rerun"), ("reason", "forged")];
        let response = person.post(&format!("{path}/decide"), &forged).await;
        assert_eq!(response.status, if decides { 303 } else { 403 }, "{token}: {}", response.text);
    }
    let rerun = "SELECT COUNT(*) FROM processed_webhook_events WHERE generation = 1";
    assert_eq!(database.count(rerun).await, 1);
}

async fn a_decision_by_form_is_applied_once_and_an_outdated_form_is_refused(database: &Database) {
    let stage = Stage::set(database).await;
    stage.send("evt_/ 1?", r#""n":1"#).await;
    stage.until_done(1).await;
    let path = "/events/stripe/evt_%2F%201%3F";
    let person = stage.person(OPERATOR).await;
    let page = person.get(path).await;
    let (key, etag) = (page.field("key"), page.field("if_match"));
    let action = format!("{path}/decide");
    assert!(page.text.contains(&format!("action=\"{action}\"")), "{}", page.text);
    let fields = |key: &str, act: &str| {
        [("key", key), ("if_match", &etag), ("act", act), ("reason", "they lost it")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let send = async |fields: [(String, String); 4]| {
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        person.post(&action, &fields).await
    };
    for _ in 0..3 {
        let response = send(fields(&key, "rerun")).await;
        assert_eq!((response.status, response.header("location")), (303, path), "{}", response.text);
    }
    stage.until_done(2).await;
    let response = send(fields("another-key", "rerun")).await;
    assert_eq!(response.status, 412, "{}", response.text);
    assert!(response.text.contains("It has changed in the meantime"), "{}", response.text);
    for (name, wrong) in [("act", "sell"), ("act", ""), ("reason", ""), ("key", "")] {
        let mut odd = fields("third-key", "rerun");
        wrong.clone_into(&mut odd.iter_mut().find(|(one, _)| one == name).unwrap().1);
        assert_eq!(send(odd).await.status, 400, "{name}");
    }
    let bare: Vec<(&str, &str)> = vec![("key", "k"), ("act", "rerun"), ("reason", "r")];
    assert_eq!(person.ask("POST", &action, &[], Some(&bare)).await.status, 403, "no page of ours sent it");
    let page = person.get(path).await.text;
    assert!(
        page.contains("<code><bdi>event_rerun</bdi></code>") && page.contains("they lost it</bdi>”"),
        "{page}"
    );
    assert!(page.contains("Runs ordered by people</dt><dd>1 time</dd>"), "{page}");
    let erase = person.get(path).await;
    let response = person
        .post(
            &action,
            &[
                ("key", &erase.field("key")),
                ("if_match", &erase.field("if_match")),
                ("act", "erase"),
                ("reason", "r"),
            ],
        )
        .await;
    assert_eq!(response.status, 303, "{}", response.text);
    let page = person.get(path).await.text;
    assert!(
        page.contains("Headers and body are no longer kept") && !page.contains("Download all of it"),
        "{page}"
    );
}

async fn conflicting_content_is_shown_beside_the_event_until_a_decision(database: &Database) {
    let stage = Stage::set(database).await;
    stage.send("evt_1", r#""amount":500,"same":1,"long":12345678901234567890"#).await;
    assert_eq!(stage.send("evt_1", r#""amount":700,"same":1,"long":12345678901234567891"#).await, "conflict");
    let person = stage.person(OPERATOR).await;
    let first = person.get("/events/stripe/evt_1").await.text;
    let (_, rest) = first.split_once("href=\"/events/stripe/conflict").expect("a way to the other content");
    let kept = format!("/events/stripe/conflict{}", rest.split('"').next().unwrap());
    assert!(first.contains(&format!("href=\"{kept}#differs\"")), "{first}");
    let page = person.get(&kept).await.text;
    for said in [
        "href=\"/events/stripe/evt_1\"",
        "<span class=\"sign\">− </span>      &quot;amount&quot;: 500,",
        "<span class=\"sign\">+ </span>      &quot;amount&quot;: 700,",
        "<span class=\"sign\">− </span>      &quot;long&quot;: 12345678901234567890\n",
        "<span class=\"sign\">+ </span>      &quot;long&quot;: 12345678901234567891\n",
        "<td>      &quot;same&quot;: 1,</td><td>      &quot;same&quot;: 1,</td>",
        "value=\"dispatch\"",
        "value=\"dismiss\"",
    ] {
        let said = said.trim_end();
        assert!(page.contains(said), "no {said} in {page}");
    }
    let viewer = stage.person(VIEWER).await.get(&kept).await.text;
    assert!(
        viewer.contains("compared for those who may see contents") && !viewer.contains("&quot;amount&quot;"),
        "{viewer}"
    );
    let form = person.get(&kept).await;
    let fields = [
        ("key", &*form.field("key")),
        ("if_match", &*form.field("if_match")),
        ("act", "dispatch"),
        ("reason", "r"),
    ];
    assert_eq!(person.post(&format!("{kept}/decide"), &fields).await.status, 303);
    stage.until_done(2).await;
    let page = person.get(&kept).await.text;
    assert!(!page.contains("What differs") && page.contains("value=\"rerun\""), "{page}");
}

async fn a_body_is_downloaded_as_a_file_and_only_by_those_who_may_see_it(database: &Database) {
    let stage = Stage::set(database).await;
    stage.send("evt_1", "\"t\":\"<script>alert(1)</script>\"").await;
    let path = "/events/stripe/evt_1/body";
    let file = stage.person(READER).await.get(path).await;
    assert_eq!((file.status, file.header("content-type")), (200, "application/octet-stream"));
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"body\"");
    assert_eq!(
        (file.header("x-content-type-options"), file.header("cache-control")),
        ("nosniff", "no-store")
    );
    assert_eq!(file.text, Stage::body("evt_1", "\"t\":\"<script>alert(1)</script>\""));
    let refused = stage.person(VIEWER).await.get(path).await;
    assert_eq!((refused.status, refused.header("content-type")), (403, "text/html; charset=utf-8"));
    assert_eq!(stage.person(READER).await.get("/events/stripe/evt_2/body").await.status, 404);
    assert_eq!(Browser::new(stage.server.admin).get(path).await.status, 303, "to sign in");
}

async fn an_event_that_is_not_there_has_a_page_that_says_so(database: &Database) {
    let stage = Stage::set(database).await;
    let person = stage.person(OPERATOR).await;
    for path in [
        "/events/stripe/evt_1",
        "/events/absent/evt_1",
        "/events/%ff/%fe",
        "/events/stripe/a%00b",
        "/events/A B/x",
    ] {
        let page = person.get(path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(page.text.contains("Not found"), "{path}: {}", page.text);
    }
}
