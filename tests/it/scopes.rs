//! What a scoped token can learn about records out of its scope: counts, and responses to an earlier token.

use serde_json::{Value, json};

use crate::access::{token, world};
use crate::contract::Operator;
use crate::database::{Database, on_both};

on_both!(
    a_token_of_one_provider_sees_no_counts_of_others,
    a_later_token_of_a_name_is_not_answered_what_an_earlier_one_was,
);

/// A token that an admin makes now, and its id.
async fn made(admin: &Operator, key: &str, name: &str, scope: Value) -> (String, String) {
    let mut order = json!({ "name": name, "role": "operator", "valid_for_s": 60, "reason": "r" });
    order.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
    let made = admin.post("/tokens", key, &order).await;
    assert_eq!(made.status, 201, "{}", made.body);
    (
        made.body["token"].as_str().unwrap().to_owned(),
        made.body["facts"]["token_id"].as_str().unwrap().to_owned(),
    )
}

async fn a_token_of_one_provider_sees_no_counts_of_others(database: &Database) {
    let world = world(database).await;
    let admin = Operator::new(world.server.admin, &token("admin", true));
    let scope = json!({ "providers": ["elsewhere"] });
    let elsewhere = Operator::new(world.server.admin, &made(&admin, "a", "one", scope).await.0);
    let stripe = Operator::new(
        world.server.admin,
        &made(&admin, "b", "two", json!({ "providers": ["stripe"] })).await.0,
    );
    let counted = async |asking: &Operator| {
        let backlog = asking.get("/backlog").await.body["messages"].as_array().unwrap().len();
        let of_billing = asking.get("/destinations/billing").await.body["backlog"].as_array().unwrap().len();
        let activity = asking.get("/activity?destination=billing").await.body;
        (backlog, of_billing, activity["attempts"].as_array().unwrap().len())
    };
    assert_eq!(counted(&elsewhere).await, (0, 0, 0));
    assert_eq!(counted(&stripe).await, (1, 1, 0), "its own; calls are counted of all providers together");
    let (backlog, of_billing, attempts) = counted(&admin).await;
    assert!((backlog, of_billing) == (1, 1) && attempts > 0, "{backlog} {of_billing} {attempts}");
}

async fn a_later_token_of_a_name_is_not_answered_what_an_earlier_one_was(database: &Database) {
    let world = world(database).await;
    let admin = Operator::new(world.server.admin, &token("admin", true));
    let (path, order) =
        (format!("/messages/{}/decide", world.message_id), json!({ "act": "discard", "reason": "r" }));
    let (token, mut id) = made(&admin, "a", "ann", json!({})).await;
    let first = Operator::new(world.server.admin, &token).post(&path, "k", &order).await;
    assert_eq!(first.status, 200, "{}", first.body);
    for (key, scope, wanted) in [
        ("b", json!({ "providers": ["elsewhere"] }), (404, false)),
        ("c", json!({ "destinations": ["elsewhere"] }), (404, false)),
        ("d", json!({}), (200, true)),
    ] {
        let revoked = admin.post(&format!("/tokens/{id}/revoke"), key, &json!({ "reason": "r" })).await;
        assert_eq!(revoked.status, 200, "{}", revoked.body);
        let (token, next) = made(&admin, &format!("{key}-made"), "ann", scope).await;
        id = next;
        let again = Operator::new(world.server.admin, &token).post(&path, "k", &order).await;
        let is_replayed = again.headers.contains_key("idempotency-replayed");
        assert_eq!((again.status, is_replayed), wanted, "{key}: {}", again.body);
    }
}
