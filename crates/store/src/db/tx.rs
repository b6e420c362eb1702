//! The open transaction, as a transactional handler gets it: the same one that admits its event. And the transaction of
//! a trial, in which handlers run to show what they would do, and which is always rolled back.
//!
//! For a trial a ROLLBACK at the end is not enough. A handler has the connection, and some execute COMMIT, or continue
//! to write after a statement has rolled the transaction back. So until the trial is over, nothing on this connection
//! can be committed:
//!
//! - SQLite calls a hook before each commit, and the hook refuses;
//! - on PostgreSQL a deferred constraint is violated, which is checked with the commit, and everything after this
//!   transaction is read-only; the connection is closed then. Behind a pooler in transaction mode the session cannot be
//!   configured, so there only the violated constraint protects.

use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::backend::{BoxedWork, PooledConnection};
use super::error::{DbError, DbResult, StoreError};
use super::executor::Executor;
use super::limit::limited;
use super::pool::{HeldSession, Session as _};
use super::sqlite::SqliteSession;
use super::value::{Row, Value};
use hooklatch_core::stop::ignore_result;

/// An open transaction on either database. The code that made it commits it; a handler writes through it. Dropping it
/// rolls it back, with its connection.
///
/// Statements of a handler are sent as they stand, with `$1`, `$2`, … for values, which both databases understand. Do
/// not `COMMIT` or `ROLLBACK` through it: the event's own rows are in it, and an event whose handler ended its
/// transaction counts as failed. A statement that is given up (a time-out of the handler's own, say) ends the
/// transaction on SQLite.
pub struct Tx {
    connection: PooledConnection,
    /// True when the state of the connection is unknown: it can only be closed.
    is_lost: bool,
    /// True when a handler had it, and may have left something in its session.
    is_used: bool,
    /// True when a handler was given up in the middle of what it did.
    pub(super) is_abandoned: bool,
    /// What PostgreSQL does when a handler returns: first and last. Nothing in a trial, which has a temporary table
    /// with a broken rule, and writes nothing of ours.
    pub(crate) around: (&'static str, &'static str),
    /// Number of PostgreSQL's process, from the first handler on.
    pub(crate) process: Option<i32>,
}

/// The mark that a handler's statements stand behind. It is gone when the handler ended the transaction, on
/// purpose or by a statement that rolls back (`INSERT OR ROLLBACK`), and cannot be released when a statement
/// of it failed and PostgreSQL aborted the transaction, whose COMMIT would be answered with success all the
/// same.
///
/// Its name is drawn by the process: a handler that ends the transaction cannot set the same mark in the next one.
static MARK: LazyLock<String> = LazyLock::new(|| format!("hooklatch_{:032x}", fastrand::u128(..)));

/// Fires the rules that a handler's statements left for the commit, while its settings, its savepoint and its blame
/// still stand. A COMMIT would run them after the reset, and what they set would stay.
const RULES: &str = "SET CONSTRAINTS ALL IMMEDIATE;";
/// The deferred rules, by their names: after [`RULES`] they are deferred again for the next handler of the transaction,
/// and those that are not deferred by themselves stay as they are.
const DEFERRED: &str =
    "SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', schema, name), ', ') AS names FROM (
    SELECT n.nspname AS schema, c.conname AS name
    FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace
    WHERE n.nspname !~ '^pg_' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    GROUP BY n.nspname, c.conname HAVING bool_and(c.condeferred)) AS deferred";

impl Tx {
    pub(crate) fn new(connection: PooledConnection) -> Self {
        Self {
            connection,
            is_lost: false,
            is_used: false,
            is_abandoned: false,
            around: (RULES, "DISCARD TEMP"),
            process: None,
        }
    }

