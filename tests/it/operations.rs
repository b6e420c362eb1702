//! Bulk operations of the real binary: ordered, counted, killed, cancelled, handed from one node to another.

use std::time::Duration;

use serde_json::{Value, json};

use crate::console::Browser;
use crate::contract::{Answer, Operator};
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe, until};
use crate::store::retention::run;
use crate::stub::{Mode, Stub};

on_both!(
    an_operation_that_is_killed_five_times_acts_on_each_message_once,
    an_operation_is_ordered_watched_and_cancelled,
    of_two_operators_who_undo_each_other_the_second_gets_412,
    an_operation_stops_after_few_calls_at_a_bad_destination_and_goes_on_when_it_is_mended,
    steps_are_where_they_were_after_each_kill,
    what_was_handled_is_run_again_in_steps_and_stops_at_a_handler_or_a_call_that_fails,
    only_a_second_operators_approval_starts_an_operation,
    of_two_equal_orders_the_second_is_refused_with_the_first,
    the_approver_sees_the_rows_and_a_row_that_changed_meanwhile_is_skipped,
    a_token_without_scope_over_the_calls_of_an_event_cannot_rerun_it,
);

const OPERATOR: &str = "operator-token-0123456789";
const SECOND: &str = "second-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";
/// Of an operator who reaches another destination than `billing`.
const NARROW: &str = "narrow-token-0123456789";
const ROWS_N: u32 = 10_000;
/// As many as are not done before the fifth kill, however late each is.
pub(super) const MANY_ROWS_N: u32 = 40_000;

/// A server whose destination does not listen, with three tokens.
async fn serve(database: &Database) -> Server {
    serve_with(database, "url = \"http://127.0.0.1:9\"", "").await
}

/// The same with a destination and more of `[admin]`.
async fn serve_with(database: &Database, billing: &str, admin: &str) -> Server {
    let more = format!(
        "[outbox]\npoll_ms = 50\nlease_ms = 3000\n[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [destinations.mail]\nurl = \"http://127.0.0.1:9\"\ntimeout_ms = 2000\n\
         [destinations.billing]\ntimeout_ms = 2000\n{billing}\n"
    );
    let mut server = Server::prepare(&database.url, &more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let tokens = format!(
        "tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}, \
         {{ name = \"second\", role = \"operator\", token = \"{SECOND}\" }}, \
         {{ name = \"narrow\", role = \"operator\", token = \"{NARROW}\", destinations = [\"mail\"] }}, \
         {{ name = \"looker\", role = \"viewer\", token = \"{VIEWER}\" }}]\n{admin}\n[database]"
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
         SELECT 'stripe', 'evt_' || n, 10000000 + n, 1, 1, 0, 'invoice.paid', {digest}, 'sender/1', 'handled' FROM numbers"
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
        // Its destination is paused: a step would wait for its calls.
        "steps": { "sizes": [] },
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

/// Each was acted on once: its record, its mark and its state show so.
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
    let begun = Operator::new(server.admin, OPERATOR).begin("k-1", &order("send", "dead", MANY_ROWS_N)).await;
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
    let other = ops.begin("k-1", &order("discard", "dead", 7)).await;
    let said = (other.status, &other.body["code"], &other.body["counted_n"]);
    assert_eq!(said, (409, &json!("other_count"), &json!(ROWS_N)), "{}", other.body);
    assert_eq!(viewer.begin("k-2", &order("discard", "dead", ROWS_N)).await.status, 403);
    for (n, (order, status, code)) in [
        (order("discard", "done", 0), 409, "never_allowed"),
        (order("pause", "dead", ROWS_N), 400, "bad_request"),
        (json!({ "subject": { "messages": { "act": "send", "filter": {} } }, "counted_n": 1, "reason": "r" }), 400, "bad_request"),
        (json!({ "subject": { "destinations": {} }, "counted_n": 1, "reason": "r" }), 400, "bad_request"),
    ]
    .iter()
    .enumerate()
    {
        let refused = ops.begin(&format!("bad-{n}"), order).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (*status, Some(*code)), "{order}");
    }
    let third = ops.filled(&order("discard", "dead", ROWS_N)).await;
    let begun = ops.post("/operations", "k-3", &third).await;
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
    let again = ops.post("/operations", "k-3", &third).await;
    assert_eq!((again.status, &again.body), (202, &begun.body));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(path_of(&again), path);
    let late = ops.post(&format!("{path}/cancel"), "c-2", &reason).await;
    assert_eq!((late.status, &late.body["state"]), (409, &json!("cancelled")));
    // Another one runs to its end meanwhile; nothing more becomes of the first.
    let rest = u32::try_from(i64::from(ROWS_N) - done_n).unwrap();
    let second = ops.begin("k-4", &order("done", "dead", rest)).await;
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
        ("/operations/absent", 404),
        ("/operations/00000000-0000-0000-0000-000000000000", 404),
        ("/operations?cursor=x", 404),
        ("/operations?limit=0", 400),
    ] {
        assert_eq!(viewer.get(path).await.status, status, "{path}");
    }
}

