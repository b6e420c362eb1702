//! The open transaction, as a transactional handler gets it: the same one that admits its event.

use sqlx::postgres::Postgres;
use sqlx::sqlite::Sqlite;
use sqlx::{PgConnection, Row, SqliteConnection, Transaction};

use super::StoreError;

/// An open transaction on either database. Whoever made it commits it; a handler writes through it.
pub struct Tx(pub(super) TxKind);

pub(super) enum TxKind {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

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
    /// Commits; says apart what the database refused and what nobody knows.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        match self.0 {
            TxKind::Sqlite(tx) => tx.commit().await,
            TxKind::Postgres(tx) => tx.commit().await,
        }
        .map_err(StoreError::from_commit)
    }

    /// The connection of this transaction. Do not `COMMIT` or `ROLLBACK` through it: the event's own rows
    /// are in it.
    pub fn connection(&mut self) -> TxConnection<'_> {
        match &mut self.0 {
            TxKind::Sqlite(tx) => TxConnection::Sqlite(&mut *tx),
            TxKind::Postgres(tx) => TxConnection::Postgres(&mut *tx),
        }
    }

    /// Runs a statement with `$1`, `$2`, … taken from `values`; both databases understand these. Gives back
    /// how many rows it changed.
    pub async fn execute(&mut self, sql: &'static str, values: &[Value]) -> Result<u64, sqlx::Error> {
        match self.connection() {
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
        match self.connection() {
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
