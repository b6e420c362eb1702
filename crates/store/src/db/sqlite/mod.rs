//! SQLite: one writer, several readers, WAL, every commit flushed. Each connection has its own thread.
//!
//! The purpose of each connection, the requirements on a file, and a count of what this process changes in it, which
//! notifies the task that keeps the witness. SQLite counts the rows that a connection changes; its thread compares
//! before and after each piece of work. So no write is missed, whichever code made it, and nothing waits. A transaction
//! that is rolled back counts, too: that costs one more look and nothing else.
//!
//! Reading order: `session.rs` (a connection and its thread, statements and transactions on it), `file.rs` (the file
//! itself), `identity.rs` (that it is still the one at its path, and the witness by which an older copy is detected),
//! `copy.rs` (a backup of it).

mod copy;
mod file;
mod identity;
mod session;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Notify;

use self::identity::{DatabaseFile, WitnessFile};
use super::backend::Purpose;
use super::error::{DbResult, StoreError};
use super::pool::{PoolHealth, PoolUsage, SessionPool};
use super::rules::broken_pragmas;

pub use copy::{FileKey, copy_file};
pub use file::path as sqlite_path;
pub(crate) use identity::{WitnessTurn, Witnessed};
pub(crate) use session::{SqliteSession, execute, fetch};

/// The oldest library without the WAL-reset corruption (sqlite.org/wal.html#walresetbug).
const VERSION_MIN: (u32, u32, u32) = (3, 51, 3);
/// Connections for what operators look at.
const OPERATORS_N: u32 = 2;
/// Time for which a statement waits for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a checkpoint waits that lets the log begin anew: no connection writes meanwhile.
const RESTART_TIMEOUT: Duration = Duration::from_millis(5);
/// Prepared statements that each connection keeps.
const STATEMENTS_N: usize = 512;

/// IMMEDIATE: a deferred transaction that writes later fails at once when another wrote meanwhile.
const BEGIN_WRITING: &str = "BEGIN IMMEDIATE";
const BEGIN_READING: &str = "BEGIN";

/// Settings of the connection that writes. The size of a page counts for a new file only. Checkpoints move pages in the
/// committing connection: fewer, larger ones cost less.
const WRITING: &str = "PRAGMA page_size = 16384;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 268435456;";
const READING: &str = "PRAGMA query_only = ON;";
/// Settings for every connection.
const EVERY: &str = "PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;";

/// The database file, opened.
#[derive(Clone)]
pub(crate) struct Sqlite {
    /// The only connection that writes.
    pub(crate) writer: SessionPool<SqliteSession>,
    /// Connections that only read.
    pub(crate) reader: SessionPool<SqliteSession>,
    /// Read only, for what operators look at: their questions may be long, and nothing else waits behind them.
    operators: SessionPool<SqliteSession>,
    /// Moves the log into the file beside the writer: it never writes anything else.
    checkpointer: SessionPool<SqliteSession>,
    /// The file, locked for the life of the process, so that no second one opens it.
    pub(crate) file: Arc<DatabaseFile>,
    /// What this process changed in it.
    pub(crate) changes: Arc<FileChanges>,
    /// The file beside it that says how far it is.
    pub(crate) witness: Arc<WitnessFile>,
}

impl Sqlite {
    pub(crate) fn pool(&self, purpose: Purpose) -> &SessionPool<SqliteSession> {
        match purpose {
            Purpose::Reader => &self.reader,
            Purpose::Operators => &self.operators,
            Purpose::Writer | Purpose::Worker | Purpose::Deciding => &self.writer,
        }
    }

