//! The list of events: what its filters ask for, and what comes in while somebody watches, as rows.

use std::time::Duration;

use super::Browser;
use crate::database::{Database, on_sqlite};
use crate::look::{add_event, run, serve};
use crate::process::{client, post_stripe};

on_sqlite!(
    events_are_filtered_by_what_stands_in_the_address,
    all_that_a_filter_finds_can_be_acted_on_by_those_who_may,
    what_comes_in_is_told_as_the_rows_of_the_list,
);

const VIEWER: &str = "viewer-token-0123456789";
const OPERATOR: &str = "operator-token-0123456789";

/// Ids of the events on a page.
fn ids(page: &str) -> Vec<String> {
    let rows = page.split("<tr data-row=\"/events/stripe/").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned()).collect()
}

async fn events_are_filtered_by_what_stands_in_the_address(database: &Database) {
    let server = serve(database).await;
    for (seq, state) in [(60, "handled"), (120, "failed"), (180, "handled")] {
        add_event(database, "stripe", seq, state).await;
    }
    run(
        database,
        "UPDATE processed_webhook_events SET object = 'in_7' WHERE event_id = 'evt_120'".to_owned(),
    )
    .await;
    let vic = Browser::signed_in(server.admin, VIEWER).await;
    for (query, want) in [
        ("", "evt_180 evt_120 evt_60"),
        ("?state=handled", "evt_180 evt_60"),
        ("?object=in_7", "evt_120"),
        ("?from=1970-01-01T00:02&to=1970-01-01T00:03", "evt_120"),
        ("?received_from_ms=120000", "evt_180 evt_120"),
        ("?provider=+&type=&from=&state=", "evt_180 evt_120 evt_60"),
        ("?from=15m", ""),
        ("?provider=nobody", ""),
    ] {
        let shown = vic.get(&format!("/events{query}")).await;
        assert_eq!(
            (shown.status, ids(&shown.text).join(" ").as_str()),
            (200, want),
            "{query}: {}",
            shown.text
        );
        assert_eq!(want.is_empty(), shown.text.contains("No event is found by this filter."), "{query}");
    }
    let shown = vic.get("/events?from=1970-01-01T00:02&state=failed").await.text;
    assert!(shown.contains("step=\"1\" name=\"from\" value=\"1970-01-01T00:02:00\""), "{shown}");
    assert!(shown.contains("href=\"/events?state=failed&amp;from=1h\""), "one click keeps the rest: {shown}");
    assert!(shown.contains("data-tail=\"/events/tail?state=failed\""), "{shown}");
    let past = vic.get("/events?to=1h").await.text;
    assert!(!past.contains("data-tail"), "nothing comes in that is older than an hour: {past}");
    for odd in ["?from=soon", "?received_to_ms=x", "?state=gone", "?provider=A%20B"] {
        let shown = vic.get(&format!("/events{odd}")).await;
        assert_eq!((shown.status, shown.text.contains("role=\"alert\"")), (400, true), "{odd}");
    }
}

async fn all_that_a_filter_finds_can_be_acted_on_by_those_who_may(database: &Database) {
    let server = serve(database).await;
    add_event(database, "stripe", 60, "failed").await;
    let (vic, olga) =
        (Browser::signed_in(server.admin, VIEWER).await, Browser::signed_in(server.admin, OPERATOR).await);
    let filter = "/events?state=failed&provider=stripe&to=1970-01-02";
    let link = "/operations/new?provider=stripe&state=failed&received_to_ms=86400000&subject=events";
    let href = format!("href=\"{}\"", link.replace('&', "&amp;"));
    assert!(olga.get(filter).await.text.contains(&href));
    assert!(olga.get(link).await.text.contains("1 failed event"), "{}", olga.get(link).await.text);
    assert!(!olga.get("/events?provider=stripe").await.text.contains("/operations/new"), "of one state only");
    assert!(!vic.get(filter).await.text.contains("/operations/new"));
}

/// Server-sent events of the console, read piece by piece.
struct Rows {
    response: reqwest::Response,
    text: String,
}

impl Rows {
    async fn open(browser: &Browser, query: &str) -> Self {
        let request = browser.client.get(format!("{}/events/tail{query}", browser.base));
        let response = request.header("cookie", browser.cookie.as_ref().unwrap()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut rows = Self { response, text: String::new() };
        assert_eq!(rows.block().await, "retry: 3000", "it is followed from here on");
        rows
    }

    async fn block(&mut self) -> String {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return block;
            }
            let more = tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await;
            self.text.push_str(std::str::from_utf8(&more.unwrap().unwrap().unwrap()).unwrap());
        }
    }
}

async fn what_comes_in_is_told_as_the_rows_of_the_list(database: &Database) {
    let server = serve(database).await;
    let url = server.url("/webhooks/stripe");
    let vic = Browser::signed_in(server.admin, VIEWER).await;
    let (mut all, mut of_others) =
        (Rows::open(&vic, "").await, Rows::open(&vic, "?type=nobody.sends.it").await);
    post_stripe(&client(), &url, "evt_<b>\\u202e").await.unwrap();
    let told = all.block().await;
    let (id, row) =
        told.strip_prefix("id: ").unwrap().split_once("\nevent: row\ndata: <tr data-row=\"").unwrap();
    assert!(row.starts_with("/events/stripe/evt_%3Cb%3E%E2%80%AE\">"), "{row}");
    assert!(row.ends_with("</tr>") && !row.contains('\n'), "{row}");
    assert!(row.contains("<bdi>evt_&lt;b&gt;\\u202e</bdi>") && !row.contains("ago"), "{row}");
    assert_eq!(of_others.block().await, format!("id: {id}"), "a place to go on from, and nothing to see");
    assert_eq!(all.response.headers()["x-content-type-options"], "nosniff");
    assert_eq!(all.response.headers()["x-accel-buffering"], "no");
    // Away for a while, and back.
    drop(all);
    for n in 1..3 {
        post_stripe(&client(), &url, &format!("evt_{n}")).await.unwrap();
    }
    let mut all = Rows::open(&vic, &format!("?after={id}")).await;
    for n in 1..3 {
        assert!(all.block().await.contains(&format!("data-row=\"/events/stripe/evt_{n}\"")));
    }
    let outside = Browser::new(server.admin).get("/events/tail").await;
    assert!(outside.status == 303 || outside.status == 401, "{}", outside.status);
    assert_eq!(vic.get("/events/tail?provider=A%20B").await.status, 400);
}
