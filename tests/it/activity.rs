//! `/v1/activity`: what a node counts over time, minute by minute.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{TestApp, event_body, stripe_kind};
use crate::contract::{Answer, Operator};
use crate::database::{Database, on_sqlite};
use crate::process::{client, stripe_header, until};

on_sqlite!(
    requests_and_attempts_are_counted_in_the_minute_in_which_they_came,
    each_attempt_is_counted_by_what_became_of_its_message,
    a_token_sees_what_was_counted_within_its_scope_alone,
);

const MINUTE_MS: i64 = 60_000;
const ROUTE: &str = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
    [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"viewer-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"ann\"\nrole = \"viewer\"\ntoken = \"shops-token-0123456789\"\n\
    providers = [\"shop\"]\ndestinations = [\"ledger\"]\n\
    [providers.shop]\nkind = \"stripe\"\nsecrets = [\"whsec_shop_0123456789abcdef\"]\n\
    [destinations.ledger]\nurl = \"http://127.0.0.1:9/\"\n";

/// An app that is asked in the last millisecond of a minute, and when the next one begins.
async fn at_the_end_of_a_minute(database: &Database, more: &str) -> (TestApp, i64) {
    let app = TestApp::start(database, stripe_kind(), &format!("{ROUTE}{more}")).await;
    app.clock.advance(MINUTE_MS - 1 - app.clock.now_ms() % MINUTE_MS);
    let next_ms = app.clock.now_ms() + 1;
    (app, next_ms)
}

async fn asked(app: &TestApp, query: &str) -> Value {
    let vic = Operator::new(app.running.admin_addr, "viewer-token-0123456789");
    let Answer { status, body, .. } = vic.get(&format!("/activity{query}")).await;
    assert_eq!(status, 200, "{query}: {body:#}");
    body
}

/// What was counted of the one of this name: of each minute its number, before and after `next_ms`, and what is not 0.
fn minutes(view: &Value, next_ms: i64, names: &str, name: &str) -> Vec<(i64, Value)> {
    let all = view[names].as_array().unwrap();
    let noun = names.trim_end_matches('s');
    let one = all.iter().find(|one| one[noun] == name).unwrap_or_else(|| panic!("no {name}: {view:#}"));
    let told = |minute: &Value| {
        let at = (minute["at_ms"].as_i64().unwrap() - next_ms) / MINUTE_MS;
        let mut counted = minute.as_object().unwrap().clone();
        counted.retain(|word, number| word != "at_ms" && *number != 0);
        (at, Value::Object(counted))
    };
    one["minutes"].as_array().unwrap().iter().map(told).collect()
}

async fn until_counted(app: &TestApp, next_ms: i64, wanted: &[(i64, Value)]) {
    until("attempts are counted", Duration::from_secs(20), String::new, async || {
        minutes(&asked(app, "").await, next_ms, "destinations", "billing") == wanted
    })
    .await;
}

async fn requests_and_attempts_are_counted_in_the_minute_in_which_they_came(database: &Database) {
    let (app, next_ms) = at_the_end_of_a_minute(database, "").await;
    assert_eq!(app.event("a", "paid", 1).await, "accepted");
    assert_eq!(app.event("a", "paid", 1).await, "duplicate");
    until_counted(&app, next_ms, &[(-1, json!({ "done_n": 1 }))]).await;
    app.clock.advance(1);
    assert_eq!(app.event("b", "paid", 1).await, "accepted");
    assert_eq!(app.event("a", "paid", 2).await, "conflict");
    let forged = client().post(format!("http://{}/webhooks/stripe", app.running.receiver_addr));
    let forged = forged.header("stripe-signature", stripe_header("another body", app.clock.now_ms() / 1_000));
    assert_eq!(forged.body(event_body("c", "paid", 1)).send().await.unwrap().status(), 401);
    until_counted(&app, next_ms, &[(-1, json!({ "done_n": 1 })), (0, json!({ "done_n": 1 }))]).await;
    let view = asked(&app, "?minutes_n=2").await;
    let before = (-1, json!({ "accepted_n": 1, "duplicate_n": 1 }));
    let after = (0, json!({ "accepted_n": 1, "conflict_n": 1, "rejected_n": 1 }));
    assert_eq!(minutes(&view, next_ms, "providers", "stripe"), [before, after.clone()]);
    assert_eq!(minutes(&view, next_ms, "providers", "shop"), []);
    assert_eq!((&view["from_ms"], &view["now_ms"]), (&json!(next_ms - MINUTE_MS), &json!(next_ms)));
    assert!(view["since_ms"].as_i64().unwrap() < next_ms);
    // The name is the one that attempts have.
    let holder = database.texts("SELECT node FROM outbox_attempts LIMIT 1").await;
    assert!(
        holder.iter().all(|node| node.starts_with(view["node"].as_str().unwrap())),
        "{holder:?} {view:#}"
    );
    assert_eq!(minutes(&asked(&app, "?minutes_n=1").await, next_ms, "providers", "stripe"), [after]);
    app.clock.advance(180 * MINUTE_MS);
    let later = asked(&app, "?minutes_n=180").await;
    assert_eq!(minutes(&later, next_ms, "providers", "stripe"), [], "it is older than the node remembers");
    app.running.stop().await;
}

async fn each_attempt_is_counted_by_what_became_of_its_message(database: &Database) {
    // Nothing listens there: no call is ever written.
    let unreachable = "[[providers.stripe.routes]]\non = [\"lost\"]\nto = \"lost\"\n\
        [destinations.lost]\nurl = \"http://127.0.0.1:9/\"\nretry = { first_ms = 1, max_ms = 1, attempts_n = 2 }\n";
    let more = unreachable.replace("[destinations.lost]", "[destinations.lost]\n# two attempts\n");
    let (app, next_ms) = at_the_end_of_a_minute(database, &more).await;
    assert_eq!(app.event("a", "lost", 1).await, "accepted");
    until("the first attempt was made", Duration::from_secs(20), String::new, async || {
        let view = asked(&app, "").await;
        minutes(&view, next_ms, "destinations", "lost") == [(-1, json!({ "retry_n": 1 }))]
    })
    .await;
    until("it was given up", Duration::from_secs(20), String::new, async || {
        app.clock.advance(1_000);
        let view = asked(&app, "?destination=lost").await;
        let counted = minutes(&view, next_ms, "destinations", "lost");
        counted.iter().any(|(_, counted)| counted["dead_n"] == 1)
    })
    .await;
    app.running.stop().await;
}

async fn a_token_sees_what_was_counted_within_its_scope_alone(database: &Database) {
    let (app, _) = at_the_end_of_a_minute(database, "").await;
    assert_eq!(app.event("a", "paid", 1).await, "accepted");
    let ann = Operator::new(app.running.admin_addr, "shops-token-0123456789");
    let names = |view: &Value| {
        let of = |names: &str, noun: &str| -> Vec<String> {
            view[names].as_array().unwrap().iter().map(|one| one[noun].as_str().unwrap().to_owned()).collect()
        };
        (of("providers", "provider").join(" "), of("destinations", "destination").join(" "))
    };
    let told = |providers: &str, destinations: &str| (providers.to_owned(), destinations.to_owned());
    assert_eq!(names(&ann.get("/activity").await.body), told("shop", "ledger"));
    assert_eq!(names(&asked(&app, "").await), told("shop stripe", "billing ledger"));
    assert_eq!(names(&asked(&app, "?provider=stripe").await), told("stripe", ""));
    assert_eq!(names(&asked(&app, "?destination=ledger").await), told("", "ledger"));
    assert_eq!(names(&asked(&app, "?provider=nobody").await), told("", ""));
    for (query, status) in [
        ("?provider=stripe", 404),
        ("?destination=billing", 404),
        ("?provider=shop&destination=billing", 404),
        ("?provider=shop", 200),
        ("?minutes_n=0", 400),
        ("?minutes_n=181", 400),
        ("?minutes_n=x", 400),
        ("?provider=A%20b", 400),
        ("?hours=1", 400),
    ] {
        assert_eq!(ann.get(&format!("/activity{query}")).await.status, status, "{query}");
    }
    app.running.stop().await;
}
