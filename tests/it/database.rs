//! A fresh database for each test: a file in a folder of its own, or a PostgreSQL database that is dropped at the end.
//!
//! On PostgreSQL it is a copy of a template, which is migrated once: that takes a tenth of the time of a migration.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};

use hooklatch_core::types::{EventKey, Name, idempotency_key};
use hooklatch_store::{Store, StoreSettings};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::needs;

/// The URL of a database on the server of this URL.
fn url_of(server: &str, name: &str) -> String {
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

/// The name of a database with the schema of today and no row, which the first test of a server makes.
async fn template(server: &str, admin: &mut PgConnection) -> String {
    let schema = crate::tidy::files("migrations/postgres", ".sql");
    let name = format!("hooklatch_template_{:08x}", crc32fast::hash(format!("{schema:?}").as_bytes()));
    let exists = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)";
    if sqlx::query_scalar(exists).bind(&name).fetch_one(&mut *admin).await.unwrap() {
        return name;
    }
    // Other tests wait here, in processes of their own.
    sqlx::raw_sql("SELECT pg_advisory_lock(5607)").execute(&mut *admin).await.unwrap();
    if !sqlx::query_scalar::<_, bool>(exists).bind(&name).fetch_one(&mut *admin).await.unwrap() {
        let making = format!("{name}_making");
        let create = format!("DROP DATABASE IF EXISTS {making}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *admin).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {making}"))).execute(&mut *admin).await.unwrap();
        let url = url_of(server, &making);
        let store = Store::open(&StoreSettings { url: url.clone(), connections_n: 2 }).await.unwrap();
        store.migrate().await.unwrap();
        store.close().await;
        // Each copy is an installation of its own.
        let mut db = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql("DELETE FROM installation").execute(&mut db).await.unwrap();
        db.close().await.unwrap();
        // Under its name it is complete, and no session connects to it.
        let done = format!(
            "ALTER DATABASE {making} ALLOW_CONNECTIONS false; ALTER DATABASE {making} RENAME TO {name}"
        );
        for statement in done.split("; ") {
            sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut *admin).await.unwrap();
        }
    }
    sqlx::raw_sql("SELECT pg_advisory_unlock(5607)").execute(&mut *admin).await.unwrap();
    name
}

/// The database that a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Sqlite,
    Postgres,
}

/// A database that lives as long as this value.
pub(crate) struct Database {
    pub url: String,
    _folder: TempDir,
    dropped: Option<(String, String)>,
}

impl Database {
    /// With the schema of today. `None` where there is no PostgreSQL; the test is skipped then.
    pub(crate) async fn create(on: On) -> Option<Self> {
        Self::create_of(on, true).await
    }

    /// Without any table.
    pub(crate) async fn empty(on: On) -> Option<Self> {
        Self::create_of(on, false).await
    }

