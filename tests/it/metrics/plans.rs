//! No count of `/metrics` goes through a table that grows: on SQLite here, on PostgreSQL with a million rows in
//! `look/plans.rs`.

use hooklatch_store::{meter_statements, operator_statements, statement_for_sqlite};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

use crate::database::{Database, On};

/// SQLite's expected query plans, of statements by their names.
const WANTED: [(&str, &str); 11] = [
    ("due messages", "SEARCH q USING INDEX outbox_queue_due (destination=?"),
    ("stuck messages", "SEARCH q USING COVERING INDEX outbox_queue_stuck (destination=? AND state"),
    ("blocked lanes", "INDEX outbox_queue_blocked (destination=?"),
    ("key of the open ones", "INDEX outbox_queue_key (destination=?"),
    ("open providers", "COVERING INDEX processed_webhook_events_waiting"),
    ("open events", "SEARCH e USING COVERING INDEX processed_webhook_events_waiting (provider=? AND state"),
    ("rhythms", "provider_rhythms"),
    ("rhythm of one", "SEARCH provider_rhythms USING INDEX"),
    ("destinations of what is due", "INDEX outbox_queue_due"),
    ("destinations of what is stuck", "INDEX outbox_queue_stuck"),
    ("look", "INDEX processed_webhook_events_due (provider=?)"),
];

#[tokio::test]
async fn on_sqlite_each_count_goes_by_its_own_index_with_and_without_statistics() {
    let database = Database::create(On::Sqlite).await.unwrap();
    drop(database.store().await);
    let of_people =
        operator_statements().into_iter().filter(|(name, _)| name.starts_with("destinations of what"));
    let statements: Vec<_> = meter_statements().into_iter().chain(of_people).collect();
    assert_eq!(statements.len(), WANTED.len(), "each statement has a line above");
    let mut db = SqliteConnection::connect(&database.url).await.unwrap();
    for before in ["SELECT 1", "ANALYZE"] {
        sqlx::raw_sql(AssertSqlSafe(before.to_owned())).execute(&mut db).await.unwrap();
        for (name, sql) in &statements {
            let (_, wanted) = WANTED.iter().find(|(known, _)| known == name).unwrap();
            let sql = format!("EXPLAIN QUERY PLAN {}", statement_for_sqlite(sql));
            let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut db).await.unwrap();
            let steps: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
            assert!(steps.iter().any(|step| step.contains(wanted)), "{name} after {before}: {steps:#?}");
            // Of the tables that grow, `e` and `f` are events, `q` and `f` messages.
            let is_whole = |step: &&String| {
                let alias = step.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
                matches!(alias, Some("e" | "f" | "q")) && !step.contains("INDEX")
            };
            assert!(!steps.iter().any(|step| is_whole(&step)), "{name} after {before}: {steps:#?}");
            let sorts_n = steps.iter().filter(|step| step.contains("B-TREE FOR ORDER BY")).count();
            assert!(sorts_n <= 1, "{name} sorts more than what it counted: {steps:#?}");
        }
    }
}
