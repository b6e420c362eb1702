//! The operator API's views of events, over HTTP, on the real binary.

use std::time::Duration;

use serde_json::json;

use crate::app::event_body;
use crate::contract::{Answer, Operator};
use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, now_s, stripe_header, until};

on_sqlite!(
    a_list_is_read_page_by_page_and_what_is_wrong_with_a_question_is_said,
    a_ledger_shows_copies_and_the_secret_that_matched,
    a_body_leaves_as_a_file_and_not_without_a_word_in_the_audit_log,
    ids_that_hold_anything_are_reached_and_steer_nothing,
);

const READER: &str = "reader-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";

/// A server, a reader and a viewer.
async fn serve(database: &Database) -> (Server, Operator, Operator) {
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    let tokens = format!(
        "tokens = [{{ name = \"reads\", role = \"reader\", token = \"{READER}\" }}, \
         {{ name = \"looks\", role = \"viewer\", token = \"{VIEWER}\" }}]\n[database]"
    );
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    let as_one = |token| Operator::new(server.admin, token);
    let (reader, viewer) = (as_one(READER), as_one(VIEWER));
    (server, reader, viewer)
}

async fn send(server: &Server, body: &str) -> String {
    let request = client().post(server.url("/webhooks/stripe"));
    let request = request.header("stripe-signature", stripe_header(body, now_s()));
    let answer = request.body(body.to_owned()).send().await.unwrap();
    answer.headers()["hooklatch-outcome"].to_str().unwrap().to_owned()
}

fn ids(answer: &Answer) -> Vec<String> {
    let items = answer.body["items"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    items.iter().map(|one| one["event_id"].as_str().unwrap().to_owned()).collect()
}

async fn a_list_is_read_page_by_page_and_what_is_wrong_with_a_question_is_said(database: &Database) {
    let (server, _, viewer) = serve(database).await;
    for n in 0..5 {
        send(&server, &event_body(&format!("evt_{n}"), ["paid", "void"][n % 2], 1)).await;
    }
    let first = viewer.get("/events?limit=2&type=paid").await;
    assert_eq!((first.status, ids(&first)), (200, vec!["evt_4".to_owned(), "evt_2".to_owned()]));
    let next = first.body["next"].as_str().unwrap();
    let second = viewer.get(&format!("/events?limit=2&type=paid&cursor={next}")).await;
    assert_eq!((ids(&second), &second.body["next"]), (vec!["evt_0".to_owned()], &json!(null)));
    let since = first.body["since"].as_str().unwrap();
    let young = viewer.get(&format!("/events?since={since}")).await;
    assert_eq!((young.status, ids(&young)), (200, Vec::new()), "what is young is not listed yet");
    let found = viewer.get("/search?id=evt_3").await;
    assert_eq!((found.status, &found.body["found"][0]["by"]), (200, &json!("event_id")));
    for (path, status) in [
        ("/events?limit=0", 400),
        ("/events?limit=501", 400),
        ("/events?state=paid", 400),
        ("/events?provider=NO!", 400),
        ("/events?provider=absent", 200),
        ("/events?type=", 400),
        ("/events?object=%00", 400),
        ("/events?type=%F0%9F%92%A9", 200),
        ("/events?received_from_ms=x", 400),
        ("/events?received_from_ms=-1", 400),
        ("/events?received_to_ms=253402300799999", 200),
        ("/events?cursor=nonsense", 404),
        ("/events?cursor=a1&since=a1", 404),
        ("/events?since=b1", 404),
        ("/events?cursor=b9223372036854775807", 200),
        ("/events?since=a9223372036854775807", 200),
        ("/events?offset=1", 400),
        ("/search", 400),
        ("/search?id=", 400),
        ("/search?id=%00", 400),
        ("/search?id=%25%27%22%5C", 200),
        ("/events/stripe/absent", 404),
        ("/events/NO!/evt_1", 404),
        ("/events/stripe/%00", 404),
        ("/events/stripe/%FF", 404),
        ("/events/stripe/evt_1/body", 403),
    ] {
        let answer = viewer.get(path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}

async fn a_ledger_shows_copies_and_the_secret_that_matched(database: &Database) {
    let (server, reader, viewer) = serve(database).await;
    let body = event_body("evt_1", "x", 1);
    assert_eq!(send(&server, &body).await, "accepted");
    for _ in 0..3 {
        assert_eq!(send(&server, &body).await, "duplicate");
    }
    let entry = |ledger: &Answer, what: &str| {
        let entries = ledger.body["entries"].as_array().unwrap();
        entries.iter().find(|one| one["what"] == what).cloned().unwrap_or_default()
    };
    let log = || server.log();
    until("the copies are written", Duration::from_secs(20), log, async || {
        entry(&viewer.get("/events/stripe/evt_1").await, "duplicates")["copies_n"] == 3
    })
    .await;
    let ledger = reader.get("/events/stripe/evt_1").await;
    let received = entry(&ledger, "received");
    assert_eq!((&received["secret_position"], &received["body_bytes_n"]), (&json!(1), &json!(body.len())));
    assert_eq!(ledger.body["content"]["body"], body);
    assert!(ledger.headers.contains_key("etag"));
    let viewed = viewer.get("/events/stripe/evt_1").await;
    assert_eq!((&viewed.body["content"], &viewed.body["content_missing"]), (&json!(null), &json!("role")));
    let version =
        |headers: &http::HeaderMap| headers["etag"].to_str().unwrap().split_once('.').unwrap().0.to_owned();
    assert_eq!(version(&viewed.headers), version(&ledger.headers), "for every viewer");
}

async fn a_body_leaves_as_a_file_and_not_without_a_word_in_the_audit_log(database: &Database) {
    let (server, reader, viewer) = serve(database).await;
    let body = event_body("evt_1", "<script>\u{202e}", 1);
    send(&server, &body).await;
    assert_eq!(viewer.get("/events/stripe/evt_1/body").await.status, 403);
    let reads = "SELECT COUNT(*) FROM audit_log WHERE action = 'body_read' AND actor = 'reads' AND event_id = 'evt_1'";
    assert_eq!(database.count(reads).await, 0);
    let answer = reader.get("/events/stripe/evt_1/body").await;
    assert_eq!((answer.status, answer.bytes.as_slice()), (200, body.as_bytes()), "byte by byte");
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment; filename=\"body\""),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.headers[name], value, "{name}");
    }
    assert_eq!(database.count(reads).await, 1);
}

