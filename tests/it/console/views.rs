//! The overview, the senders and the rejected requests: what each role sees, and that strangers' text is escaped.

use std::time::Duration;

use hooklatch_store::Rejection;
use serde_json::json;

use super::Browser;
use crate::database::{Database, on_sqlite};
use crate::look::{add_event, fill, refusal, run, serve};
use crate::process::{SECRET, Server, client, now_s, post_stripe, stripe, stripe_signed, until};

on_sqlite!(
    before_the_first_event_the_overview_says_what_to_register,
    received_events_are_charted_and_counted,
    a_sender_of_which_nothing_is_taken_needs_a_person,
    what_needs_a_person_comes_first,
    a_sender_is_registered_by_its_page,
    secrets_show_which_of_them_match,
    the_reason_of_a_rejection_is_shown_and_its_headers_to_readers_alone,
    what_is_out_of_scope_is_on_no_page,
);

const VIEWER: &str = "viewer-token-0123456789";
const OPERATOR: &str = "operator-token-0123456789";
const HOSTILE: &str = "<script>alert(1)</script>\"'&\u{202e}\u{1b}[2J";

/// Fails unless a stranger's text stands there as text.
#[track_caller]
fn is_text(page: &str) {
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains(['\u{202e}', '\u{1b}']), "{page}");
}

/// Fails unless all of these are there, in this order.
#[track_caller]
fn in_order(page: &str, parts: &[&str]) {
    let mut rest = page;
    for part in parts {
        let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("no `{part}` there: {page}"));
        rest = after;
    }
}

async fn page(browser: &Browser, path: &str) -> String {
    let shown = browser.get(path).await;
    assert_eq!(shown.status, 200, "{path}: {}", shown.text);
    assert!(shown.text.len() < 60_000, "{path} has {} bytes", shown.text.len());
    shown.text
}

async fn before_the_first_event_the_overview_says_what_to_register(database: &Database) {
    let server = serve(database).await;
    let vic = Browser::signed_in(server.admin, VIEWER).await;
    let shown = page(&vic, "/").await;
    let url = format!("<code id=\"url-0\"><bdi>http://{}/webhooks/stripe</bdi></code>", server.receiver);
    let copy = "data-copy=\"url-0\"";
    in_order(
        &shown,
        &["data-refresh=\"10\"", "Nothing has come yet", "Register these addresses", &url, copy],
    );
    assert!(shown.contains("Nothing does.") && !shown.contains("in the last day"), "{shown}");
    assert!(!shown.contains("hooklatch send"), "only `serve --dev` has secrets that everybody knows");
}

async fn received_events_are_charted_and_counted(database: &Database) {
    let server = serve(database).await;
    let (vic, url, client) =
        (Browser::signed_in(server.admin, VIEWER).await, server.url("/webhooks/stripe"), client());
    let (body, header) = stripe("evt_1", now_s());
    let forged = client.post(&url).header("stripe-signature", header).body(format!("{body} ")).send().await;
    assert_eq!(forged.unwrap().status(), 401);
    let unauthenticated = page(&vic, "/").await;
    in_order(
        &unauthenticated,
        &["Needs a person", "href=\"/rejected?provider=stripe\"", "None of its requests was believed"],
    );
    for outcome in ["accepted", "duplicate", "duplicate"] {
        assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), outcome);
    }
    let shown = page(&vic, "/").await;
    assert!(!shown.contains("Nothing has come yet") && !shown.contains("None of its requests"), "{shown}");
    in_order(&shown, &["1</span> accepted", "2</span> duplicate", "1</span> rejected"]);
    let title = "<title>requests: 1 accepted, 2 duplicate, 1 rejected</title>";
    in_order(
        &shown,
        &["role=\"img\"", title, "<path class=\"good\"", "<path class=\"quiet pale\"", "<path class=\"bad\""],
    );
    in_order(
        &shown,
        &["<details>", "hour by hour", "scope=\"row\"", "Providers in the last day", "/senders/stripe"],
    );
    // What is counted is one click away.
    for list in ["/events?provider=stripe", "/rejected?provider=stripe"] {
        in_order(
            &shown,
            &["Providers in the last day", &format!("<td><a href=\"{list}\"><span class=\"figure\">")],
        );
    }
    let one = page(&vic, "/senders/stripe").await;
    in_order(&one, &["Requests in the last day", title]);
}

