//! PostgreSQL's plans for reading events, with a million of them: by keys, in few pages, whatever statistics it has.

use std::time::Instant;

use hooklatch_store::read_statements;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use super::plans::{explained, run, steps, text};
use crate::database::{Database, On};

/// Events of five providers and one that is rare, with messages of the newest; some failed, some wait.
fn fill(n: u32) -> Vec<String> {
    let (open, finished) = (n - 99_999, n - 49_999);
    FILL.replace("EVENTS", &n.to_string())
        .replace("OPEN", &open.to_string())
        .replace("FINISHED", &finished.to_string())
        .split(";\n")
        .map(str::to_owned)
        .collect()
}

const FILL: &str = "SET synchronous_commit = off;
    INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard, event_type,
        digest, identity, state, object, due_at_ms)
    SELECT CASE WHEN n % 100000 = 7 THEN 'rare' ELSE 'p' || n % 5 END, 'evt_' || n, n, 1000000000 + n * 20, 1, 1,
        CASE WHEN n % 50000 = 11 THEN 'rare' ELSE 't' || n % 20 END, decode(repeat('00', 32), 'hex'), 'sender/1',
        CASE WHEN n % 50 = 3 THEN 'failed' WHEN n % 1000 = 4 THEN 'retry' ELSE 'handled' END,
        CASE WHEN n % 10 = 0 THEN 'in_' || n / 100 % 1000 END, CASE WHEN n % 1000 = 4 THEN n END
    FROM generate_series(1, EVENTS) n;
    INSERT INTO event_search_ids (block, search_key, event_seq, shard)
    SELECT n / 1024, 'pi_' || lpad(CAST(n AS TEXT), 9, '0'), n, 1 FROM generate_series(1, EVENTS) n;
    INSERT INTO event_search_ids (block, search_key, event_seq, shard)
    SELECT n / 1024, 'cus_' || lpad(CAST(n % 5 AS TEXT), 9, '0'), n, 1 FROM generate_series(1, EVENTS) n;
    INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, shard, state, destination)
    SELECT n * CAST(1024 AS BIGINT), 1000, 1000, 1, CASE WHEN n % 10 = 0 THEN 'dead' WHEN n % 1000 = 1 THEN 'held' ELSE 'ready' END,
        'billing' FROM generate_series(OPEN, FINISHED - 1) n;
    INSERT INTO outbox_finished (message_id, created_at_ms, finished_at_ms, attempts_n, generation, shard, state,
        destination, last_result)
    SELECT n * CAST(1024 AS BIGINT), 1000, 2000, 1, 0, 1, 'done', 'billing', 'done' FROM generate_series(FINISHED, EVENTS) n;
    INSERT INTO webhook_payloads (event_seq, shard, headers, body)
    SELECT n, 1, '{}', 'body' FROM generate_series(OPEN, EVENTS) n;
    INSERT INTO operations (operation_id, created_at_ms, finished_at_ms, stepped_at_ms, total_n, changed_n, skipped_n, state,
        actor, reason, subject)
    SELECT 'op_' || n, n, CASE WHEN n <= 4990 THEN n END, n, 1, 1, 0, CASE WHEN n <= 4990 THEN 'done' ELSE 'running' END, 'ops',
        'r', '{}' FROM generate_series(1, 5000) n;
    INSERT INTO operation_rows (operation_id, row_n, subject_id, outcome)
    SELECT 'op_' || 4998 + n % 3, n, n, CASE WHEN n % 2 = 0 THEN 'changed' END FROM generate_series(1, 300000) n";
/// As a transaction that reads at one moment has it.
const READER: &str = "SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan";
/// Tables that grow with each event.
const BIG: [&str; 9] = [
    "operation_rows",
    "event_search_ids",
    "processed_webhook_events",
    "webhook_payloads",
    "outbox_queue",
    "outbox_finished",
    "outbox_attempts",
    "event_copies",
    "conflict_counts",
];