async fn of_two_operators_who_undo_each_other_the_second_gets_412(database: &Database) {
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
    assert_eq!(act("pause", "k-1", "*").await, fine, "it was done before");
    let reused = (422, "idempotency_key_reused".to_owned());
    assert_eq!(act("pause", "k-1", "\"0123456789abcdef\"").await, reused, "about another version");
    assert_eq!(act("resume", "k-5", "*").await, fine);
    let version = async |path: &str| ops.get(path).await.headers["etag"].to_str().unwrap().to_owned();
    // Ann and Bob look at the same time; the request of each is about what they saw.
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
    let begun = Operator::new(first.admin, OPERATOR).begin("k-1", &order("send", "dead", ROWS_N)).await;
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

/// Events `PREFIX_0`, …, each with a call that the destination answers so; waits until their messages stand in `state`.
async fn called(
    database: &Database,
    server: &Server,
    stub: &Stub,
    (n, mode, state): (usize, Option<Mode>, &str),
) {
    stub.next(&vec![mode; n].into_iter().flatten().collect::<Vec<_>>());
    for n in 0..n {
        post_stripe(&client(), &server.url("/webhooks/stripe"), &format!("evt_{n}")).await.unwrap();
    }
    let sql = match state {
        "dead" => "SELECT COUNT(*) FROM outbox_messages WHERE state = 'dead'",
        _ => "SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'",
    };
    until(
        state,
        Duration::from_secs(30),
        || server.log(),
        async || database.count(sql).await == i64::try_from(n).unwrap(),
    )
    .await;
}

/// A send or a re-run in steps of 1, 5 and the rest, fast.
fn in_steps(subject: &Value, counted_n: usize) -> Value {
    json!({
        "subject": subject, "counted_n": counted_n, "reason": "they are back",
        "steps": { "sizes": [1, 5], "per_s": 1000, "stop_percent": 20 },
    })
}

fn dead_to_billing() -> Value {
    json!({ "messages": { "act": "send", "filter": { "state": "dead", "destination": "billing" } } })
}

/// Looks until the operation is in this state.
async fn until_state(server: &Server, path: &str, state: &str) -> Value {
    let (ops, mut seen) = (Operator::new(server.admin, VIEWER), Value::Null);
    let log = || server.log();
    until(state, Duration::from_mins(1), log, async || {
        seen = ops.get(path).await.body;
        seen["state"] == state
    })
    .await;
    seen
}

const EVENTS_N: usize = 30;

async fn an_operation_stops_after_few_calls_at_a_bad_destination_and_goes_on_when_it_is_mended(
    database: &Database,
) {
    let stub = Stub::start().await;
    let retry = format!("url = \"{}\"\nbreaker_failures_n = 0\nretry = {{ attempts_n = 1 }}", stub.url());
    let server = serve_with(database, &retry, "").await;
    called(database, &server, &stub, (EVENTS_N, Some(Mode::Status(400)), "dead")).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let before = stub.requests_n();
    // It answers one well, and then no more.
    let mut modes = vec![Mode::Status(200)];
    modes.extend(vec![Mode::Status(500); EVENTS_N]);
    stub.next(&modes);
    let begun = ops.begin("k-1", &in_steps(&dead_to_billing(), EVENTS_N)).await;
    assert_eq!(begun.status, 202, "{}", begun.body);
    let path = path_of(&begun);
    let seen = until_state(&server, &path, "stopped").await;
    assert_eq!(seen["changed_n"], 6, "{seen}");
    let note = seen["note"].as_str().unwrap();
    assert!(note.starts_with("step 2:") && note.contains("500"), "{note}");
    assert_eq!(stub.requests_n() - before, 6, "the other {} were left alone", EVENTS_N - 6);
    let backlog = ops.get("/backlog").await.body;
    assert_eq!(backlog["operations"][0]["operation_id"], seen["operation_id"]);
    // It is repaired, and an operator continues the operation.
    stub.forget_modes();
    let reason = json!({ "reason": "they fixed it" });
    assert_eq!(
        Operator::new(server.admin, VIEWER).post(&format!("{path}/continue"), "c-0", &reason).await.status,
        403
    );
    let goes_on = ops.post(&format!("{path}/continue"), "c-1", &reason).await;
    assert_eq!((goes_on.status, &goes_on.body["state"]), (200, &json!("running")), "{}", goes_on.body);
    let again = ops.post(&format!("{path}/continue"), "c-2", &reason).await;
    assert_eq!(again.status, 409, "it goes on already, or is done: {}", again.body);
    let seen = until_state(&server, &path, "done").await;
    assert_eq!(seen["changed_n"], EVENTS_N, "{seen}");
    assert_eq!(seen["steps"]["list"][2]["good_n"], EVENTS_N - 6, "{seen}");
    assert_eq!((stub.requests_n() - before) as usize, EVENTS_N, "each was called once by it");
}

async fn steps_are_where_they_were_after_each_kill(database: &Database) {
    let stub = Stub::start().await;
    let billing = format!("url = \"{}\"\nbreaker_failures_n = 0\nretry = {{ attempts_n = 1 }}", stub.url());
    let mut server = serve_with(database, &billing, "").await;
    called(database, &server, &stub, (EVENTS_N, Some(Mode::Status(400)), "dead")).await;
    let mut order = in_steps(&dead_to_billing(), EVENTS_N);
    order["steps"]["sizes"] = json!([1, 1, 1, 1, 1, 1]);
    let before = stub.requests_n();
    // Of each two calls the second is under way at the kill.
    let two_calls = [Mode::Status(200), Mode::WhenReleased];
    stub.next(&two_calls);
    let begun = Operator::new(server.admin, OPERATOR).begin("k-1", &order).await;
    let path = path_of(&begun);
    for kill in 1..=3 {
        let calls = "the second call is under way";
        until(
            calls,
            Duration::from_mins(1),
            || server.log(),
            async || stub.requests_n() - before == 2 * kill,
        )
        .await;
        server.kill();
        assert_eq!(database.count("SELECT changed_n FROM operations").await, i64::from(2 * kill));
        server.spawn().await;
        // What became of that call is unknown, which stops the operation.
        let seen = until_state(&server, &path, "stopped").await;
        assert_eq!(seen["changed_n"], 2 * kill, "{seen}");
        if kill < 3 {
            stub.next(&two_calls);
        }
        let reason = json!({ "reason": "we killed it" });
        let goes_on = Operator::new(server.admin, OPERATOR)
            .post(&format!("{path}/continue"), &format!("c-{kill}"), &reason)
            .await;
        assert_eq!(goes_on.status, 200, "{}", goes_on.body);
    }
    let seen = until_state(&server, &path, "done").await;
    assert_eq!((&seen["changed_n"], &seen["skipped_n"]), (&json!(EVENTS_N), &json!(0)), "{seen}");
    let list = seen["steps"]["list"].as_array().unwrap();
    assert_eq!(list.len(), 7);
    let rows =
        "SELECT COUNT(*) FROM operation_rows WHERE outcome = 'changed' AND result IN ('good', 'failed')";
    assert_eq!(database.count(rows).await, i64::try_from(EVENTS_N).unwrap());
    let records =
        "SELECT COUNT(DISTINCT message_id) * 1000 + COUNT(*) FROM audit_log WHERE action = 'message_send'";
    assert_eq!(
        database.count(records).await,
        i64::try_from(EVENTS_N * 1001).unwrap(),
        "each was acted on once"
    );
}

async fn what_was_handled_is_run_again_in_steps_and_stops_at_a_handler_or_a_call_that_fails(
    database: &Database,
) {
    let stub = Stub::start().await;
    let billing = format!("url = \"{}\"\nbreaker_failures_n = 0\nretry = {{ attempts_n = 1 }}", stub.url());
    let server = serve_with(database, &billing, "").await;
    called(database, &server, &stub, (EVENTS_N, None, "done")).await;
    let ops = Operator::new(server.admin, OPERATOR);
    let filter = json!({ "state": "handled", "provider": "stripe" });
    let preview =
        ops.ask("POST", "/operations/preview", &[], Some(json!({ "events": filter }).to_string())).await;
    assert_eq!((preview.status, &preview.body["counted_n"]), (200, &json!(EVENTS_N)), "{}", preview.body);
    assert_eq!((&preview.body["calls_n"], &preview.body["open_n"]), (&json!(EVENTS_N), &json!(0)));
    assert_eq!(preview.body["events"].as_array().unwrap().len(), 5);
    let rerun = &preview.body["acts"][0];
    assert_eq!((&rerun["act"], &rerun["risk"]), (&json!("rerun"), &json!("may_repeat_effect")), "{rerun}");
    assert_eq!(rerun["steps"]["sizes"], json!([1, 10, 100]));
    assert!(rerun["sentence"].as_str().unwrap().contains("cannot tell them from a new order"), "{rerun}");
    let before = stub.requests_n();
    stub.next(&[Mode::ActThenDrop]);
    let order = in_steps(&json!({ "events": { "act": "rerun", "filter": filter } }), EVENTS_N);
    let path = path_of(&ops.begin("k-1", &order).await);
    let seen = until_state(&server, &path, "stopped").await;
    assert_eq!(
        (&seen["changed_n"], stub.requests_n() - before),
        (&json!(1), 1),
        "unknown is a failure: {seen}"
    );
    let reason = json!({ "reason": "the bank says it has it once" });
    assert_eq!(ops.post(&format!("{path}/continue"), "c-1", &reason).await.status, 200);
    let seen = until_state(&server, &path, "done").await;
    assert_eq!(seen["changed_n"], EVENTS_N, "{seen}");
    let failed: Vec<u64> = seen["steps"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["failed_n"].as_u64().unwrap())
        .collect();
    assert_eq!(failed, [1, 0, 0], "{seen}");
}

async fn only_a_second_operators_approval_starts_an_operation(database: &Database) {
    let server =
        serve_with(database, "url = \"http://127.0.0.1:9\"", "approvals_n = 2\napproval_h = 1").await;
    many_dead_messages(database, 20).await;
    let (ops, second) = (Operator::new(server.admin, OPERATOR), Operator::new(server.admin, SECOND));
    let begun = ops.begin("k-1", &order("discard", "dead", 20)).await;
    assert_eq!((begun.status, &begun.body["state"]), (202, &json!("waiting")), "{}", begun.body);
    let path = path_of(&begun);
    assert!(begun.body["approve_until_ms"].as_i64() > begun.body["created_at_ms"].as_i64());
    let reason = json!({ "reason": "I looked at them" });
    let own = ops.post(&format!("{path}/approve"), "a-1", &reason).await;
    assert_eq!((own.status, &own.body["code"]), (403, &json!("own_operation")), "{}", own.body);
    let viewer = Operator::new(server.admin, VIEWER);
    assert_eq!(viewer.post(&format!("{path}/approve"), "a-2", &reason).await.status, 403);
    assert_eq!(viewer.get(&path).await.body["changed_n"], 0, "nothing was done yet");
    let approved = second.post(&format!("{path}/approve"), "a-3", &reason).await;
    assert_eq!(
        (approved.status, &approved.body["approved_by"]),
        (200, &json!("second")),
        "{}",
        approved.body
    );
    let seen = until_state(&server, &path, "done").await;
    assert_eq!(seen["changed_n"], 20);
    let late = second.post(&format!("{path}/approve"), "a-4", &reason).await;
    assert_eq!((late.status, &late.body["state"]), (409, &json!("done")));
}

async fn of_two_equal_orders_the_second_is_refused_with_the_first(database: &Database) {
    let server = serve(database).await;
    many_dead_messages(database, 20).await;
    let (ops, second) = (Operator::new(server.admin, OPERATOR), Operator::new(server.admin, SECOND));
    let order = ops.filled(&order("send", "dead", 20)).await;
    // Two tabs, at the same moment.
    let (one, two) =
        tokio::join!(ops.post("/operations", "k-1", &order), second.post("/operations", "k-2", &order));
    let (begun, refused) = if one.status == 202 { (one, two) } else { (two, one) };
    assert_eq!((begun.status, refused.status), (202, 409), "{} {}", begun.body, refused.body);
    assert_eq!(refused.body["code"], "same_operation");
    assert_eq!(refused.body["operation_id"], begun.body["operation_id"]);
    until_state(&server, &path_of(&begun), "done").await;
    let mut order = order.clone();
    order["counted_n"] = json!(0);
    assert_eq!(ops.begin("k-3", &order).await.body["code"], "same_operation", "it ended a moment ago");
    order["again"] = json!(true);
    assert_eq!(ops.begin("k-4", &order).await.status, 202);
    assert_eq!(database.count("SELECT COUNT(*) FROM operations WHERE total_n > 0").await, 1);
}

async fn the_approver_sees_the_rows_and_a_row_that_changed_meanwhile_is_skipped(database: &Database) {
    let stub = Stub::start().await;
    let billing = format!("url = \"{}\"\nbreaker_failures_n = 0\nretry = {{ attempts_n = 1 }}", stub.url());
    let server = serve_with(database, &billing, "approvals_n = 2").await;
    called(database, &server, &stub, (7, Some(Mode::Status(400)), "dead")).await;
    let (ops, second) = (Operator::new(server.admin, OPERATOR), Operator::new(server.admin, SECOND));
    let order = json!({ "subject": dead_to_billing(), "counted_n": 7, "reason": "they are back" });
    let path = path_of(&ops.begin("k-1", &order).await);
    let preview = second.get(&format!("{path}/preview")).await.body;
    assert_eq!((&preview["counted_n"], &preview["acts"][0]["act"]), (&json!(7), &json!("send")), "{preview}");
    let page = Browser::signed_in(server.admin, SECOND).await.get(&path).await.text;
    let sentence = preview["acts"][0]["sentence"].as_str().unwrap();
    for want in [
        "What it acts on",
        "May repeat an effect",
        sentence,
        "stripe</bdi> 7",
        "billing</bdi> 7",
        "7 calls; 7 open",
    ] {
        assert!(page.contains(want), "`{want}`: {page}");
    }
    assert_eq!(page.matches("href=\"/messages/").count(), 5, "five of them: {page}");
    // One of them is sent by hand, and discarded again: the order did not include that.
    let id = preview["messages"][0]["message_id"].as_str().unwrap();
    stub.next(&[Mode::Status(400)]);
    let sent = json!({ "act": "send", "reason": "a trial" });
    assert_eq!(ops.post(&format!("/messages/{id}/decide"), "m-1", &sent).await.status, 200);
    let dead = async || database.count("SELECT COUNT(*) FROM outbox_queue WHERE state = 'dead'").await == 7;
    until("it is tried", Duration::from_secs(20), || server.log(), async || stub.requests_n() == 8).await;
    until("it is dead again", Duration::from_secs(20), || server.log(), dead).await;
    let reason = json!({ "reason": "I looked at them" });
    assert_eq!(second.post(&format!("{path}/approve"), "a-1", &reason).await.status, 200);
    let seen = until_state(&server, &path, "done").await;
    assert_eq!((&seen["changed_n"], &seen["skipped_n"]), (&json!(6), &json!(1)), "{seen}");
    assert_eq!(seen["skipped"], json!([{ "subject": id, "outcome": "moved", "state": null }]), "{seen}");
}

async fn a_token_without_scope_over_the_calls_of_an_event_cannot_rerun_it(database: &Database) {
    let stub = Stub::start().await;
    let server = serve_with(database, &format!("url = \"{}\"", stub.url()), "").await;
    called(database, &server, &stub, (2, None, "done")).await;
    let (ops, narrow) = (Operator::new(server.admin, OPERATOR), Operator::new(server.admin, NARROW));
    let rerun = json!({ "act": "rerun", "reason": "once more" });
    let one = narrow.post("/events/stripe/evt_0/decide", "k-1", &rerun).await;
    let filter = json!({ "state": "handled", "provider": "stripe" });
    let order = json!({ "subject": { "events": { "act": "rerun", "filter": filter } }, "counted_n": 2, "reason": "r" });
    let all = narrow.begin("k-2", &order).await;
    for refused in [&one, &all] {
        let answer = (refused.status, &refused.body["code"]);
        assert_eq!(answer, (403, &json!("destinations_out_of_reach")), "{}", refused.body);
        let why = refused.body["detail"].as_str().unwrap();
        assert!(why.contains("events of stripe") && why.contains("it reaches mail"), "{why}");
        assert!(!refused.body.to_string().contains("billing"), "out of scope: {}", refused.body);
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM operations").await, 0);
    // By the route alone: nothing was called yet.
    run(database, "DELETE FROM outbox_finished").await;
    assert_eq!(narrow.post("/events/stripe/evt_0/decide", "k-3", &rerun).await.status, 403);
    assert_eq!(ops.post("/events/stripe/evt_0/decide", "k-4", &rerun).await.status, 200);
}
