//! The database, whichever it is: which connection each operation gets, and queries about the database as a whole.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::OwnedSemaphorePermit;

use super::error::{DbError, DbResult, StoreError};
use super::executor::Executor;
use super::limit::{OPERATION_LIMIT, PROBE_LIMIT, limited, whole};
use super::migrations::{self, Migration};
use super::opening::{PostgresSettings, SchemaState, StoreSettings, is_postgres};
use super::pool::{HeldSession, PoolHealth, PoolUsage};
use super::postgres::{self, IS_WRITABLE, Postgres};
use super::sqlite::{self, Sqlite, SqliteSession};
use super::tx::{Tx, TxKind};
use super::warnings::refused_with_warning;
use hooklatch_core::types::UnixMs;

/// Time that operations under way have to end when the store is closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// Refusal of a database that another layout of ours lives in.
const ANOTHER_LAYOUT: &str = "this database holds tables of an earlier Hooklatch, in a layout that this one does not read; nothing was changed in \
     it. Let the Hooklatch that made it finish what is in it, and give this one a database, a file or a schema of its \
     own in database.url";

/// The database. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub(crate) enum Backend {
    /// One file, in this process alone.
    Sqlite(Sqlite),
    /// A server that several nodes share.
    Postgres(Postgres),
}

/// The purpose that a connection is wanted for. SQLite has one writer, whatever the purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reading, by the program itself.
    Reader,
    /// Writing, by the program and by handlers.
    Writer,
    /// Claims, extensions and settlements of messages.
    Worker,
    /// Reading what operators look at.
    People,
    /// Writing what operators decide: on SQLite by the writer.
    Deciding,
}

/// A connection of either database held by one operation. Dropping it closes it.
pub(crate) enum PooledConnection {
    Sqlite(HeldSession<SqliteSession>),
    Postgres(HeldSession<PgConnection>),
}

impl PooledConnection {
    pub(crate) fn executor(&mut self) -> DbResult<Executor<'_>> {
        match self {
            Self::Sqlite(held) => held.executor(),
            Self::Postgres(held) => held.executor(),
        }
    }

    /// Returns it to the pool after a single statement, unless the result leaves its state unknown.
    pub(crate) fn give_back_after<T>(self, answer: DbResult<T>) -> DbResult<T> {
        match self {
            Self::Sqlite(held) => held.give_back_after(answer),
            Self::Postgres(held) => held.give_back_after(answer),
        }
    }
}