    /// Returns an executor for statements that both databases know, each within seconds.
    pub(crate) fn executor(&mut self) -> DbResult<Executor<'_>> {
        self.connection.executor()
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.connection, PooledConnection::Postgres(..))
    }

    /// Runs `work` on SQLite's thread, within seconds; an error on PostgreSQL.
    pub(crate) async fn run_sqlite<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut rusqlite::Connection) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        match &mut self.connection {
            PooledConnection::Sqlite(held) => limited(held.session()?.run(work)).await,
            PooledConnection::Postgres(..) => {
                Err(DbError::unsaid("this is for SQLite, and PostgreSQL is what there is"))
            }
        }
    }

    /// PostgreSQL's session; an error on SQLite. The caller sets a limit.
    pub(crate) fn pg(&mut self) -> DbResult<&mut PgConnection> {
        match &mut self.connection {
            PooledConnection::Postgres(held, _) => held.session(),
            PooledConnection::Sqlite(_) => {
                Err(DbError::unsaid("this is for PostgreSQL, and SQLite is what there is"))
            }
        }
    }

    /// Passes on the result of a statement, and records what it implies for the connection.
    pub(crate) fn noted<T>(&mut self, op: &'static str, answer: DbResult<T>) -> Result<T, StoreError> {
        self.is_lost |= answer.as_ref().is_err_and(|error| !error.is_server_error());
        answer.map_err(|source| StoreError::from_db(op, source))
    }

    /// Commits; its error distinguishes a refused commit from one with an unknown outcome.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        if self.is_lost || self.is_abandoned {
            let source = DbError::lost("a statement was given up in the middle of the transaction");
            return Err(StoreError::Unavailable { op: "commit", source });
        }
        self.finish(true).await.map_err(StoreError::from_commit)
    }

    /// Rolls back, so that nothing is left of it.
    pub(crate) fn roll_back(self) -> BoxedWork<'static, Result<(), StoreError>> {
        Box::pin(async move {
            if self.is_lost {
                return Ok(());
            }
            match (self.is_abandoned, self.connection) {
                (false, connection) => Self { connection, ..self }.finish(false).await,
                (true, PooledConnection::Sqlite(held)) => held.roll_back_and_close().await,
                (true, PooledConnection::Postgres(held, _)) => end_process(held, self.process).await,
            }
            .map_err(|source| StoreError::from_db("rollback", source))
        })
    }

    /// Commits or rolls back, and gives the connection back. What a handler left in the session outside of the
    /// transaction is reset first; a session that cannot be reset is closed, and the transaction's result stays as it
    /// is.
    fn finish(self, is_commit: bool) -> BoxedWork<'static, DbResult<()>> {
        Box::pin(async move {
            match self.connection {
                PooledConnection::Sqlite(mut held) => {
                    let answer = if is_commit { held.commit().await } else { held.roll_back().await };
                    if self.is_used
                        && answer.is_ok()
                        && !matches!(is_without_tables(&mut held).await, Ok(true))
                    {
                        held.close();
                    }
                    held.end(answer)
                }
                PooledConnection::Postgres(mut held, reset) => {
                    let answer = if is_commit { held.commit().await } else { held.roll_back().await };
                    if self.is_used && answer.is_ok() && !reset.session.is_empty() {
                        let is_reset = async { limited(reset.after(held.session()?)).await }.await;
                        if !matches!(is_reset, Ok(true)) {
                            held.close();
                        }
                    }
                    held.end(answer)
                }
            }
        })
    }

    /// Commits after a success and rolls back after an error.
    pub(crate) async fn end<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match answer {
            Ok(value) => self.commit().await.map(|()| value),
            Err(error) => {
                // The error of the statement is the one to report.
                ignore_result(self.roll_back()).await;
                Err(error)
            }
        }
    }

    /// Runs a statement with `$1`, `$2`, … taken from `values`; both databases understand these. Gives back
    /// how many rows it changed.
    pub async fn execute(&mut self, sql: &'static str, values: &[Value]) -> Result<u64, DbError> {
        self.executor()?.execute_as_is(sql, values).await
    }

    /// Runs a statement that gives back rows: all of them, in its order.
    pub async fn fetch(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, DbError> {
        self.executor()?.fetch_as_is(sql, values).await
    }

    /// The whole number in the first column of the first row; `None` when there is no row or it is NULL.
    pub async fn fetch_i64(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<i64>, DbError> {
        self.fetch(sql, values).await?.first().map_or(Ok(None), Row::first_int)
    }

    /// Runs several statements without values, one after the other, with a `;` between them.
    pub async fn batch(&mut self, sql: &'static str) -> Result<(), DbError> {
        self.executor()?.batch(sql).await
    }
}

/// To be called before a handler gets this transaction.
pub async fn handler_begins(tx: &mut Tx) -> Result<(), StoreError> {
    let is_first = !std::mem::replace(&mut tx.is_used, true);
    let begun = async {
        match &mut tx.connection {
            PooledConnection::Sqlite(held) => {
                let session = held.session()?;
                session.handler_begins();
                limited(session.executor().batch(format!("SAVEPOINT {}", *MARK))).await
            }
            // One round trip for both.
            PooledConnection::Postgres(held, _) => {
                tx.process = Some(limited(process_at_mark(held.session()?, is_first)).await?);
                Ok(())
            }
        }
    };
    let answer = begun.await;
    tx.noted("handler_begins", answer)
}

/// To be called when a handler had this transaction, before anything else is written: an error when what the handler
/// left is not the transaction that it was given.
pub async fn handler_ended(tx: &mut Tx) -> Result<(), StoreError> {
    let (rules, discard) = tx.around;
    let ended = async {
        match &mut tx.connection {
            PooledConnection::Sqlite(held) => {
                limited(held.session()?.handler_ended(format!("RELEASE SAVEPOINT {}", *MARK))).await
            }
            // One round trip for both. A name means what is temporary before it means ours.
            PooledConnection::Postgres(held, reset) => {
                let sql = format!("{rules}RELEASE SAVEPOINT {};{}{discard}", *MARK, reset.settings);
                limited(held.executor()?.batch(sql)).await
            }
        }
    };
    let answer = ended.await;
    tx.noted("handler_ended", answer)
}

/// To be called when a handler was given up in the middle of what it did: its transaction is rolled back, and its
/// connection closed.
pub fn handler_abandoned(tx: &mut Tx) {
    tx.is_abandoned = true;
}

/// Name of the dialect of its database: `sqlite` or `postgres`.
pub fn tx_dialect(tx: &Tx) -> &'static str {
    if tx.is_postgres() { "postgres" } else { "sqlite" }
}

