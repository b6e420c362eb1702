//! PostgreSQL's plans for the hot statements: by keys alone, at any backlog, and whatever sizes of the tables it
//! assumed when it made the plan, which it keeps for as long as the session lives.

use hooklatch_store::{rare_statements, statements};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::database::{Database, On};

/// As the sessions of the outbox have it, and those that admit.
const WORKER: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off";
const COMMITTER: &str = "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";
/// Tables that grow with what is kept.
const BIG: [&str; 11] = [
    "audit_log",
    "webhook_body_parts",
    "event_search_ids",
    "outbox_queue",
    "outbox_contents",
    "outbox_finished",
    "outbox_attempts",
    "processed_webhook_events",
    "webhook_payloads",
    "outbox_lanes",
    "object_versions",
];
/// Everything that grows with what was sent is deleted before: what is left is what happens to be here.
const FILL: &str = "TRUNCATE processed_webhook_events, webhook_payloads, outbox_queue, outbox_contents, outbox_finished;
    INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard, event_type,
        digest, identity, state)
    SELECT 'stripe', 'evt_' || n, n, 1000, 1, 1, 'paid', sha256(n::text::bytea), 'sender/1', 'handled'
    FROM generate_series(1, 200000) n;
    INSERT INTO webhook_payloads (event_seq, shard, headers, body)
    SELECT n, 1, '{}', 'body' FROM generate_series(1, 200000) n;
    INSERT INTO outbox_contents (message_id, shard, method, path, headers)
    SELECT n * 1024, 1, 'POST', '/x', '{}' FROM generate_series(1, 200000, 2) n;
    INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, shard, state, destination)
    SELECT n * 1024, 1000, 1000, 1, 'ready', 'billing' FROM generate_series(1, 200000) n";
/// Messages that a claim takes here, and rows that any step of a statement may look at for them.
const CLAIM_N: i64 = 64;
const ROWS_N_MAX: f64 = 200.0;
/// Pages that one message may cost: its indexes, its event, its payload and its content.
const PAGES_N_MAX: f64 = 64.0;

pub(super) async fn run(db: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(db)
        .await
        .unwrap_or_else(|why| panic!("{sql}: {why}"));
}

pub(super) async fn text(db: &mut PgConnection, sql: &str) -> String {
    let row = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(db).await;
    row.unwrap_or_else(|why| panic!("{sql}: {why}")).get_unchecked(0)
}

/// Explains a statement; gives the root of its plan.
pub(super) async fn explained(db: &mut PgConnection, options: &str, execute: &str) -> Value {
    let found = text(db, &format!("EXPLAIN ({options}FORMAT JSON) {execute}")).await;
    serde_json::from_str::<Value>(&found).unwrap()[0]["Plan"].take()
}

/// Every step of a plan.
pub(super) fn steps(plan: &Value) -> Vec<&Value> {
    let below = plan["Plans"].as_array().into_iter().flatten().flat_map(steps);
    std::iter::once(plan).chain(below).collect()
}

/// Number of values that a statement wants.
fn values_n(sql: &str) -> usize {
    (1..100).take_while(|n| sql.contains(&format!("${n}"))).count()
}

/// The name of the prepared statement.
fn prepared(name: &str) -> String {
    name.replace(' ', "_")
}

/// True when a step finds rows of a big table otherwise than by a key.
fn is_blind(step: &Value) -> bool {
    let is_scan = step["Node Type"].as_str().is_some_and(|kind| kind.ends_with("Scan"));
    let is_of_big = step["Relation Name"].as_str().is_some_and(|table| BIG.contains(&table));
    // A bitmap is of an index, whose condition stands in the step below.
    let conditions = ["Index Cond", "Recheck Cond", "TID Cond"];
    is_scan && is_of_big && conditions.iter().all(|condition| step[condition].is_null())
}

fn assert_goes_by_keys(plan: &Value, what: &str) {
    for step in steps(plan) {
        assert!(!is_blind(step), "{what} reads all of a table: {step:#}");
        let is_of_due = step["Index Name"] == "outbox_queue_due";
        let by_destination = step["Index Cond"].as_str().is_some_and(|cond| cond.contains("destination = "));
        assert!(!is_of_due || by_destination, "{what} reads all that is due: {step:#}");
    }
}

