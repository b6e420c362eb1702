//! The open transaction, as a transactional handler gets it: the same one that admits its event.

use sqlx::postgres::Postgres;
use sqlx::sqlite::Sqlite;
use sqlx::{AssertSqlSafe, PgConnection, Row, SqliteConnection};

use super::StoreError;
use super::limit::limited;
use super::pool::{Held, is_verdict};
use super::postgres::Tidy;

/// An open transaction on either database. Whoever made it commits it; a handler writes through it. Dropping it rolls
/// it back, with its connection.
pub struct Tx {
    pub(super) kind: TxKind,
    /// Whether nobody knows what state the connection is in: it can only be closed.
    is_lost: bool,
    /// Whether a handler had it, and may have left something in its session.
    is_used: bool,
    /// Whether a handler was given up in the middle of what it did.
    is_abandoned: bool,
}

pub(super) enum TxKind {
    Sqlite(Held<Sqlite>),
    /// With what puts its session right after a handler.
    Postgres(Held<Postgres>, Tidy),
}

/// What a handler's statements stand behind. It is gone when the handler ended the transaction, on purpose or by
/// a statement that rolls back (`INSERT OR ROLLBACK`), and cannot be released when a statement of it failed and
/// PostgreSQL aborted the transaction, whose COMMIT would be answered with success all the same.
const BEFORE_HANDLER: &str = "SAVEPOINT hooklatch_handler";
const AFTER_HANDLER: &str = "RELEASE SAVEPOINT hooklatch_handler";

/// The connection below, for statements that one dialect alone has.
pub enum TxConnection<'a> {
    /// SQLite's only writer.
    Sqlite(&'a mut SqliteConnection),
    /// A PostgreSQL session at READ COMMITTED.
    Postgres(&'a mut PgConnection),
}

/// A value for a `$1` of [`Tx::execute`]; `None` is NULL of that type.
#[derive(Debug, Clone)]
pub enum Value {
    /// A 64-bit whole number.
    Int(Option<i64>),
    /// Text without NUL.
    Text(Option<String>),
    /// Any bytes.
    Bytes(Option<Vec<u8>>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}
impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(Some(text.clone()))
    }
}
impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Some(bytes))
    }
}

macro_rules! bound {
    ($sql:expr, $values:expr, $db:ty) => {{
        let mut query = sqlx::query::<$db>($sql);
        for value in $values {
            query = match value {
                Value::Int(number) => query.bind(*number),
                Value::Text(text) => query.bind(text.as_deref()),
                Value::Bytes(bytes) => query.bind(bytes.as_deref()),
            };
        }
        query
    }};
}

impl Tx {
    pub(super) fn new(kind: TxKind) -> Self {
        Self { kind, is_lost: false, is_used: false, is_abandoned: false }
    }

    /// Passes on what a statement came to, and keeps in mind what it says of the connection.
    pub(super) fn noted<T>(&mut self, op: &'static str, answer: sqlx::Result<T>) -> Result<T, StoreError> {
        self.is_lost |= answer.as_ref().is_err_and(|error| !is_verdict(error));
        answer.map_err(|source| StoreError::from_sqlx(op, source))
    }

