//! Permissions: every route of the contract, by every role, in scope and out of scope, and without a valid token.
//! The table is the list of routes itself, so that a new one cannot be forgotten.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hooklatch_contract::{ROUTES, RouteFacts};
use hooklatch_core::types::{MessageId, Role};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use crate::contract::{self, Operator};
use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, now_s, stripe_header, until};

on_sqlite!(every_route_allows_only_the_roles_that_it_needs, every_order_is_an_object_and_nothing_else);

/// Routes whose order names a filter, or no subject: their statuses when it is out of scope.
const OUT_OF_SCOPE: &[(&str, &[u16])] = &[
    // A token that reaches everything.
    ("POST /tokens", &[403]),
    // None of its rows can be counted.
    ("POST /operations", &[404, 409]),
    ("POST /operations/preview", &[200, 404]),
    ("POST /what-if", &[404]),
    ("POST /explain", &[404]),
];

/// What no viewer ever sees: it is in a body, in headers, in a captured answer and in a secret.
pub const MARK: &str = "mark-of-what-is-private";
/// An id that is never shown outside of its scope.
pub const EVENT_ID: &str = "evt_of_somebody";
pub const ROLES: [&str; 4] = ["viewer", "reader", "operator", "admin"];

/// A server with rows of every kind, and the ids of some.
pub struct World {
    pub server: Server,
    pub message_id: String,
    token_id: String,
    pub operation_id: String,
    /// Tokens that are no longer valid: expired, revoked.
    gone: [String; 2],
}

pub fn token(role: &str, is_inside: bool) -> String {
    format!("{role}-{}-token-0123456789", if is_inside { "in" } else { "out" })
}

fn config() -> String {
    let mut config = String::from(
        "[outbox]\npoll_ms = 50\n[retention]\nevery_ms = 0\n\
         [[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\nunknown = \"hold\"\nretry = { attempts_n = 1 }\n\
         [providers.elsewhere]\nkind = \"github\"\nsecrets = [\"whsec_another_one_0123456789\"]\n",
    );
    for role in ROLES {
        for (is_inside, providers, destinations) in
            [(true, "stripe", "billing"), (false, "elsewhere", "elsewhere")]
        {
            // An admin in scope reaches everything, or could not make a token that does.
            let scope = if role == "admin" && is_inside {
                String::new()
            } else {
                format!("providers = [\"{providers}\"]\ndestinations = [\"{destinations}\"]\n")
            };
            let place = if is_inside { "in" } else { "out" };
            let one = format!(
                "[[admin.tokens]]\nname = \"{role}-{place}\"\nrole = \"{role}\"\ntoken = \"{}\"\n{scope}",
                token(role, is_inside)
            );
            config += &one;
        }
    }
    config
}

/// An answer, as far as a stream has one.
struct ApiResponse {
    status: u16,
    text: String,
}

