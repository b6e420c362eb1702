//! The schema: who brings it up to date, and who waits meanwhile.

use std::time::{Duration, Instant};

use sqlx::migrate::MigrateError;
use sqlx::{Connection, PgConnection};
use tracing::info;

use super::Postgres;
use crate::store::migrations;
use crate::store::warnings::refused_with_warning;

/// Held by the node that migrates, until its transaction ends. Any number that nobody else uses in this database.
const LOCK: i64 = 0x686f_6f6b_6c61_7463;
/// How long a node waits for another one's migration, or for a table that somebody holds. Each try waits as long as
/// the session's `lock_timeout` lets it.
const WAIT_MAX: Duration = Duration::from_mins(5);

/// Applies what is missing, all or nothing. One node does it; the others wait and find it done.
pub(in crate::store) async fn migrate(db: &Postgres) -> sqlx::Result<()> {
    let started = Instant::now();
    loop {
        match migrate_once(db).await {
            Err(error) if is_held(&error) && started.elapsed() < WAIT_MAX => {
                info!(
                    waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or_default(),
                    waits_max_ms = u64::try_from(WAIT_MAX.as_millis()).unwrap_or_default(),
                    "another node migrates the database, or somebody holds its tables; waiting"
                );
            }
            done => return done,
        }
    }
}

async fn migrate_once(db: &Postgres) -> sqlx::Result<()> {
    let failed = |error| sqlx::Error::Migrate(Box::new(error));
    // A connection of its own, which ends whatever happened: a migration takes longer than any other statement.
    let mut connection = db.hosts.connect().await?;
    // Nobody waits who has nothing to do.
    if schema_version(&mut connection).await? >= migrations::latest() {
        migrations::postgres().run_direct(None, &mut connection, false).await.map_err(failed)?;
        return connection.close().await;
    }
    let mut tx = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
    migrations::postgres().run_direct(None, &mut *tx, false).await.map_err(failed)?;
    refused_with_warning(tx.commit()).await?;
    connection.close().await
}

/// Whether somebody else held what we wanted.
fn is_held(error: &sqlx::Error) -> bool {
    let inner = match error {
        sqlx::Error::Migrate(error) => match error.as_ref() {
            MigrateError::Execute(inner) | MigrateError::ExecuteMigration(inner, _) => inner,
            _ => return false,
        },
        other => other,
    };
    let code = inner.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| matches!(code.as_ref(), "55P03" | "40P01"))
}

/// The newest migration that was applied; 0 when there is none.
pub(in crate::store) async fn schema_version(db: &mut PgConnection) -> sqlx::Result<i64> {
    let is_there: bool =
        sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL").fetch_one(&mut *db).await?;
    if !is_there {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(db)
        .await
}

/// The oldest version that a binary may want; `None` in a schema from before there was one.
pub(in crate::store) async fn schema_floor(db: &mut PgConnection) -> sqlx::Result<Option<i64>> {
    let is_there: bool =
        sqlx::query_scalar("SELECT to_regclass('schema_floor') IS NOT NULL").fetch_one(&mut *db).await?;
    if !is_there {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT version FROM schema_floor").fetch_optional(db).await
}