    /// One whole transaction of the writer, in one hop.
    pub(crate) async fn transact<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&mut Connection) -> DbResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let failed = |error| StoreError::from_db(op, error);
        let mut held = self.writer.take().await.map_err(failed)?;
        let answer = held.session().map_err(failed)?.transact(op, work).await;
        held.give_back_after_all(answer)
    }

    /// Moves what is in the log into the file, beside the writer. Then the rest, which was written meanwhile, with the
    /// writer kept out: the log begins anew, and stays as small as it is. While another connection reads or writes, the
    /// rest waits for the next checkpoint.
    pub(crate) async fn checkpoint(&self) -> DbResult<()> {
        let mut held = self.checkpointer.take().await?;
        let checkpoint = |db: &mut Connection| {
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()))?;
            db.busy_timeout(RESTART_TIMEOUT)?;
            Ok(db.query_row("PRAGMA wal_checkpoint(RESTART)", (), |_| Ok(()))?)
        };
        let answer = held.session()?.run(checkpoint).await;
        held.give_back_after(answer)
    }

    /// Gives back the memory that idle connections keep for pages: what is read next is read from the file again. They
    /// are replaced, because what `PRAGMA shrink_memory` frees lies between what a connection keeps, and half of it
    /// stays with the process.
    pub(crate) async fn give_back_pages(&self) {
        for pool in [&self.writer, &self.reader, &self.operators, &self.checkpointer] {
            pool.renew_idle().await;
        }
    }

    /// How much of its connections is taken, by what they are for.
    pub(crate) fn used(&self) -> Vec<PoolUsage> {
        vec![self.writer.used("writer"), self.reader.used("reader"), self.operators.used("operators")]
    }

    pub(crate) async fn close(&self, bound: Duration) {
        tokio::join!(self.reader.close(bound), self.operators.close(bound), self.checkpointer.close(bound));
        self.writer.close(bound).await;
    }
}

/// Opens, or makes, the file. Refuses what could lose a confirmed commit.
pub(crate) async fn open(url: &str, connections_n: u32) -> Result<Sqlite, StoreError> {
    let path = file::path(url).map_err(StoreError::Refused)?;
    let file = Arc::new(file::opened(&path)?);
    let unavailable = |source| StoreError::from_db("open", source);
    let health = Arc::new(PoolHealth::default());
    let changes = Arc::new(FileChanges::default());
    let pool = |places_n: u32, name: &'static str, is_writing: bool| {
        let (file, changes) = (Arc::clone(&file), is_writing.then(|| Arc::clone(&changes)));
        let connect = move || {
            let (file, changes) = (Arc::clone(&file), changes.clone());
            let begin = if is_writing { BEGIN_WRITING } else { BEGIN_READING };
            Box::pin(async move {
                let open = move |path: &Path| connected(path, is_writing);
                let opened = SqliteSession::open(name, begin, file, open).await?;
                Ok(opened.counting(changes))
            }) as _
        };
        SessionPool::<SqliteSession>::new(places_n, Arc::clone(&health), Box::new(connect))
    };
    let reader = pool(connections_n.saturating_sub(OPERATORS_N).clamp(1, 16), "sqlite-reader", false);
    let operators = pool(OPERATORS_N, "sqlite-operators", false);
    let writer = pool(1, "sqlite-writer", true);
    let checkpointer = pool(1, "sqlite-checkpoint", true);
    let mut first = writer.take().await.map_err(unavailable)?;
    let found = first.session().map_err(unavailable)?.run(|db| found(db)).await.map_err(unavailable)?;
    found.check()?;
    // What a `cp` of a young database without its log is: a valid file in which nothing is.
    if found.tables_n == 0 {
        file::begins_anew(&path, "has no tables (was it copied without its -wal?)")?;
    }
    first.give_back();
    let witness = Arc::new(WitnessFile::beside(&path));
    Ok(Sqlite { writer, reader, operators, checkpointer, file, changes, witness })
}

