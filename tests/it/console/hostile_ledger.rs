//! Text of strangers on the pages of an event and of a search: it is escaped, and shown up to a limit.

use super::staged::{OPERATOR, READER, Stage};
use crate::database::{Database, on_sqlite};
use crate::look::run;
use crate::stub::Mode;

on_sqlite!(
    whatever_is_stored_is_shown_as_text,
    a_body_that_is_no_utf_8_is_marked,
    a_megabyte_on_one_line_is_shown_in_part,
    a_ledger_of_a_thousand_entries_is_shown_in_part,
);

/// Ends attributes and elements, turns what follows around, clears a terminal.
const HOSTILE: &str = "'\"></code></pre></td></a><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}\u{1b}[2J\u{9b}\u{200b}&lt;b&gt;";

#[track_caller]
fn check(what: &str, page: &str) {
    // What is sent again stays as it was typed: a field is a box of its own, out of which nothing turns its neighbours.
    let typed = page
        .split_once("name=\"id\" value=\"")
        .and_then(|(before, rest)| Some((before, rest.split_once('"')?.1)));
    let page = &typed.map_or_else(|| page.to_owned(), |(before, after)| format!("{before}{after}"));
    let scripts: Vec<&str> = page.split("<script").skip(1).collect();
    assert!(scripts.len() == 1 && scripts[0].starts_with(" defer src=\"/assets/console-"), "{what}: {page}");
    for raw in ["<img", "\u{202e}", "\u{1b}", "\u{9b}", "\u{200b}", "onerror=alert(2)>", "&lt;b&gt;&lt;b&gt;"]
    {
        assert!(!page.contains(raw), "{what} has {raw:?}: {page}");
    }
    let lost = page.matches("style=").count()
        + page.matches(" onclick").count()
        + page.matches("javascript:").count();
    assert_eq!(lost, 0, "{what}: {page}");
}

