//! `/v1/activity`: the hourly counts of all nodes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{TestApp, event_body, stripe_kind};
use crate::contract::{Answer, Operator};
use crate::database::{Database, on_both};
use crate::process::{client, stripe_header, until};

on_both!(
    what_several_nodes_counted_adds_up,
    counts_are_read_by_the_hour_or_by_the_day,
    a_token_sees_what_was_counted_within_its_scope_alone,
    a_list_of_a_provider_that_does_not_exist_is_empty,
);

const HOUR_MS: i64 = 3_600_000;
const ROUTE: &str = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
    [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"viewer-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"ann\"\nrole = \"viewer\"\ntoken = \"shops-token-0123456789\"\n\
    providers = [\"shop\"]\ndestinations = [\"ledger\"]\n\
    [providers.shop]\nkind = \"stripe\"\nsecrets = [\"whsec_shop_0123456789abcdef\"]\n\
    [destinations.ledger]\nurl = \"http://127.0.0.1:9/\"\n";

async fn start(database: &Database) -> TestApp {
    TestApp::start(database, stripe_kind(), ROUTE).await
}

async fn activity(app: &TestApp, query: &str) -> Value {
    let vic = Operator::new(app.running.admin_addr, "viewer-token-0123456789");
    let Answer { status, body, .. } = vic.get(&format!("/activity{query}")).await;
    assert_eq!(status, 200, "{query}: {body:#}");
    body
}

/// The counts of a list (`requests` or `attempts`) of one name, by outcome; 0 ones are left out.
fn counts(view: &Value, list: &str, name: &str) -> Value {
    let mut found = serde_json::Map::new();
    for one in view[list].as_array().unwrap().iter().filter(|one| one["name"] == name) {
        let sum = found.entry(one["outcome"].as_str().unwrap()).or_insert(json!(0));
        *sum = json!(sum.as_u64().unwrap() + one["counted_n"].as_u64().unwrap());
    }
    Value::Object(found)
}

async fn until_done(app: &TestApp, done_n: u64) {
    until("attempts are counted", Duration::from_secs(20), String::new, async || {
        counts(&activity(app, "").await, "attempts", "billing") == json!({ "done": done_n })
    })
    .await;
}

async fn what_several_nodes_counted_adds_up(database: &Database) {
    let first = start(database).await;
    assert_eq!(first.event("a", "paid", 1).await, "accepted");
    assert_eq!(first.event("a", "paid", 1).await, "duplicate");
    until_done(&first, 1).await;
    let want = json!({ "accepted": 1, "duplicate": 1 });
    assert_eq!(counts(&activity(&first, "").await, "requests", "stripe"), want, "this node's own at once");
    first.running.stop().await;
    let second = start(database).await;
    assert_eq!(second.event("b", "paid", 1).await, "accepted");
    assert_eq!(second.event("a", "paid", 2).await, "conflict");
    let forged = client().post(format!("http://{}/webhooks/stripe", second.running.receiver_addr));
    let now_s = second.clock.now_ms() / 1_000;
    let forged = forged.header("stripe-signature", stripe_header("another body", now_s));
    assert_eq!(forged.body(event_body("c", "paid", 1)).send().await.unwrap().status(), 401);
    until_done(&second, 2).await;
    let want = json!({ "accepted": 2, "duplicate": 1, "conflict": 1, "rejected": 1 });
    assert_eq!(counts(&activity(&second, "").await, "requests", "stripe"), want);
    assert_eq!(counts(&activity(&second, "").await, "requests", "shop"), json!({}));
    second.running.stop().await;
    let saved =
        "SELECT CAST(SUM(counted_n) AS BIGINT) FROM activity WHERE subject = 'provider' AND name = 'stripe'";
    assert_eq!(database.count(saved).await, 5, "a stop saves what was counted");
    assert_eq!(database.count("SELECT COUNT(*) FROM activity WHERE counted_n < 1").await, 0);
}

async fn counts_are_read_by_the_hour_or_by_the_day(database: &Database) {
    let app = start(database).await;
    let hour_ms = app.clock.now_ms() - app.clock.now_ms() % HOUR_MS;
    for (hours_ago, counted_n) in [(0, 1), (1, 2), (30, 4), (401 * 24, 8)] {
        let at_ms = hour_ms - hours_ago * HOUR_MS;
        let row = format!("({at_ms}, 'provider', 'shop', 'accepted', {counted_n})");
        let insert =
            format!("INSERT INTO activity (hour_ms, subject, name, outcome, counted_n) VALUES {row}");
        database.texts(Box::leak(format!("{insert} RETURNING name").into_boxed_str())).await;
    }
    let numbers = async |query: &str| -> Vec<(i64, u64)> {
        let view = activity(&app, query).await;
        let of = |one: &Value| (one["at_ms"].as_i64().unwrap() - hour_ms, one["counted_n"].as_u64().unwrap());
        view["requests"].as_array().unwrap().iter().map(of).collect()
    };
    assert_eq!(numbers("").await, [(-HOUR_MS, 2), (0, 1)], "a day, the oldest first");
    assert_eq!(numbers("?hours_n=1").await, [(0, 1)]);
    assert_eq!(numbers("?hours_n=31").await, [(-30 * HOUR_MS, 4), (-HOUR_MS, 2), (0, 1)]);
    let by_day = activity(&app, "?hours_n=9600").await;
    assert_eq!(
        (&by_day["step_ms"], counts(&by_day, "requests", "shop")),
        (&json!(24 * HOUR_MS), json!({ "accepted": 7 }))
    );
    let days = by_day["requests"].as_array().unwrap();
    assert!(days.iter().all(|one| one["at_ms"].as_i64().unwrap() % (24 * HOUR_MS) == 0), "{days:?}");
    app.running.stop().await;
}

async fn a_token_sees_what_was_counted_within_its_scope_alone(database: &Database) {
    let app = start(database).await;
    assert_eq!(app.event("a", "paid", 1).await, "accepted");
    until_done(&app, 1).await;
    let ann = Operator::new(app.running.admin_addr, "shops-token-0123456789");
    let names = |view: &Value| {
        let of = |list: &str| -> Vec<String> {
            view[list]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["name"].as_str().unwrap().to_owned())
                .collect()
        };
        (of("requests").join(" "), of("attempts").join(" "))
    };
    let both = |requests: &str, attempts: &str| (requests.to_owned(), attempts.to_owned());
    assert_eq!(names(&ann.get("/activity").await.body), both("", ""));
    assert_eq!(names(&activity(&app, "").await), both("stripe", "billing"));
    assert_eq!(names(&activity(&app, "?provider=stripe").await), both("stripe", ""));
    assert_eq!(names(&activity(&app, "?destination=billing").await), both("", "billing"));
    assert_eq!(names(&activity(&app, "?provider=shop").await), both("", ""));
    for (query, status) in [
        ("?provider=stripe", 404),
        ("?destination=billing", 404),
        ("?provider=shop&destination=billing", 404),
        ("?provider=shop", 200),
        ("?hours_n=0", 400),
        ("?hours_n=9601", 400),
        ("?hours_n=x", 400),
        ("?provider=A%20b", 400),
        ("?minutes_n=1", 400),
    ] {
        assert_eq!(ann.get(&format!("/activity{query}")).await.status, status, "{query}");
    }
    app.running.stop().await;
}

/// A filter finds what there is, whether or not something of that name is configured: rows of a removed provider are
/// found by its name, and a name that nothing has finds none.
async fn a_list_of_a_provider_that_does_not_exist_is_empty(database: &Database) {
    let app = start(database).await;
    assert_eq!(app.event("a", "paid", 1).await, "accepted");
    until_done(&app, 1).await;
    let vic = Operator::new(app.running.admin_addr, "viewer-token-0123456789");
    for (path, list) in [
        ("/events?provider=nope", "items"),
        ("/messages?provider=nope", "items"),
        ("/messages?destination=nope", "items"),
        ("/lanes?destination=nope", "items"),
        ("/rejected?provider=nope", "items"),
        ("/activity?provider=nope", "requests"),
        ("/activity?provider=nope", "attempts"),
        ("/activity?destination=nope", "attempts"),
    ] {
        let Answer { status, body, .. } = vic.get(path).await;
        assert_eq!((status, &body[list]), (200, &json!([])), "{path}");
    }
    app.running.stop().await;
}