/// Opens the connection; runs on the connection's own thread.
fn connected(path: &Path, is_writing: bool) -> DbResult<Connection> {
    // It is there already: one that SQLite would make is not the one that is locked.
    let rights =
        if is_writing { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let db = Connection::open_with_flags(path, rights | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_N);
    db.execute_batch(if is_writing { WRITING } else { READING })?;
    db.execute_batch(EVERY)?;
    // Opens the log: it then exists for as long as this connection does, and can be distinguished from another one.
    db.query_row("PRAGMA schema_version", (), |_| Ok(()))?;
    Ok(db)
}

/// Facts about the library and the file.
struct SqliteFacts {
    version: String,
    mode: String,
    synchronous: i64,
    tables_n: i64,
}

fn found(db: &Connection) -> DbResult<SqliteFacts> {
    Ok(SqliteFacts {
        version: db.query_row("SELECT sqlite_version()", (), |row| row.get(0))?,
        mode: db.query_row("PRAGMA journal_mode", (), |row| row.get(0))?,
        synchronous: db.query_row("PRAGMA synchronous", (), |row| row.get(0))?,
        tables_n: db.query_row("SELECT COUNT(*) FROM sqlite_master", (), |row| row.get(0))?,
    })
}

impl SqliteFacts {
    fn check(&self) -> Result<(), StoreError> {
        let Self { version, mode, synchronous, .. } = self;
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        if (next(), next(), next()) < VERSION_MIN {
            let (major, minor, patch) = VERSION_MIN;
            return Err(StoreError::Refused(format!(
                "SQLite {version} can corrupt its write-ahead log: {major}.{minor}.{patch} or newer is needed"
            )));
        }
        match broken_pragmas(mode, *synchronous).first() {
            None => Ok(()),
            Some(rule) => Err(StoreError::Refused(format!(
                "SQLite runs with {} = {}, and {} is needed: {}",
                rule.name, rule.value, rule.bound, rule.remedy
            ))),
        }
    }
}

/// A session on a file of its own kind, for tests of what is above.
#[cfg(test)]
pub(crate) async fn opened(folder: &tempfile::TempDir) -> Sqlite {
    open(&format!("sqlite://{}", folder.path().join("x.db").display()), 6).await.unwrap()
}

/// Operations that change nothing that a restore could lose: that a node is there, and the witness itself. A file that
/// was started and stopped without anything else is the one that it was.
const QUIET: [&str; 4] = ["node_seen", "nodes_forget", "node_gone", "witness_step"];

/// Changes of this process, with one notification for any number of them.
#[derive(Default)]
pub(crate) struct FileChanges {
    works_n: AtomicU64,
    is_quiet: AtomicBool,
    notify: Notify,
}

/// While this is there, what the writer does is not counted. Its owner holds the writer.
pub(crate) struct QuietWork<'a>(&'a FileChanges);

impl Drop for QuietWork<'_> {
    fn drop(&mut self) {
        self.0.is_quiet.store(false, Ordering::SeqCst);
    }
}

impl FileChanges {
    /// Counts one piece of work that changed rows.
    pub(crate) fn note(&self) {
        if !self.is_quiet.load(Ordering::SeqCst) {
            self.works_n.fetch_add(1, Ordering::SeqCst);
            self.notify.notify_one();
        }
    }

    /// How often something was changed. What is not committed yet may be in it.
    pub(crate) fn works_n(&self) -> u64 {
        self.works_n.load(Ordering::SeqCst)
    }

    /// Waits for a change since the last call. For a single caller.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }

    /// To be held together with the writer.
    pub(crate) fn quiet(&self, op: &'static str) -> Option<QuietWork<'_>> {
        QUIET.contains(&op).then(|| {
            self.is_quiet.store(true, Ordering::SeqCst);
            QuietWork(self)
        })
    }
}

#[cfg(test)]
mod pragma_tests {
    use super::*;

    #[test]
    fn a_library_that_corrupts_and_a_file_that_could_lose_are_refused() {
        for (version, mode, synchronous, refusal) in [
            ("3.51.3", "wal", 2, None),
            ("3.52.0", "wal", 3, None),
            ("4.0", "wal", 2, None),
            ("3.51.2", "wal", 2, Some("3.51.3 or newer")),
            ("3.9.9", "wal", 2, Some("3.51.3 or newer")),
            ("unknown", "wal", 2, Some("3.51.3 or newer")),
            ("3.51.3", "delete", 2, Some("journal_mode = delete")),
            ("3.51.3", "memory", 2, Some("journal_mode = memory")),
            ("3.51.3", "wal", 1, Some("synchronous = 1")),
        ] {
            let found =
                SqliteFacts { version: version.to_owned(), mode: mode.to_owned(), synchronous, tables_n: 1 };
            let said = found.check().err().map(|why| why.to_string());
            match refusal {
                None => assert_eq!(said, None),
                Some(word) => assert!(said.as_ref().is_some_and(|said| said.contains(word)), "{said:?}"),
            }
        }
    }
}
