//! A later version migrates a large table while this one admits events: expand, fill, index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hooklatch_store::{FurtherStep, Store};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use crate::database::{Database, on_both};
use crate::store::{admit, event, message};

on_both!(a_column_and_an_index_come_under_load,);

/// What it takes on each database, as a later version would have it. What has to be filled has an index of its own as
/// long as it is filled: else each part would look through all that is filled already.
pub(crate) const STEPS: [FurtherStep; 4] = [
    FurtherStep {
        version: 2,
        sqlite: "ALTER TABLE outbox_finished ADD COLUMN tenant TEXT",
        postgres: "ALTER TABLE outbox_finished ADD COLUMN tenant TEXT",
        is_outside: false,
        filling: None,
    },
    FurtherStep {
        version: 3,
        sqlite: "CREATE INDEX outbox_finished_unfilled ON outbox_finished (message_id) WHERE tenant IS NULL;\n",
        postgres: "DROP INDEX CONCURRENTLY IF EXISTS outbox_finished_unfilled;
CREATE INDEX CONCURRENTLY outbox_finished_unfilled ON outbox_finished (message_id) WHERE tenant IS NULL;
",
        is_outside: true,
        filling: None,
    },
    FurtherStep {
        version: 4,
        sqlite: "SELECT 1",
        postgres: "SELECT 1",
        is_outside: false,
        filling: Some(
            "UPDATE outbox_finished SET tenant = 'first' WHERE message_id IN (
                 SELECT message_id FROM outbox_finished WHERE tenant IS NULL ORDER BY message_id LIMIT $1)",
        ),
    },
    FurtherStep {
        version: 5,
        sqlite: "DROP INDEX outbox_finished_unfilled;
CREATE INDEX outbox_finished_tenant ON outbox_finished (tenant, message_id);
",
        postgres: "DROP INDEX CONCURRENTLY IF EXISTS outbox_finished_unfilled;
DROP INDEX CONCURRENTLY IF EXISTS outbox_finished_tenant;
CREATE INDEX CONCURRENTLY outbox_finished_tenant ON outbox_finished (tenant, message_id);
",
        is_outside: true,
        filling: None,
    },
];

async fn fill(database: &Database, rows_n: i64) {
    let sql = format!(
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows_n})
         INSERT INTO outbox_finished (message_id, created_at_ms, finished_at_ms, attempts_n, generation, shard, state,
             destination, node, last_result)
         SELECT n, 1000, 2000, 1, 0, 0, 'done', 'billing', 'node-1', 'done' FROM c"
    );
    if database.url.starts_with("sqlite") {
        SqliteConnection::connect(&database.url).await.unwrap().execute(AssertSqlSafe(sql)).await.unwrap();
    } else {
        PgConnection::connect(&database.url).await.unwrap().execute(AssertSqlSafe(sql)).await.unwrap();
    }
}

/// Admits events until `is_over`; returns how many, and the slowest admission.
async fn traffic(store: Store, is_over: Arc<AtomicBool>) -> (u32, Duration) {
    let (mut admitted_n, mut slowest) = (0, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let id = format!("evt_{admitted_n}");
        let started = Instant::now();
        admit(&store, &event(&id, &id), &[message("billing")]).await;
        slowest = slowest.max(started.elapsed());
        admitted_n += 1;
    }
    (admitted_n, slowest)
}

/// How long the database takes to build an index on an unused copy of the table.
async fn plain_index(database: &Database) -> Duration {
    database.run("CREATE TABLE finished_copy AS SELECT * FROM outbox_finished").await.unwrap();
    let started = Instant::now();
    database
        .run("CREATE INDEX finished_copy_index ON finished_copy (destination, message_id)")
        .await
        .unwrap();
    let took = started.elapsed();
    database.run("DROP TABLE finished_copy").await.unwrap();
    took
}

async fn a_column_and_an_index_come_under_load(database: &Database) {
    let rows_n = if crate::needs::is_nightly() { 1_000_000 } else { 100_000 };
    let store = database.store().await;
    fill(database, rows_n).await;
    // On SQLite an index holds the only writer for as long as it takes.
    let slowest_max = Duration::from_secs(2) + plain_index(database).await;
    for (n, step) in STEPS.iter().enumerate() {
        let is_over = Arc::new(AtomicBool::new(false));
        let admitting = tokio::spawn(traffic(store.clone(), Arc::clone(&is_over)));
        let started = Instant::now();
        assert_eq!(store.migrate_further(&STEPS[..=n]).await.unwrap(), [step.version]);
        let took = started.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let (admitted_n, slowest) = admitting.await.unwrap();
        eprintln!(
            "MEASURED on {} with {rows_n} rows: step {} took {took:?}; {admitted_n} admitted, the slowest in {slowest:?}",
            store.dialect(),
            step.version
        );
        assert!(slowest < slowest_max, "step {}: {slowest:?} of {slowest_max:?}", step.version);
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_finished WHERE tenant IS NULL").await, 0);
    assert_eq!(
        store.schema_state().await.unwrap().to_string(),
        "at version 5, newer than 1 and still fit for it"
    );
}