async fn ask(
    client: &reqwest::Client,
    world: &World,
    route: &RouteFacts,
    token: &str,
    key: &str,
) -> ApiResponse {
    let path = path(world, route);
    let url = format!("http://{}/v1{path}", world.server.admin);
    let mut request = client.request(route.method.parse().unwrap(), url);
    if !token.is_empty() {
        request = request.bearer_auth(token);
    }
    if route.takes_key() {
        request = request.header("idempotency-key", key);
    }
    if let Some(mut order) = order(route) {
        if route.order_name().as_deref() == Some("OperationOrder") {
            order = Operator::new(world.server.admin, &self::token("operator", true)).filled(&order).await;
        }
        request = request.body(order.to_string());
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.unwrap();
    contract::check(route.method, &path, status, &headers, &bytes);
    ApiResponse { status, text: String::from_utf8_lossy(&bytes).into_owned() }
}

fn name_of(route: &RouteFacts) -> String {
    format!("{} {}", route.method, route.path)
}

fn path(world: &World, route: &RouteFacts) -> String {
    let name = if route.path.starts_with("/destinations") { "billing" } else { "stripe" };
    let query = match route.path {
        "/search" => &format!("?id={EVENT_ID}"),
        _ => "",
    };
    let path = route
        .path
        .replace("{provider}", "stripe")
        .replace("{event_id}", EVENT_ID)
        .replace("{message_id}", &world.message_id)
        .replace("{operation_id}", &world.operation_id)
        .replace("{token_id}", &world.token_id)
        .replace("{name}", name);
    assert!(!path.contains('{'), "say what to write into {}", route.path);
    path + query
}

fn order(route: &RouteFacts) -> Option<Value> {
    Some(match route.order_name()?.as_str() {
        "EventOrder" => json!({ "act": "rerun", "reason": "r" }),
        "MessageOrder" => json!({ "act": "send", "reason": "r" }),
        "PauseOrder" => json!({ "act": "pause", "reason": "r" }),
        "OperationOrder" => json!({
            "subject": { "messages": { "act": "discard", "filter": { "state": "held" } } },
            "counted_n": 1, "set": "none", "reason": "r",
        }),
        "OperationChoice" => json!({ "messages": { "state": "held" } }),
        "TokenOrder" => json!({ "name": "made", "role": "viewer", "valid_for_s": 60, "reason": "r" }),
        "WhatIfOrder" => json!({ "filter": { "provider": "stripe" }, "limit": 5 }),
        "ExplainOrder" => json!({ "provider": "stripe", "request": "POST /webhooks/stripe\nx: 1\n\n{}" }),
        "ReasonOrder" | "TestEventOrder" => json!({ "reason": "r" }),
        other => panic!("say how to write a `{other}`"),
    })
}

/// The rows of every table, by its name; without what the server writes by itself.
pub(crate) async fn tables(database: &Database) -> BTreeMap<String, String> {
    let sql = include_str!("../../migrations/sqlite/0001_hooklatch.sql");
    let names = sql.split("CREATE TABLE ").skip(1).filter_map(|rest| rest.split(' ').next());
    let of_the_server = [
        "event_blocks",
        "retention_lease",
        "retention_marks",
        "secret_uses",
        "provider_rhythms",
        "rejected_requests",
        "installation",
        "nodes",
    ];
    let mut found = BTreeMap::new();
    for name in names.filter(|name| !of_the_server.contains(name)) {
        let text = if database.url.starts_with("sqlite") {
            let mut db = SqliteConnection::connect(&database.url).await.unwrap();
            let columns = format!(
                "SELECT group_concat('quote(' || name || ')', ' || ''|'' || ') FROM pragma_table_info('{name}')"
            );
            let columns: String =
                sqlx::query(AssertSqlSafe(columns)).fetch_one(&mut db).await.unwrap().get(0);
            let sql = format!(
                "SELECT COALESCE(group_concat(r, char(10)), '') FROM (SELECT {columns} AS r FROM {name} ORDER BY 1)"
            );
            sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut db).await.unwrap().get(0)
        } else {
            let mut db = PgConnection::connect(&database.url).await.unwrap();
            let sql =
                format!("SELECT COALESCE(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM {name} t");
            sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut db).await.unwrap().get(0)
        };
        found.insert(name.to_owned(), text);
    }
    found
}

/// A client from an address of its own, by which wrong tokens are counted.
fn from(last: u8) -> reqwest::Client {
    drop(client());
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 1, last));
    let builder = reqwest::Client::builder().no_proxy().local_address(address);
    builder.pool_max_idle_per_host(0).build().unwrap()
}

