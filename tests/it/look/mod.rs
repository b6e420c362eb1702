//! The read routes besides events: messages, lanes, destinations, providers, refusals, the backlog. Each route with
//! rows in every state, for every role, and within a token's scope. Every response is validated against the contract.

mod messages;
mod places;
mod plans;
mod scope;

use hooklatch_core::types::MessageState;
use hooklatch_store::Rejection;
use serde_json::Value;

use crate::contract::{Answer, Operator};
use crate::database::Database;
use crate::process::Server;

pub(super) const TOKENS: [(&str, &str); 2] =
    [("viewer", "viewer-token-0123456789"), ("operator", "operator-token-0123456789")];
/// A configuration that makes no calls, so that rows of a test stay unchanged.
const QUIET: &str = "[outbox]\npoll_ms = 60000\n[retention]\nevery_ms = 0\n\
    [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\nconcurrency_n = 3\nrate_per_s = 7\n";

pub(super) async fn serve(database: &Database) -> Server {
    let mut server = Server::prepare(&database.url, QUIET);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let token = |(role, token): (&str, &str)| {
        format!("{{ name = \"{role}\", role = \"{role}\", token = \"{token}\" }}")
    };
    let tokens = format!("tokens = [{}]\n[database]", TOKENS.map(token).join(", "));
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    server
}

pub(super) fn with(server: &Server, role: &str) -> Operator {
    Operator::new(server.admin, TOKENS.iter().find(|(name, _)| *name == role).unwrap().1)
}

pub(super) async fn run(database: &Database, sql: String) {
    use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
    if database.url.starts_with("sqlite") {
        let mut db = SqliteConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
    } else {
        let mut db = PgConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
    }
}

/// An event of `provider` with the number `seq`, received at `seq` seconds, without messages.
pub(super) async fn add_event(database: &Database, provider: &str, seq: i64, state: &str) {
    let blob = if database.url.starts_with("sqlite") { "zeroblob(32)" } else { "sha256('')" };
    let due = if state == "retry" { "1" } else { "NULL" };
    run(
        database,
        format!(
            "INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard,
                 event_type, digest, identity, state, due_at_ms)
             VALUES ('{provider}', 'evt_{seq}', {seq}, {seq}000, 1, 0, 'paid', {blob}, 'sender/1', '{state}', {due})"
        ),
    )
    .await;
}

/// The bytes of the event with this number.
pub(super) async fn add_payload(database: &Database, seq: i64) {
    let blob = if database.url.starts_with("sqlite") { "x'7b7d'" } else { r"'\x7b7d'" };
    let sql = "INSERT INTO webhook_payloads (event_seq, shard, headers, body)";
    run(database, format!("{sql} VALUES ({seq}, 0, '{{}}', {blob})")).await;
}

/// The message of the event with this number, in this state; `lane` may be empty.
pub(super) async fn add_message(database: &Database, seq: i64, state: &str, destination: &str, lane: &str) {
    let id = seq * 1_024;
    let sql = if matches!(state, "done" | "discarded") {
        format!(
            "INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n,
                 generation, shard, state, destination, lane, last_result)
             VALUES ({id}, {seq}000, {seq}001, {seq}002, 2, 0, 0, '{state}', '{destination}', NULLIF('{lane}', ''), 'done')"
        )
    } else {
        let result = if state == "ready" || state == "waiting" { "NULL" } else { "'retry'" };
        format!(
            "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, leased_at_ms, attempts_n, shard, state,
                 destination, lane, lane_seq, node, last_result)
             VALUES ({id}, {seq}500, {seq}000, {seq}001, 1, 0, '{state}', '{destination}', NULLIF('{lane}', ''),
                 CASE WHEN '{lane}' = '' THEN NULL ELSE {seq} END, 'n', {result})"
        )
    };
    run(database, sql).await;
}

/// Events 1 to 7 of `stripe`, a message to `billing` of each, one in every state; 8 and 9 are of `adyen` and go to
/// `ledger`, which is not configured, 9 to `billing` as well.
pub(super) async fn fill(database: &Database) {
    drop(database.store().await);
    for (seq, state) in (1_i64..).zip(MessageState::ALL) {
        add_event(database, "stripe", seq, "handled").await;
        let lane = if *state == MessageState::Waiting { "in_1" } else { "" };
        add_message(database, seq, state.as_str(), "billing", lane).await;
    }
    add_event(database, "adyen", 8, "handled").await;
    add_message(database, 8, "dead", "ledger", "").await;
    add_event(database, "adyen", 9, "retry").await;
    add_message(database, 9, "held", "billing", "in_1").await;
    // So that nothing moves by itself.
    let pause = "INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms)
        VALUES ('billing', 'ops', 'they migrate', 5)";
    run(database, pause.to_owned()).await;
}

pub(super) fn ids(answer: &Answer) -> Vec<i64> {
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    let items = answer.body["items"].as_array().unwrap();
    let id = |one: &Value| one["message_id"].as_str().unwrap().parse::<i64>().unwrap();
    items.iter().map(|one| id(one) / 1_024).collect()
}

pub(super) fn refusal(n: u32, provider: &str) -> Rejection {
    Rejection {
        rejection_id: format!("0190{n:04}"),
        provider: provider.to_owned(),
        received_at_ms: i64::from(n),
        step: "signature".to_owned(),
        reason: "mismatch".to_owned(),
        detail: "signature does not match the configured secret".to_owned(),
        headers: r#"{"user-agent":["Stripe/1.0"]}"#.to_owned(),
        body_digest: "ab".repeat(32),
        body_bytes_n: 7,
        client_address: None,
    }
}
