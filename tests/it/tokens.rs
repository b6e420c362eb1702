//! Tokens of operators: created, shown once, valid at once on every node, and invalid when revoked or expired.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{TestApp, stripe_kind};
use crate::contract::{Answer, Operator};
use crate::database::{Database, On, on_sqlite};
use crate::process::{Server, until};

on_sqlite!(
    a_token_is_shown_once_good_at_once_and_refused_when_it_is_revoked,
    a_token_is_good_until_it_expires_and_its_name_is_free_after_that,
    no_token_creates_or_revokes_one_with_a_wider_scope,
    an_invalid_token_request_names_the_mistake,
);

const ADMIN: &str = "admin-token-0123456789";
const SCOPED: &str = "scoped-token-0123456789";
const OPERATOR: &str = "operator-token-0123456789";
const TOKENS: &str = r#"
[[admin.tokens]]
name = "ann"
role = "admin"
token = "admin-token-0123456789"
[[admin.tokens]]
name = "sam"
role = "admin"
token = "scoped-token-0123456789"
providers = ["stripe"]
destinations = ["billing", "mail"]
[[admin.tokens]]
name = "ops"
role = "operator"
token = "operator-token-0123456789"
"#;

async fn serve(database: &Database) -> Server {
    Server::start(&database.url, TOKENS).await
}

fn order(name: &str, role: &str) -> Value {
    json!({ "name": name, "role": role, "valid_for_s": 3_600, "reason": "for a dashboard" })
}

/// Makes a token; itself, and its id.
async fn made(admin: &Operator, order: &Value, key: &str) -> (String, String) {
    let answer = admin.post("/tokens", key, order).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert_eq!(answer.headers["cache-control"], "no-store");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&answer.body["token"]), text(&answer.body["facts"]["token_id"]))
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.body["code"].as_str()), (status, Some(code)), "{}", answer.body);
}

async fn revoke(admin: &Operator, id: &str, key: &str) -> Answer {
    admin.post(&format!("/tokens/{id}/revoke"), key, &json!({ "reason": "it leaked" })).await
}

async fn a_token_is_shown_once_good_at_once_and_refused_when_it_is_revoked(database: &Database) {
    let server = serve(database).await;
    let admin = Operator::new(server.admin, ADMIN);
    let (token, id) = made(&admin, &order("bob", "viewer"), "k1").await;
    assert!(token.starts_with("hlt_") && token.len() == 47, "{token}");
    let bob = Operator::new(server.admin, &token);
    let me = bob.get("/me").await.body;
    assert_eq!((&me["name"], &me["role"], &me["providers"]), (&json!("bob"), &json!("viewer"), &Value::Null));
    refused(&bob.post("/tokens", "k1", &order("eve", "viewer")).await, 403, "forbidden");
    // The same request again creates no other one, and the new token is not shown again.
    let again = admin.post("/tokens", "k1", &order("bob", "viewer")).await;
    refused(&again, 409, "idempotency_answer_not_kept");
    refused(&admin.post("/tokens", "k1", &order("carl", "viewer")).await, 422, "idempotency_key_reused");
    // As after a process that died between the token and its answer.
    database.run("DELETE FROM idempotency_keys").await.unwrap();
    refused(&admin.post("/tokens", "k1", &order("bob", "viewer")).await, 409, "token_shown_once");
    refused(&admin.post("/tokens", "k2", &order("bob", "viewer")).await, 409, "name_taken");
    refused(&admin.post("/tokens", "k2-2", &order("ops", "viewer")).await, 409, "name_taken");
    let listed = admin.get("/tokens").await.body;
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ann", "sam", "ops", "bob"]);
    assert_eq!(listed["items"][3]["created_by"], "ann");
    assert!(!listed.to_string().contains(&token));
    let answer = revoke(&admin, &id, "k3").await;
    assert_eq!((answer.status, &answer.body["is_good"]), (200, &json!(false)));
    refused(&bob.get("/me").await, 401, "token_revoked");
    assert_eq!(revoke(&admin, &id, "k4").await.body["revoked_at_ms"], answer.body["revoked_at_ms"]);
    let (again, _) = made(&admin, &order("bob", "viewer"), "k5").await;
    assert_ne!(again, token);
    assert_eq!(Operator::new(server.admin, &again).get("/me").await.status, 200);
    refused(&bob.get("/me").await, 401, "token_revoked");
    refused(&revoke(&admin, "absent", "k6").await, 404, "not_found");
    // The database has no token, and the log names who created which.
    let texts = database
        .texts("SELECT action || ' ' || actor || ' ' || detail FROM audit_log ORDER BY audit_seq")
        .await;
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].starts_with("token_make ann bob: viewer, all providers, all destinations, until "));
    assert_eq!(texts[1], "token_revoke ann bob: it leaked");
    assert!(!server.log().contains("hlt_"), "{}", server.log());
    let dump = database.texts("SELECT name || idempotency_key || created_by FROM operator_tokens").await;
    assert!(dump.iter().all(|row| !row.contains("hlt_")));
}