fn assert_bounded(plan: &Value, what: &str) {
    for step in steps(plan) {
        let of = |field: &str| step[field].as_f64().unwrap_or_default();
        let rows_n = (of("Actual Rows") + of("Rows Removed by Filter") + of("Rows Removed by Join Filter"))
            * of("Actual Loops");
        assert!(rows_n <= ROWS_N_MAX, "{what} looks at {rows_n} rows: {step:#}");
    }
    let pages_n = plan["Shared Hit Blocks"].as_f64().unwrap() + plan["Shared Read Blocks"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let pages_n_max = CLAIM_N as f64 * PAGES_N_MAX;
    assert!(pages_n <= pages_n_max, "{what} reads {pages_n} pages");
}

/// A session that has made its plans for what the tables hold now.
async fn planned(database: &Database, options: &str, is_ours: fn(&str) -> bool) -> PgConnection {
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    run(&mut db, options).await;
    for (name, sql) in statements().into_iter().filter(|(name, _)| is_ours(name)) {
        let name = prepared(name);
        run(&mut db, &format!("PREPARE {name} AS {sql}")).await;
        let nothing = vec!["NULL"; values_n(sql)].join(", ");
        let plan = explained(&mut db, "", &format!("EXECUTE {name} ({nothing})")).await;
        assert_goes_by_keys(&plan, &name);
    }
    db
}

/// Claims and settles with the plans of before while much is waiting.
async fn work(db: &mut PgConnection) {
    let lease = format!(
        "EXECUTE message_lease (ARRAY['billing', 'other'], ARRAY[{CLAIM_N}, 8], ARRAY[1000, 1000], 5000, 30000, 'n', false, ARRAY[1000000, 1000000])"
    );
    let plan = explained(db, "ANALYZE, BUFFERS, ", &lease).await;
    assert_goes_by_keys(&plan, "message_lease");
    assert_bounded(&plan, "message_lease");
    assert_eq!(plan["Actual Rows"], CLAIM_N, "{plan:#}");
    let half = async |db: &mut PgConnection, order: &str| {
        let n = CLAIM_N / 2;
        let found = format!(
            "SELECT array_agg(message_id ORDER BY message_id)::text FROM (
                 SELECT message_id FROM outbox_queue WHERE state = 'leased' AND state IN ('ready', 'leased')
                   AND destination = 'billing' AND visible_at_ms = 35000 ORDER BY message_id {order} LIMIT {n}) x"
        );
        text(db, &found).await
    };
    let all = |kind: &str, value: &str| format!("array_fill({value}::{kind}, ARRAY[{}])", CLAIM_N / 2);
    let (ones, times) = (all("int", "1"), all("bigint", "6000"));
    let ids = half(db, "").await;
    let done =
        format!("EXECUTE message_settle_done ('{ids}', {ones}, {}, {times}, false)", all("int", "200"));
    let others = half(db, "DESC").await;
    let back = format!(
        "EXECUTE message_settle ('{others}', {ones}, {}, {times}, {}, {}, {}, {times}, {}, {}, true, NULL, {})",
        all("text", "'ready'"),
        all("text", "'retry'"),
        all("int", "503"),
        all("text", "'why'"),
        all("text", "NULL"),
        all("bool", "false"),
        all("text", "'hold'"),
    );
    for (name, settle) in [("message_settle_done", done), ("message_settle", back)] {
        let plan = explained(db, "ANALYZE, BUFFERS, ", &settle).await;
        assert_goes_by_keys(&plan, name);
        assert_bounded(&plan, name);
        assert_eq!(plan["Actual Rows"], CLAIM_N / 2, "{name}: {plan:#}");
    }
}

fn is_of_outbox(name: &str) -> bool {
    name.starts_with("message_lease") || name.starts_with("message_settle")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_statements_use_keys_with_any_statistics_at_planning() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    drop(database.store().await);
    let mut admin = PgConnection::connect(&database.url).await.unwrap();
    let mut sessions = Vec::new();
    for (what, before) in [
        ("without statistics", ""),
        ("with statistics of empty tables", "VACUUM ANALYZE"),
        ("full", FILL),
        ("full, with statistics", "VACUUM ANALYZE"),
        ("drained", "DELETE FROM outbox_queue"),
        ("drained and vacuumed", "VACUUM ANALYZE"),
    ] {
        for sql in before.split(';') {
            run(&mut admin, sql).await;
        }
        for (options, is_ours) in
            [(WORKER, is_of_outbox as fn(&str) -> bool), (COMMITTER, |name| name.starts_with("admit"))]
        {
            sessions.push((what, planned(&database, options, is_ours).await, options != COMMITTER));
        }
    }
    for sql in FILL.split(';') {
        run(&mut admin, sql).await;
    }
    for (what, db, is_worker) in &mut sessions {
        if *is_worker {
            eprintln!("planned {what}");
            run(db, "BEGIN").await;
            work(db).await;
            run(db, "ROLLBACK").await;
        }
    }
}

