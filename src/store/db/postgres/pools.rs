//! The connections to one server: what each of them is for, and how many there are.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::hosts::DatabaseHosts;
use super::plans::SessionRole;
use super::session::{self, Tidy};
use crate::stop::to_end;
use crate::store::db::error::DbResult;
use crate::store::db::limit::limited;
use crate::store::db::opening::PostgresSettings;
use crate::store::db::pool::{PlacesUsed, SessionPool, Trust};
use crate::store::db::store_error::StoreError;
use crate::store::db::warnings::listen;

/// The connections to one server.
#[derive(Clone)]
pub(in crate::store) struct Postgres {
    /// Connections for everything else: PostgreSQL has no single writer.
    pool: SessionPool<PgConnection>,
    /// Connections for what people look at and decide: their questions may be long, and nothing else waits behind them.
    people: SessionPool<PgConnection>,
    /// One session for whole admissions: nobody else delays it, and what it prepared stays with it.
    committer: SessionPool<PgConnection>,
    /// Connections for claims and settlements alone, with the plans of those.
    worker: SessionPool<PgConnection>,
    hosts: Arc<DatabaseHosts>,
    tidy: Tidy,
    handlers_n: usize,
}

impl Postgres {
    pub(in crate::store) fn reader(&self) -> &SessionPool<PgConnection> {
        &self.pool
    }

    pub(in crate::store) fn writer(&self) -> &SessionPool<PgConnection> {
        &self.pool
    }

    pub(in crate::store) fn people(&self) -> &SessionPool<PgConnection> {
        &self.people
    }

    pub(in crate::store) fn committer(&self) -> &SessionPool<PgConnection> {
        &self.committer
    }

    pub(in crate::store) fn worker(&self) -> &SessionPool<PgConnection> {
        &self.worker
    }

    /// Returns how many sessions of the pool handlers may take up.
    pub(in crate::store) fn handlers_n(&self) -> usize {
        self.handlers_n
    }

    /// How much of its connections is taken, by what they are for.
    pub(in crate::store::db) fn used(&self) -> Vec<PlacesUsed> {
        vec![
            self.pool.used("shared"),
            self.people.used("people"),
            self.committer.used("committer"),
            self.worker.used("worker"),
        ]
    }

    /// Returns how a session is put right after a handler had it.
    pub(in crate::store) fn tidy(&self) -> Tidy {
        self.tidy
    }

    /// A connection of nobody's pool, for what takes longer than any operation.
    pub(in crate::store::db) async fn alone(&self) -> DbResult<PgConnection> {
        self.hosts.connect(SessionRole::Plain).await
    }

    pub(in crate::store::db) async fn close(&self, bound: Duration) {
        let (pool, people) = (self.pool.close(bound), self.people.close(bound));
        tokio::join!(self.committer.close(bound), self.worker.close(bound), pool, people);
    }
}

/// Numbers of connections of a node, by purpose.
#[derive(Debug, PartialEq, Eq)]
struct Shares {
    worker: u32,
    pool: u32,
    handlers: u32,
}

/// Connections for whole admissions.
const COMMITTER_N: u32 = 1;
/// Number of connections for what people look at and decide.
const PEOPLE_N: u32 = 2;
/// Number of the pool's connections that handlers leave to everybody else: a handler may keep one for seconds.
const LEFT_N: u32 = 2;

impl Shares {
    /// Divides connections, at least 6, of which one is for the outbox and two are for the pool.
    fn of(connections_n: u32) -> Self {
        let worker_n = if connections_n < 8 { 1 } else { 2 };
        let pool_n = connections_n.saturating_sub(COMMITTER_N + PEOPLE_N + worker_n).max(2);
        Self { worker: worker_n, pool: pool_n, handlers: pool_n.saturating_sub(LEFT_N).max(1) }
    }
}

/// Connects to the host that takes writes. Refuses what could lose a confirmed commit.
pub(in crate::store::db) async fn open(
    url: &str,
    connections_n: u32,
    settings: &PostgresSettings,
) -> Result<Postgres, StoreError> {
    let unavailable = |source| StoreError::from_db("open", source);
    let hosts = Arc::new(DatabaseHosts::parse(url, settings.clone())?);
    let mut first = hosts.found(SessionRole::Plain).await?;
    let mistake = session::pooling_mistake(&mut first, &hosts.current(), settings.pooling).await;
    // An error means that it is closed already.
    to_end(limited(async { Ok(Connection::close(first).await?) })).await;
    if let Some(why) = mistake.map_err(unavailable)? {
        return Err(StoreError::Refused(why));
    }
    listen();
    let trust = Arc::new(Trust::default());
    let pool = |places_n: u32, role: SessionRole| {
        let hosts = Arc::clone(&hosts);
        let connect = move || {
            let hosts = Arc::clone(&hosts);
            Box::pin(async move { hosts.connect(role).await }) as _
        };
        SessionPool::new(places_n, Arc::clone(&trust), Box::new(connect))
    };
    let shares = Shares::of(connections_n);
    Ok(Postgres {
        pool: pool(shares.pool, SessionRole::Plain),
        people: pool(PEOPLE_N, SessionRole::Plain),
        committer: pool(COMMITTER_N, SessionRole::Committer),
        worker: pool(shares.worker, SessionRole::Worker),
        hosts,
        tidy: Tidy::of(settings),
        handlers_n: shares.handlers as usize,
    })
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