pub async fn world(database: &Database) -> World {
    let server = Server::start(&database.url, &config()).await;
    let body =
        format!(r#"{{"id":"{EVENT_ID}","type":"x","data":{{"object":{{"id":"in_1","note":"{MARK}"}}}}}}"#);
    let header = stripe_header(&body, now_s());
    let sent = client().post(server.url("/webhooks/stripe")).header("stripe-signature", header).body(body);
    assert_eq!(sent.send().await.unwrap().status(), 200);
    until(
        "its message is held or dead",
        Duration::from_secs(20),
        || server.log(),
        async || {
            database.count("SELECT COUNT(*) FROM outbox_queue WHERE state IN ('held', 'dead')").await == 1
        },
    )
    .await;
    database.run(
        &format!(
            "UPDATE webhook_payloads SET headers = '{{\"x-note\":\"{MARK}\"}}';
             UPDATE outbox_queue SET state = 'held';
             DELETE FROM outbox_attempts;
             INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, http_status, shard, node,
                 result, error, response)
             SELECT message_id, 1, 1000, 2000, 500, shard, 'n', 'unknown', NULL, '{MARK}' FROM outbox_queue;
             INSERT INTO pairing_secrets (provider, secret, paired_at_ms) VALUES ('stripe', '{MARK}', 1000);
             INSERT INTO rejected_requests (rejection_id, provider, received_at_ms, step, reason, detail, headers,
                 body_digest, body_bytes_n)
             SELECT '01900000-0000-7000-8000-000000000000', provider, 1000, 'signature', 'mismatch', 'none',
                 '{{\"x-note\":\"{MARK}\"}}', digest, 7 FROM processed_webhook_events"
        ),
    )
    .await.unwrap();
    let admin = contract::Operator::new(server.admin, &token("admin", true));
    let (mut tokens, mut ids) = (Vec::new(), Vec::new());
    for name in ["expired", "revoked", "kept"] {
        let order = json!({ "name": name, "role": "admin", "valid_for_s": 60, "reason": "r" });
        let made = admin.post("/tokens", name, &order).await;
        assert_eq!(made.status, 201, "{}", made.body);
        tokens.push(made.body["token"].as_str().unwrap().to_owned());
        ids.push(made.body["facts"]["token_id"].as_str().unwrap().to_owned());
    }
    let old = "UPDATE operator_tokens SET expires_at_ms = created_at_ms + 1 WHERE name = 'expired'";
    database.run(old).await.unwrap();
    let path = format!("/tokens/{}/revoke", ids[1]);
    assert_eq!(admin.post(&path, "k", &json!({ "reason": "r" })).await.status, 200);
    let message_id = database.count("SELECT message_id FROM outbox_queue").await;
    let message_id = MessageId::from_column(message_id).to_string();
    let operation_id = "01900000-0000-7000-8000-000000000000".to_owned();
    World {
        server,
        message_id,
        token_id: ids[2].clone(),
        operation_id,
        gone: [tokens[0].clone(), tokens[1].clone()],
    }
}

async fn every_route_allows_only_the_roles_that_it_needs(database: &Database) {
    let mut world = world(database).await;
    // One connection for each request: refusals on a shared one are delayed.
    let (mut keys_n, local) = (0, from(1));
    let mut key = || {
        keys_n += 1;
        format!("key-{keys_n}")
    };
    for (n, route) in ROUTES.iter().enumerate() {
        let name = name_of(route);
        let wrong = from(u8::try_from(10 + n / 8).unwrap());
        for (who, response) in [
            ("absent", ask(&local, &world, route, "", &key()).await),
            ("who guesses", ask(&wrong, &world, route, "a-wrong-token-0123456789", &key()).await),
            ("who has an old token", ask(&local, &world, route, &world.gone[0], &key()).await),
            ("who has a revoked token", ask(&local, &world, route, &world.gone[1], &key()).await),
        ] {
            assert_eq!(response.status, 401, "{name} by {who}: {}", response.text);
        }
    }
    let route = ROUTES.iter().find(|route| name_of(route) == "POST /operations").unwrap();
    // By who reaches what they reach that shall see it.
    let response = ask(&local, &world, route, &token("operator", true), &key()).await;
    assert_eq!(response.status, 202, "{}", response.text);
    until(
        "the operation is over",
        Duration::from_secs(20),
        || world.server.log(),
        async || database.count("SELECT COUNT(*) FROM operations WHERE state = 'done'").await == 1,
    )
    .await;
    let view: Value = serde_json::from_str(&response.text).unwrap();
    world.operation_id = view["operation_id"].as_str().unwrap().to_owned();
    let roles =
        ROLES.iter().zip(Role::ALL).flat_map(|(word, role)| [(word, role, false), (word, role, true)]);
    for (word, role, is_inside) in roles {
        let before = tables(database).await;
        let token = token(word, is_inside);
        for route in ROUTES {
            let (name, needed) = (name_of(route), route.role.unwrap());
            let response = ask(&local, &world, route, &token, &key()).await;
            let who = format!(
                "{name} by a {word} {} scope: {}",
                if is_inside { "in" } else { "out of" },
                response.text
            );
            if role < needed {
                // Out of scope it may be said first that nothing is there.
                assert!(
                    response.status == 403 || (!is_inside && response.status == 404),
                    "{} {who}",
                    response.status
                );
            } else if is_inside {
                check_inside(route, response.status, &who);
            } else {
                check_outside(route, &response, &world, &who);
            }
            assert!(role > Role::Viewer || !response.text.contains(MARK), "{who}");
            if role == Role::Reader && is_inside && route.answer.is_none() {
                assert!(response.text.contains(MARK), "{who}");
            }
        }
        if role == Role::Viewer || !is_inside {
            let after = tables(database).await;
            // A refusal is kept under the key of who may act.
            let is_kept = |table: &str| table == "idempotency_keys" && role >= Role::Operator;
            let mut compared = after.iter().filter(|(table, _)| !is_kept(table));
            let changed = compared.find(|(table, rows)| before[*table] != **rows);
            assert_eq!(changed, None, "a {word}, in scope: {is_inside}, changed this");
        }
    }
}

