//! SQLite: one writer, several readers, WAL, every commit flushed. The twin of `postgres/`: same functions,
//! same order.

mod admission;
mod apart;
mod event;
mod evidence;
mod lane;
mod message;
mod operator;
mod private;

use std::fs::File;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, SqlSafeStr};

pub(super) use admission::{
    event_take_due, events_holders, events_insert, events_update, lock_wait_set, messages_insert,
    paused_names, versions_raise,
};
pub(super) use apart::{
    conflict_count, conflicts_unkept, event_content, events_with, replay_keys_taken, signals_number,
};
pub(super) use event::{event_counts_open, event_get, event_list, event_retry_later, unreadable_bytes};
pub(super) use evidence::{
    rejection_list, rejections_insert, rejections_prune, secret_use_add, secret_use_list, taught_keep,
    taught_take,
};
pub(super) use lane::{lanes_advance, lanes_extend, lanes_lock};
pub(super) use message::{
    message_counts, message_extend, message_is_any_due, message_latest_ms, message_lease,
    message_list_of_event, message_release, message_settle,
};
pub(super) use operator::{
    attempt_list, audit_list, destination_pause, event_act, event_state, idempotency_answer,
    idempotency_prune, idempotency_take, message_count, message_get, message_ids, message_list,
    message_state, messages_act, pause_list,
};

use super::pool::{Abandoned, Pool, Trust};
use super::{StoreError, migrations};
use crate::types::UnixMs;

/// The oldest library without the WAL-reset corruption (sqlite.org/wal.html#walresetbug).
const VERSION_MIN: (u32, u32, u32) = (3, 51, 3);
/// Connections for what people look at.
const PEOPLE_N: u32 = 2;
/// How long a statement waits for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// After how many steps of a statement it is asked whether somebody still waits for it: some tens of microseconds.
const STEPS_N: i32 = 5_000;
/// File systems whose locks cannot be trusted.
const NETWORK_FILE_SYSTEMS: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"];

/// The database file, opened.
#[derive(Clone)]
pub(super) struct Sqlite {
    /// The only connection that writes.
    writer: Pool<sqlx::Sqlite>,
    /// Read only.
    reader: Pool<sqlx::Sqlite>,
    /// Read only, for what people look at: their questions may be long, and nothing else waits behind them.
    people: Pool<sqlx::Sqlite>,
    /// Held for the life of the process, so that no second one opens the file.
    _lock: Arc<File>,
}

impl Sqlite {
    pub(super) fn reader(&self) -> &Pool<sqlx::Sqlite> {
        &self.reader
    }

    pub(super) fn writer(&self) -> &Pool<sqlx::Sqlite> {
        &self.writer
    }

    pub(super) fn people(&self) -> &Pool<sqlx::Sqlite> {
        &self.people
    }
}

/// Opens, or makes, the file. Refuses what could lose a confirmed commit.
pub(super) async fn open(url: &str, connections_n: u32) -> Result<Sqlite, StoreError> {
    let options = SqliteConnectOptions::from_str(url)
        .map_err(|error| StoreError::Refused(format!("database url is not an SQLite url: {error}")))?;
    let path = options.get_filename().to_owned();
    if url.contains(":memory:") || url.contains("mode=memory") {
        return Err(StoreError::Refused(
            "database is in memory and would lose everything: name a file".to_owned(),
        ));
    }
    let lock = lock_file(&path)?;
    private::keep(&path);
    let options = options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .page_size(16_384)
        .statement_cache_capacity(512)
        // Checkpoints move pages in the committing connection: fewer, larger ones cost less.
        .pragma("wal_autocheckpoint", "4000")
        .pragma("journal_size_limit", "268435456")
        .pragma("cache_size", "-65536");
    let unavailable = |source| StoreError::from_sqlx("open", source);
    let trust = Arc::new(Trust::default());
    let pool = |connections_n: u32, options: SqliteConnectOptions| {
        let connect = move |abandoned: Abandoned| {
            let options = options.clone();
            Box::pin(async move {
                let mut connection = options.connect().await?;
                // A statement that nobody waits for any more would keep the writer's lock for as long as it likes.
                connection.lock_handle().await?.set_progress_handler(STEPS_N, move || !abandoned.is_so());
                Ok(connection)
            }) as _
        };
        Pool::new(connections_n, Arc::clone(&trust), Box::new(connect))
    };
    let reading = options.clone().read_only(true).pragma("query_only", "ON");
    let reader = pool(connections_n.saturating_sub(PEOPLE_N).clamp(1, 16), reading.clone());
    let (writer, people) = (pool(1, options), pool(PEOPLE_N, reading));
    let mut first = writer.take().await.map_err(unavailable)?;
    check(first.connection().map_err(unavailable)?).await?;
    first.give_back();
    Ok(Sqlite { writer, reader, people, _lock: Arc::new(lock) })
}

