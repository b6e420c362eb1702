//! Conditional and compressed responses: `If-None-Match`, and `Accept-Encoding` where no cookie authenticates.

use reqwest::Response;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, IF_NONE_MATCH, VARY};
use serde_json::json;

use crate::database::{Database, on_sqlite};
use crate::look::{TOKENS, run, serve, with};
use crate::process::{Server, client, post_stripe};

on_sqlite!(a_view_that_has_not_changed_is_not_sent_again, answers_to_tokens_are_compressed_and_pages_are_not,);

async fn a_view_that_has_not_changed_is_not_sent_again(database: &Database) {
    let server = serve(database).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_seen").await.unwrap();
    let operator = with(&server, "operator");
    for path in ["/events/stripe/evt_seen", "/providers/stripe"] {
        let first = operator.get(path).await;
        let tag = first.headers[ETAG].to_str().unwrap().to_owned();
        for (said, want) in [
            (tag.clone(), 304),
            (format!("\"x\", {tag}"), 304),
            (format!("W/{tag}"), 304),
            ("*".to_owned(), 304),
            ("\"x\"".to_owned(), 200),
            ("not a tag".to_owned(), 200),
        ] {
            let again = operator.ask("GET", path, &[(IF_NONE_MATCH.as_str(), &said)], None).await;
            assert_eq!((again.status, &again.headers[ETAG]), (want, &first.headers[ETAG]), "{path} {said}");
            assert_eq!(again.bytes.is_empty(), want == 304, "{path} {said}");
        }
    }
    let path = "/events/stripe/evt_seen";
    let tag = operator.get(path).await.headers[ETAG].to_str().unwrap().to_owned();
    // The view is another one, and a decision about the event is still about the same version.
    run(database, "UPDATE processed_webhook_events SET error = 'by hand'".to_owned()).await;
    let again = operator.ask("GET", path, &[(IF_NONE_MATCH.as_str(), &tag)], None).await;
    let version = |tag: &str| tag.split_once('.').unwrap().0.to_owned();
    let now = again.headers[ETAG].to_str().unwrap();
    assert_eq!((again.status, version(now)), (200, version(&tag)), "{now} {tag}");
    let order = json!({ "act": "erase", "reason": "r" }).to_string();
    let headers = [("idempotency-key", "k"), ("if-match", tag.as_str())];
    let decided = operator.ask("POST", &format!("{path}/decide"), &headers, Some(order)).await;
    assert_eq!(decided.status, 200, "{}", decided.body);
    let none = operator.ask("GET", "/providers/nope", &[(IF_NONE_MATCH.as_str(), "*")], None).await;
    assert_eq!(none.status, 404, "what is not there has no version");
}

async fn fetched(server: &Server, path: &str, token: &str) -> Response {
    let request = client().get(format!("http://{}{path}", server.admin)).header(ACCEPT_ENCODING, "gzip");
    let request = if token.is_empty() { request } else { request.bearer_auth(token) };
    request.send().await.unwrap()
}

async fn answers_to_tokens_are_compressed_and_pages_are_not(database: &Database) {
    let server = serve(database).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_seen").await.unwrap();
    let token = TOKENS[1].1;
    for (path, token, is_compressed) in [
        ("/v1/events", token, true),
        ("/v1/settings", token, true),
        ("/openapi.json", "", true),
        // Its tag names the very bytes.
        ("/v1/events/stripe/evt_seen", token, false),
        // A refusal without a token, pages, and what programs of the installation read.
        ("/v1/events", "", false),
        ("/sign-in", "", false),
        ("/metrics", "", false),
    ] {
        let answer = fetched(&server, path, token).await;
        let coding = answer.headers().get(CONTENT_ENCODING).map(|coding| coding.to_str().unwrap().to_owned());
        assert_eq!(coding.as_deref(), is_compressed.then_some("gzip"), "{path} with `{token}`");
        assert!(!is_compressed || answer.headers()[VARY].to_str().unwrap().contains("accept-encoding"));
        if is_compressed {
            let bytes = answer.bytes().await.unwrap();
            assert_eq!(bytes[..2], [0x1f, 0x8b], "{path}");
            let plain = client().get(format!("http://{}{path}", server.admin)).bearer_auth(token);
            let plain = plain.send().await.unwrap().bytes().await.unwrap();
            assert!(bytes.len() < plain.len(), "{path}");
        }
    }
}
