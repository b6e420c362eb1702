//! Operations of the real binary: ordered, counted, killed, cancelled, left by one node to another.

use std::time::Duration;

use serde_json::{Value, json};

use crate::contract::{Answer, Operator};
use crate::database::{Database, On, on_both};
use crate::process::{Server, until};
use crate::store::retention::run;

on_both!(
    an_operation_that_is_killed_five_times_acts_on_each_message_once,
    an_operation_is_ordered_watched_and_cancelled,
    of_two_operators_who_undo_each_other_the_second_hears_412,
);

const OPERATOR: &str = "operator-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";
const ROWS_N: u32 = 10_000;
/// As many as are not done before the fifth kill, however late each comes.
pub(super) const MANY_ROWS_N: u32 = 40_000;

/// A server that sends to nobody who is there, with two tokens.
async fn serve(database: &Database) -> Server {
    let more = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
                [destinations.billing]\nurl = \"http://127.0.0.1:9\"\n";
    let mut server = Server::prepare(&database.url, more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let tokens = format!(
        "tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}, \
         {{ name = \"looker\", role = \"viewer\", token = \"{VIEWER}\" }}]\n[database]"
    );
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    server
}

/// Events `evt_1` to `evt_10000`, each with a message to `billing` that is dead.
async fn dead_messages(database: &Database) {
    many_dead_messages(database, ROWS_N).await;
}

pub(super) async fn many_dead_messages(database: &Database, rows_n: u32) {
    let digest =
        if database.url.starts_with("sqlite") { "zeroblob(32)" } else { "decode(repeat('00', 32), 'hex')" };
    let numbers = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows_n})"
    );
    let events = format!(
        "{numbers} INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard,
             event_type, digest, identity, state)
         SELECT 'stripe', 'evt_' || n, 10000000 + n, 1, 1, 0, 'invoice.paid', {digest}, 'sender/1', 'done' FROM numbers"
    );
    run(database, &events).await;
    let messages = format!(
        "{numbers} INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, attempts_n, attempts_before_n,
             generation, shard, state, destination)
         SELECT CAST(10000000 + n AS BIGINT) * 1024, 1, 1, 20, 0, 0, 0, 'dead', 'billing' FROM numbers"
    );
    run(database, &messages).await;
    run(database, "INSERT INTO destination_pauses VALUES ('billing', 'ann', 'they migrate', 1, NULL)").await;
}

fn order(act: &str, state: &str, counted_n: u32) -> Value {
    json!({
        "subject": { "messages": { "act": act, "filter": { "state": state, "destination": "billing" } } },
        "counted_n": counted_n, "reason": "they are back",
    })
}

fn path_of(begun: &Answer) -> String {
    let id = begun.body["operation_id"].as_str().unwrap();
    assert_eq!(begun.headers["location"], format!("/v1/operations/{id}"));
    format!("/operations/{id}")
}

async fn is_over(server: &Server, path: &str) -> Value {
    let (ops, mut seen) = (Operator::new(server.admin, VIEWER), Value::Null);
    until(
        "the operation is over",
        Duration::from_mins(3),
        || server.log(),
        async || {
            seen = ops.get(path).await.body;
            seen["state"] != "running"
        },
    )
    .await;
    seen
}

/// Each was acted on once: its record, its mark and its state say so.
async fn check_each_once(database: &Database, rows_n: u32) {
    for (sql, want) in [
        ("SELECT COUNT(*) FROM audit_log WHERE action = 'message_send'", rows_n),
        (
            "SELECT COUNT(DISTINCT message_id) FROM audit_log WHERE action = 'message_send' AND operation_id IS NOT NULL",
            rows_n,
        ),
        ("SELECT COUNT(*) FROM operation_rows WHERE outcome = 'changed'", rows_n),
        ("SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND attempts_before_n = 20", rows_n),
        ("SELECT changed_n FROM operations", rows_n),
        ("SELECT skipped_n FROM operations", 0),
    ] {
        assert_eq!(database.count(sql).await, i64::from(want), "{sql}");
    }
}