/// Rolls a transaction back, so that nothing is left of it.
pub async fn roll_back(tx: Tx) -> Result<(), StoreError> {
    tx.roll_back().await
}

/// Sets the mark, and returns the number of the process that has it.
async fn process_at_mark(session: &mut PgConnection, is_first: bool) -> DbResult<i32> {
    if !is_first {
        let names: Option<String> = sqlx::raw_sql(DEFERRED)
            .fetch_one(&mut *session)
            .await?
            .try_get("names")
            .map_err(DbError::from)?;
        if let Some(names) = names {
            let sql = AssertSqlSafe(format!("SET CONSTRAINTS {names} DEFERRED"));
            sqlx::raw_sql(sql).execute(&mut *session).await?;
        }
    }
    let sql = AssertSqlSafe(format!("SAVEPOINT {}; SELECT pg_backend_pid()::text AS process", *MARK));
    let row = sqlx::raw_sql(sql).fetch_one(session).await?;
    let process: String = row.try_get("process").map_err(DbError::from)?;
    process.parse().map_err(|_| DbError::unsaid("PostgreSQL says no number of its process"))
}

/// Ends the process of a session whose handler was given up: a ROLLBACK would wait behind its statement, for as long as
/// that takes, and its locks with it. Where the process cannot be ended, the ROLLBACK waits.
async fn end_process(mut held: HeldSession<PgConnection>, process: Option<i32>) -> DbResult<()> {
    let Some(process) = process else { return held.roll_back_and_close().await };
    let is_ended = async {
        let mut other = held.pool().take().await?;
        let sql = sqlx::query_scalar("SELECT pg_terminate_backend($1)").bind(process);
        let answer = limited(async { Ok(sql.fetch_one(other.session()?).await?) }).await;
        other.give_back_after(answer)
    };
    match is_ended.await {
        Ok(true) => {
            held.close();
            Ok(())
        }
        Ok(false) | Err(_) => held.roll_back_and_close().await,
    }
}

/// True when a connection of SQLite has no tables of its own, which are all that it keeps.
async fn is_without_tables(held: &mut HeldSession<SqliteSession>) -> DbResult<bool> {
    let sql = "SELECT COUNT(*) AS n FROM temp.sqlite_schema";
    Ok(held.executor()?.fetch_one(sql, &[]).await?.int("n")? == 0)
}

