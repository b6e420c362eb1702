//! One connection of either database, for statements that both know: those of everything that is not in a hurry.

use std::borrow::Cow;

use sqlx::{AssertSqlSafe, PgConnection};

use super::error::{DbError, DbResult};
use super::limit::limited;
use super::sqlite::SqliteSession;
use super::value::{Row, Value};
use super::{postgres, sqlite, translate};

/// One connection. Texts are PostgreSQL's (`translate.rs` says which words of it), and never hold a value: those stand
/// behind `$1`, `$2`, …. A text may be built, of parts of the
/// program alone: each is prepared once per connection and kept. Each statement ends within seconds, or its connection is lost.
pub(in crate::store) enum Door<'a> {
    /// A connection to a file.
    Sqlite(&'a mut SqliteSession),
    /// A session at READ COMMITTED.
    Postgres(&'a mut PgConnection),
}

impl Door<'_> {
    pub(in crate::store) fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// All rows that a statement gives back, in its order.
    pub(in crate::store) async fn fetch(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<Vec<Row>> {
        let sql = sql.into();
        match self {
            Self::Sqlite(db) => limited(fetch_on_sqlite(db, translate::sqlite(sql), values)).await,
            Self::Postgres(db) => {
                limited(postgres::statement::fetch(db, translate::postgres(sql), values)).await
            }
        }
    }

    /// The first row, if there is one.
    pub(in crate::store) async fn fetch_optional(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<Option<Row>> {
        Ok(self.fetch(sql, values).await?.into_iter().next())
    }

    /// The first row, which must be there.
    pub(in crate::store) async fn fetch_one(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<Row> {
        self.fetch_optional(sql, values).await?.ok_or_else(DbError::vanished)
    }

    /// Returns how many rows a statement changed.
    pub(in crate::store) async fn execute(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<u64> {
        let sql = sql.into();
        match self {
            Self::Sqlite(db) => limited(execute_on_sqlite(db, translate::sqlite(sql), values)).await,
            Self::Postgres(db) => {
                limited(postgres::statement::execute(db, translate::postgres(sql), values)).await
            }
        }
    }

    /// The same as it stands, for as long as it takes; for statements of others.
    pub(super) async fn execute_as_is(&mut self, sql: &'static str, values: &[Value]) -> DbResult<u64> {
        match self {
            Self::Sqlite(db) => execute_on_sqlite(db, sql, values).await,
            Self::Postgres(db) => postgres::statement::execute(db, sql, values).await,
        }
    }

    /// The same as it stands, for as long as it takes; for statements of others, and those that read all there is.
    pub(in crate::store) async fn fetch_as_is(
        &mut self,
        sql: &'static str,
        values: &[Value],
    ) -> DbResult<Vec<Row>> {
        match self {
            Self::Sqlite(db) => fetch_on_sqlite(db, sql, values).await,
            Self::Postgres(db) => postgres::statement::fetch(db, sql, values).await,
        }
    }

    /// Several statements without values, one after the other, as they stand, for as long as they take.
    pub(in crate::store) async fn batch(&mut self, sql: impl Into<String>) -> DbResult<()> {
        let sql = sql.into();
        match self {
            Self::Sqlite(db) => db.run(move |db| Ok(db.execute_batch(&sql)?)).await,
            Self::Postgres(db) => Ok(sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **db).await.map(drop)?),
        }
    }
}

async fn fetch_on_sqlite(db: &mut SqliteSession, sql: &'static str, values: &[Value]) -> DbResult<Vec<Row>> {
    let values = values.to_vec();
    db.run(move |db| sqlite::statement::fetch(db, sql, &values)).await
}

async fn execute_on_sqlite(db: &mut SqliteSession, sql: &'static str, values: &[Value]) -> DbResult<u64> {
    let values = values.to_vec();
    db.run(move |db| sqlite::statement::execute(db, sql, &values)).await
}