/// A boxed future that borrows its executor or transaction.
pub(crate) type BoxedWork<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Backend {
    /// Connects, and refuses a database that could lose what it confirmed.
    pub(crate) async fn open(settings: &StoreSettings, more: &PostgresSettings) -> Result<Self, StoreError> {
        let url = &settings.url;
        if is_postgres(url) {
            return postgres::open(url, settings.connections_n, more).await.map(Self::Postgres);
        }
        if url.starts_with("sqlite:") {
            return sqlite::open(url, settings.connections_n).await.map(Self::Sqlite);
        }
        Err(StoreError::Refused("database url must start with `sqlite:` or `postgres:`".to_owned()))
    }

    /// Returns the health of the database as seen by all its connections.
    pub(crate) fn health(&self) -> &PoolHealth {
        match self {
            Self::Sqlite(db) => db.writer().health(),
            Self::Postgres(db) => db.writer().health(),
        }
    }

    /// An operation that the database was not there for makes the next [`Backend::probe`] look closer.
    pub(crate) fn note<T>(&self, answer: &Result<T, StoreError>) {
        if matches!(answer, Err(StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. })) {
            self.health().mark_suspect();
        }
    }

    /// Returns how many transactions of handlers there may be at once, so that connections are left for
    /// everything else.
    pub(crate) fn handlers_n(&self) -> usize {
        match self {
            Self::Sqlite(_) => 1,
            Self::Postgres(db) => db.handlers_n(),
        }
    }

    /// The file that it is, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(db) => Some(db.file().path()),
            Self::Postgres(_) => None,
        }
    }

    /// The database as SQLite's file, where it is one.
    pub(crate) fn sqlite(&self) -> Option<&Sqlite> {
        match self {
            Self::Sqlite(db) => Some(db),
            Self::Postgres(_) => None,
        }
    }

    /// Usage of the node's connections, by purpose.
    pub(crate) fn used(&self) -> Vec<PoolUsage> {
        match self {
            Self::Sqlite(db) => db.used(),
            Self::Postgres(db) => db.used(),
        }
    }

    /// Name of the database's dialect: `sqlite` or `postgres`.
    pub(crate) fn dialect(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// A connection for one operation.
    pub(crate) async fn take(&self, purpose: Purpose) -> DbResult<PooledConnection> {
        match self {
            Self::Sqlite(db) => {
                let pool = match purpose {
                    Purpose::Reader => db.reader(),
                    Purpose::People => db.people(),
                    Purpose::Writer | Purpose::Worker | Purpose::Deciding => db.writer(),
                };
                pool.take().await.map(PooledConnection::Sqlite)
            }
            Self::Postgres(db) => pool_of(db, purpose).take().await.map(PooledConnection::Postgres),
        }
    }

    /// The turn of what is not admission, where everybody writes through one connection.
    async fn turn(&self, purpose: Purpose) -> DbResult<Option<OwnedSemaphorePermit>> {
        match (self, purpose) {
            (Self::Postgres(_), _) | (_, Purpose::Reader | Purpose::People) => Ok(None),
            (Self::Sqlite(db), _) => db.writer().turn().await.map(Some),
        }
    }

    /// Opens a transaction that writes. Call it in a task that is not cancelled: a dropped transaction is rolled back
    /// and its connection closed.
    pub(crate) async fn begin(&self, op: &'static str, purpose: Purpose) -> Result<Tx, StoreError> {
        let kind = match self {
            Self::Sqlite(db) => db.writer().begin().await.map(TxKind::Sqlite),
            Self::Postgres(db) => {
                pool_of(db, purpose).begin().await.map(|held| TxKind::Postgres(held, db.reset()))
            }
        };
        kind.map(Tx::new).map_err(|source| StoreError::from_db(op, source))
    }

    /// Runs one statement by itself, or several that only read: to its end, even when the caller is gone, within a
    /// limit.
    pub(crate) async fn alone<T: Send + 'static>(
        &self,
        op: &'static str,
        purpose: Purpose,
        work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let backend = self.clone();
        whole(op, OPERATION_LIMIT, async move {
            let answer = async {
                let _turn = backend.turn(purpose).await?;
                let mut connection = backend.take(purpose).await?;
                let quiet = backend.sqlite().and_then(|db| db.changes().quiet(op));
                let answer = refused_with_warning(work(connection.executor()?)).await;
                drop(quiet);
                connection.give_back_after(answer)
            };
            let answer = answer.await.map_err(|source| StoreError::from_db(op, source));
            backend.note(&answer);
            answer
        })
        .await
    }

    /// Statements that belong together, the same way: one transaction.
    pub(crate) async fn together<T: Send + 'static>(
        &self,
        op: &'static str,
        purpose: Purpose,
        work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.within(op, purpose, move |tx| {
            Box::pin(async move {
                let answer = match tx.executor() {
                    Ok(executor) => work(executor).await,
                    Err(error) => Err(error),
                };
                tx.noted(op, answer)
            })
        })
        .await
    }

    /// The same for work that needs the transaction itself.
    pub(crate) async fn within<T: Send + 'static>(
        &self,
        op: &'static str,
        purpose: Purpose,
        work: impl for<'a> FnOnce(&'a mut Tx) -> BoxedWork<'a, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let backend = self.clone();
        whole(op, OPERATION_LIMIT, async move {
            let turn = backend.turn(purpose).await;
            let _turn = turn.map_err(|source| StoreError::from_db(op, source))?;
            let mut tx = backend.begin(op, purpose).await?;
            let quiet = backend.sqlite().and_then(|db| db.changes().quiet(op));
            let answer = work(&mut tx).await;
            drop(quiet);
            let answer = tx.end(answer).await;
            backend.note(&answer);
            answer
        })
        .await
    }

    /// Statements that only read and see the database at one moment.
    pub(crate) async fn snapshot<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let backend = self.clone();
        whole(op, OPERATION_LIMIT, async move {
            let kind = match &backend {
                Self::Sqlite(db) => db.people().begin().await.map(TxKind::Sqlite),
                Self::Postgres(db) => {
                    db.people().begin().await.map(|held| TxKind::Postgres(held, db.reset()))
                }
            };
            let mut tx = Tx::new(kind.map_err(|source| StoreError::from_db(op, source))?);
            let answer = match tx.executor() {
                Ok(mut executor) => match at_one_moment(&mut executor).await {
                    Ok(()) => work(executor).await,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            let answer = tx.noted(op, answer);
            let answer = tx.end(answer).await;
            backend.note(&answer);
            answer
        })
        .await
    }

    /// Brings the schema up to date; gives back the versions that were applied now.
    pub(crate) async fn migrate(&self, all: &[Migration]) -> Result<Vec<i64>, StoreError> {
        let before = self.schema_version().await?;
        match self {
            Self::Sqlite(db) => migrations::on_sqlite(db, all).await,
            Self::Postgres(db) => migrations::on_postgres(db, all).await,
        }
        .map_err(|source| StoreError::from_db("migrate", source))?;
        let after = self.schema_version().await?;
        Ok((before + 1..=after).collect())
    }

    /// Returns whether a binary that wants `all` may run on the schema.
    pub(crate) async fn schema_state(&self, all: &[Migration]) -> Result<SchemaState, StoreError> {
        let found = self.schema_version().await?;
        let floor = self
            .alone("schema_floor", Purpose::Writer, |mut executor| {
                Box::pin(async move { migrations::schema_floor(&mut executor).await })
            })
            .await?;
        Ok(SchemaState::of(found, floor.unwrap_or(found), migrations::latest(all)))
    }

    /// 0 is an empty database. Refuses one that holds tables of another layout, before anything in it is touched.
    async fn schema_version(&self) -> Result<i64, StoreError> {
        let found = self
            .alone("schema_version", Purpose::Writer, |mut executor| {
                Box::pin(async move {
                    let version = migrations::schema_version(&mut executor).await?;
                    let is_ours = version > 0 || !migrations::is_of_another_layout(&mut executor).await?;
                    Ok(is_ours.then_some(version))
                })
            })
            .await?;
        found.ok_or_else(|| StoreError::Refused(ANOTHER_LAYOUT.to_owned()))
    }

    /// Succeeds when admission would work: a transaction that may write can be opened where admission opens its own.
    /// After anything went wrong a row is written, and its commit awaited, before the answer is yes again. Answers
    /// within 2 s.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        let backend = self.clone();
        whole("probe", PROBE_LIMIT, async move {
            let is_suspect = backend.health().is_suspect();
            let mut tx = backend.begin("probe", Purpose::Writer).await?;
            let answer = match tx.executor() {
                Ok(mut executor) => probe(&mut executor, is_suspect).await,
                Err(error) => Err(error),
            };
            let answer = tx.noted("probe", answer);
            if is_suspect {
                tx.end(answer).await?;
                backend.health().mark_healthy();
                return Ok(());
            }
            answer?;
            tx.roll_back().await
        })
        .await
    }

    /// The database's clock minus ours; 0 where they are the same clock. Milliseconds.
    pub(crate) async fn clock_offset_ms(&self, now_ms: UnixMs) -> Result<i64, StoreError> {
        if matches!(self, Self::Sqlite(_)) {
            return Ok(0);
        }
        let there_ms = self
            .alone("clock_offset_ms", Purpose::Reader, |mut executor| {
                Box::pin(async move {
                    executor.fetch_one("SELECT {clock_ms} AS now_ms", &[]).await?.int("now_ms")
                })
            })
            .await?;
        Ok(there_ms.saturating_sub(now_ms))
    }

    /// Closes every connection, after what runs on them; within seconds, whatever the database does.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(db) => db.close(CLOSE_LIMIT).await,
            Self::Postgres(db) => db.close(CLOSE_LIMIT).await,
        }
    }
}

