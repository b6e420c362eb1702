//! Nodes of different versions on one schema, and nodes that wait for each other's migration.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use super::refused;
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe, until};

on_both!(
    the_old_binary_starts_on_a_newer_schema_that_only_expands,
    the_old_binary_is_refused_by_a_newer_schema_that_is_not_for_it,
    a_schema_from_before_the_floor_and_newer_is_refused,
);

async fn run(database: &Database, sql: &str) {
    let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    if database.url.starts_with("postgres") {
        PgConnection::connect(&database.url).await.unwrap().execute(sql).await.unwrap();
    } else {
        SqliteConnection::connect(&database.url).await.unwrap().execute(sql).await.unwrap();
    }
}

/// The result of `hooklatch migrate`.
fn migrated(database: &Database) -> (bool, String) {
    let server = Server::prepare(&database.url, "");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    let output = command.arg("--config").arg(server.config()).arg("migrate").output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.success(), said)
}

/// What a newer binary's migration 99 leaves behind.
async fn newer_migration(database: &Database, and: &str) {
    drop(database.store().await);
    let sql = format!(
        "INSERT INTO hooklatch_migrations (version, name, applied_at_ms) VALUES (99, 'later', 0); CREATE TABLE later (one INTEGER); {and}"
    );
    run(database, &sql).await;
}

async fn the_old_binary_starts_on_a_newer_schema_that_only_expands(database: &Database) {
    newer_migration(database, "ALTER TABLE secret_uses ADD COLUMN later INTEGER NULL").await;
    let (is_done, said) = migrated(database);
    assert!(is_done && said.contains("nothing to apply") && said.contains("version 99"), "{said}");
    let server = Server::start(&database.url, "").await;
    let taken = post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await;
    assert_eq!(taken, Ok("accepted".to_owned()));
}

async fn the_old_binary_is_refused_by_a_newer_schema_that_is_not_for_it(database: &Database) {
    newer_migration(database, "UPDATE schema_floor SET version = 98").await;
    let said = refused(&database.url, "");
    assert!(said.contains("binaries from version 98 on") && said.contains("or a later one"), "{said}");
    let (is_done, said) = migrated(database);
    assert!(!is_done && said.contains("binaries from version 98 on"), "{said}");
}

async fn a_schema_from_before_the_floor_and_newer_is_refused(database: &Database) {
    newer_migration(database, "DROP TABLE schema_floor").await;
    let said = refused(&database.url, "");
    assert!(said.contains("binaries from version 99 on"), "{said}");
}

/// The lock of a node that migrates, as `crates/store/src/db/migrations.rs` takes it.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7525356009529898083)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_while_another_one_migrates_waits() {
    let Some(database) = Database::empty(On::Postgres).await else { return };
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    tx.execute(LOCK).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    std::fs::write(
        server.config(),
        std::fs::read_to_string(server.config()).unwrap().replace("\"warn\"", "\"info\""),
    )
    .unwrap();
    let path = server.config().with_file_name("log");
    let log = move || std::fs::read_to_string(&path).unwrap_or_default();
    let waits = async || {
        // Longer than any lock_timeout of Hooklatch, and twice.
        until("it waits", Duration::from_secs(20), &log, async || log().matches("waiting").count() >= 2)
            .await;
        tx.rollback().await.unwrap();
    };
    tokio::join!(server.spawn(), waits());
    assert_eq!(database.count("SELECT MAX(version) FROM hooklatch_migrations").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_start_at_once_on_an_empty_database_both_become_ready() {
    let Some(database) = Database::empty(On::Postgres).await else { return };
    let mut one = Server::prepare(&database.url, "");
    let mut other = Server::prepare(&database.url, "");
    tokio::join!(one.spawn(), other.spawn());
    for (server, id) in [(&one, "evt_1"), (&other, "evt_2")] {
        let taken = post_stripe(&client(), &server.url("/webhooks/stripe"), id).await;
        assert_eq!(taken, Ok("accepted".to_owned()));
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM installation").await, 1);
}