async fn an_operation_that_is_killed_five_times_acts_on_each_message_once(database: &Database) {
    let mut server = serve(database).await;
    many_dead_messages(database, MANY_ROWS_N).await;
    let begun = Operator::new(server.admin, OPERATOR)
        .post("/operations", "k-1", &order("send", "dead", MANY_ROWS_N))
        .await;
    assert_eq!((begun.status, &begun.body["total_n"]), (202, &json!(MANY_ROWS_N)), "{}", begun.body);
    for kill in 0..5_i64 {
        let progress = "SELECT changed_n FROM operations";
        let before = database.count(progress).await;
        until(
            "it goes on",
            Duration::from_secs(20),
            || server.log(),
            async || database.count(progress).await > before,
        )
        .await;
        server.kill();
        let done_n = database.count(progress).await;
        assert!(done_n < i64::from(MANY_ROWS_N), "it was over before kill {kill}");
        server.spawn().await;
    }
    let seen = is_over(&server, &path_of(&begun)).await;
    assert_eq!((&seen["state"], &seen["changed_n"]), (&json!("done"), &json!(MANY_ROWS_N)), "{seen}");
    check_each_once(database, MANY_ROWS_N).await;
    assert!(server.terminate(), "it stops when asked: {}", server.log());
}

async fn an_operation_is_ordered_watched_and_cancelled(database: &Database) {
    let server = serve(database).await;
    let (ops, viewer) = (Operator::new(server.admin, OPERATOR), Operator::new(server.admin, VIEWER));
    dead_messages(database).await;
    let other = ops.post("/operations", "k-1", &order("discard", "dead", 7)).await;
    let said = (other.status, &other.body["code"], &other.body["counted_n"]);
    assert_eq!(said, (409, &json!("other_count"), &json!(ROWS_N)), "{}", other.body);
    assert_eq!(viewer.post("/operations", "k-2", &order("discard", "dead", ROWS_N)).await.status, 403);
    for (n, (order, status, code)) in [
        (order("discard", "done", 0), 409, "never_allowed"),
        (order("pause", "dead", ROWS_N), 400, "bad_request"),
        (json!({ "subject": { "messages": { "act": "send", "filter": {} } }, "counted_n": 1, "reason": "r" }), 400, "bad_request"),
        (json!({ "subject": { "destinations": {} }, "counted_n": 1, "reason": "r" }), 400, "bad_request"),
    ]
    .iter()
    .enumerate()
    {
        let refused = ops.post("/operations", &format!("bad-{n}"), order).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (*status, Some(*code)), "{order}");
    }
    let begun = ops.post("/operations", "k-3", &order("discard", "dead", ROWS_N)).await;
    let path = path_of(&begun);
    until(
        "it goes on",
        Duration::from_secs(20),
        || server.log(),
        async || viewer.get(&path).await.body["changed_n"].as_u64() > Some(0),
    )
    .await;
    // At once, and the rest later: it does not wait for us.
    let reason = json!({ "reason": "that was the wrong one" });
    let cancelled = ops.post(&format!("{path}/cancel"), "c-1", &reason).await;
    assert_eq!(
        (cancelled.status, &cancelled.body["state"]),
        (200, &json!("cancelled")),
        "{}",
        cancelled.body
    );
    let done_n = cancelled.body["changed_n"].as_i64().unwrap();
    assert!((1..i64::from(ROWS_N)).contains(&done_n), "{done_n}");
    assert_eq!(viewer.post(&format!("{path}/cancel"), "c-0", &reason).await.status, 403);
    let again = ops.post("/operations", "k-3", &order("discard", "dead", ROWS_N)).await;
    assert_eq!((again.status, &again.body), (202, &begun.body));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(path_of(&again), path);
    let late = ops.post(&format!("{path}/cancel"), "c-2", &reason).await;
    assert_eq!((late.status, &late.body["state"]), (409, &json!("cancelled")));
    // Another one runs to its end meanwhile; nothing more becomes of the first.
    let rest = u32::try_from(i64::from(ROWS_N) - done_n).unwrap();
    let second = ops.post("/operations", "k-4", &order("done", "dead", rest)).await;
    let seen = is_over(&server, &path_of(&second)).await;
    assert_eq!((&seen["changed_n"], &seen["skipped_n"]), (&json!(rest), &json!(0)));
    assert_eq!(viewer.get(&path).await.body["changed_n"], done_n);
    let discarded = "SELECT COUNT(*) FROM outbox_finished WHERE state = 'discarded'";
    assert_eq!(database.count(discarded).await, done_n);
    let listed = viewer.get("/operations?limit=1").await.body;
    assert_eq!(listed["items"][0]["operation_id"], second.body["operation_id"]);
    let next = listed["next"].as_str().unwrap();
    let listed = viewer.get(&format!("/operations?cursor={next}")).await.body;
    assert_eq!((&listed["items"][0]["state"], &listed["next"]), (&json!("cancelled"), &Value::Null));
    for (path, status) in [
        ("/operations/nobody", 404),
        ("/operations/00000000-0000-0000-0000-000000000000", 404),
        ("/operations?cursor=x", 404),
        ("/operations?limit=0", 400),
    ] {
        assert_eq!(viewer.get(path).await.status, status, "{path}");
    }
}

