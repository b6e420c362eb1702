//! Signing in and out: a token once, then a session; and requests without a session.

use std::time::Duration;

use serde_json::json;

use super::Browser;
use crate::contract::Operator;
use crate::database::{Database, on_both};
use crate::process::{Server, client, until};

on_both!(
    a_token_is_given_once_and_the_session_goes_on,
    sessions_end_here_everywhere_and_with_their_token_on_every_node,
    without_a_session_the_browser_is_sent_to_sign_in_and_back,
    cookies_that_others_set_neither_delay_a_session_nor_take_its_place,
);

const ADMIN: &str = "admin-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";
const TOKENS: &str = "[[admin.tokens]]\nname = \"ann\"\nrole = \"admin\"\ntoken = \"admin-token-0123456789\"\n\
                      [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"viewer-token-0123456789\"\n";

async fn serve(database: &Database) -> Server {
    Server::start(&database.url, TOKENS).await
}

async fn audited(database: &Database) -> Vec<String> {
    database.texts("SELECT action || ' ' || actor || ' ' || detail FROM audit_log ORDER BY audit_seq").await
}

async fn a_token_is_given_once_and_the_session_goes_on(database: &Database) {
    let server = serve(database).await;
    let mut ann = Browser::new(server.admin);
    let page = ann.get("/sign-in").await;
    assert_eq!((page.status, page.header("cache-control")), (200, "no-store"));
    // With "no-referrer" browsers send forms with `Origin: null`, and all are refused.
    assert_eq!(page.header("referrer-policy"), "same-origin");
    assert!(page.text.contains("name=\"token\"") && !page.text.contains("role=\"search\""), "{}", page.text);
    for wrong in ["", "x", "admin-token-012345678", "hlt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let response = ann.sign_in(wrong, "/").await;
        assert_eq!((response.status, response.header("set-cookie")), (401, ""), "{wrong}");
        assert!(!response.text.contains("admin-token"), "what was typed is not shown");
    }
    let response = ann.sign_in(&format!("  {ADMIN}\n"), "/events?state=handled").await;
    assert_eq!((response.status, response.header("location")), (303, "/events?state=handled"));
    let cookie = response.header("set-cookie").to_owned();
    let (value, rest) = cookie.strip_prefix("hooklatch_session=").unwrap().split_once("; ").unwrap();
    assert_eq!((value.len(), rest), (43, "HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"));
    let page = ann.get("/").await;
    assert_eq!(page.status, 200);
    for part in ["Overview", ">ann<", ">admin<", "href=\"/sign-out\""] {
        assert!(page.text.contains(part), "no {part} in {}", page.text);
    }
    let location = ann.get("/sign-in?to=/lanes").await;
    assert_eq!((location.status, location.header("location")), (303, "/lanes"), "there is nothing to do");
    // The session is no token, and opens nothing for programs.
    let programs = ann.ask("GET", "/v1/me", &[], None).await;
    assert_eq!(programs.status, 401);
    assert_eq!(Operator::new(server.admin, value).get("/me").await.status, 401);
    // Neither of the two is in the database or in the log.
    let kept = database.texts("SELECT digest || token_name FROM operator_sessions").await;
    assert_eq!((kept.len(), kept[0].contains(value)), (1, false));
    assert_eq!(audited(database).await, ["sign_in ann from 127.0.0.1"]);
    assert!(!server.log().contains(value) && !server.log().contains(ADMIN), "{}", server.log());
}