/// What is asked: the statement's name and its values, with the types that the driver says they have; and how many rows
/// it may look at.
fn asked(n: i64) -> Vec<(&'static str, String, f64)> {
    let none = "NULL, NULL, NULL, NULL, NULL, NULL, 0, '{}'";
    let page = |range: &str, filter: &str| format!("{filter}, {range}, 10000, 51");
    let apart = |range: &str, filter: &str| format!("{filter}, {range}, 2000, 51");
    let (newest, old) = ("-1, 9223372036854775807".to_owned(), format!("-1, {}", n / 2));
    let (newest, old) = (newest.as_str(), old.as_str());
    let mut all = vec![
        ("number_at", "1010000000".to_owned(), 300.0),
        ("event_page", page(newest, none), 60.0),
        ("event_page", page(old, none), 60.0),
        ("event_page since", page(&format!("{}, {}", n / 2, n), none), 60.0),
    ];
    let filters = [
        "'p1', NULL, NULL, NULL, NULL, NULL, 0, '{}'",
        "'rare', NULL, NULL, NULL, NULL, NULL, 0, '{}'",
        "NULL, 't3', NULL, NULL, NULL, NULL, 0, '{}'",
        "NULL, 'rare', NULL, NULL, NULL, NULL, 0, '{}'",
        "NULL, NULL, 'superseded', NULL, NULL, NULL, 0, '{}'",
        "NULL, NULL, NULL, NULL, 1000000000, 1005000000, 0, '{}'",
        "NULL, NULL, NULL, NULL, NULL, NULL, 1, '{p1,rare}'",
    ];
    for range in [newest, old] {
        all.extend(filters.iter().map(|filter| ("event_page", page(range, filter), 10_100.0)));
        for state in ["failed", "retry", "unreadable"] {
            let filter = |provider: &str| format!("{provider}, NULL, '{state}', NULL, NULL, NULL, 0, '{{}}'");
            all.push(("event_page of a state", apart(range, &filter("NULL")), 60.0));
            all.push(("event_page of a state", apart(range, &filter("'rare'")), 2_100.0));
            all.push(("event_page of a state since", apart(range, &filter("NULL")), 60.0));
            all.push(("event_page_end of a state", format!("{range}, 2000, '{state}'"), 2_100.0));
        }
        for object in ["in_7", "absent"] {
            let filter = format!("NULL, NULL, NULL, '{object}', NULL, NULL, 0, '{{}}'");
            all.push(("event_page of an object", apart(range, &filter), 60.0));
            all.push(("event_page of an object since", apart(range, &filter), 60.0));
            all.push(("event_page_end of an object", format!("{range}, 2000, '{object}'"), 2_100.0));
        }
        all.push(("event_page_end", format!("{range}, 10000"), 10_100.0));
    }
    let numbered = format!("-1, {}", i64::MAX / 1_024);
    for range in [numbered.as_str(), old] {
        for (filter, states) in [
            (none, "{held}"),
            (none, "{held,dead}"),
            ("'rare', NULL, NULL, NULL, NULL, NULL, 0, '{}'", "{dead}"),
        ] {
            let stuck = format!("{filter}, {range}, 2000, 51, '{states}'");
            all.push(("event_page of stuck calls", stuck, 3_000.0));
        }
        let open = format!("{none}, {range}, 2000, 51, '{{ready,waiting,leased}}'");
        all.push(("event_page of open calls", open, 3_000.0));
        all.push(("event_page_end of stuck calls", format!("{range}, 2000"), 2_100.0));
        all.push(("event_page_end of open calls", format!("{range}, 2000"), 2_100.0));
    }
    for range in [newest, old] {
        all.push(("event_page_end since", format!("{range}, 10000"), 10_100.0));
    }
    for (name, value) in
        [("event_page_end of a state since", "failed"), ("event_page_end of an object since", "in_7")]
    {
        all.push((name, format!("{newest}, 2000, '{value}'"), 2_100.0));
    }
    all.push(("activity", "0, 3600000".to_owned(), 1.0));
    let newest = n - 9;
    let key = format!("'p1', 'evt_{newest}'");
    let messages = format!("{}, {}", newest * 1_024, (newest + 1) * 1_024);
    let listed = |from: i64| (from..from + 51).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    all.push(("event_delivery", format!("'{{{}}}', 1, '{{billing}}'", listed(n - 80_000)), 120.0));
    all.push(("event_delivery", format!("'{{{}}}', 0, '{{}}'", listed(n - 51)), 120.0));
    all.push(("causes of events", "2000, 10, 1, '{p1,rare}'".to_owned(), 2_100.0));
    all.push(("causes of messages", "2000, 10, 1, '{p1,rare}', 1, '{billing}'".to_owned(), 2_100.0));
    all.push(("event_delivery pruned", String::new(), 2.0));
    all.push(("event_ledger restored", "5".to_owned(), 2.0));
    for (name, values) in [
        ("event_ledger event", key.clone()),
        ("event_ledger payload", newest.to_string()),
        ("event_ledger copies", key.clone()),
        ("event_ledger conflicts", "'p1', '{evt_1,evt_6,absent}'".to_owned()),
        ("event_ledger unkept", key.clone()),
        ("event_ledger replay", "'p1', '\\x00'".to_owned()),
        ("event_ledger messages", messages.clone()),
        ("event_ledger attempts", format!("{messages}, 1001")),
        ("event_ledger decisions", format!("{key}, 1001")),
        ("search providers", String::new()),
        ("search events", "'{p0,p1,p2,p3,p4,rare}', 'evt_77', 50".to_owned()),
        ("search events from", "'{p0,p1,p2,p3,p4,rare}', 'evt_77', 'evt_78', 50".to_owned()),
        ("search oldest body", String::new()),
        ("search object", "'in_7', 10000, '{p0,p1}', 50".to_owned()),
        ("search messages", format!("'{{{},{},1}}'", newest * 1_024, (n - 60_000) * 1_024)),
        ("search oldest", String::new()),
    ] {
        all.push((name, values, 1_100.0));
    }
    // At a million events there are a thousand blocks of search ids, and each is probed twice.
    let probes_n = f64::from(i32::try_from(n / 1_024).unwrap()) * 2.0 + 2_100.0;
    let all_of = "'{p0,p1,p2,p3,p4,rare}', 50";
    for (name, values) in [
        ("search ids", format!("100000, 2000, {all_of}, 'pi_000000077'")),
        ("search ids", format!("100000, 2000, {all_of}, 'pi_nobody'")),
        ("search ids", "100000, 2000, '{p0,rare}', 50, 'cus_000000003'".to_owned()),
        ("search ids from", format!("100000, 2000, {all_of}, 'pi_00000', 'pi_00001'")),
        ("search ids from", "100000, 2000, '{rare}', 50, 'cus_00', 'cus_01'".to_owned()),
        ("search blocks", "100001".to_owned()),
    ] {
        all.push((name, values, probes_n));
    }
    all.push(("search open keys", "5000".to_owned(), 5_100.0));
    all.push(("search finished keys", "5000".to_owned(), 5_100.0));
    // What an operation would act on: 100,001 rows at most, and no further than what is open where that is what is looked for.
    let any = "NULL, NULL, NULL, 0, '{}'";
    let whole = f64::from(i32::try_from(n).unwrap());
    let (one, some) = ((n - 90_000) * 1_024, listed(n - 90_000));
    let some_messages =
        (n - 90_000..n - 89_949).map(|n| (n * 1_024).to_string()).collect::<Vec<_>>().join(",");
    for (name, values, rows_n_max) in [
        ("stuck messages", "'dead', NULL, NULL, 0, '{}', 1, '{billing}', 100001".to_owned(), 6_000.0),
        ("stuck messages", "'held', NULL, NULL, 1, '{rare}', 1, '{billing}', 100001".to_owned(), 6_000.0),
        ("moving messages", "'ready', NULL, NULL, 0, '{}', 1, '{billing}', 100001".to_owned(), 51_000.0),
        ("waiting events", format!("NULL, NULL, 'failed', {any}, 100001"), 20_100.0),
        (
            "waiting events",
            "'rare', NULL, 'failed', NULL, NULL, NULL, 1, '{rare}', 100001".to_owned(),
            20_100.0,
        ),
        (
            "events of an object",
            "NULL, NULL, 'handled', 'in_7', NULL, NULL, 0, '{}', 100001".to_owned(),
            200.0,
        ),
        ("events with calls", format!("NULL, NULL, 'handled', {any}, 100001, '{{{some}}}'"), 120.0),
        // As many of them as there may be; of a rare provider, all of history, once.
        (
            "settled events",
            "'p1', NULL, 'handled', NULL, NULL, NULL, 0, '{}', 100001".to_owned(),
            whole * 0.6,
        ),
        ("settled events", "'rare', NULL, 'handled', NULL, NULL, NULL, 0, '{}', 100001".to_owned(), whole),
    ] {
        let name: &'static str = operation_sets().iter().find(|one| one.ends_with(name)).unwrap();
        all.push((name, values, rows_n_max));
    }
    for (name, values, rows_n_max) in [
        ("operation events with stuck calls", "'{held,dead}'".to_owned(), 6_000.0),
        ("operation events with open calls", "'{ready,waiting,leased}'".to_owned(), 51_000.0),
        ("operation rows", "'op_4999', 1, 1".to_owned(), 100_100.0),
        ("operations of a while", "4980".to_owned(), 60.0),
        ("operation figures of messages", format!("'{{{some_messages}}}', 'ready', 5"), 200.0),
        ("operation figures of events", format!("'{{{some}}}', 'handled'"), 200.0),
        ("operation samples of messages", format!("'{{{one}}}'"), 20.0),
        ("operation samples of events", format!("'{{{some}}}'"), 60.0),
    ] {
        all.push((name, values, rows_n_max));
    }
    all.push(("search effect", "10000, 'capture', 50".to_owned(), 10_100.0));
    all.push(("search queue", "10001".to_owned(), 10_100.0));
    all.push(("search rejected", "2000, 0, '{}', 'x', NULL, 1, '%x%', 50".to_owned(), 2_100.0));
    all
}

