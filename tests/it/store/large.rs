//! Large tables: lists and pruning use keys at any size, and freed space is reused.

use std::time::{Duration, Instant};

use hooklatch_contract::MessageFilter;
use hooklatch_core::types::MessageState;
use hooklatch_store::{Cuts, PRUNED_N_MAX, PrunePlace, PruneWalk, PrunedKind};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use super::retention::{counts, cuts, lease, round, run};
use crate::database::{Database, on_both};

on_both!(freed_space_is_reused_or_returned, lists_and_pruning_use_keys_at_any_size,);

/// `n` events from `first` on, done, without their bytes.
pub(super) async fn fill_events(database: &Database, first: i64, n: i64) {
    let digest =
        if database.url.starts_with("sqlite") { "zeroblob(32)" } else { "decode(repeat('00', 32), 'hex')" };
    let numbers = numbers(first, n);
    let event = format!(
        "{numbers} INSERT INTO processed_webhook_events
             (provider, event_id, event_seq, received_at_ms, attempts_n, shard, event_type, digest, identity, state)
         SELECT 'stripe', 'f_' || n, n, 1000, 1, 0, 'x', {digest}, 'sender/1', 'handled' FROM c"
    );
    run(database, &event).await;
}

fn numbers(first: i64, n: i64) -> String {
    format!(
        "WITH RECURSIVE c (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c WHERE n < {})",
        first + n - 1
    )
}

/// The same with 2 KB each.
async fn fill(database: &Database, first: i64, n: i64) {
    fill_events(database, first, n).await;
    let body = if database.url.starts_with("sqlite") {
        "randomblob(2000)"
    } else {
        // What does not compress.
        "(SELECT decode(string_agg(md5((c.n * 100 + k)::text), ''), 'hex') FROM generate_series(1, 125) k)"
    };
    let numbers = numbers(first, n);
    let payload = format!(
        "{numbers} INSERT INTO webhook_payloads (event_seq, shard, headers, body) SELECT n, 0, '{{}}', {body} FROM c"
    );
    run(database, &payload).await;
}

async fn freed_space_is_reused_or_returned(database: &Database) {
    let store = database.store().await;
    let is_sqlite = database.url.starts_with("sqlite");
    let size = async || {
        if is_sqlite {
            run(database, "PRAGMA wal_checkpoint(TRUNCATE)").await;
            let path = database.url.strip_prefix("sqlite://").unwrap();
            return i64::try_from(std::fs::metadata(path).unwrap().len()).unwrap();
        }
        run(database, "VACUUM webhook_payloads; ").await;
        database.count("SELECT pg_total_relation_size('webhook_payloads')").await
    };
    let n = 10_000;
    fill(database, 1_000_000, n).await;
    let full = size().await;
    let only_bodies = Cuts { ids_ms: 500, ..cuts(50_000) };
    round(&store, &only_bodies, PRUNED_N_MAX, false).await;
    assert_eq!(counts(database).await, [n, 0, 0, 0]);
    while store.prune_reclaim().await.unwrap() {}
    let empty = size().await;
    eprintln!("MEASURED on {}: {full} bytes with bodies, {empty} without", database.url);
    // Of a file, the ids and their indexes are left.
    assert!(empty < full / 3, "{full} bytes before, {empty} after");
    // What is freed is used again.
    for part in 1..4 {
        fill(database, 1_000_000 + part * n, n).await;
        round(&store, &only_bodies, PRUNED_N_MAX, false).await;
        if !is_sqlite {
            run(database, "VACUUM webhook_payloads; ").await;
        }
    }
    fill(database, 2_000_000, n).await;
    let again = size().await;
    eprintln!("MEASURED on {}: {again} bytes with as many bodies again", database.url);
    assert!(again < full + full / 2, "{full} bytes at first, {again} later");
}