async fn a_token_is_good_until_it_expires_and_its_name_is_free_after_that(database: &Database) {
    let app = TestApp::start(database, stripe_kind(), TOKENS).await;
    let admin = Operator::new(app.running.admin_addr, ADMIN);
    let (token, _) = made(&admin, &order("bob", "viewer"), "k1").await;
    let bob = Operator::new(app.running.admin_addr, &token);
    app.clock.advance(3_599_999);
    assert_eq!(bob.get("/me").await.status, 200);
    app.clock.advance(1);
    refused(&bob.get("/me").await, 401, "token_expired");
    assert_eq!(admin.get("/tokens").await.body["items"][3]["is_good"], false);
    let (again, _) = made(&admin, &order("bob", "operator"), "k2").await;
    assert_eq!(Operator::new(app.running.admin_addr, &again).get("/me").await.body["role"], "operator");
    assert_eq!(bob.get("/me").await.status, 401);
    // Ninety days later nothing is left of it.
    app.clock.advance(91 * 86_400_000);
    made(&admin, &order("carl", "viewer"), "k1").await;
    assert_eq!(database.count("SELECT COUNT(*) FROM operator_tokens").await, 1);
    app.running.stop().await;
}

async fn no_token_creates_or_revokes_one_with_a_wider_scope(database: &Database) {
    let server = serve(database).await;
    let (admin, scoped) = (Operator::new(server.admin, ADMIN), Operator::new(server.admin, SCOPED));
    let of = |providers: Value, destinations: Value| {
        json!({ "name": "bob", "role": "admin", "valid_for_s": 60, "reason": "r",
                "providers": providers, "destinations": destinations })
    };
    for (n, (providers, destinations)) in [
        (Value::Null, Value::Null),
        (json!(["stripe"]), Value::Null),
        (Value::Null, json!(["billing"])),
        (json!(["stripe", "github"]), json!(["billing"])),
        (json!(["stripe"]), json!(["other"])),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = scoped.post("/tokens", &format!("k{n}"), &of(providers, destinations)).await;
        refused(&answer, 403, "scope_too_wide");
    }
    let (token, narrow) = made(&scoped, &of(json!(["stripe"]), json!(["mail"])), "k9").await;
    let me = Operator::new(server.admin, &token).get("/me").await.body;
    assert_eq!((&me["providers"], &me["destinations"]), (&json!(["stripe"]), &json!(["mail"])));
    let (_, wide) = made(&admin, &order("carl", "viewer"), "k1").await;
    refused(&revoke(&scoped, &wide, "k10").await, 404, "not_found");
    let listed = scoped.get("/tokens").await.body;
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sam", "bob"], "what is wider is not there");
    assert_eq!(revoke(&scoped, &narrow, "k11").await.status, 200);
    refused(&Operator::new(server.admin, OPERATOR).get("/tokens").await, 403, "forbidden");
}

