//! PostgreSQL: several nodes on one database, READ COMMITTED, every commit flushed.

mod hosts;
mod plans;
mod session;
pub(in crate::store) mod statement;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Postgres as Driver};
use sqlx_core::database::Database;
use sqlx_core::transaction::TransactionManager;

pub(super) use plans::Role;
pub(super) use session::IS_WRITABLE;
pub(in crate::store) use session::Tidy;

use super::limit::limited;
use super::pool::{Pool, Trust};
use super::warnings::{listen, refused_with_warning};
use super::{DbResult, Door, PostgresSettings, Session, StoreError};
use crate::stop::to_end;
use hosts::Hosts;

/// The connections to one server.
#[derive(Clone)]
pub(in crate::store) struct Postgres {
    /// For everything else: PostgreSQL has no single writer.
    pool: Pool<PgConnection>,
    /// For what people look at and decide: their questions may be long, and nothing else waits behind them.
    people: Pool<PgConnection>,
    /// One session for whole admissions: nobody else delays it, and what it prepared stays with it.
    committer: Pool<PgConnection>,
    /// For claims and settlements alone, with the plans of those.
    worker: Pool<PgConnection>,
    hosts: Arc<Hosts>,
    tidy: Tidy,
    handlers_n: usize,
}

impl Postgres {
    pub(in crate::store) fn reader(&self) -> &Pool<PgConnection> {
        &self.pool
    }

    pub(in crate::store) fn writer(&self) -> &Pool<PgConnection> {
        &self.pool
    }

    pub(in crate::store) fn people(&self) -> &Pool<PgConnection> {
        &self.people
    }

    pub(in crate::store) fn committer(&self) -> &Pool<PgConnection> {
        &self.committer
    }

    pub(in crate::store) fn worker(&self) -> &Pool<PgConnection> {
        &self.worker
    }

    /// How many sessions of the pool handlers may take up.
    pub(in crate::store) fn handlers_n(&self) -> usize {
        self.handlers_n
    }

    /// How a session is put right after a handler had it.
    pub(in crate::store) fn tidy(&self) -> Tidy {
        self.tidy
    }

    /// A connection of nobody's pool, for what takes longer than any operation.
    pub(super) async fn alone(&self) -> DbResult<PgConnection> {
        self.hosts.connect(Role::Plain).await
    }

    pub(super) async fn close(&self, bound: Duration) {
        let (pool, people) = (self.pool.close(bound), self.people.close(bound));
        tokio::join!(self.committer.close(bound), self.worker.close(bound), pool, people);
    }
}

/// How many connections of a node are for what.
#[derive(Debug, PartialEq, Eq)]
struct Shares {
    worker: u32,
    pool: u32,
    handlers: u32,
}

/// For whole admissions.
const COMMITTER_N: u32 = 1;
/// For what people look at and decide.
const PEOPLE_N: u32 = 2;
/// Of the pool, what handlers leave to everybody else: a handler may keep its own for seconds.
const LEFT_N: u32 = 2;

impl Shares {
    /// Of 6 connections at least, which are one for the outbox and two for the pool.
    fn of(connections_n: u32) -> Self {
        let worker_n = if connections_n < 8 { 1 } else { 2 };
        let pool_n = connections_n.saturating_sub(COMMITTER_N + PEOPLE_N + worker_n).max(2);
        Self { worker: worker_n, pool: pool_n, handlers: pool_n.saturating_sub(LEFT_N).max(1) }
    }
}

/// Connects to the host that takes writes. Refuses what could lose a confirmed commit.
pub(super) async fn open(
    url: &str,
    connections_n: u32,
    settings: &PostgresSettings,
) -> Result<Postgres, StoreError> {
    let unavailable = |source| StoreError::from_db("open", source);
    let hosts = Arc::new(Hosts::parse(url, settings.clone())?);
    let mut first = hosts.found(Role::Plain).await?;
    let mistake = session::pooling_mistake(&mut first, &hosts.current(), settings.pooling).await;
    // An error means that it is closed already.
    to_end(limited(async { Ok(Connection::close(first).await?) })).await;
    if let Some(why) = mistake.map_err(unavailable)? {
        return Err(StoreError::Refused(why));
    }
    listen();
    let trust = Arc::new(Trust::default());
    let pool = |places_n: u32, role: Role| {
        let hosts = Arc::clone(&hosts);
        let connect = move || {
            let hosts = Arc::clone(&hosts);
            Box::pin(async move { hosts.connect(role).await }) as _
        };
        Pool::new(places_n, Arc::clone(&trust), Box::new(connect))
    };
    let shares = Shares::of(connections_n);
    Ok(Postgres {
        pool: pool(shares.pool, Role::Plain),
        people: pool(PEOPLE_N, Role::Plain),
        committer: pool(COMMITTER_N, Role::Committer),
        worker: pool(shares.worker, Role::Worker),
        hosts,
        tidy: Tidy::of(settings),
        handlers_n: shares.handlers as usize,
    })
}

type Transactions = <Driver as Database>::TransactionManager;

impl Session for PgConnection {
    async fn begin(&mut self) -> DbResult<()> {
        Ok(Transactions::begin(self, None).await?)
    }

    async fn commit(&mut self) -> DbResult<()> {
        refused_with_warning(async { Ok(Transactions::commit(self).await?) }).await
    }

    async fn roll_back(&mut self) -> DbResult<()> {
        Ok(Transactions::rollback(self).await?)
    }

    fn is_in_transaction(&self) -> bool {
        Transactions::get_transaction_depth(self) > 0
    }

    /// The driver reads on before it says the next thing.
    fn is_lost(&self) -> bool {
        false
    }

    async fn close(self) {
        // An error means that it is closed already.
        to_end(Connection::close(self)).await;
    }

    fn door(&mut self) -> Door<'_> {
        Door::Postgres(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_a_node_are_never_more_than_its_connections() {
        for (connections_n, worker, pool, handlers) in
            [(6, 1, 2, 1), (7, 1, 3, 1), (8, 2, 3, 1), (10, 2, 5, 3), (100, 2, 95, 93)]
        {
            let shares = Shares::of(connections_n);
            assert_eq!(shares, Shares { worker, pool, handlers }, "{connections_n}");
            assert_eq!(COMMITTER_N + PEOPLE_N + shares.worker + shares.pool, connections_n);
        }
    }
}