async fn of_two_operators_who_undo_each_other_the_second_hears_412(database: &Database) {
    let server = serve(database).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let act = async |act: &str, key: &str, version: &str| {
        let headers = [("idempotency-key", key), ("if-match", version)];
        let body = json!({ "act": act, "reason": "r" }).to_string();
        let answer = ops.ask("POST", "/destinations/billing/decide", &headers, Some(body)).await;
        (answer.status, answer.body["code"].as_str().unwrap_or_default().to_owned())
    };
    let fine = (200, String::new());
    let changed = (412, "changed".to_owned());
    assert_eq!(act("pause", "k-1", "*").await, fine);
    assert_eq!(act("resume", "k-2", "\"0123456789abcdef\"").await, changed);
    assert_eq!(act("resume", "k-3", "W/\"0123456789abcdef\"").await, changed, "weak tags match nothing");
    assert_eq!(act("resume", "k-4", "no tag").await, (400, "bad_request".to_owned()));
    assert_eq!(act("pause", "k-1", "\"0123456789abcdef\"").await, fine, "it was done before");
    assert_eq!(act("resume", "k-5", "*").await, fine);
    let version = async |path: &str| ops.get(path).await.headers["etag"].to_str().unwrap().to_owned();
    // Ann and Bob look at the same time; what each then asks for is about what they saw.
    for (n, word) in ["pause", "resume"].into_iter().enumerate() {
        let seen = version("/destinations/billing").await;
        assert_eq!(act(word, &format!("ann-{n}"), &seen).await, fine, "{word}");
        assert_eq!(act(word, &format!("bob-{n}"), &seen).await, changed, "{word}");
        assert_ne!(version("/destinations/billing").await, seen);
    }
    dead_messages(database).await;
    let id = "10240001024";
    let path = format!("/messages/{id}");
    let seen = version(&path).await;
    let order = |act: &str| Some(json!({ "act": act, "reason": "r" }).to_string());
    let decide = async |act: &str, key: &str, seen: &str| {
        let headers = [("idempotency-key", key), ("if-match", seen)];
        ops.ask("POST", &format!("{path}/decide"), &headers, order(act)).await.status
    };
    assert_eq!(decide("send", "ann-m", &seen).await, 200);
    assert_eq!(decide("discard", "bob-m", &seen).await, 412);
    assert_eq!(decide("discard", "bob-m2", &version(&path).await).await, 200);
    assert_eq!(decide("discard", "bob-m3", &seen).await, 412);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_goes_on_with_what_one_left() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (mut first, second) = (serve(&database).await, serve(&database).await);
    dead_messages(&database).await;
    let begun =
        Operator::new(first.admin, OPERATOR).post("/operations", "k-1", &order("send", "dead", ROWS_N)).await;
    until(
        "it goes on",
        Duration::from_secs(20),
        || first.log(),
        async || database.count("SELECT changed_n FROM operations").await > 0,
    )
    .await;
    first.kill();
    is_over(&second, &path_of(&begun)).await;
    check_each_once(&database, ROWS_N).await;
}