async fn an_invalid_token_request_names_the_mistake(database: &Database) {
    let server = serve(database).await;
    let admin = Operator::new(server.admin, ADMIN);
    let with = |key: &str, value: Value| {
        let mut order = order("bob", "viewer");
        order[key] = value;
        order
    };
    for (n, (order, wanted)) in [
        (with("name", json!("Bob")), "`name`"),
        (with("role", json!("boss")), "`role`"),
        (with("valid_for_s", json!(59)), "`valid_for_s`"),
        (with("valid_for_s", json!(31_622_401)), "`valid_for_s`"),
        (with("valid_for_s", json!(-1)), "`valid_for_s`"),
        (with("reason", json!("a\nb")), "`reason`"),
        (with("reason", json!("  ")), "`reason`"),
        (with("providers", json!(["A B"])), "lists"),
        (with("destinations", json!(vec!["x"; 101])), "`destinations`"),
        (with("more", json!(1)), "`more`"),
        (json!([]), "the body must be an object"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = admin.post("/tokens", &format!("wrong-{n}"), &order).await;
        assert_eq!(answer.status, 400, "{order}");
        assert!(answer.body["detail"].as_str().unwrap().contains(wanted), "{order}: {}", answer.body);
    }
    let without_key = admin.ask("POST", "/tokens", &[], Some(order("bob", "viewer").to_string())).await;
    refused(&without_key, 400, "idempotency_key_missing");
    assert_eq!(database.count("SELECT COUNT(*) FROM operator_tokens").await, 0);
    for cursor in ["x", "%00", "1.2", &format!("1.{}", "G".repeat(64))] {
        assert_eq!(admin.get(&format!("/tokens?cursor={cursor}")).await.status, 404, "{cursor}");
    }
    for n in 0..5 {
        made(&admin, &order(&format!("t{n}"), "viewer"), &format!("k{n}")).await;
    }
    let (mut path, mut seen) = ("/tokens?limit=2".to_owned(), Vec::new());
    loop {
        let page = admin.get(&path).await.body;
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/tokens?limit=2&cursor={next}");
    }
    assert_eq!(seen, ["ann", "sam", "ops", "t4", "t3", "t2", "t1", "t0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_made_on_one_node_is_good_on_another_at_once_and_refused_there_soon_after_it_is_revoked() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (one, other) = (serve(&database).await, serve(&database).await);
    let admin = Operator::new(one.admin, ADMIN);
    let (token, id) = made(&admin, &order("bob", "viewer"), "k1").await;
    let there = Operator::new(other.admin, &token);
    until(
        "it is good there",
        Duration::from_secs(20),
        || other.log(),
        async || there.get("/me").await.status == 200,
    )
    .await;
    assert_eq!(revoke(&admin, &id, "k2").await.status, 200);
    assert_eq!(Operator::new(one.admin, &token).get("/me").await.status, 401);
    until(
        "it is refused there",
        Duration::from_secs(20),
        || other.log(),
        async || there.get("/me").await.status == 401,
    )
    .await;
    refused(&there.get("/me").await, 401, "token_revoked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_database_tokens_of_the_configuration_are_good_and_others_for_a_while() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = serve(&database).await;
    let admin = Operator::new(server.admin, ADMIN);
    let (token, _) = made(&admin, &order("bob", "viewer"), "k1").await;
    database.allow_connections(false).await;
    let bob = Operator::new(server.admin, &token);
    refused(&admin.get("/tokens").await, 503, "unavailable");
    assert_eq!((admin.get("/me").await.status, bob.get("/me").await.status), (200, 200));
    let last = if token.ends_with('A') { 'E' } else { 'A' };
    let wrong = Operator::new(server.admin, &format!("{}{last}", token.get(..46).unwrap()));
    assert_eq!(wrong.get("/me").await.status, 401);
    database.allow_connections(true).await;
    until(
        "it reads them again",
        Duration::from_secs(20),
        || server.log(),
        async || admin.get("/tokens").await.status == 200,
    )
    .await;
}