/// `n` messages to `billing` in this table, `step` apart.
async fn messages(database: &Database, table: &str, first: i64, n: i64, step: i64) {
    let numbers = format!(
        "WITH RECURSIVE c (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < {}) INSERT INTO {table}",
        n - 1
    );
    let rest = match table {
        "outbox_queue" => {
            "(message_id, visible_at_ms, created_at_ms, shard, state, destination) SELECT ID, 1000, 1000, 0, 'ready', 'billing'"
        }
        _ => {
            "(message_id, created_at_ms, finished_at_ms, attempts_n, generation, shard, state, destination)
             SELECT ID, 1000, 2000, 1, 0, 0, 'done', 'billing'"
        }
    };
    run(database, &format!("{numbers} {} FROM c", rest.replace("ID", &format!("{first} + n * {step}"))))
        .await;
}

/// The plan of the newest 50 messages of history that are done.
async fn plan(database: &Database) -> String {
    let is_sqlite = database.url.starts_with("sqlite");
    let none = if is_sqlite { "'[]'" } else { "'{}'" };
    let values = ["'done'", "NULL", "NULL", "0", none, "0", none, "9223372036854775807", "0", "50"];
    let all = hooklatch_store::operator_statements();
    let (_, sql) = all.iter().find(|(name, _)| *name == "messages of history").unwrap();
    let sql = if is_sqlite { hooklatch_store::statement_for_sqlite(sql) } else { (*sql).to_owned() };
    let sql = values
        .iter()
        .enumerate()
        .rev()
        .fold(sql, |sql, (before_n, value)| sql.replace(&format!("${}", before_n + 1), value));
    let rows: Vec<String> = if is_sqlite {
        let mut db = SqliteConnection::connect(&database.url).await.unwrap();
        let sql = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        sqlx::query(sql).fetch_all(&mut db).await.unwrap().iter().map(|row| row.get("detail")).collect()
    } else {
        let mut db = PgConnection::connect(&database.url).await.unwrap();
        let sql = AssertSqlSafe(format!("EXPLAIN (COSTS OFF) {sql}"));
        sqlx::query(sql).fetch_all(&mut db).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    rows.join("\n")
}

async fn lists_and_pruning_use_keys_at_any_size(database: &Database) {
    let store = database.store().await;
    let (first, n) = (1_000_000, 5_000);
    fill(database, first, n).await;
    // Forty finished messages of each event, and as many open ones of others.
    for place in 0..40 {
        messages(database, "outbox_finished", first * 1_024 + place, n, 1_024).await;
    }
    messages(database, "outbox_queue", 1, 200_000, 1_024).await;
    run(database, "ANALYZE").await;
    let plan = plan(database).await;
    let is_by_key = plan.contains("Index Scan Backward using outbox_finished_pkey")
        || plan.contains("SEARCH q USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)");
    assert!(is_by_key && !plan.contains("Seq Scan on outbox") && !plan.contains("SCAN q"), "{plan}");
    let done = MessageFilter { state: Some(MessageState::Done), ..MessageFilter::default() };
    let listed = store.message_list(done, None, 50).await.unwrap();
    assert_eq!((listed.len(), listed[0].message_id.place()), (50, 39));

    let only_bodies = Cuts { ids_ms: 500, messages_ms: 500, ..cuts(50_000) };
    let mut from = PrunePlace::default();
    let (mut fastest, mut slowest) = (Duration::MAX, Duration::ZERO);
    loop {
        let found = store
            .prune_look(PruneWalk::of(PrunedKind::Bodies), &only_bodies, &from, PRUNED_N_MAX)
            .await
            .unwrap();
        if found.is_empty() {
            break;
        }
        let started = Instant::now();
        let gone_n = store.prune_delete(PrunedKind::Bodies, &found, &lease("n")).await.unwrap();
        let took = started.elapsed();
        (fastest, slowest) = (fastest.min(took), slowest.max(took));
        assert_eq!(gone_n, Some(u64::from(PRUNED_N_MAX)));
        let Some(next) = found.next else { break };
        from = next;
    }
    eprintln!("MEASURED on {}: a thousand bodies went in {slowest:?} at most", store.dialect());
    // One that walked the tables would do so each time; the machine may be slow once.
    assert!(fastest < Duration::from_secs(2), "by their keys it takes no time: {fastest:?}");
}
