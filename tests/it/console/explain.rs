//! The page on which a pasted request is explained.

use super::Browser;
use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, now_s, post_stripe, stripe_header};

on_sqlite!(a_pasted_request_is_explained_whatever_the_browser_did_to_its_lines);

const TOKENS: &str = "[[admin.tokens]]\nname = \"rita\"\nrole = \"reader\"\ntoken = \"reader-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"viewer-token-0123456789\"\n";

async fn a_pasted_request_is_explained_whatever_the_browser_did_to_its_lines(database: &Database) {
    let server = Server::start(&database.url, TOKENS).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    let reader = Browser::signed_in(server.admin, "reader-token-0123456789").await;
    let of_one = reader.get("/explain?provider=stripe").await.text;
    assert!(
        of_one.contains("<option value=\"stripe\" selected"),
        "links lead here with a provider: {of_one}"
    );
    let page = reader.get("/explain").await;
    assert!(page.status == 200 && page.text.contains("name=\"request\""), "{}", page.text);
    let pasted = |body: &str, at_s: i64| {
        let header = stripe_header(body, at_s);
        // As a browser sends what was pasted.
        let text = format!("POST /webhooks/stripe\nstripe-signature: {header}\n\n{body}");
        text.replace("\r\n", "\n").replace('\n', "\r\n")
    };
    let ask = async |request: &str, more: &[(&str, &str)]| {
        let fields = [&[("request", request)][..], more].concat();
        let page = reader.post("/explain", &fields).await;
        assert_eq!(page.status, 200, "{}", page.text);
        page.text
    };
    let body = "{\"id\":\"evt_1\",\n\"type\":\"<script>alert(1)</script>\"}";
    let text = ask(&pasted(body, now_s()), &[]).await;
    for part in [">believed<", "href=\"/events/stripe/evt_1\"", "&lt;script&gt;"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(!text.contains("<script>alert"), "{text}");
    let text = ask(&pasted("{\r\n}", now_s()), &[]).await;
    assert!(text.contains("believed with CRLF at the ends of its lines"), "{text}");
    let text = ask(&pasted("{}", now_s() - 3_600), &[]).await;
    for part in ["not believed", "timestamp", "s behind that", "at its own time it would be believed"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(ask(&pasted("{}", now_s() - 3_600), &[("at", "own")]).await.contains(">believed<"));
    assert!(ask("nothing", &[]).await.contains("not a request"));
    let odd = reader.post("/explain", &[("request", "x"), ("time", "soon")]).await;
    assert_eq!(odd.status, 400);
    let viewer = Browser::signed_in(server.admin, "viewer-token-0123456789").await;
    assert!(!viewer.get("/explain").await.text.contains("name=\"request\""));
    assert_eq!(viewer.post("/explain", &[("request", "x")]).await.status, 403);
}