    async fn create_of(on: On, is_migrated: bool) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if on == On::Sqlite {
            let url = format!("sqlite://{}", folder.path().join("test.db").display());
            return Some(Self { url, _folder: folder, dropped: None });
        }
        let server = needs::place("HOOKLATCH_TEST_POSTGRES_URL")?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hooklatch_test_{}_{n}_{:x}", std::process::id(), fastrand::u32(..));
        let mut admin = PgConnection::connect(&server).await.unwrap();
        let template = if is_migrated { template(&server, &mut admin).await } else { "template1".to_owned() };
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.unwrap();
        let url = url_of(&server, &name);
        Some(Self { url, _folder: folder, dropped: Some((server, name)) })
    }

    /// Which of the two it is.
    pub(crate) fn on(&self) -> On {
        if self.url.starts_with("sqlite") { On::Sqlite } else { On::Postgres }
    }

    /// One that is there already and outlives this value, perhaps by another way.
    pub(crate) fn at(url: String) -> Self {
        Self { url, _folder: tempfile::tempdir().unwrap(), dropped: None }
    }

    /// The number that `sql` counts, on a connection of its own beside whatever process has the database.
    pub async fn count(&self, sql: &'static str) -> i64 {
        if self.dropped.is_some() {
            let mut db = PgConnection::connect(&self.url).await.unwrap();
            return sqlx::query_scalar(sql).fetch_one(&mut db).await.unwrap();
        }
        let mut db = SqliteConnection::connect(&self.url).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut db).await.unwrap()
    }

    /// The text that `sql` finds for `$1`, beside whatever process has the database.
    pub async fn text(&self, sql: &'static str, value: &str) -> Option<String> {
        if self.dropped.is_some() {
            let mut db = PgConnection::connect(&self.url).await.unwrap();
            return sqlx::query_scalar(sql).bind(value).fetch_optional(&mut db).await.unwrap();
        }
        let mut db = SqliteConnection::connect(&self.url).await.unwrap();
        sqlx::query_scalar(sql).bind(value).fetch_optional(&mut db).await.unwrap()
    }

    /// The first column of all rows that `sql` finds, as text, beside whatever process has the database.
    pub async fn texts(&self, sql: &'static str) -> Vec<String> {
        if self.dropped.is_some() {
            let mut db = PgConnection::connect(&self.url).await.unwrap();
            return sqlx::query_scalar(sql).fetch_all(&mut db).await.unwrap();
        }
        let mut db = SqliteConnection::connect(&self.url).await.unwrap();
        sqlx::query_scalar(sql).fetch_all(&mut db).await.unwrap()
    }

    /// The keys that the calls of all messages carry.
    pub async fn call_keys(&self) -> Vec<String> {
        let installation_id = self.texts("SELECT installation_id FROM installation").await.remove(0);
        let installation_id = uuid::Uuid::parse_str(&installation_id).unwrap();
        let sql = "SELECT provider || '|' || event_id || '|' || generation || '|' || effect_name FROM outbox_messages";
        let key = |row: String| {
            let [provider, event_id, generation, effect_name] = row.split('|').collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let provider = Name::parse(provider).unwrap();
            let key = EventKey { provider, event_id: event_id.to_owned() };
            idempotency_key(&installation_id, &key, generation.parse().unwrap(), effect_name)
        };
        self.texts(sql).await.into_iter().map(key).collect()
    }

    /// Runs these statements, on a connection of its own beside whatever process has the database.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.url.starts_with("sqlite") {
            let mut db = SqliteConnection::connect(&self.url).await?;
            return sqlx::raw_sql(sql).execute(&mut db).await.map(drop);
        }
        let mut db = PgConnection::connect(&self.url).await?;
        sqlx::raw_sql(sql).execute(&mut db).await.map(drop)
    }

    /// A session that has run these statements and is left open, like a forgotten one: dropping it ends it.
    pub(crate) async fn session(&self, sql: &str) -> Box<dyn Any + Send> {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.url.starts_with("sqlite") {
            let mut db = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut db).await.unwrap();
            return Box::new(db);
        }
        let mut db = PgConnection::connect(&self.url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut db).await.unwrap();
        Box::new(db)
    }

    /// Refuses connections and ends every session, or allows them again. PostgreSQL alone.
    pub(crate) async fn allow_connections(&self, is_allowed: bool) {
        let (server, name) = self.dropped.as_ref().unwrap();
        let mut admin = PgConnection::connect(server).await.unwrap();
        let allow = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {is_allowed}");
        sqlx::raw_sql(AssertSqlSafe(allow)).execute(&mut admin).await.unwrap();
        // Only once that is committed: a session that ends before is opened again.
        let end = format!(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}' AND NOT {is_allowed}"
        );
        sqlx::raw_sql(AssertSqlSafe(end)).execute(&mut admin).await.unwrap();
    }

    /// Opens a store on it and migrates it.
    pub(crate) async fn store(&self) -> Store {
        let settings = StoreSettings { url: self.url.clone(), connections_n: 8 };
        let mut opened = Store::open(&settings).await;
        for _ in 0..100 {
            if !matches!(&opened, Err(error) if error.to_string().contains("held by another process")) {
                break;
            }
            // The pause between two tries: one that was dropped holds the file until its last connection is closed.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            opened = Store::open(&settings).await;
        }
        let store = opened.unwrap();
        store.migrate().await.unwrap();
        store
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some((server, name)) = self.dropped.take() else { return };
        // A thread of its own: this may run inside a runtime that must not block on itself.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                if let Ok(mut admin) = PgConnection::connect(&server).await {
                    let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                    drop(sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await);
                }
            });
        });
        drop(dropper.join());
    }
}

/// Stamps each case as `on_sqlite::case` and `on_postgres::case`.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = $crate::database::Database::create($crate::database::On::Sqlite).await.unwrap();
                super::$case(&database).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(database) = $crate::database::Database::create($crate::database::On::Postgres).await {
                    super::$case(&database).await;
                }
            })+
        }
    };
}
pub(crate) use on_both;

/// Stamps each case as `on_sqlite::case`: for what is not about the database, such as the API and the console.
macro_rules! on_sqlite {
    ($($case:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = $crate::database::Database::create($crate::database::On::Sqlite).await.unwrap();
                super::$case(&database).await;
            })+
        }
    };
}
pub(crate) use on_sqlite;
