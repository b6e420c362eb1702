//! The search box: the page that an id leads to, or the reason why nothing was found.

use super::Browser;
use super::staged::{READER, Stage, VIEWER};
use crate::database::{Database, on_sqlite};
use crate::look::{add_event, run};
use crate::process::{client, now_s, stripe_signed};

on_sqlite!(the_id_of_an_event_leads_to_its_ledger, a_search_tries_each_step_and_always_explains_its_result);

async fn the_id_of_an_event_leads_to_its_ledger(database: &Database) {
    let stage = Stage::set(database).await;
    stage.send("evt_1/ä", "\"n\":1").await;
    let person = stage.person(VIEWER).await;
    for id in ["evt_1%2F%C3%A4", "+evt_1%2F%C3%A4%0A", "%20%20evt_1/%C3%A4%09"] {
        let response = person.get(&format!("/search?id={id}")).await;
        assert_eq!(
            (response.status, response.header("location")),
            (303, "/events/stripe/evt_1%2F%C3%A4"),
            "{id}"
        );
    }
    add_event(database, "adyen", 77, "handled").await;
    run(database, "UPDATE processed_webhook_events SET event_id = 'evt_1/ä' WHERE event_seq = 77".to_owned())
        .await;
    let response = person.get("/search?id=evt_1%2F%C3%A4").await;
    assert_eq!(response.status, 200);
    for said in ["2 providers have an event of the id", "/events/stripe/evt_1", "/events/adyen/evt_1"] {
        assert!(response.text.contains(said), "no {said} in {}", response.text);
    }
    for empty in ["/search", "/search?id=", "/search?id=+%0A"] {
        let response = person.get(empty).await;
        assert!(
            response.status == 200 && response.text.contains("Paste the id that you have"),
            "{empty}: {}",
            response.text
        );
    }
    let anybody = Browser::new(stage.server.admin).get("/search?id=evt_1").await;
    assert_eq!((anybody.status, anybody.text.contains("evt_1")), (303, false), "to sign in");
}

const REFUSED: &str = "It stands in requests that were refused</h2>";
const NOT_FOUND: &str = "<h1>Not found</h1>";

async fn a_search_tries_each_step_and_always_explains_its_result(database: &Database) {
    let stage = Stage::set(database).await;
    stage.send("evt_sent", "\"n\":1").await;
    stage.until_done(1).await;
    for (seq, state) in [(101, "superseded"), (102, "replayed"), (103, "conflict"), (104, "handled")] {
        add_event(database, "stripe", seq, state).await;
    }
    run(
        database,
        "UPDATE processed_webhook_events SET object = 'in_77' WHERE event_seq IN (101, 104)".to_owned(),
    )
    .await;
    let body = Stage::body("evt_forged", "\"n\":1");
    let forged = client().post(stage.server.url("/webhooks/stripe")).header("x-order", "order-4711");
    let forged = forged.header("stripe-signature", stripe_signed(&body, "another secret", now_s()));
    assert_eq!(forged.body(body).send().await.unwrap().status().as_u16(), 401);
    let (person, viewer) = (stage.person(READER).await, stage.person(VIEWER).await);
    let refused = || person.get("/search?id=order-4711");
    crate::process::until(
        "the refusal is noted",
        std::time::Duration::from_secs(20),
        || stage.server.log(),
        async || refused().await.text.contains(REFUSED),
    )
    .await;
    let ledger = person.get("/events/stripe/evt_sent").await.text;
    let message = |before: &str| {
        let (_, rest) = ledger.split_once(before).unwrap();
        rest.split(['"', '<']).next().unwrap().to_owned()
    };
    let (message_id, key) = (message("href=\"/messages/"), message(", key <code><bdi>"));
    for (id, title, said) in [
        ("evt_101", "superseded</span>", "A newer version of its object had been seen before it arrived"),
        ("evt_102", "replayed</span>", "Its signed bytes had come before under another id"),
        ("evt_103", "conflict</span>", "other content under the id of another event"),
        ("in_77", "It is an object of events</h2>", "/events/stripe/evt_101"),
        (&message_id, "It is the id of a message</h2>", "/events/stripe/evt_sent"),
        (&key, "It is the idempotency key of a message</h2>", "/events/stripe/evt_sent"),
        ("order-4711", REFUSED, "signature does not match the configured secret"),
        ("evt_forged", NOT_FOUND, "this does not show that the sender never sent it"),
        ("nothing", NOT_FOUND, "No match in the ids, body digests and headers"),
        ("nowhere", NOT_FOUND, "Objects, messages and effects were compared whole"),
        ("order-4711", REFUSED, "href=\"/rejected?provider=stripe\""),
    ] {
        let page = person.get(&format!("/search?id={id}")).await;
        assert_eq!(page.status, 200, "{id}");
        assert!(page.text.contains(title), "{id}: no {title} in {}", page.text);
        assert!(page.text.contains(said), "{id}: no {said} in {}", page.text);
    }
    let in_vain = viewer.get("/search?id=order-4711").await.text;
    assert!(
        in_vain.contains("<h1>Not found in what you may search</h1>")
            && in_vain.contains("headers take the role </bdi><code><bdi>reader</bdi></code>"),
        "{in_vain}"
    );
    let long = viewer.get(&format!("/search?id={}", "x".repeat(300))).await;
    assert!([200, 400].contains(&long.status), "{}", long.text);
}