async fn a_sender_of_which_nothing_is_taken_needs_a_person(database: &Database) {
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"charge.*\"]\nto = \"billing\"\n\
         [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"{VIEWER}\"\n\
         [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n"
    );
    let server = Server::start(&database.url, &more).await;
    let vic = Browser::signed_in(server.admin, VIEWER).await;
    let post = async |id: &str, event_type: &str| {
        let body = stripe(id, now_s()).0.replace("invoice.paid", event_type);
        let header = stripe_signed(&body, SECRET, now_s());
        let sent =
            client().post(server.url("/webhooks/stripe")).header("stripe-signature", header).body(body);
        assert_eq!(sent.send().await.unwrap().status(), 200);
    };
    for id in ["evt_1", "evt_2", "evt_2"] {
        post(id, "invoice.paid").await;
    }
    let shown = page(&vic, "/").await;
    let list = "href=\"/events?state=ignored&amp;provider=stripe\"";
    in_order(&shown, &["Needs a person", list, "No route and no handler takes any", "ignored</span>", ">2<"]);
    let counted = server.admin_text("/metrics").await;
    assert!(
        counted.contains("hooklatch_ignored_total{provider=\"stripe\",reason=\"no_route\"} 2\n"),
        "a copy is not counted: {counted}"
    );
    assert!(!counted.contains("hooklatch_taken_total{"), "{counted}");
    post("evt_3", "charge.refunded").await;
    let shown = page(&vic, "/").await;
    assert!(
        !shown.contains("No route and no handler takes any"),
        "some that are not needed are usual: {shown}"
    );
    let counted = server.admin_text("/metrics").await;
    assert!(counted.contains("hooklatch_taken_total{provider=\"stripe\"} 1\n"), "{counted}");
}

async fn what_needs_a_person_comes_first(database: &Database) {
    fill(database).await;
    add_event(database, "stripe", 10, "conflict").await;
    let reason = HOSTILE.replace('\'', "''");
    run(database, format!("UPDATE destination_pauses SET reason = '{reason}'")).await;
    let server = serve(database).await;
    let shown = page(&Browser::signed_in(server.admin, VIEWER).await, "/").await;
    let held = "href=\"/messages?state=held&amp;destination=billing\"";
    in_order(
        &shown,
        &["Needs a person", held, "<span class=\"chip needed\">held</span>", "/destinations/billing"],
    );
    in_order(&shown, &["href=\"/messages?state=dead&amp;destination=billing\"", "chip bad"]);
    in_order(&shown, &["href=\"/messages?state=dead&amp;destination=ledger\"", "/destinations/ledger"]);
    in_order(
        &shown,
        &["href=\"/events?state=conflict&amp;provider=stripe\"", "Nothing of that name is configured"],
    );
    in_order(
        &shown,
        &["href=\"/events?state=retry&amp;provider=adyen\"", "chip needed\">paused", "in the last day"],
    );
    is_text(&shown);
}

