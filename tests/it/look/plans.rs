//! PostgreSQL's plans for the read routes, with a million messages: by an index, and no further than a page may look.

use hooklatch_store::{meter_statements, operator_statements, read_statements};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::database::{Database, On};

/// A million finished messages of a million events, 200,000 open ones, a hundred thousand of them stuck, and lanes.
const FILL: [&str; 10] = [
    "INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard, event_type,
        digest, identity, state, due_at_ms)
     SELECT CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'stripe' END, 'evt_' || n, n, n, 1, 1, 'paid', sha256(n::text::bytea),
        'sender/1', CASE WHEN n % 20 = 0 THEN 'failed' ELSE 'handled' END, NULL
     FROM generate_series(1, 1000000) n",
    "INSERT INTO outbox_finished (message_id, created_at_ms, finished_at_ms, attempts_n, generation, shard, state,
        destination)
     SELECT n * 1024, n, n, 1, 0, 1, CASE WHEN n % 5000 = 0 THEN 'discarded' ELSE 'done' END, 'billing'
     FROM generate_series(1, 1000000) n",
    "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, shard, state, destination)
     SELECT n * 1024 + 1, n, n, 1, 'ready', 'd' || n % 20 FROM generate_series(1, 100000) n",
    "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, shard, state, destination)
     SELECT n * 1024 + 1, n, n, 1, CASE WHEN n % 2 = 0 THEN 'held' ELSE 'dead' END, 'd' || n % 20
     FROM generate_series(100001, 170000) n",
    "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, shard, state, destination, lane, lane_seq)
     SELECT n * 1024 + 1, n, n, 1, 'waiting', 'd1', 'l' || n % 10000, n FROM generate_series(170001, 200000) n",
    "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, shard, state, destination)
     SELECT n * 1024 + 2, n, n, 1, CASE WHEN n <= 560000 THEN 'held' ELSE 'ready' END, 'many'
     FROM generate_series(500001, 900000) n",
    "INSERT INTO rejected_requests (rejection_id, provider, received_at_ms, step, reason, detail, headers, body_digest,
        body_bytes_n)
     SELECT lpad(n::text, 12, '0'), 'p' || n % 50, n, 's', 'r', 'd', '{}', sha256('x'), 1
     FROM generate_series(1, 5000) n",
    "INSERT INTO audit_log (audit_seq, at_ms, actor, action, provider, event_id, message_id, detail)
     SELECT n, n, 'ops', 'message_send', 'stripe', 'evt_' || n, n * 1024, 'r' FROM generate_series(1, 300000) n",
    "VACUUM ANALYZE",
    "SET jit = off",
];
/// Tables that grow with what was received.
const BIG: [&str; 5] =
    ["outbox_queue", "outbox_finished", "processed_webhook_events", "audit_log", "outbox_attempts"];

/// The queries, with values that find something, and how many rows any step may read for it.
const QUERIES: [(&str, &str, u32); 45] = [
    // All that a node waits for.
    ("look", "'{billing}', '{stripe}'", 200),
    // Everything, from the newest on.
    ("messages of the queue", "NULL, NULL, NULL, 0, '{}', 0, '{}', 9223372036854775807, 0, 50", 200),
    ("messages of history", "NULL, NULL, NULL, 0, '{}', 0, '{}', 9223372036854775807, 0, 50", 200),
    // A filter that finds nothing, between ends that are 10,000 rows apart.
    ("messages of the queue", "'leased', NULL, NULL, 0, '{}', 1, '{d3}', 51200000, 40960000, 50", 10_200),
    (
        "messages of history",
        "'discarded', 'x', NULL, 1, '{rare}', 0, '{}', 1024000000, 1013760000, 50",
        10_200,
    ),
    ("bound of the queue", "9223372036854775807, 10000", 10_200),
    ("bound of history", "9223372036854775807, 10000", 10_200),
    ("bound of what is stuck, for PostgreSQL", "9223372036854775807, 10000, 'd4', 'held'", 10_200),
    (
        "messages that are stuck, for PostgreSQL",
        "'held', NULL, NULL, 0, '{}', 'd4', 9223372036854775807, 0, 50",
        200,
    ),
    (
        "messages that are stuck, for PostgreSQL",
        "'held', NULL, NULL, 1, '{absent}', 'd4', 204800000, 102400000, 50",
        10_200,
    ),
    ("messages of a lane", "NULL, 'l7', NULL, 0, '{}', 'd1', 9223372036854775807, 0, 50", 200),
    ("length of a lane", "'d1', 'l7', 10001", 200),
    ("destinations of what is stuck", "1000", 200),
    ("destinations of what is due", "1000", 200),
    ("destinations of lanes", "1000", 200),
    ("next lane", "'d1', 'l7', 1000", 200),
    // Held ones are older than 400,000 that are ready.
    (
        "messages that are stuck, for PostgreSQL",
        "'held', NULL, NULL, 0, '{}', 'many', 9223372036854775807, 0, 50",
        200,
    ),
    ("messages that are stuck, for PostgreSQL", "'held', NULL, NULL, 0, '{}', 'many', 542720000, 0, 50", 200),
    ("bound of what is stuck, for PostgreSQL", "9223372036854775807, 100, 'many', 'held'", 200),
    ("backlog", "'many', 10000", 20_200),
    ("backlog", "'d4', 10000", 20_200),
    ("search open keys", "5000", 5_200),
    ("search finished keys", "5000", 5_200),
    ("waiting events", "'failed', 10000", 10_200),
    ("last events", "5000", 5_200),
    ("last events", "100000", 100_200),
    ("last events by number", "'{5,1000}'", 200),
    ("audit log", "300000, 10000, 1, '{absent}', 0, '{}', 50", 10_200),
    ("audit log", "300000, 10000, 0, '{}', 1, '{billing}', 50", 10_200),
    ("end of the audit log", "300000, 10000", 10_200),
    ("decisions about a message", "1024000", 200),
    // What `/metrics` counts.
    ("due messages", "'many', 10000", 10_200),
    ("due messages", "'d4', 10000", 10_200),
    ("stuck messages", "'many', 10000", 30_200),
    ("stuck messages", "'d1', 10000", 30_200),
    ("blocked lanes", "'many', 10000", 10_200),
    ("key of the open ones", "'many'", 200),
    ("open providers", "1000", 200),
    ("open events", "'stripe', 10000", 40_200),
    ("open events", "'rare', 10000", 40_200),
    ("open events", "'absent', 10000", 200),
    // What an operation would act on: no further than what is open.
    ("operation events with stuck calls", "'{held,dead}'", 130_200),
    ("operation events with open calls", "'{ready,waiting,leased}'", 600_200),
    ("operation figures of events", "'{5,500000,999999}', 'handled'", 200),
    ("operation figures of messages", "'{1025,2049}', 'ready', 5", 200),
];
/// Statements of a transaction that sees one moment.
const OF_ONE_MOMENT: [&str; 10] = [
    "operation ",
    "waiting events",
    "backlog",
    "due messages",
    "stuck messages",
    "blocked lanes",
    "key of the open ones",
    "open providers",
    "open events",
    "search",
];