/// Names of the statements that find the set of an operation.
fn operation_sets() -> Vec<&'static str> {
    let names = read_statements().into_iter().map(|(name, _)| name);
    names.filter(|name| name.starts_with("operation set of ")).collect()
}

/// The types of a statement's values, by what the driver calls them.
fn types(sql: &str, name: &str) -> String {
    let places = (1..100).take_while(|n| sql.contains(&format!("${n}"))).count();
    let list = |n: usize| match (name, n) {
        ("operation events with stuck calls" | "operation events with open calls", 1) => "text[]",
        ("search messages" | "event_delivery", 1) | ("operation set of events with calls", 10) => "bigint[]",
        (name, 1) if name.starts_with("operation ") => "bigint[]",
        _ => "text[]",
    };
    let of = |n: usize| {
        let place = format!("${n}");
        let after = sql.split(&place).skip(1).find(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        let before = sql.match_indices(&place).find_map(|(at, _)| {
            let (before, rest) = sql.split_at_checked(at)?;
            let is_it = !rest.get(place.len()..)?.starts_with(|c: char| c.is_ascii_digit());
            is_it.then_some(before)
        });
        let before = before.unwrap_or_default();
        if before.ends_with("ANY(") {
            return list(n);
        }
        let is_text = [
            "provider = ",
            "event_id = ",
            "object = ",
            "state = ",
            "name = ",
            "LIKE ",
            "rejection_id = ",
            "operation_id = ",
        ]
        .iter()
        .any(|column| before.ends_with(column))
            || after.is_some_and(|rest| rest.starts_with(" AS TEXT"));
        let is_bytes = ["replay_key = ", "digest = "].iter().any(|column| before.ends_with(column));
        if is_text {
            "text"
        } else if is_bytes {
            "bytea"
        } else {
            "bigint"
        }
    };
    (1..=places).map(of).collect::<Vec<_>>().join(", ")
}

/// Fails when a big table is read otherwise than by a key, or in the order of one up to a bound.
fn assert_bounded(plan: &Value, rows_n_max: f64, what: &str) {
    for step in steps(plan) {
        let kind = step["Node Type"].as_str().unwrap_or_default();
        let is_big = step["Relation Name"].as_str().is_some_and(|table| BIG.contains(&table));
        assert!(kind != "Seq Scan" || !is_big || what == "search queue", "{what} reads a table: {step:#}");
        let of = |field: &str| step[field].as_f64().unwrap_or_default();
        let rows_n = (of("Actual Rows") + of("Rows Removed by Filter") + of("Rows Removed by Index Recheck"))
            * of("Actual Loops");
        assert!(rows_n <= rows_n_max, "{what} looks at {rows_n} rows: {step:#}");
    }
}

#[test]
fn no_statement_of_a_list_skips_rows_or_counts_all_of_history() {
    for (name, sql) in read_statements() {
        assert!(!sql.contains("OFFSET"), "{name}");
        let is_bounded = sql.contains("LIMIT") || sql.contains("= ANY($1)") || !sql.contains("COUNT(*)");
        assert!(is_bounded, "{name} counts all there is: {sql}");
    }
}

/// A session with all statements prepared, by their place in the list.
async fn prepared(database: &Database, options: &str) -> PgConnection {
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    run(&mut db, options).await;
    for (n, (name, sql)) in read_statements().into_iter().enumerate() {
        let types = types(sql, name);
        let types = if types.is_empty() { types } else { format!(" ({types})") };
        run(&mut db, &format!("PREPARE s{n}{types} AS {sql}")).await;
    }
    db
}

fn execute(name: &str, values: &str) -> String {
    let n = read_statements().iter().position(|one| one.0 == name).unwrap_or_else(|| panic!("{name}"));
    if values.is_empty() { format!("EXECUTE s{n}") } else { format!("EXECUTE s{n} ({values})") }
}

pub(crate) async fn filled(n: u32) -> Option<(Database, PgConnection)> {
    let database = Database::create(On::Postgres).await?;
    drop(database.store().await);
    let mut admin = PgConnection::connect(&database.url).await.unwrap();
    let began = Instant::now();
    for sql in fill(n) {
        run(&mut admin, &sql).await;
    }
    eprintln!("MEASURED: {n} events were written in {:?}", began.elapsed());
    Some((database, admin))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_a_million_events_uses_keys_and_few_rows() {
    let Some((database, mut admin)) = filled(1_000_000).await else { return };
    let asked = asked(1_000_000);
    let unasked: Vec<_> =
        read_statements().into_iter().filter(|(name, _)| !asked.iter().any(|one| one.0 == *name)).collect();
    assert!(unasked.is_empty(), "{unasked:?}");
    for (believed, before) in [("nothing", "SELECT 1"), ("what there is", "VACUUM ANALYZE")] {
        run(&mut admin, before).await;
        let mut db = prepared(&database, READER).await;
        for (name, values, rows_n_max) in &asked {
            let plan = explained(&mut db, "ANALYZE, BUFFERS, ", &execute(name, values)).await;
            let what = format!("{name} ({values}), believing {believed}");
            assert_bounded(&plan, *rows_n_max, &what);
            let of = |field: &str| plan[field].as_f64().unwrap();
            let pages_n = of("Shared Hit Blocks") + of("Shared Read Blocks");
            assert!(pages_n <= rows_n_max * 5.0 + 200.0, "{what} reads {pages_n} pages");
        }
    }
}

#[tokio::test]
async fn on_sqlite_each_walk_goes_by_its_own_index() {
    let database = Database::create(On::Sqlite).await.unwrap();
    drop(database.store().await);
    let mut db = SqliteConnection::connect(&database.url).await.unwrap();
    for (name, sql) in read_statements() {
        let wanted = match name {
            "operation set of events of an object" => "INDEX processed_webhook_events_object (object=?)",
            "operation events with stuck calls" => "INDEX outbox_queue_decide",
            "operation set of settled events" => "SCAN e",
            "operation figures of messages" => "SEARCH q USING INTEGER PRIMARY KEY (rowid=?)",
            "operation set of events with calls"
            | "operation figures of events"
            | "operation samples of events" => "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
            "operation rows" => "SEARCH r USING PRIMARY KEY (operation_id=?)",
            "operations of a while" => "INDEX operations_finished (finished_at_ms>?)",
            "event_page" | "event_page since" | "event_page_end" | "event_page_end since" => {
                "USING INTEGER PRIMARY KEY (rowid>?"
            }
            "operation set of waiting events" => "INDEX processed_webhook_events_open (state=?)",
            _ if name.contains("of a state") => {
                "INDEX processed_webhook_events_open (state=? AND event_seq>?"
            }
            _ if name.contains("of an object") => {
                "INDEX processed_webhook_events_object (object=? AND event_seq>?"
            }
            "event_page of stuck calls" | "event_page_end of stuck calls" => {
                "INDEX outbox_queue_decide (message_id>?"
            }
            "event_page of open calls" | "event_page_end of open calls" => {
                "outbox_queue USING INTEGER PRIMARY KEY (rowid>?"
            }
            "causes of events" => "INDEX processed_webhook_events_open (state=?)",
            "causes of messages" => "INDEX outbox_queue_decide",
            "event_delivery" => "SEARCH m USING INTEGER PRIMARY KEY (rowid>?",
            "search object" => "INDEX processed_webhook_events_object (object=?",
            "search ids" => "USING PRIMARY KEY (block=? AND search_key=?)",
            "search ids from" => "USING PRIMARY KEY (block=? AND search_key>? AND search_key<?)",
            "search events from" => "(provider=? AND event_id>? AND event_id<?)",
            "event_ledger event" | "search events" => "(provider=? AND event_id=?)",
            _ => continue,
        };
        let words = hooklatch_store::statement_for_sqlite(sql);
        let rows = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {words}"))).fetch_all(&mut db).await;
        let rows = rows.unwrap_or_else(|why| panic!("{name}: {why}: {words}"));
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(wanted), "{name}: {plan}");
        let is_sorted = name.starts_with("search ids")
            || name.starts_with("causes")
            || name.starts_with("operation")
            || name.starts_with("event_page of") && name.ends_with(" calls");
        assert!(is_sorted || !plan.contains("TEMP B-TREE FOR ORDER BY"), "{name} sorts: {plan}");
    }
}

/// `scripts/postgres -- cargo nextest run --run-ignored only five_million --no-capture`: the table in
/// docs/benchmarks.md. About three minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, and measures times instead of right and wrong"]
async fn reading_five_million_events_takes_milliseconds() {
    let Some((database, mut admin)) = filled(5_000_000).await else { return };
    run(&mut admin, "VACUUM ANALYZE").await;
    let mut db = prepared(&database, READER).await;
    let mut table = String::new();
    for (name, values, _) in asked(5_000_000) {
        let mut all = Vec::new();
        for _ in 0..11 {
            let sql = format!("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {}", execute(name, &values));
            let found: Value = serde_json::from_str(&text(&mut db, &sql).await).unwrap();
            let of = |field: &str| found[0][field].as_f64().unwrap();
            all.push(of("Planning Time") + of("Execution Time"));
        }
        let first = all[0];
        all.sort_by(f64::total_cmp);
        let line = format!("| {name} | {values} | {first:.1} | {:.1} | {:.1} |\n", all[5], all[10]);
        table += &line;
    }
    eprintln!("| statement | values | first | median | worst |\n|---|---|---|---|---|\n{table}");
}
