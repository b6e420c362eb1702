//! PostgreSQL: several nodes on one database, READ COMMITTED, every commit flushed. The twin of `sqlite/`:
//! same functions, same order.

mod admission;
mod event;
mod evidence;
mod lane;
mod message;
mod operator;

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

pub(super) use admission::{
    admission_begin, admit_at_once, conflict_record, event_take_due, events_holders, events_insert,
    events_update, messages_insert, paused_names, versions_raise,
};
pub(super) use event::{event_counts_open, event_get, event_list, event_retry_later};
pub(super) use evidence::{
    rejection_list, rejections_insert, rejections_prune, secret_use_add, secret_use_list,
};
pub(super) use lane::{lanes_advance, lanes_extend, lanes_lock};
pub(super) use message::{
    message_counts, message_extend, message_latest_ms, message_lease, message_list_of_event, message_release,
    message_settle,
};
pub(super) use operator::{
    attempt_list, audit_list, destination_pause, event_rerun, event_state, idempotency_answer,
    idempotency_prune, idempotency_take, message_count, message_get, message_ids, message_list,
    message_state, messages_act, operator_begin, pause_list,
};

use super::{StoreError, migrations};
use crate::types::UnixMs;

/// The connections to one server.
#[derive(Clone)]
pub(super) struct Postgres {
    /// For everything: PostgreSQL has no single writer.
    pub(super) pool: PgPool,
    /// One session for whole admissions: nobody else delays it, and what it prepared stays with it.
    pub(super) committer: PgPool,
}

/// Connects. Refuses what could lose a confirmed commit.
pub(super) async fn open(url: &str, connections_n: u32) -> Result<Postgres, StoreError> {
    // The driver's message may quote the url, which may hold a password.
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Refused("database url is not a PostgreSQL url".to_owned()))?
        .application_name("hooklatch")
        .statement_cache_capacity(512)
        .options([
            ("default_transaction_isolation", "read committed"),
            // Below any sender's patience: a wait for another node's uncommitted twin ends in 503.
            ("lock_timeout", "2s"),
            ("idle_in_transaction_session_timeout", "30s"),
            ("jit", "off"),
        ]);
    let pool = |connections_n: u32| {
        PgPoolOptions::new()
            .max_connections(connections_n)
            .min_connections(1)
            .acquire_timeout(Duration::from_secs(5))
            .test_before_acquire(false)
    };
    let committer = pool(1).connect_lazy_with(options.clone());
    let pool = pool(connections_n.max(5) - 1)
        .connect_with(options)
        .await
        .map_err(|source| StoreError::from_sqlx("open", source))?;
    check(&pool).await?;
    Ok(Postgres { pool, committer })
}

async fn check(pool: &PgPool) -> Result<(), StoreError> {
    let unavailable = |source| StoreError::from_sqlx("open", source);
    for (name, bad) in [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")] {
        let value: String = sqlx::query_scalar("SELECT current_setting($1)")
            .bind(name)
            .fetch_one(pool)
            .await
            .map_err(unavailable)?;
        if value == bad {
            return Err(StoreError::Refused(format!(
                "PostgreSQL runs with {name} = {value} and could lose confirmed events: turn it on"
            )));
        }
    }
    let is_standby: bool =
        sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(pool).await.map_err(unavailable)?;
    if is_standby {
        return Err(StoreError::Refused("PostgreSQL is in recovery: connect to the primary".to_owned()));
    }
    Ok(())
}

pub(super) async fn migrate(db: &Postgres) -> sqlx::Result<()> {
    migrations::postgres().run(&db.pool).await.map_err(|error| sqlx::Error::Migrate(Box::new(error)))
}

pub(super) async fn schema_version(db: &Postgres) -> sqlx::Result<i64> {
    let is_there: bool =
        sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL").fetch_one(&db.pool).await?;
    if !is_there {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(&db.pool)
        .await
}

pub(super) async fn installation_create(db: &Postgres, id: &str) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO installation (one, installation_id, created_at_ms)
         VALUES (1, $1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .execute(&db.pool)
    .await
    .map(drop)
}

pub(super) async fn installation_id(db: &Postgres) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT installation_id FROM installation").fetch_one(&db.pool).await
}

pub(super) async fn ping(db: &Postgres) -> sqlx::Result<()> {
    sqlx::query("SELECT 1").execute(&db.pool).await.map(drop)
}

pub(super) async fn clock_offset_ms(db: &Postgres, now_ms: UnixMs) -> sqlx::Result<i64> {
    let there: i64 = sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        .fetch_one(&db.pool)
        .await?;
    Ok(there.saturating_sub(now_ms))
}

pub(super) async fn close(db: &Postgres) {
    db.committer.close().await;
    db.pool.close().await;
}
