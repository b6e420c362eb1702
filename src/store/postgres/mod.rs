//! PostgreSQL: several nodes on one database, READ COMMITTED, every commit flushed. The twin of `sqlite/`:
//! same functions, same order.

mod admission;
mod apart;
mod event;
mod evidence;
mod hosts;
mod lane;
mod message;
mod operator;
mod schema;
mod session;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;

pub(super) use admission::{
    admit_at_once, event_take_due, events_holders, events_insert, events_update, lock_wait_set,
    messages_insert, paused_names, versions_raise,
};
pub(super) use apart::{
    conflict_count, conflicts_unkept, event_content, events_with, replay_keys_taken, signals_number,
};
pub(super) use event::{event_counts_open, event_get, event_list, event_retry_later, unreadable_bytes};
pub(super) use evidence::{
    rejection_list, rejections_insert, rejections_prune, secret_use_add, secret_use_list, taught_keep,
    taught_take,
};
pub(super) use lane::{lanes_advance, lanes_extend, lanes_lock};
pub(super) use message::{
    message_counts, message_extend, message_latest_ms, message_lease, message_list_of_event, message_release,
    message_settle,
};
pub(super) use operator::{
    attempt_list, audit_list, destination_pause, event_act, event_state, idempotency_answer,
    idempotency_prune, idempotency_take, message_count, message_get, message_ids, message_list,
    message_state, messages_act, pause_list,
};
pub(super) use schema::{migrate, schema_floor, schema_version};

use super::admission::EventInsert;
use super::limit::limited;
use super::pool::{Pool, Trust};
use super::warnings::{listen, refused_with_warning};
use super::{NewMessage, PostgresSettings, StoreError};
use crate::types::{EventKey, UnixMs};
use hosts::Hosts;
use session::IS_WRITABLE;
pub(super) use session::Tidy;

/// The connections to one server.
#[derive(Clone)]
pub(super) struct Postgres {
    /// For everything else: PostgreSQL has no single writer.
    pool: Pool<sqlx::Postgres>,
    /// For what people look at and decide: their questions may be long, and nothing else waits behind them.
    people: Pool<sqlx::Postgres>,
    /// One session for whole admissions: nobody else delays it, and what it prepared stays with it.
    committer: Pool<sqlx::Postgres>,
    hosts: Arc<Hosts>,
    tidy: Tidy,
    handlers_n: usize,
}

impl Postgres {
    pub(super) fn reader(&self) -> &Pool<sqlx::Postgres> {
        &self.pool
    }

    pub(super) fn writer(&self) -> &Pool<sqlx::Postgres> {
        &self.pool
    }

    /// How many sessions of the pool handlers may take up.
    pub(super) fn handlers_n(&self) -> usize {
        self.handlers_n
    }

    /// How a session is put right after a handler had it.
    pub(super) fn tidy(&self) -> Tidy {
        self.tidy
    }

    pub(super) fn people(&self) -> &Pool<sqlx::Postgres> {
        &self.people
    }
}

/// Connections that handlers leave to admission and the outbox: a handler may keep its own for seconds.
const LEFT_N: u32 = 3;
/// Connections for what people look at and decide.
const PEOPLE_N: u32 = 2;

/// Connects to the host that takes writes. Refuses what could lose a confirmed commit.
pub(super) async fn open(
    url: &str,
    connections_n: u32,
    settings: &PostgresSettings,
) -> Result<Postgres, StoreError> {
    let unavailable = |source| StoreError::from_sqlx("open", source);
    let hosts = Arc::new(Hosts::parse(url, settings.clone())?);
    let mut first = hosts.found().await?;
    let mistake = session::pooling_mistake(&mut first, &hosts.current(), settings.pooling).await;
    // An error means that it is closed already.
    drop(limited(first.close()).await);
    if let Some(why) = mistake.map_err(unavailable)? {
        return Err(StoreError::Refused(why));
    }
    listen();
    let trust = Arc::new(Trust::default());
    let pool = |connections_n: u32| {
        let hosts = Arc::clone(&hosts);
        let connect = move |_| {
            let hosts = Arc::clone(&hosts);
            Box::pin(async move { hosts.connect().await }) as _
        };
        Pool::new(connections_n, Arc::clone(&trust), Box::new(connect))
    };
    let others_n = connections_n.saturating_sub(1 + PEOPLE_N).max(3);
    let handlers_n = others_n.saturating_sub(LEFT_N).max(1) as usize;
    Ok(Postgres {
        pool: pool(others_n),
        people: pool(PEOPLE_N),
        committer: pool(1),
        hosts,
        tidy: Tidy::of(settings),
        handlers_n,
    })
}

/// A whole admission in one statement, on the committer's own session.
pub(super) async fn admitted_at_once(
    db: &Postgres,
    rows: &[EventInsert<'_>],
    messages: &[NewMessage],
) -> sqlx::Result<(HashSet<EventKey>, HashSet<String>)> {
    let mut held = db.committer.take().await?;
    let work = limited(admit_at_once(held.connection()?, rows, messages));
    let answer = refused_with_warning(work).await;
    held.give_back_after(answer)
}

pub(super) async fn installation_create(db: &mut PgConnection, id: &str) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO installation (one, installation_id, created_at_ms)
         VALUES (1, $1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .execute(db)
    .await
    .map(drop)
}

pub(super) async fn installation_id(db: &mut PgConnection) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT installation_id FROM installation").fetch_one(db).await
}

/// Whether this transaction may write; with `is_written`, a row is, as it was.
pub(super) async fn probe(db: &mut PgConnection, is_written: bool) -> sqlx::Result<()> {
    let is_writable: bool = sqlx::query_scalar(IS_WRITABLE).fetch_one(&mut *db).await?;
    if !is_writable {
        return Err(sqlx::Error::Configuration(
            "this server takes no writes, or waits for no standby".into(),
        ));
    }
    if is_written {
        sqlx::query("UPDATE installation SET created_at_ms = created_at_ms").execute(db).await?;
    }
    Ok(())
}

pub(super) async fn clock_offset_ms(db: &mut PgConnection, now_ms: UnixMs) -> sqlx::Result<i64> {
    let there: i64 = sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        .fetch_one(db)
        .await?;
    Ok(there.saturating_sub(now_ms))
}

pub(super) async fn close(db: &Postgres, bound: Duration) {
    tokio::join!(db.committer.close(bound), db.pool.close(bound), db.people.close(bound));
}