/// One process for one file: a second one would find leases of the first that it takes for dead.
fn lock_file(path: &Path) -> Result<File, StoreError> {
    let refused = |why: String| StoreError::Refused(format!("database `{}` {why}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| refused(format!("has no usable folder: {error}")))?;
    }
    if let Some(kind) = network_file_system(path) {
        return Err(refused(format!("is on a network file system ({kind}), whose locks cannot be trusted")));
    }
    let file = private::options().open(private::beside(path, ".lock"));
    let file = file.map_err(|error| refused(format!("cannot be locked: {error}")))?;
    file.try_lock().map_err(|_| refused("is held by another process: stop that one first".to_owned()))?;
    Ok(file)
}

/// The kind of file system `path` is on, when it is one of [`NETWORK_FILE_SYSTEMS`]. Linux only.
fn network_file_system(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best = (0, "");
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (words.next(), words.next()) else { continue };
        if folder.starts_with(point) && point.len() >= best.0 {
            best = (point.len(), kind);
        }
    }
    NETWORK_FILE_SYSTEMS.contains(&best.1).then(|| best.1.to_owned())
}

async fn check(writer: &mut SqliteConnection) -> Result<(), StoreError> {
    let unavailable = |source| StoreError::from_sqlx("open", source);
    let version: String =
        sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut *writer).await.map_err(unavailable)?;
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    if (next(), next(), next()) < VERSION_MIN {
        let (major, minor, patch) = VERSION_MIN;
        return Err(StoreError::Refused(format!(
            "SQLite {version} can corrupt its write-ahead log: {major}.{minor}.{patch} or newer is needed"
        )));
    }
    let mode: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *writer).await.map_err(unavailable)?;
    let synchronous: i64 =
        sqlx::query_scalar("PRAGMA synchronous").fetch_one(writer).await.map_err(unavailable)?;
    if mode != "wal" || synchronous < 2 {
        return Err(StoreError::Refused(format!(
            "SQLite runs with journal_mode {mode} and synchronous {synchronous}: WAL and FULL are needed"
        )));
    }
    Ok(())
}

/// Takes as long as it takes.
pub(super) async fn migrate(db: &Sqlite) -> sqlx::Result<()> {
    let mut held = db.writer.take().await?;
    let answer = migrations::sqlite().run_direct(None, held.connection()?, false).await;
    held.give_back_after(answer.map_err(|error| sqlx::Error::Migrate(Box::new(error))))
}

pub(super) async fn schema_version(db: &mut SqliteConnection) -> sqlx::Result<i64> {
    let is_there: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'")
            .fetch_one(&mut *db)
            .await?;
    if is_there == 0 {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(db)
        .await
}

pub(super) async fn schema_floor(db: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
    let is_there: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'schema_floor'")
        .fetch_one(&mut *db)
        .await?;
    if is_there == 0 {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT version FROM schema_floor").fetch_optional(db).await
}

pub(super) async fn installation_create(db: &mut SqliteConnection, id: &str) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO installation (one, installation_id, created_at_ms)
         VALUES (1, $1, CAST(strftime('%s', 'now') AS INTEGER) * 1000) ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .execute(db)
    .await
    .map(drop)
}

pub(super) async fn installation_id(db: &mut SqliteConnection) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT installation_id FROM installation").fetch_one(db).await
}

/// That the transaction could be opened says that it may write; with `is_written`, something is.
pub(super) async fn probe(db: &mut SqliteConnection, is_written: bool) -> sqlx::Result<()> {
    if is_written {
        // A row that stays as it was is not written. Nobody else uses this number of the file's header.
        let sql = format!("PRAGMA user_version = {}", fastrand::i32(1..));
        sqlx::query(AssertSqlSafe(sql)).execute(db).await?;
    }
    Ok(())
}

/// The same machine, the same clock.
pub(super) async fn clock_offset_ms(_db: &mut SqliteConnection, _now_ms: UnixMs) -> sqlx::Result<i64> {
    Ok(0)
}

pub(super) async fn close(db: &Sqlite, bound: Duration) {
    tokio::join!(db.reader.close(bound), db.people.close(bound));
    db.writer.close(bound).await;
}

/// `prefix (?, ?), (?, ?) suffix` for `rows_n` rows of `columns_n` values: nothing in it comes from outside.
fn values_sql(prefix: &str, columns_n: usize, rows_n: usize, suffix: &str) -> sqlx::SqlStr {
    let row = format!("({})", vec!["?"; columns_n].join(","));
    let text = format!("{prefix} VALUES {} {suffix}", vec![row.as_str(); rows_n].join(","));
    AssertSqlSafe(text).into_sql_str()
}
