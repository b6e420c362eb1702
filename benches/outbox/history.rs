//! What a message costs when many went before it: a ratio to the cost with little history.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use super::{Bench, CONCURRENCY_N, MESSAGES_N, config, fill};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use hooklatch::types::Name;

/// Rows of history, few to many.
const HISTORIES: [u64; 3] = [10_000, 1_000_000, 5_000_000];

/// Prints the cost of a message after each history, relative to the first.
#[expect(clippy::print_stdout, reason = "a bench")]
pub(super) async fn measure(url: &str, calls_n: &AtomicUsize, server: Option<&str>) {
    let name = if server.is_some() { "PostgreSQL" } else { "SQLite" };
    let mut first = None;
    for rows_n in HISTORIES {
        let bench = Bench::new(server).await;
        write_history(&bench, rows_n).await;
        let mut rates = Vec::new();
        for round in 0..3 {
            fill(&bench.store, &["far"], MESSAGES_N, round).await;
            let to = BTreeMap::from([(Name::parse("far").unwrap(), config(url, CONCURRENCY_N))]);
            rates.push(bench.drain(to, calls_n, MESSAGES_N).await);
        }
        bench.close().await;
        rates.sort_by(f64::total_cmp);
        let cost = 1.0 / rates[1];
        let first = *first.get_or_insert(cost);
        println!(
            "{name}: {rows_n} rows of history, {:.0}/s, cost {:.2} of the first",
            rates[1],
            cost / first
        );
    }
}

/// Messages that are done, with their events, payloads and attempts, as they would stand there.
async fn write_history(bench: &Bench, rows_n: u64) {
    let (series, blob) = match &bench.database {
        Some(_) => (format!("generate_series(1, {rows_n}) AS n(n)"), "decode(repeat('00', 32), 'hex')"),
        None => (
            format!(
                "(WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows_n}) SELECT n FROM n)"
            ),
            "zeroblob(32)",
        ),
    };
    let body = if bench.database.is_some() {
        "convert_to('{\"id\":1}', 'UTF8')"
    } else {
        "CAST('{\"id\":1}' AS BLOB)"
    };
    let statements = [
        format!(
            "INSERT INTO processed_webhook_events (shard, provider, event_id, event_type, digest, state, attempts_n,
                 received_at_ms, processed_at_ms)
             SELECT 1, 'stripe', 'old_' || n, 'invoice.paid', {blob}, 'done', 1, 1, 1 FROM {series}"
        ),
        format!(
            "INSERT INTO webhook_payloads (shard, provider, event_id, received_at_ms, headers, body)
             SELECT 1, 'stripe', 'old_' || n, 1, '{{}}', {body} FROM {series}"
        ),
        format!(
            "INSERT INTO outbox_messages (message_id, shard, provider, event_id, event_type, generation, effect_name,
                 idempotency_key, destination, method, path, headers, state, attempts_n, visible_at_ms, last_result,
                 first_sent_at_ms, key_valid_until_ms, created_at_ms, settled_at_ms)
             SELECT 'old-' || n, 1, 'stripe', 'old_' || n, 'invoice.paid', 0, 'far', 'key-old-' || n, 'far', 'POST', '',
                 '{{}}', 'done', 1, 1, 'done', 1, 1, 1, 1 FROM {series}"
        ),
        format!(
            "INSERT INTO outbox_attempts (message_id, attempt_n, shard, node, started_at_ms)
             SELECT 'old-' || n, 1, 1, 'node', 1 FROM {series}"
        ),
    ];
    let is_postgres = bench.database.is_some();
    for sql in statements {
        if is_postgres {
            let mut db = PgConnection::connect(&bench.url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
        } else {
            let mut db = SqliteConnection::connect(&bench.url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
        }
    }
    if is_postgres {
        // What autovacuum would have done by then.
        let mut db = PgConnection::connect(&bench.url).await.unwrap();
        sqlx::raw_sql("VACUUM ANALYZE").execute(&mut db).await.unwrap();
    }
}