async fn sessions_end_here_everywhere_and_with_their_token_on_every_node(database: &Database) {
    let one = serve(database).await;
    // SQLite is for one node.
    let second = if database.url.starts_with("sqlite") { None } else { Some(serve(database).await) };
    let other = second.as_ref().unwrap_or(&one);
    let admin = Operator::new(one.admin, ADMIN);
    let order = json!({ "name": "bob", "role": "operator", "valid_for_s": 3_600, "reason": "r" });
    let made = admin.post("/tokens", "k", &order).await.body;
    let bob = Browser::signed_in(one.admin, made["token"].as_str().unwrap()).await;
    let (ann, ann_too) =
        (Browser::signed_in(one.admin, ADMIN).await, Browser::signed_in(other.admin, ADMIN).await);
    let on = |browser: &Browser, server: &Server| Browser {
        base: format!("http://{}", server.admin),
        ..browser.clone()
    };
    // At once, also on a node that did not create the sessions.
    for browser in [&bob, &ann, &ann_too] {
        for server in [&one, other] {
            assert_eq!(on(browser, server).get("/").await.status, 200);
        }
    }
    let gone = async |browser: &Browser, server: &Server, why: &str| {
        let browser = on(browser, server);
        until(
            "the session is over",
            Duration::from_secs(20),
            || server.log(),
            async || {
                browser.get("/events").await.header("location") == format!("/sign-in?to=%2Fevents&why={why}")
            },
        )
        .await;
    };
    let page = ann.get("/sign-out").await;
    assert!(
        page.text.contains("action=\"/sign-out\"") && page.text.contains("action=\"/sign-out/everywhere\"")
    );
    let response = ann.post("/sign-out", &[]).await;
    assert_eq!((response.status, response.header("location")), (303, "/sign-in?why=out"));
    assert!(
        response.header("set-cookie").contains("hooklatch_session=; ")
            && response.header("set-cookie").contains("Max-Age=0")
    );
    gone(&ann, &one, "ended").await;
    gone(&ann, other, "ended").await;
    assert_eq!(on(&ann_too, &one).get("/").await.status, 200, "the other session of the token goes on");
    let ann = Browser::signed_in(one.admin, ADMIN).await;
    let response = ann.post("/sign-out/everywhere", &[]).await;
    assert_eq!((response.status, response.header("location")), (303, "/sign-in?why=everywhere"));
    for browser in [&ann, &ann_too] {
        gone(browser, &one, "ended").await;
        gone(browser, other, "ended").await;
    }
    assert_eq!(bob.get("/").await.status, 200, "another token's session goes on");
    let path = format!("/tokens/{}/revoke", made["facts"]["token_id"].as_str().unwrap());
    assert_eq!(admin.post(&path, "k2", &json!({ "reason": "r" })).await.status, 200);
    gone(&bob, &one, "revoked").await;
    gone(&bob, other, "revoked").await;
    for (why, said) in [("ended", "has ended"), ("revoked", "was revoked"), ("out", "are signed out")] {
        assert!(ann.get(&format!("/sign-in?why={why}")).await.text.contains(said), "{why}");
    }
    assert!(
        audited(database).await.contains(&"sign_out_everywhere ann from 127.0.0.1, of 2 sessions".to_owned())
    );
}

async fn without_a_session_the_browser_is_sent_to_sign_in_and_back(database: &Database) {
    let server = serve(database).await;
    let anonymous = Browser::new(server.admin);
    let asked = anonymous.get("/events?state=handled&type=a%20b").await;
    let to = "/sign-in?to=%2Fevents%3Fstate%3Dhandled%26type%3Da%2Bb";
    assert_eq!((asked.status, asked.header("location")), (303, to));
    let page = anonymous.get(to).await;
    assert_eq!(page.field("to"), "/events?state=handled&type=a+b");
    for (to, want) in [
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/sign-out", "/"),
        ("/search?id=//x", "/search?id=//x"),
    ] {
        let response = Browser::new(server.admin).sign_in(VIEWER, to).await;
        assert_eq!((response.status, response.header("location")), (303, want), "{to}");
    }
    let response = anonymous.post("/sign-out/everywhere", &[]).await;
    assert_eq!(response.status, 401);
    assert!(
        response.text.contains("nothing was done") && response.text.contains("href=\"/sign-in\""),
        "{}",
        response.text
    );
    let mut ended = anonymous.clone();
    ended.cookie = Some(format!("hooklatch_session={}", "A".repeat(43)));
    assert_eq!(ended.get("/").await.header("location"), "/sign-in?why=ended");
    assert!(ended.get("/sign-in?why=ended").await.text.contains("has ended"));
    // A link in a chat: the first request comes without the cookie, the second one has it.
    let link =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let vic = Browser::signed_in(server.admin, VIEWER).await;
    let passing = anonymous.ask("GET", "/events?state=handled", &link, None).await;
    assert_eq!(passing.status, 200);
    let on = "0; url=/events?state=handled&amp;arrived=1";
    assert!(passing.text.contains(&format!("http-equiv=\"refresh\" content=\"{on}\"")), "{}", passing.text);
    let second =
        vic.ask("GET", "/events?state=handled&arrived=1", &[("sec-fetch-site", "same-origin")], None).await;
    assert_eq!((second.status, second.header("location")), (303, "/events?state=handled"));
    assert_eq!(vic.get("/events?state=handled").await.status, 200);
    // Who is not signed in does not go round and round.
    let second = anonymous.ask("GET", "/events?state=handled&arrived=1", &link, None).await;
    assert_eq!((second.status, second.header("location")), (303, "/sign-in?to=%2Fevents%3Fstate%3Dhandled"));
}

