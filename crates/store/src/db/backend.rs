//! The database, whichever it is: which connection each operation gets, and queries about the database as a whole.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sqlx::PgConnection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::error::{DbError, DbResult, StoreError};
use super::executor::Executor;
use super::limit::{OPERATION_LIMIT, PROBE_LIMIT, limited, whole};
use super::migrations::{self, Migration};
use super::opening::{PostgresSettings, SchemaState, StoreSettings, is_postgres};
use super::pool::{HeldSession, PoolHealth};
use super::postgres::{self, Postgres, SessionReset};
use super::sqlite::{self, Sqlite, SqliteSession};
use super::tx::Tx;
use super::warnings::refused_with_warning;

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
    Operators,
    /// Writing what operators decide: on SQLite by the writer.
    Deciding,
}

/// A connection of either database held by one operation. Dropping it closes it.
pub(crate) enum PooledConnection {
    Sqlite(HeldSession<SqliteSession>),
    /// A session of PostgreSQL, with what resets it after a handler.
    Postgres(HeldSession<PgConnection>, Arc<SessionReset>),
}

impl PooledConnection {
    pub(crate) fn executor(&mut self) -> DbResult<Executor<'_>> {
        match self {
            Self::Sqlite(held) => held.executor(),
            Self::Postgres(held, _) => held.executor(),
        }
    }

    /// Returns it to the pool after a single statement, unless the result leaves its state unknown.
    fn give_back_after<T>(self, answer: DbResult<T>) -> DbResult<T> {
        match self {
            Self::Sqlite(held) => held.give_back_after(answer),
            Self::Postgres(held, _) => held.give_back_after(answer),
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
            Self::Sqlite(db) => db.writer.health(),
            Self::Postgres(db) => db.shared.health(),
        }
    }

    /// An operation that the database was not there for makes the next [`Backend::probe`] look closer.
    pub(crate) fn note<T>(&self, answer: &Result<T, StoreError>) {
        if matches!(answer, Err(StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. })) {
            self.health().mark_suspect();
        }
    }

    /// The database as SQLite's file, where it is one.
    pub(crate) fn sqlite(&self) -> Option<&Sqlite> {
        match self {
            Self::Sqlite(db) => Some(db),
            Self::Postgres(_) => None,
        }
    }

    /// A connection for one operation.
    async fn take(&self, purpose: Purpose) -> DbResult<PooledConnection> {
        Ok(match self {
            Self::Sqlite(db) => PooledConnection::Sqlite(db.pool(purpose).take().await?),
            Self::Postgres(db) => {
                PooledConnection::Postgres(db.pool(purpose).take().await?, Arc::clone(&db.reset))
            }
        })
    }

    /// The turn of what is not admission, where all writes go through one connection.
    async fn turn(&self, purpose: Purpose) -> DbResult<Option<OwnedSemaphorePermit>> {
        match (self, purpose) {
            (Self::Postgres(_), _) | (_, Purpose::Reader | Purpose::Operators) => Ok(None),
            (Self::Sqlite(db), _) => db.writer.turn().await.map(Some),
        }
    }

    /// Opens a transaction that writes, where its purpose does. Call it in a task that is not cancelled: a dropped
    /// transaction is rolled back and its connection closed.
    pub(crate) fn begin(&self, op: &'static str, purpose: Purpose) -> BoxedWork<'_, Result<Tx, StoreError>> {
        Box::pin(async move {
            let begun = match self {
                Self::Sqlite(db) => db.pool(purpose).begin().await.map(PooledConnection::Sqlite),
                Self::Postgres(db) => {
                    let begun = db.pool(purpose).begin().await;
                    begun.map(|held| PooledConnection::Postgres(held, Arc::clone(&db.reset)))
                }
            };
            begun.map(Tx::new).map_err(|source| StoreError::from_db(op, source))
        })
    }

    /// Runs one statement by itself, or several that only read: to its end, even when the caller is gone, within a
    /// limit.
    pub(crate) async fn alone<T: Send + 'static>(
        &self,
        op: &'static str,
        purpose: Purpose,
        work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (work, answer) = answering(work);
        self.run_alone(op, purpose, work).await?;
        answered(op, answer)
    }

    fn run_alone(&self, op: &'static str, purpose: Purpose, work: Work) -> BoxedWork<'static, Ended> {
        let backend = self.clone();
        Box::pin(whole(op, OPERATION_LIMIT, async move {
            let answer = async {
                let _turn = backend.turn(purpose).await?;
                let mut connection = backend.take(purpose).await?;
                let quiet = backend.sqlite().and_then(|db| db.changes.quiet(op));
                let answer = refused_with_warning(work(connection.executor()?)).await;
                drop(quiet);
                connection.give_back_after(answer)
            };
            let answer = answer.await.map_err(|source| StoreError::from_db(op, source));
            backend.note(&answer);
            answer
        }))
    }

    /// Runs statements that belong together in one transaction: to their end, even when the caller is gone, within a
    /// limit.
    pub(crate) async fn together<T: Send + 'static>(
        &self,
        op: &'static str,
        purpose: Purpose,
        work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (work, answer) = answering(work);
        self.run_together(op, purpose, work).await?;
        answered(op, answer)
    }

    fn run_together(&self, op: &'static str, purpose: Purpose, work: Work) -> BoxedWork<'static, Ended> {
        let backend = self.clone();
        Box::pin(whole(op, OPERATION_LIMIT, async move {
            let turn = backend.turn(purpose).await;
            let _turn = turn.map_err(|source| StoreError::from_db(op, source))?;
            let mut tx = backend.begin(op, purpose).await?;
            let quiet = backend.sqlite().and_then(|db| db.changes.quiet(op));
            let answer = async { work(tx.executor()?).await }.await;
            drop(quiet);
            let answer = tx.noted(op, answer);
            let answer = tx.end(answer).await;
            backend.note(&answer);
            answer
        }))
    }

    /// Statements that only read and see the database at one moment.
    pub(crate) async fn snapshot<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (work, answer) = answering(work);
        self.run_together(op, Purpose::Operators, at_one_moment(work)).await?;
        answered(op, answer)
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

    /// Looks, by one statement that also says whether this session may write, where admission opens its own
    /// transactions: in one that may write, unless a healthy PostgreSQL is asked, which a transaction would only cost
    /// two more. After anything went wrong a row is written, and its commit awaited, before there is an answer again.
    /// Answers within 2 s.
    pub(crate) async fn probe<T: Send + 'static>(
        &self,
        look: impl for<'a> Fn(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let backend = self.clone();
        whole("probe", PROBE_LIMIT, async move {
            // What goes wrong makes the database suspect, also where only this connection was lost.
            let asked = async {
                let mut connection = backend.take(Purpose::Writer).await?;
                let answer = async { look(connection.executor()?).await }.await;
                connection.give_back_after(answer)
            };
            if !backend.health().is_suspect()
                && backend.sqlite().is_none()
                && let Ok(found) = asked.await
            {
                return Ok(found);
            }
            let is_suspect = backend.health().is_suspect();
            let mut tx = backend.begin("probe", Purpose::Writer).await?;
            let answer = async {
                let found = look(tx.executor()?).await?;
                if is_suspect {
                    write_unchanged(&mut tx.executor()?).await?;
                }
                Ok(found)
            };
            let answer = answer.await;
            let answer = tx.noted("probe", answer);
            if is_suspect {
                let found = tx.end(answer).await?;
                backend.health().mark_healthy();
                return Ok(found);
            }
            let found = answer?;
            tx.roll_back().await.map(|()| found)
        })
        .await
    }
}