/// Each message in a lane of its own, and as many objects and finished messages as events.
const LANES: &str = "UPDATE outbox_queue SET lane = 'l' || message_id / 1024, lane_seq = 1;
    INSERT INTO outbox_lanes (destination, lane, head_seq, tail_seq, used_at_ms)
    SELECT 'billing', 'l' || n, 1, 1, 1000 FROM generate_series(1, 200000) n;
    INSERT INTO object_versions (provider, object, version, event_seq)
    SELECT 'stripe', 'o_' || n, 1, n FROM generate_series(1, 200000) n;
    INSERT INTO outbox_finished (message_id, created_at_ms, finished_at_ms, attempts_n, generation, shard, state, destination)
    SELECT n * 1024 + 5, 1000, 1000, 1, 0, 1, 'done', 'billing' FROM generate_series(1, 200000) n;
    INSERT INTO webhook_body_parts (event_seq, part_n, shard, part)
    SELECT n, p, 1, 'part' FROM generate_series(1, 200000, 2) n, generate_series(0, 1) p;
    UPDATE webhook_payloads SET parts_n = 2 WHERE event_seq % 2 = 1;
    INSERT INTO unlatched_bodies (event_seq, begun_at_ms) SELECT n, 1000 FROM generate_series(1, 20000) n;
    INSERT INTO fetched_keys (provider, digest, fetched_at_ms, content)
    SELECT 'p' || n % 128, sha256(n::text::bytea), n, 'key' FROM generate_series(1, 4096) n;
    INSERT INTO encryption_keys (key_id, check_value, written_at_ms)
    SELECT 'k_' || n, 'check', 1000 FROM generate_series(1, 20000) n;
    INSERT INTO audit_log (audit_seq, at_ms, actor, action, message_id, detail)
    SELECT n, 1000, 'ops', 'message_discard', n * 1024, 'r' FROM generate_series(1, 200000) n;
    VACUUM ANALYZE";

/// What is asked beside the hot statements: with values that find something among much.
const QUERIES: [(&str, &str); 30] = [
    ("message_extend", "1024000, 1, 0, 1, 30000"),
    ("message_release", "ARRAY['billing', 'other'], ARRAY['n/1'], 0, 1, 60000"),
    ("message_release attempts", "ARRAY[1024000, 2048000], 10000000"),
    ("message_release back", "ARRAY[1024000, 2048000], 10000000"),
    ("lanes_extend", "'billing', 'l5', 1, 10000000"),
    ("lanes_extend all", "ARRAY['billing', 'billing'], ARRAY['l5', 'l6'], ARRAY[1, 1], 10000000"),
    ("lanes_lock", "'billing', ARRAY['l5', 'l6']"),
    ("lanes_advance heads", "'billing', ARRAY['l5', 'l6'], 10000000"),
    ("lanes_advance turns", "ARRAY[1024000, 2048000], 10000000"),
    (
        "events_holders",
        "ARRAY[0, 1], ARRAY['stripe', 'stripe'], ARRAY['evt_5', 'evt_x'], ARRAY[sha256('5'), NULL]",
    ),
    ("operation_moved messages", "ARRAY[1024000, 2048000], 5000"),
    ("operation_moved events", "ARRAY[1000, 2000], 5000"),
    ("operation_moved sent messages", "ARRAY[1024000, 2048000], 5000"),
    ("operation_moved rerun events", "ARRAY[1000, 2000], 5000"),
    ("message_decide sent", "1024000"),
    ("body_parts begun", "900001, 5000"),
    ("body_parts part", "900001, 0, 1, 'part'"),
    ("body_parts known key", "'stripe', 'evt_5'"),
    ("body_parts known text", "'stripe', sha256('5')"),
    ("body_parts in parts", "1000, 2"),
    ("body_parts latched", "1000"),
    ("body_parts unlatched delete", "1000"),
    ("body_parts delete", "1000"),
    ("body_parts sweep", "5000"),
    ("body_parts stored", "2001"),
    ("fetched_keys keep", "'p5', sha256('5'), 5000, 'key', NULL"),
    ("fetched_keys keep newest", "'p5', 32"),
    ("key check value", "'k_5'"),
    ("key register", "'k_5', '\\x00', 5000"),
    ("versions_raise", "ARRAY['stripe', 'stripe'], ARRAY['o_5', 'o_x'], ARRAY[9, 9], ARRAY[7, 8]"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rare_statements_use_keys_too() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    drop(database.store().await);
    let mut admin = PgConnection::connect(&database.url).await.unwrap();
    for sql in FILL.split(';').chain(LANES.split(';')) {
        run(&mut admin, sql).await;
    }
    let all = [statements(), rare_statements()].concat();
    // As everybody has it, with a plan for these values and with one for any; and as the sessions of the outbox do.
    let generic = "SET jit = off; SET plan_cache_mode = force_generic_plan";
    for options in ["SET jit = off", generic, WORKER] {
        let mut db = PgConnection::connect(&database.url).await.unwrap();
        run(&mut db, options).await;
        for (what, values) in QUERIES {
            let (_, sql) = all.iter().find(|(name, _)| *name == what).unwrap();
            let sql =
                sql.replace("{clock_ms}", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)");
            let name = prepared(what);
            run(&mut db, &format!("PREPARE {name} AS {sql}")).await;
            run(&mut db, "BEGIN").await;
            if what.starts_with("message_release") {
                run(&mut db, "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off").await;
            }
            let plan = explained(&mut db, "ANALYZE, BUFFERS, ", &format!("EXECUTE {name} ({values})")).await;
            assert_goes_by_keys(&plan, what);
            assert_bounded(&plan, what);
            run(&mut db, "ROLLBACK").await;
        }
    }
}
