//! A database of its own for each measurement, or for a few of them.

use hooklatch_bench::Scratch;
use hooklatch_store::{Store, StoreSettings};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Db {
    Postgres,
    Sqlite,
}

/// Gone when `drop` is called; an SQLite one with the folder it is in.
pub(crate) struct Database {
    pub(crate) db: Db,
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Database {
    /// An empty one.
    pub(crate) async fn create(db: Db, scratch: &Scratch) -> Self {
        let name = format!("hooklatch_bench_{:x}", fastrand::u32(..));
        let url = match db {
            Db::Sqlite => scratch.sqlite_url(),
            Db::Postgres => {
                admin(format!("CREATE DATABASE {name}")).await;
                // The previous contestant leaves no checkpoint to the next.
                admin("CHECKPOINT".to_owned()).await;
                format!("{}/{name}", server().rsplit_once('/').unwrap().0)
            }
        };
        Self { db, url, name }
    }

    /// One with Hooklatch's tables.
    pub(crate) async fn migrated(db: Db, scratch: &Scratch) -> Self {
        let database = Self::create(db, scratch).await;
        let store =
            Store::open(&StoreSettings { url: database.url.clone(), connections_n: 2 }).await.unwrap();
        store.migrate().await.unwrap();
        store.close().await;
        database
    }

    /// Carries out statements, one transaction each.
    pub(crate) async fn execute(&self, statements: &[String]) {
        if self.db == Db::Postgres {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            for sql in statements {
                sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut connection).await.unwrap();
            }
            return;
        }
        let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
        // For bulk data that may be lost; 4 GB of pages in memory, or random keys take hours.
        let bulk = "PRAGMA synchronous = OFF; PRAGMA cache_size = -4000000";
        sqlx::raw_sql(bulk).execute(&mut connection).await.unwrap();
        for sql in statements {
            sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut connection).await.unwrap();
        }
        sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// The number that `sql` counts.
    pub(crate) async fn count(&self, sql: String) -> i64 {
        let sql = AssertSqlSafe(sql);
        if self.db == Db::Postgres {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            return sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
        }
        let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    }

    pub(crate) async fn drop(self) {
        if self.db == Db::Postgres {
            admin(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
        }
    }
}

/// The PostgreSQL server that `scripts/postgres` started.
pub(crate) fn server() -> String {
    std::env::var("HOOKLATCH_TEST_POSTGRES_URL").unwrap_or_default()
}

/// The port of that.
pub(crate) fn server_port() -> Option<u16> {
    server().rsplit_once('/')?.0.rsplit_once(':')?.1.parse().ok()
}

pub(crate) async fn admin(sql: String) {
    let mut db = PgConnection::connect(&server()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
}