async fn a_sender_is_registered_by_its_page(database: &Database) {
    let more = format!(
        "[[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"{VIEWER}\"\n\
         [[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\ntoken = \"{OPERATOR}\"\n\
         [providers.pairing]\nkind = \"notion\"\nsecrets = [\"notion-secret-0123456789\"]\n\
         settings = {{ pairing = \"open\" }}\n[providers.hints]\nkind = \"authorize_net\"\nsecrets = [\"{}\"]\n",
        "AB".repeat(64)
    );
    drop(database.store().await);
    let id = HOSTILE.replace('\'', "''");
    run(
        database,
        format!(
            "INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard,
                 event_type, digest, identity, state)
             VALUES ('stripe', '{id}', 7, 7000, 1, 0, '{id}', zeroblob(32), 'sender/1', 'failed')"
        ),
    )
    .await;
    let server = Server::start(&database.url, &more).await;
    let (vic, ops) =
        (Browser::signed_in(server.admin, VIEWER).await, Browser::signed_in(server.admin, OPERATOR).await);
    let all = page(&vic, "/senders").await;
    in_order(
        &all,
        &[
            "/senders/stripe",
            "1970-01-01",
            "1</span> failed",
            "/senders/hints",
            "none so far",
            "pairing</span>",
        ],
    );
    let some = page(&vic, "/senders?name=NOTI").await;
    assert!(some.contains("/senders/pairing") && !some.contains("/senders/stripe"), "{some}");
    assert!(page(&vic, "/senders?name=absent").await.contains("No provider is found by this filter."));
    let one = page(&vic, "/senders/stripe").await;
    let url = format!("http://{}/webhooks/stripe", server.receiver);
    in_order(
        &one,
        &[
            "Stripe",
            &url,
            "data-copy=\"url\"",
            "Signing secret",
            "[providers.stripe]",
            "https://docs.stripe.com/webhooks",
        ],
    );
    in_order(&one, &["1 of 1", "Last event", "/events?state=failed&amp;provider=stripe", "HMAC-SHA-256"]);
    in_order(
        &one,
        &[
            "Identified by",
            "the sender's own id, </bdi><code><bdi>/id</bdi></code>",
            "3 days: for so long",
            "33 days: ",
        ],
    );
    is_text(&one);
    assert!(!one.contains("/explain?provider=stripe") && !one.contains(SECRET), "{one}");
    assert!(page(&ops, "/senders/stripe").await.contains("/explain?provider=stripe"));
    assert!(page(&vic, "/senders/pairing").await.contains("It is pairing"));
    let secret = json!({ "verification_token": "secret_0123456789" }).to_string();
    let sent = client().post(server.url("/webhooks/pairing")).body(secret).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    until(
        "the secret is kept",
        Duration::from_secs(30),
        || server.log(),
        async || vic.get("/senders/pairing").await.text.contains("hooklatch pairing pairing"),
    )
    .await;
    let shown = page(&ops, "/senders/pairing").await;
    assert!(!shown.contains("secret_0123456789"), "the command shows it, once: {shown}");
    for (path, status) in [("/senders/absent", 404), ("/senders/%3Cscript%3E", 404), ("/senders/", 404)] {
        let response = vic.get(path).await;
        assert!(
            response.status == status && !response.text.contains("<script>"),
            "{path}: {}",
            response.text
        );
    }
}