async fn run(db: &mut PgConnection, sql: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(db).await;
    done.unwrap_or_else(|why| panic!("{sql}: {why}"));
}

/// Every step of a plan.
fn steps(plan: &Value) -> Vec<&Value> {
    let below = plan["Plans"].as_array().into_iter().flatten().flat_map(steps);
    std::iter::once(plan).chain(below).collect()
}

fn assert_bounded(what: &str, values: &str, plan: &Value, rows_n_max: u32) {
    for step in steps(plan) {
        let kind = step["Node Type"].as_str().unwrap_or_default();
        let is_of_big = step["Relation Name"].as_str().is_some_and(|table| BIG.contains(&table));
        assert!(!(is_of_big && kind == "Seq Scan"), "{what} ({values}) reads all of a table: {plan:#}");
        let of = |field: &str| step[field].as_f64().unwrap_or_default();
        let rows_n = (of("Actual Rows") + of("Rows Removed by Filter") + of("Rows Removed by Index Recheck"))
            * of("Actual Loops");
        assert!(rows_n <= f64::from(rows_n_max), "{what} ({values}) looks at {rows_n} rows: {plan:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_routes_use_an_index_within_bounds_among_a_million() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    drop(database.store().await);
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    for sql in FILL {
        run(&mut db, sql).await;
    }
    let all = [operator_statements(), read_statements(), meter_statements()].concat();
    // With a plan for these values, and with one for any: a session that lives long has that.
    for mode in ["force_custom_plan", "force_generic_plan"] {
        run(&mut db, &format!("SET plan_cache_mode = {mode}")).await;
        let mut slowest = (0.0, "");
        for (what, values, rows_n_max) in QUERIES {
            let (_, sql) = all.iter().find(|(name, _)| *name == what).unwrap_or_else(|| panic!("no {what}"));
            // Asked in a transaction that sees one moment, which has it so.
            let is_of_one_moment = OF_ONE_MOMENT.iter().any(|name| what.starts_with(name));
            let is_on = if is_of_one_moment { "off" } else { "on" };
            for plan in ["bitmapscan", "seqscan", "hashjoin", "mergejoin"] {
                run(&mut db, &format!("SET enable_{plan} = {is_on}")).await;
            }
            let sql = sql.replace("{clock_ms}", "CAST(0 AS BIGINT)");
            run(&mut db, &format!("PREPARE asked AS {sql}")).await;
            let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked ({values})");
            let row = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut db).await;
            let text: String = row.unwrap_or_else(|why| panic!("{what}: {why}")).get_unchecked(0);
            let explained: Value = serde_json::from_str(&text).unwrap();
            assert_bounded(what, values, &explained[0]["Plan"], rows_n_max);
            let took_ms = explained[0]["Execution Time"].as_f64().unwrap();
            if took_ms > slowest.0 {
                slowest = (took_ms, what);
            }
            run(&mut db, "DEALLOCATE asked").await;
        }
        eprintln!("MEASURED with {mode}: the slowest is {} with {} ms", slowest.1, slowest.0);
    }
}

#[test]
fn no_statement_of_a_list_skips_rows_that_it_has_read() {
    for (name, sql) in operator_statements() {
        assert!(!sql.contains("OFFSET"), "{name}");
        assert!(
            sql.contains("LIMIT") || sql.contains("$2") || sql.contains("= ANY($1)"),
            "{name} has a bound"
        );
    }
}