async fn every_order_is_an_object_and_nothing_else(database: &Database) {
    let world = world(database).await;
    let admin = Operator::new(world.server.admin, &token("admin", true));
    let before = tables(database).await;
    for (n, route) in ROUTES.iter().enumerate() {
        let Some(Value::Object(order)) = order(route) else { continue };
        // What serde reads as a struct: the values in the order of the fields.
        let values: Vec<Value> = order.into_iter().map(|(_, value)| value).collect();
        for (m, body) in [json!(values), json!([]), json!(null), json!("x"), json!(1)].iter().enumerate() {
            let answer = admin.post(&path(&world, route), &format!("odd-{n}-{m}"), body).await;
            assert_eq!((answer.status, &answer.body["code"]), (400, &json!("bad_request")), "{body}");
            let detail = answer.body["detail"].as_str().unwrap();
            assert!(detail.starts_with("the body must be an object, not "), "{} {detail}", name_of(route));
        }
    }
    let after = tables(database).await;
    let mut compared = after.iter().filter(|(table, _)| *table != "idempotency_keys");
    assert_eq!(compared.find(|(table, rows)| before[*table] != **rows), None, "this was changed");
}

fn check_inside(route: &RouteFacts, status: u16, who: &str) {
    if route.method == "GET" {
        assert_eq!(status, route.status, "{who}");
    } else {
        // What was decided before cannot be decided again; what was shown once is gone.
        assert!(status == route.status || [404, 409, 428].contains(&status), "{status} {who}");
    }
}

fn check_outside(route: &RouteFacts, response: &ApiResponse, world: &World, who: &str) {
    let special = OUT_OF_SCOPE.iter().find(|(name, _)| *name == name_of(route));
    let wanted: &[u16] = match special {
        Some((_, wanted)) => wanted,
        None if route.path.contains('{') => &[404],
        None => &[200],
    };
    assert!(wanted.contains(&response.status), "{} {who}", response.status);
    // A search repeats what was asked, and so does what says that there is no such thing.
    if response.status == 404 {
        let missing: serde_json::Value = serde_json::from_str(&response.text).expect("a problem");
        assert_eq!(missing["code"], "not_found", "{who}");
        return;
    }
    let text = response.text.replace(&format!("\"query\":\"{EVENT_ID}\""), "");
    for inside in [EVENT_ID, &world.message_id, &world.token_id, "\"stripe\"", "\"billing\"", MARK] {
        assert!(!text.contains(inside), "`{inside}` is out of scope: {who}");
    }
}