#[tokio::test]
async fn wrong_tokens_are_slowed_down_here_as_for_programs() {
    let database = Database::create(crate::database::On::Sqlite).await.unwrap();
    let server = serve(&database).await;
    let mut statuses = Vec::new();
    // A machine that is slow gets some of them back meanwhile.
    while statuses.len() < 10 || (statuses.last() == Some(&401) && statuses.len() < 300) {
        // One connection for each request: refusals on a shared one are delayed.
        let token = format!("guess-0123456789-{}", statuses.len());
        statuses.push(Browser::new(server.admin).sign_in(&token, "/").await.status);
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    let mut programs = Vec::new();
    for _ in 0..5 {
        let url = format!("http://{}/v1/me", server.admin);
        let response = client().get(url).bearer_auth("guess-0123456789").send().await.unwrap();
        programs.push(response.status().as_u16());
    }
    assert!(programs.contains(&429), "one count for both: {programs:?}");
    Browser::signed_in(server.admin, ADMIN).await;
}

#[tokio::test]
async fn without_tokens_no_sign_in_is_needed() {
    let server = Server::dev().await;
    let anybody = Browser::new(server.admin);
    let page = anybody.get("/").await;
    assert_eq!(page.status, 200);
    assert!(!page.text.contains("/sign-out"), "{}", page.text);
    assert_eq!(anybody.get("/sign-in").await.header("location"), "/");
    assert_eq!(anybody.get("/sign-out").await.status, 200);
    // A name that leads here (DNS rebinding), and what a page of another site does.
    for path in ["/", "/events", "/sign-in", "/assets/x", "/nothing"] {
        let response = anybody.ask("GET", path, &[("host", "evil.example")], None).await;
        assert_eq!(response.status, 421, "{path}");
        let frame =
            [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert_eq!(anybody.ask("GET", path, &frame, None).await.status, 403, "{path}");
    }
}

async fn cookies_that_others_set_neither_delay_a_session_nor_take_its_place(database: &Database) {
    let server = serve(database).await;
    let signed_in = async |token: &str| {
        let mut browser = Browser::new(server.admin);
        let signed = browser.sign_in(token, "/").await;
        assert_eq!(signed.status, 303);
        signed.header("set-cookie").split(';').next().unwrap().to_owned()
    };
    let own = signed_in(ADMIN).await;
    let invented = |letter: char| format!("hooklatch_session={letter}{}", "A".repeat(42));
    let invented: Vec<String> = ('B'..='U').map(invented).collect();
    let mut ann = Browser::new(server.admin);
    ann.cookie = Some(format!("{}; {own}", invented.join("; ")));
    let began = std::time::Instant::now();
    for _ in 0..5 {
        let page = ann.get("/").await;
        assert!(page.status == 200 && page.text.contains(">ann<"), "{}", page.text);
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "five pages: {:?}", began.elapsed());
    // Another valid session before or behind it: the server cannot know which is the browser's own.
    for is_first in [true, false] {
        let (own, others) = (signed_in(ADMIN).await, signed_in(VIEWER).await);
        ann.cookie = Some(if is_first { format!("{others}; {own}") } else { format!("{own}; {others}") });
        let page = ann.get("/").await;
        assert_eq!((page.status, page.header("location")), (303, "/sign-in?why=several"));
        assert!(ann.get("/sign-in?why=several").await.text.contains("two valid sessions"));
        for ended in [own, others] {
            ann.cookie = Some(ended);
            assert_eq!(ann.get("/").await.header("location"), "/sign-in?why=ended", "both were ended");
        }
    }
}