async fn ids_that_hold_anything_are_reached_and_steer_nothing(database: &Database) {
    let (server, reader, _) = serve(database).await;
    let odd = [
        "a/b?c#d",
        "../../me",
        "%2F%",
        "a b+c",
        "\u{202e}evil",
        "\u{1b}[31mred",
        "line\nbreak",
        "💩é",
        "count",
        &"x".repeat(255),
    ];
    for id in odd {
        let quoted = serde_json::to_string(id).unwrap();
        send(&server, &format!(r#"{{"id":{quoted},"type":"x","data":{{"object":{{"id":"o"}}}}}}"#)).await;
    }
    let listed = reader.get("/events?limit=100").await;
    let shown = String::from_utf8(listed.bytes.clone()).unwrap();
    assert!(!shown.contains(['\u{202e}', '\u{1b}']), "shown escaped: {shown}");
    let kept: Vec<String> = ids(&listed);
    assert_eq!(kept.len(), odd.len());
    for id in &kept {
        let encoded = id.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
        let ledger = reader.get(&format!("/events/stripe/{encoded}")).await;
        assert_eq!(
            (ledger.status, ledger.body["event"]["event_id"].as_str()),
            (200, Some(id.as_str())),
            "{id:?}"
        );
        assert_eq!(reader.get(&format!("/events/stripe/{encoded}/body")).await.status, 200, "{id:?}");
        let found = reader.get(&format!("/search?id={encoded}")).await;
        assert_eq!(found.body["found"][0]["event"]["event_id"].as_str(), Some(id.as_str()), "{}", found.body);
    }
    for id in odd.iter().filter(|id| !id.chars().any(char::is_control)) {
        assert!(kept.iter().any(|one| one == id), "{id:?} is stored as received: {kept:?}");
    }
}