fn pool_of(db: &Postgres, purpose: Purpose) -> &super::pool::SessionPool<PgConnection> {
    match purpose {
        Purpose::Reader => db.reader(),
        Purpose::Writer => db.writer(),
        Purpose::Worker => db.worker(),
        Purpose::People | Purpose::Deciding => db.people(),
    }
}

/// What is read this way goes by keys, in their order: a plan that is made for one value alone may prefer to collect
/// and sort all that there is of it, and one for any number of rows to read all that they may be joined with.
const AT_ONE_MOMENT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL plan_cache_mode = force_generic_plan";

/// Makes a transaction that has run no query yet read all tables from one snapshot.
async fn at_one_moment(executor: &mut Executor<'_>) -> DbResult<()> {
    if executor.is_postgres() {
        limited(executor.batch(AT_ONE_MOMENT)).await?;
    }
    Ok(())
}

/// True when this transaction may write; with `is_written`, something is, as it was.
async fn probe(executor: &mut Executor<'_>, is_written: bool) -> DbResult<()> {
    if !executor.is_postgres() {
        // The transaction could be opened, so it may write. A row that does not change would not be written, so this
        // changes a number in the file's header that is not used otherwise.
        let sql = format!("PRAGMA user_version = {}", fastrand::i32(1..));
        return if is_written { limited(executor.batch(sql)).await } else { Ok(()) };
    }
    if !executor.fetch_one(IS_WRITABLE, &[]).await?.is_true("is_writable")? {
        return Err(DbError::lost("this server takes no writes, or waits for no standby"));
    }
    if is_written {
        executor.execute("UPDATE installation SET created_at_ms = created_at_ms", &[]).await?;
    }
    Ok(())
}