/// Outside of the transaction, which is begun anew after it.
const READ_ONLY: [&str; 3] = ["ROLLBACK", "SET default_transaction_read_only = on", "BEGIN READ WRITE"];
/// A rule that is broken from the beginning.
const BROKEN: &str =
    "CREATE TEMP TABLE hooklatch_trial (one INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
     INSERT INTO pg_temp.hooklatch_trial (one) VALUES (1), (1)";

impl Tx {
    /// Makes sure that nothing of this transaction is ever committed, nor anything that its handler does after it. Call
    /// it first, and end it with [`trial_ends`].
    pub(crate) async fn trial_begins(&mut self) -> Result<(), StoreError> {
        self.around = ("", "");
        let answer = match &self.connection {
            PooledConnection::Sqlite(_) => self.run_sqlite(|db| Ok(db.commit_hook(Some(|| true))?)).await,
            PooledConnection::Postgres(_, reset) => {
                let is_our_session = !reset.session.is_empty();
                self.broken(is_our_session).await
            }
        };
        self.noted("trial_begins", answer)
    }

    async fn broken(&mut self, is_our_session: bool) -> DbResult<()> {
        let mut executor = self.executor()?;
        if is_our_session {
            for sql in READ_ONLY {
                limited(executor.batch(sql)).await?;
            }
        }
        limited(executor.batch(BROKEN)).await
    }
}

/// Rolls a trial back, and gives the connection back as it was.
pub async fn trial_ends(mut tx: Tx) -> Result<(), StoreError> {
    if !tx.is_abandoned {
        if tx.is_postgres() {
            // Closed with its connection; no statement runs in it.
            tx.process = None;
            tx.is_abandoned = true;
        } else {
            let freed = tx.run_sqlite(|db| Ok(db.commit_hook(None::<fn() -> bool>)?)).await;
            tx.is_abandoned = freed.is_err();
        }
    }
    tx.roll_back().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::sqlite::{Sqlite, opened};

    async fn begun(db: &Sqlite) -> Tx {
        Tx::new(PooledConnection::Sqlite(db.writer.begin().await.unwrap()))
    }

    #[tokio::test]
    async fn a_handler_that_ends_its_transaction_is_found_out_and_its_connection_closed() {
        let release: &'static str = format!("RELEASE {}", *MARK).leak();
        for ends in ["COMMIT", "ROLLBACK", "INSERT OR ROLLBACK INTO t (n) VALUES (1)", release] {
            let folder = tempfile::tempdir().unwrap();
            let db = opened(&folder).await;
            let mut tx = begun(&db).await;
            tx.batch("CREATE TABLE t (n INTEGER PRIMARY KEY); INSERT INTO t (n) VALUES (1);").await.unwrap();
            tx.commit().await.unwrap();
            let mut tx = begun(&db).await;
            handler_begins(&mut tx).await.unwrap();
            ignore_result(tx.execute(ends, &[])).await;
            let broken = handler_ended(&mut tx).await.unwrap_err();
            assert!(broken.is_of_no_transaction(), "{ends}: {broken}");
            ignore_result(tx.roll_back()).await;
            let mut tx = begun(&db).await;
            assert_eq!(tx.fetch_i64("SELECT COUNT(*) FROM t", &[]).await.unwrap(), Some(1), "{ends}");
            tx.roll_back().await.unwrap();
        }
    }

    #[tokio::test]
    async fn tables_that_a_handler_leaves_for_its_session_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let db = opened(&folder).await;
        for _ in 0..2 {
            let mut tx = begun(&db).await;
            handler_begins(&mut tx).await.unwrap();
            tx.execute("CREATE TEMP TABLE scratch (n BIGINT)", &[]).await.unwrap();
            handler_ended(&mut tx).await.unwrap();
            tx.commit().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_transaction_after_a_broken_connection_is_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let db = opened(&folder).await;
        let mut tx = begun(&db).await;
        let lost = tx.run_sqlite(|_| -> DbResult<()> { panic!("as it may") }).await;
        tx.noted("test", lost).unwrap_err();
        assert!(matches!(tx.commit().await, Err(StoreError::Unavailable { op: "commit", .. })));
        begun(&db).await.roll_back().await.unwrap();
    }
}
