//! Opening, refusing, migrating, recovering.

use hooklatch_core::types::IncomingEvent;
use hooklatch_store::{SchemaState, Store, StoreError, StoreSettings};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use super::{admit, event};
use crate::database::{Database, On, on_both};

on_both!(
    nodes_may_migrate_at_once,
    a_newer_schema_is_reported_as_ahead,
    a_database_of_an_earlier_layout_is_refused_with_the_remedy_and_left_as_it_is,
    a_foreign_migrations_table_does_not_interfere,
    committed_events_exist_after_a_restart,
);

async fn open(database: &Database) -> Result<Store, StoreError> {
    Store::open(&StoreSettings { url: database.url.clone(), connections_n: 8 }).await
}

async fn run(database: &Database, sql: String) {
    if database.url.starts_with("postgres") {
        let mut db = PgConnection::connect(&database.url).await.unwrap();
        db.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
    } else {
        let mut db = SqliteConnection::connect(&database.url).await.unwrap();
        db.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
    }
}

async fn nodes_may_migrate_at_once(database: &Database) {
    let database = &Database::empty(database.on()).await.unwrap();
    let store = open(database).await.unwrap();
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        nodes.spawn(async move { store.migrate().await });
    }
    while let Some(migrated) = nodes.join_next().await {
        migrated.unwrap().unwrap();
    }
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Current);
    assert_eq!(database.count("SELECT COUNT(*) FROM installation").await, 1);
}

async fn a_newer_schema_is_reported_as_ahead(database: &Database) {
    let store = database.store().await;
    let sql = "INSERT INTO hooklatch_migrations (version, name, applied_at_ms) VALUES (99, 'later', 0)";
    run(database, sql.to_owned()).await;
    assert_eq!(store.migrate().await.unwrap(), Vec::<i64>::new(), "the old binary runs beside the new one");
    let state = store.schema_state().await.unwrap();
    assert!(matches!(state, SchemaState::Expanded { found: 99, .. }) && state.is_usable(), "{state}");
    run(database, "UPDATE schema_floor SET version = 98".to_owned()).await;
    let state = store.schema_state().await.unwrap();
    assert!(
        matches!(state, SchemaState::Ahead { found: 99, floor: 98, .. }) && !state.is_usable(),
        "{state}"
    );
}

async fn a_database_of_an_earlier_layout_is_refused_with_the_remedy_and_left_as_it_is(database: &Database) {
    let database = &Database::empty(database.on()).await.unwrap();
    let store = open(database).await.unwrap();
    let sql =
        "CREATE TABLE _sqlx_migrations (version BIGINT); CREATE TABLE processed_webhook_events (n BIGINT)";
    run(database, sql.to_owned()).await;
    for refused in [store.migrate().await.map(drop), store.schema_state().await.map(drop)] {
        let why = refused.unwrap_err();
        assert!(matches!(why, StoreError::Refused(_)), "{why:?}");
        let why = why.to_string();
        assert!(why.contains("earlier Hooklatch") && why.contains("database.url"), "{why}");
    }
    let tables = if database.url.starts_with("postgres") {
        "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'"
    } else {
        "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table'"
    };
    assert_eq!(database.count(tables).await, 2);
}

async fn a_foreign_migrations_table_does_not_interfere(database: &Database) {
    let database = &Database::empty(database.on()).await.unwrap();
    let store = open(database).await.unwrap();
    let sql = "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, dirty BOOLEAN NOT NULL);
               INSERT INTO schema_migrations VALUES (1, false)";
    run(database, sql.to_owned()).await;
    store.migrate().await.unwrap();
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Current);
    assert_eq!(database.count("SELECT COUNT(*) FROM installation").await, 1);
}

async fn committed_events_exist_after_a_restart(database: &Database) {
    let store = database.store().await;
    admit(&store, &event("evt_1", "a"), &[]).await;
    let other = store.clone();
    store.close().await;
    let gone = other.probe().await;
    assert!(matches!(gone, Err(StoreError::Unavailable { op: "probe", .. })), "{gone:?}");
    drop((store, other));
    let store = open(database).await.unwrap();
    assert_eq!(super::all_events(&store).await.len(), 1);
}

/// Also where the role may not read who the server is: the row is a table's of ours.
#[tokio::test]
async fn a_postgres_without_its_row_of_the_installation_is_not_ready() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let store = database.store().await;
    store.probe().await.unwrap();
    run(&database, "DELETE FROM installation".to_owned()).await;
    assert!(store.probe().await.is_err());
}

#[tokio::test]
async fn a_second_process_is_refused_a_link_to_the_same_file() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let _first = database.store().await;
    let path = database.url.strip_prefix("sqlite://").unwrap();
    let link = format!("{path}-link");
    std::os::unix::fs::symlink(path, &link).unwrap();
    let second = Store::open(&StoreSettings { url: format!("sqlite://{link}"), connections_n: 1 }).await;
    assert!(matches!(&second, Err(StoreError::Refused(why)) if why.contains("another process")));
}

#[tokio::test]
async fn folder_of_the_file_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("a/b/hooklatch.db").display());
    let store = Store::open(&StoreSettings { url, connections_n: 1 }).await.unwrap();
    store.migrate().await.unwrap();
    store.close().await;
    assert!(folder.path().join("a/b/hooklatch.db").is_file());
}

#[tokio::test]
async fn a_server_that_may_lose_commits_is_refused() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let name = database.url.rsplit_once('/').unwrap().1;
    run(&database, format!("ALTER DATABASE {name} SET synchronous_commit = off")).await;
    let opened = open(&database).await;
    assert!(matches!(opened, Err(StoreError::Refused(why)) if why.contains("synchronous_commit")));
}

/// Size of the write-ahead log.
fn log_bytes(database: &Database) -> u64 {
    let path = database.url.strip_prefix("sqlite://").unwrap();
    std::fs::metadata(format!("{path}-wal")).unwrap().len()
}

#[tokio::test]
async fn a_log_that_a_long_reader_let_grow_is_cut_when_it_is_gone() {
    const LIMIT_BYTES: u64 = 256 << 20;
    let database = Database::create(On::Sqlite).await.unwrap();
    let store = database.store().await;
    let write = async |n: usize, bytes_n: usize| {
        let large = IncomingEvent { body: vec![b'x'; bytes_n].into(), ..event(&format!("evt_{n}"), "{}") };
        admit(&store, &large, &[]).await;
    };
    write(0, 1).await;
    let mut reader = SqliteConnection::connect(&database.url).await.unwrap();
    reader.execute("BEGIN; SELECT COUNT(*) FROM processed_webhook_events").await.unwrap();
    let mut n = 0;
    while log_bytes(&database) <= LIMIT_BYTES {
        n += 1;
        write(n, 16 << 20).await;
        assert!(n < 100, "nothing but the reader keeps it");
    }
    assert_eq!(
        database.count("SELECT COUNT(*) FROM processed_webhook_events").await,
        i64::try_from(n).unwrap() + 1
    );
    reader.execute("COMMIT").await.unwrap();
    // One of these finds the log whole in the file and begins it anew.
    for more in 1..4 {
        write(n + more, 1).await;
    }
    let left = log_bytes(&database);
    assert!(left <= LIMIT_BYTES, "{left} bytes");
    store.close().await;
}
