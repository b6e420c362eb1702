//! The list of events: what its filters select, and events that arrive while the page is open, as rows.

use super::Browser;
use crate::database::{Database, on_sqlite};
use crate::look::{add_event, run, serve};

on_sqlite!(
    events_are_filtered_by_what_stands_in_the_address,
    all_that_a_filter_finds_can_be_acted_on_by_those_who_may,
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
        ("?provider=absent", ""),
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
    assert!(shown.contains("data-follow"), "{shown}");
    let past = vic.get("/events?to=1h").await.text;
    assert!(!past.contains("data-follow"), "nothing comes in that is older than an hour: {past}");
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
    let link = "/operations/new?provider=stripe&received_to_ms=86400000&state=failed&subject=events";
    let href = format!("href=\"{}\"", link.replace('&', "&amp;"));
    assert!(olga.get(filter).await.text.contains(&href));
    assert!(olga.get(link).await.text.contains("1 failed event"), "{}", olga.get(link).await.text);
    assert!(!olga.get("/events?provider=stripe").await.text.contains("/operations/new"), "of one state only");
    assert!(!vic.get(filter).await.text.contains("/operations/new"));
}