/// Statements of any operation, as one type. Code that awaits is compiled for each type of work, and in each crate
/// that awaits it: what surrounds the statements is compiled here, once.
type Work = Box<dyn for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<()>> + Send>;
type Ended = Result<(), StoreError>;

fn boxed(work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<()>> + Send + 'static) -> Work {
    Box::new(work)
}

/// `work`, and where its answer will be.
fn answering<T: Send + 'static>(
    work: impl for<'a> FnOnce(Executor<'a>) -> BoxedWork<'a, DbResult<T>> + Send + 'static,
) -> (Work, oneshot::Receiver<T>) {
    let (sender, answer) = oneshot::channel();
    let work = boxed(|executor| {
        Box::pin(async move {
            // The caller may be gone.
            drop(sender.send(work(executor).await?));
            Ok(())
        })
    });
    (work, answer)
}

/// The answer of an operation that has ended well.
fn answered<T>(op: &'static str, mut answer: oneshot::Receiver<T>) -> Result<T, StoreError> {
    let missing = |_| StoreError::Unavailable { op, source: DbError::lost("the operation left no answer") };
    answer.try_recv().map_err(missing)
}

fn at_one_moment(work: Work) -> Work {
    boxed(|mut executor| {
        Box::pin(async move {
            // Before any query.
            if executor.is_postgres() {
                limited(executor.batch(AT_ONE_MOMENT)).await?;
            }
            work(executor).await
        })
    })
}

/// What is read this way goes by keys, in their order: a plan that is made for one value alone may prefer to collect
/// and sort all that there is of it, and one for any number of rows to read all that they may be joined with.
const AT_ONE_MOMENT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL plan_cache_mode = force_generic_plan";

/// Writes something, as it was.
async fn write_unchanged(executor: &mut Executor<'_>) -> DbResult<()> {
    if executor.is_postgres() {
        let sql = "UPDATE installation SET created_at_ms = created_at_ms";
        return executor.execute(sql, &[]).await.map(drop);
    }
    // A row that does not change would not be written, so this changes a number in the file's header that is not used
    // otherwise.
    limited(executor.batch(format!("PRAGMA user_version = {}", fastrand::i32(1..)))).await
}