    /// Commits; says apart what the database refused and what nobody knows.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        if self.is_lost || self.is_abandoned {
            return Err(StoreError::Unavailable { op: "commit", source: sqlx::Error::WorkerCrashed });
        }
        match self.kind {
            TxKind::Sqlite(mut held) => {
                let answer = held.commit().await;
                ended_on_sqlite(held, self.is_used, answer).await
            }
            TxKind::Postgres(mut held, tidy) => {
                let answer = held.commit().await;
                ended(held, tidy, self.is_used, answer).await
            }
        }
        .map_err(StoreError::from_commit)
    }

    /// Leaves nothing behind.
    pub(super) async fn roll_back(self) -> Result<(), StoreError> {
        if self.is_lost {
            return Ok(());
        }
        match (self.kind, self.is_abandoned) {
            (TxKind::Sqlite(mut held), false) => {
                let answer = held.roll_back().await;
                ended_on_sqlite(held, self.is_used, answer).await
            }
            (TxKind::Postgres(mut held, tidy), false) => {
                let answer = held.roll_back().await;
                ended(held, tidy, self.is_used, answer).await
            }
            (TxKind::Sqlite(held), true) => held.roll_back_and_close().await,
            (TxKind::Postgres(held, _), true) => held.roll_back_and_close().await,
        }
        .map_err(|source| StoreError::from_sqlx("rollback", source))
    }

    /// Commits what went well and rolls back what did not.
    pub(super) async fn end<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match answer {
            Ok(value) => self.commit().await.map(|()| value),
            Err(error) => {
                // Its own error is the one to report.
                drop(self.roll_back().await);
                Err(error)
            }
        }
    }

    /// To be called before a handler gets this transaction.
    pub(crate) async fn handler_begins(&mut self) -> Result<(), StoreError> {
        self.is_used = true;
        self.marked("handler_begins", BEFORE_HANDLER, "").await
    }

    /// To be called when a handler had this transaction, before anything else is written: an error when what the
    /// handler left is not the transaction that it was given.
    pub(crate) async fn handler_ended(&mut self) -> Result<(), StoreError> {
        let depth = match &mut self.kind {
            TxKind::Sqlite(held) => held.depth(),
            TxKind::Postgres(held, _) => held.depth(),
        };
        if depth != 1 {
            let source = sqlx::Error::InvalidSavePointStatement;
            return Err(StoreError::Query { op: "handler_ended", source });
        }
        let settings = match &self.kind {
            TxKind::Sqlite(_) => "",
            TxKind::Postgres(_, tidy) => tidy.settings,
        };
        self.marked("handler_ended", AFTER_HANDLER, settings).await
    }

    /// One round trip for both; `more` is for PostgreSQL alone.
    async fn marked(
        &mut self,
        op: &'static str,
        sql: &'static str,
        more: &'static str,
    ) -> Result<(), StoreError> {
        let answer = match self.connection() {
            Ok(TxConnection::Sqlite(db)) => limited(sqlx::raw_sql(sql).execute(db)).await.map(drop),
            Ok(TxConnection::Postgres(db)) => {
                let sql = AssertSqlSafe(format!("{sql};{more}"));
                limited(sqlx::raw_sql(sql).execute(db)).await.map(drop)
            }
            Err(error) => Err(error),
        };
        self.noted(op, answer)
    }

    /// To be called when a handler was given up in the middle of what it did: this is rolled back, and its connection
    /// closed.
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// The connection of this transaction. Do not `COMMIT` or `ROLLBACK` through it: the event's own rows are in it,
    /// and an event whose handler ended its transaction counts as failed.
    pub fn connection(&mut self) -> Result<TxConnection<'_>, sqlx::Error> {
        match &mut self.kind {
            TxKind::Sqlite(held) => held.connection().map(TxConnection::Sqlite),
            TxKind::Postgres(held, _) => held.connection().map(TxConnection::Postgres),
        }
    }

    /// Runs a statement with `$1`, `$2`, … taken from `values`; both databases understand these. Gives back
    /// how many rows it changed.
    pub async fn execute(&mut self, sql: &'static str, values: &[Value]) -> Result<u64, sqlx::Error> {
        match self.connection()? {
            TxConnection::Sqlite(db) => Ok(bound!(sql, values, Sqlite).execute(db).await?.rows_affected()),
            TxConnection::Postgres(db) => {
                Ok(bound!(sql, values, Postgres).execute(db).await?.rows_affected())
            }
        }
    }

    /// The whole number in the first column of the first row; `None` when there is no row or it is NULL.
    pub async fn fetch_i64(
        &mut self,
        sql: &'static str,
        values: &[Value],
    ) -> Result<Option<i64>, sqlx::Error> {
        match self.connection()? {
            TxConnection::Sqlite(db) => {
                let row = bound!(sql, values, Sqlite).fetch_optional(db).await?;
                row.map_or(Ok(None), |row| row.try_get(0))
            }
            TxConnection::Postgres(db) => {
                let row = bound!(sql, values, Postgres).fetch_optional(db).await?;
                row.map_or(Ok(None), |row| row.try_get(0))
            }
        }
    }
}

/// Gives a session back after its transaction came to `answer`. What a handler left in it outside of the transaction goes
/// first; a session that cannot be put right is closed, whatever became of the transaction stands.
async fn ended(
    mut held: Held<Postgres>,
    tidy: Tidy,
    is_used: bool,
    answer: sqlx::Result<()>,
) -> sqlx::Result<()> {
    if is_used && answer.is_ok() && !tidy.session.is_empty() {
        let tidied = match held.connection() {
            Ok(db) => limited(sqlx::raw_sql(tidy.session).execute(db)).await.map(drop),
            Err(error) => Err(error),
        };
        if tidied.is_err() {
            held.close();
        }
    }
    held.end(answer)
}

/// The same for SQLite, whose connections keep nothing but tables of their own.
async fn ended_on_sqlite(
    mut held: Held<Sqlite>,
    is_used: bool,
    answer: sqlx::Result<()>,
) -> sqlx::Result<()> {
    if is_used && answer.is_ok() {
        let left = match held.connection() {
            Ok(db) => {
                limited(sqlx::query_scalar("SELECT COUNT(*) FROM temp.sqlite_schema").fetch_one(db)).await
            }
            Err(error) => Err(error),
        };
        if !matches!(left, Ok(0_i64)) {
            held.close();
        }
    }
    held.end(answer)
}
