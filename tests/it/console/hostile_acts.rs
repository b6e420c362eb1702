//! Text of strangers on the pages about messages, lanes and operations: it is shown escaped.

use super::acts::serve;
use super::form::{Form, text};
use crate::database::{Database, on_sqlite};
use crate::look::{add_event, add_message, run};

on_sqlite!(what_a_stranger_wrote_is_text_on_every_page);

/// Tags, ends of attributes, bidirectional overrides, terminal escapes.
const HOSTILE: &str = "<script>alert(1)</script>\" onfocus=\"x\" '--><img src=x>\u{202e}\u{1b}[31m\u{200b}";

async fn what_a_stranger_wrote_is_text_on_every_page(database: &Database) {
    drop(database.store().await);
    add_event(database, "stripe", 1, "handled").await;
    add_message(database, 1, "held", "billing", "x").await;
    let hostile = HOSTILE.replace('\'', "''");
    let lines = format!("{hostile}\n{}", "y".repeat(1 << 20));
    run(
        database,
        format!(
            "UPDATE processed_webhook_events SET event_id = '{hostile}', event_type = '{hostile}', object = '{hostile}';
             UPDATE outbox_queue SET effect_name = '{hostile}', lane = '{hostile}', last_error = '{hostile}';
             INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, shard, node, result,
                 error, response) VALUES (1024, 1, 1, 2, 0, '{hostile}', 'unknown', '{hostile}', '{lines}');
             INSERT INTO destination_pauses VALUES ('billing', '{hostile}', '{hostile}', 1, 32503680000000)"
        ),
    )
    .await;
    let (_server, ann) = serve(database).await;
    let lane = format!("lane={}", form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>());
    let paths = [
        "/messages",
        &format!("/messages?{lane}"),
        "/messages/1024",
        "/lanes",
        "/destinations",
        "/destinations/billing",
        &format!("/operations/new/done?subject=messages&state=held&{lane}"),
        &format!("/operations/new?subject=messages&state=held&{lane}"),
    ];
    for path in paths {
        check(path, &text(&ann, path).await);
    }
    // What was typed is shown again where it is refused, and is no less a stranger's: an address may be a link.
    for path in [
        "/events?from",
        "/messages?created_before",
        "/operations/new?subject=messages&state=held&created_before",
    ] {
        let shown = ann.get(&format!("{path}={}", lane.trim_start_matches("lane="))).await;
        assert_eq!(shown.status, 400, "{path}");
        check(path, &shown.text);
    }
    for path in ["/messages", "/messages/1024", "/lanes", "/destinations/billing"] {
        assert!(text(&ann, path).await.contains("&lt;script&gt;alert(1)"), "{path} shows it");
    }
    // The links with it lead where they should.
    let lanes = text(&ann, "/lanes").await;
    let link = lanes.split("href=\"").find(|one| one.starts_with("/messages?destination=billing&amp;lane="));
    let link = link.unwrap().split('"').next().unwrap().replace("&amp;", "&");
    assert!(text(&ann, &link).await.contains("href=\"/messages/1024\""));
    // And so do forms: the operation finds what it was counted for, though what it is about holds anything.
    let reason = HOSTILE.split('\u{1b}').next().unwrap();
    let form = Form::of(&text(&ann, paths[6]).await, "/operations");
    let counted_n = form.value("counted_n").to_owned();
    let begun = form.act("done", reason).with("typed_n", &counted_n).send(&ann).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    for path in [begun.header("location"), "/operations"] {
        check(path, &text(&ann, path).await);
    }
}

/// What was written is text on a page, and no more of it than a page bears.
#[track_caller]
fn check(path: &str, shown: &str) {
    for wrong in ["<script>alert", "<img", "\" onfocus"] {
        assert!(!shown.contains(wrong), "{path} has {wrong:?}: {shown}");
    }
    // A field holds its text as it is, or the form would say something else.
    let fields = shown.split("value=\"").map(|part| part.split_once('"').map_or(part, |(_, rest)| rest));
    let outside: String = fields.collect();
    for wrong in ["\u{202e}", "\u{1b}", "\u{200b}"] {
        assert!(!outside.contains(wrong), "{path} has {wrong:?}: {shown}");
    }
    assert!(shown.len() < 60_000, "{path} has {} bytes", shown.len());
}