async fn whatever_is_stored_is_shown_as_text(database: &Database) {
    let stage = Stage::set(database).await;
    stage.stub.next(&[Mode::ActThenDrop]);
    // No id holds control characters: an event with such a one goes by its content.
    let as_id: String = HOSTILE.chars().filter(|c| !c.is_control()).collect();
    let id = serde_json::to_string(&as_id).unwrap();
    let body = format!(r#"{{"id":{id},"type":{id},{id}:{id},"data":{{"object":{{"id":{id},"n":[{id}]}}}}}}"#);
    assert_eq!(stage.send_bytes(body.clone().into_bytes()).await, "accepted");
    assert_eq!(stage.send_bytes(body.replace("\"n\"", "\"m\"").into_bytes()).await, "conflict");
    stage.until_done(1).await;
    let text = HOSTILE.replace('\'', "''");
    run(
        database,
        format!(
            "UPDATE processed_webhook_events SET error = '{text}', object = '{text}' WHERE state <> 'conflict';
             UPDATE outbox_queue SET effect_name = '{text}', lane = '{text}', lane_seq = 1, last_error = '{text}';
             UPDATE outbox_attempts SET node = '{text}', error = '{text}', response = '{text}';
             INSERT INTO audit_log (audit_seq, at_ms, actor, action, provider, event_id, operation_id, detail)
             SELECT 1000, 1, '{text}', '{text}', provider, event_id, '{text}', '{text}' FROM processed_webhook_events
             WHERE state <> 'conflict'"
        ),
    )
    .await;
    let person = stage.person(OPERATOR).await;
    let encoded =
        percent_encoding::utf8_percent_encode(&as_id, percent_encoding::NON_ALPHANUMERIC).to_string();
    let page = person.get(&format!("/events/stripe/{encoded}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    check("the ledger", &page.text);
    let shown = "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;\\u202e\\u001b[2J\\u009b\\u200b&amp;lt;b&amp;gt;";
    // Why it stands there, the error of its call, here and beside the message that needs a decision, its object, its
    // handler, effect, lane, node, error and answer, and who did what and why.
    assert_eq!(page.text.matches(shown).count(), 16, "{}", page.text);
    let as_id = shown.replace("\\u001b", "").replace("\\u009b", "");
    // Title, heading, id, its type, and its body, where it stands in two objects and as a name.
    assert_eq!(page.text.matches(&as_id).count(), 10, "{}", page.text);
    let kept = "/events/stripe/conflict";
    let (_, rest) = page.text.split_once(kept).unwrap();
    let kept = format!("{kept}{}", rest.split(['"', '#']).next().unwrap());
    let page = person.get(&kept).await;
    assert!(page.text.contains("What differs"), "{}", page.text);
    check("the conflict", &page.text);
    let object = percent_encoding::utf8_percent_encode(HOSTILE, percent_encoding::NON_ALPHANUMERIC);
    let page = person.get(&format!("/search?id={object}")).await;
    assert!(page.text.contains("It is an object of events"), "{}", page.text);
    check("the search", &page.text);
    let page = person.get(&format!("/search?id={encoded}x")).await;
    assert!(page.text.contains("<h1>Not found</h1>"), "{}", page.text);
    check("a search in vain", &page.text);
}

async fn a_body_that_is_no_utf_8_is_marked(database: &Database) {
    let stage = Stage::set(database).await;
    let mut body = Stage::body("evt_1", "\"t\":\"?\"").into_bytes();
    let at = body.iter().position(|byte| *byte == b'?').unwrap();
    body[at] = 0xff;
    assert_eq!(stage.send_bytes(body.clone()).await, "unreadable");
    let person = stage.person(READER).await;
    let list = person.get("/events").await.text;
    let (_, rest) = list.split_once("href=\"/events/stripe/").unwrap();
    let path = format!("/events/stripe/{}", rest.split('"').next().unwrap());
    let page = person.get(&path).await.text;
    assert!(page.contains("Not all of it is UTF-8") && page.contains("&quot;\u{fffd}&quot;"), "{page}");
    let raw = person
        .client
        .get(format!("{}{path}/body", person.base))
        .header("cookie", person.cookie.clone().unwrap());
    assert_eq!(raw.send().await.unwrap().bytes().await.unwrap(), body, "the file has them as they are");
    stage.send("evt_2", "\"t\":\"\u{fffd}\"").await;
    let page = person.get("/events/stripe/evt_2").await.text;
    assert!(!page.contains("Not all of it is UTF-8"), "a sender may send that character too");
}

async fn a_megabyte_on_one_line_is_shown_in_part(database: &Database) {
    let stage = Stage::set(database).await;
    stage.send("evt_1", &format!("\"t\":\"{}\"", "ä<".repeat(300_000))).await;
    let page = stage.person(READER).await.get("/events/stripe/evt_1").await;
    assert!(page.text.contains("The first 64 KiB are shown."), "it is said");
    assert!(page.text.contains("<b>&quot;t&quot;</b>: &quot;ä&lt;ä&lt;"), "indented as far as it goes");
    assert!(!page.text.contains('\u{fffd}'), "no half of a character");
    assert!(page.text.len() < 200_000, "{}", page.text.len());
}

async fn a_ledger_of_a_thousand_entries_is_shown_in_part(database: &Database) {
    let stage = Stage::set(database).await;
    stage.send("evt_1", "\"n\":1").await;
    stage.until_done(1).await;
    let row = |n: u32| format!("({n}, {n}, 'ann', 'event_rerun', 'stripe', 'evt_1', 'word {n}.')");
    let rows: Vec<String> = (1_000..1_500).map(row).collect();
    let columns = "audit_seq, at_ms, actor, action, provider, event_id, detail";
    run(database, format!("INSERT INTO audit_log ({columns}) VALUES {}", rows.join(", "))).await;
    let person = stage.person(READER).await;
    let page = person.get("/events/stripe/evt_1").await.text;
    assert!(page.contains("entries between are not shown: show all"), "{page}");
    assert!(page.contains("word 1000.") && !page.contains("word 1200.") && page.contains("word 1499."));
    assert!(page.len() < 60_000, "{}", page.len());
    let all = person.get("/events/stripe/evt_1?entries=all").await.text;
    assert!(all.contains("word 1200.") && !all.contains("are not shown"));
}