async fn secrets_show_which_of_them_match(database: &Database) {
    let more = format!("[[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"{VIEWER}\"\n");
    let mut server = Server::prepare(&database.url, &more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let newer = format!("[\"whsec_newer_0123456789abcdef\", \"{SECRET}\"]");
    std::fs::write(server.config(), config.replace(&format!("[\"{SECRET}\"]"), &newer)).unwrap();
    server.spawn().await;
    let (vic, url) = (Browser::signed_in(server.admin, VIEWER).await, server.url("/webhooks/stripe"));
    assert!(page(&vic, "/senders").await.contains("not matched yet"));
    assert_eq!(post_stripe(&client(), &url, "evt_1").await.unwrap(), "accepted");
    until(
        "the older one matched",
        Duration::from_secs(30),
        || server.log(),
        async || vic.get("/senders").await.text.contains("newest not in use"),
    )
    .await;
    let shown = page(&vic, "/senders/stripe").await;
    in_order(
        &shown,
        &["1 of 2", "still signs with an older one", "2 of 2", "Keep it: what was signed with it"],
    );
    let (body, at_s) = (stripe("evt_2", now_s()).0, now_s());
    let header = stripe_signed(&body, "whsec_newer_0123456789abcdef", at_s);
    let sent = client().post(&url).header("stripe-signature", header).body(body).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    until(
        "the newest one matched",
        Duration::from_secs(30),
        || server.log(),
        async || vic.get("/senders").await.text.contains("newest matches"),
    )
    .await;
    // The last match of the older one is as long ago as its sender sends again, and longer.
    let long_ago = format!("UPDATE secret_uses SET last_matched_at_ms = {}", (now_s() - 80 * 3_600) * 1_000);
    run(database, long_ago).await;
    in_order(&page(&vic, "/senders/stripe").await, &["Keep it: it is the newest.", "safe to remove"]);
}

async fn the_reason_of_a_rejection_is_shown_and_its_headers_to_readers_alone(database: &Database) {
    let store = database.store().await;
    let mut rejections: Vec<Rejection> = (1..=25).map(|n| refusal(n, "stripe")).collect();
    HOSTILE.clone_into(&mut rejections[24].detail);
    rejections[24].headers = json!({ "x-odd": [HOSTILE, "y".repeat(9_000)], HOSTILE: "1" }).to_string();
    let other = "signature does not match the configured secret; it matches the secret of provider `shop`";
    rejections[23] =
        Rejection { reason: "other_secret".to_owned(), detail: other.to_owned(), ..rejections[23].clone() };
    "of_a_later_version".clone_into(&mut rejections[22].reason);
    store.rejections_insert(&rejections).await.unwrap();
    store.rejections_insert(&[refusal(90, "adyen")]).await.unwrap();
    drop(store);
    let server = serve(database).await;
    let (vic, ops) =
        (Browser::signed_in(server.admin, VIEWER).await, Browser::signed_in(server.admin, OPERATOR).await);
    let shown = page(&vic, "/rejected?provider=stripe").await;
    is_text(&shown);
    in_order(&shown, &["another provider's secret", "provider </bdi><code><bdi>shop</bdi></code>"]);
    in_order(
        &shown,
        &[
            "of_a_later_version",
            "wrong signature",
            "It was forged, its bytes were changed on the way, or",
            "for readers",
        ],
    );
    assert!(
        !shown.contains("user-agent") && !shown.contains("x-odd") && !shown.contains("/explain"),
        "{shown}"
    );
    assert_eq!(shown.matches("<details>").count(), 20);
    assert!(!shown.contains("/senders/adyen"));
    let older = shown.split("rel=\"next\" href=\"").nth(1).expect("an older page").split('"').next().unwrap();
    let older = page(&vic, &older.replace("&amp;", "&")).await;
    assert_eq!(older.matches("<details>").count(), 5);
    assert!(older.contains("Back to the newest") && !older.contains("rel=\"next\""), "{older}");
    let shown = page(&ops, "/rejected").await;
    is_text(&shown);
    in_order(&shown, &["/senders/adyen", "user-agent", "Stripe/1.0", "x-odd", "/explain?provider=stripe"]);
    assert!(!shown.contains(&"y".repeat(201)), "a header is cut");
    assert!(page(&vic, "/rejected?provider=absent").await.contains("No refused request matches this filter"));
    assert_eq!(vic.get("/rejected?cursor=%3Cscript%3E").await.status, 404);
}

async fn what_is_out_of_scope_is_on_no_page(database: &Database) {
    fill(database).await;
    let store = database.store().await;
    store.rejections_insert(&[refusal(1, "stripe"), refusal(2, "adyen")]).await.unwrap();
    drop(store);
    let more = "[[admin.tokens]]\nname = \"sam\"\nrole = \"viewer\"\ntoken = \"scoped-token-0123456789\"\n\
                providers = [\"adyen\"]\ndestinations = [\"ledger\"]\n";
    let server = Server::start(
        &database.url,
        &format!("{more}[destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n"),
    )
    .await;
    let sam = Browser::signed_in(server.admin, "scoped-token-0123456789").await;
    for (path, has) in [("/", true), ("/senders", false), ("/rejected", true)] {
        let shown = page(&sam, path).await;
        assert!(!shown.contains("stripe") && !shown.contains("billing"), "{path}: {shown}");
        assert_eq!(shown.contains("adyen"), has, "{path}: {shown}");
    }
    assert_eq!(sam.get("/senders/stripe").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_every_kind_configured_the_pages_stay_light_and_say_how_to_begin() {
    let server = Server::dev().await;
    let anybody = Browser::new(server.admin);
    let first = page(&anybody, "/").await;
    let send = format!("hooklatch send stripe --url http://{}/webhooks/stripe", server.receiver);
    in_order(&first, &["Nothing has come yet", &send, "data-copy=\"first-event\"", "All "]);
    let all = page(&anybody, "/senders").await;
    in_order(&all, &["/senders/ably", "more: filter by a part of the name"]);
    assert!(page(&anybody, "/senders/stripe").await.contains(&send));
    assert_eq!(post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap(), "accepted");
    assert!(!page(&anybody, "/").await.contains("Nothing has come yet"));
}
