//! The connections to one server: the purpose of each of them, and how many there are.
//!
//! The servers that the URL names, and which of them takes writes now.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::info;

use super::session::{self, SessionCheck, SessionReset, SessionRole};
use crate::db::backend::Purpose;
use crate::db::error::{DbError, DbResult, StoreError};
use crate::db::limit::limited;
use crate::db::opening::PostgresSettings;
use crate::db::pool::{PoolHealth, PoolUsage, SessionPool};
use crate::db::warnings::listen;
use hooklatch_core::database_url;
use hooklatch_core::stop::to_end;

/// The connections to one server.
#[derive(Clone)]
pub(crate) struct Postgres {
    /// Connections for everything else: PostgreSQL has no single writer.
    pub(crate) shared: SessionPool<PgConnection>,
    /// Connections for what operators look at and decide: their questions may be long, and nothing else waits behind
    /// them.
    people: SessionPool<PgConnection>,
    /// One session for whole admissions: no other work delays it, and its prepared statements stay with it.
    pub(crate) committer: SessionPool<PgConnection>,
    /// Connections for claims and settlements alone, with the plans of those.
    worker: SessionPool<PgConnection>,
    hosts: Arc<DatabaseHosts>,
    /// How a session is reset after a handler used it.
    pub(crate) reset: SessionReset,
    /// How many sessions handlers may take up.
    pub(crate) handlers_n: usize,
}

impl Postgres {
    pub(crate) fn pool(&self, purpose: Purpose) -> &SessionPool<PgConnection> {
        match purpose {
            Purpose::Reader | Purpose::Writer => &self.shared,
            Purpose::Worker => &self.worker,
            Purpose::People | Purpose::Deciding => &self.people,
        }
    }

    /// How much of its connections is taken, by what they are for.
    pub(crate) fn used(&self) -> Vec<PoolUsage> {
        vec![
            self.shared.used("shared"),
            self.people.used("people"),
            self.committer.used("committer"),
            self.worker.used("worker"),
        ]
    }

    /// A connection outside of the pools, for work that takes longer than any operation.
    pub(crate) async fn alone(&self) -> DbResult<PgConnection> {
        self.hosts.connect(SessionRole::Plain).await
    }

    pub(crate) async fn close(&self, bound: Duration) {
        let (shared, people) = (self.shared.close(bound), self.people.close(bound));
        tokio::join!(self.committer.close(bound), self.worker.close(bound), shared, people);
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
/// Number of connections for what operators look at and decide.
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
pub(crate) async fn open(
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
    let health = Arc::new(PoolHealth::default());
    let pool = |places_n: u32, role: SessionRole| {
        let hosts = Arc::clone(&hosts);
        let connect = move || {
            let hosts = Arc::clone(&hosts);
            Box::pin(async move { hosts.connect(role).await }) as _
        };
        SessionPool::new(places_n, Arc::clone(&health), Box::new(connect))
    };
    let shares = Shares::of(connections_n);
    Ok(Postgres {
        shared: pool(shares.pool, SessionRole::Plain),
        people: pool(PEOPLE_N, SessionRole::Plain),
        committer: pool(COMMITTER_N, SessionRole::Committer),
        worker: pool(shares.worker, SessionRole::Worker),
        hosts,
        reset: SessionReset::of(settings),
        handlers_n: shares.handlers as usize,
    })
}

/// Time for which the host that took writes last is asked alone, when there are others.
const CURRENT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time that a host may take to say what it is: with the one above less than the pool waits for a
/// connection.
const HOST_TIMEOUT: Duration = Duration::from_secs(4);
/// Further time for the hosts before it in the URL, once one is found: all nodes choose the same.
const EARLIER_TIMEOUT: Duration = Duration::from_millis(250);

/// All hosts of the URL, in its order; never none.
pub(super) struct DatabaseHosts {
    all: Vec<Arc<PgConnectOptions>>,
    settings: PostgresSettings,
    /// The host that took writes last.
    current: Mutex<Arc<PgConnectOptions>>,
}

/// Result of checking one host.
enum HostCheck {
    Fit(PgConnection),
    /// It takes no writes, or cannot be reached: another one may, or this one later.
    Passing(String),
    /// It must not be used, or does not want us.
    Refused(StoreError),
}

impl DatabaseHosts {
    pub(crate) fn parse(url: &str, settings: PostgresSettings) -> Result<Self, StoreError> {
        let urls =
            database_url::by_host(url).map_err(|why| StoreError::Refused(format!("database url {why}")))?;
        let options = |url: &String| {
            // The driver's message may quote the url, which may hold a password.
            let options = PgConnectOptions::from_str(url)
                .map_err(|_| StoreError::Refused("database url is not a PostgreSQL url".to_owned()))?;
            // Poolers refuse start-up parameters that they do not know. What we need of a session is set by statements.
            let options =
                options.application_name("hooklatch").statement_cache_capacity(512).extra_float_digits(None);
            Ok(Arc::new(options))
        };
        let all = urls.iter().map(options).collect::<Result<Vec<_>, StoreError>>()?;
        let first =
            all.first().ok_or_else(|| StoreError::Refused("database url names no host".to_owned()))?;
        Ok(Self { current: Mutex::new(Arc::clone(first)), all, settings })
    }

    /// The host that took writes last.
    pub(crate) fn current(&self) -> Arc<PgConnectOptions> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn follow(&self, host: &Arc<PgConnectOptions>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&current, host) {
            *current = Arc::clone(host);
            info!(host = place(host), "follows to the host that takes writes");
        }
    }

    /// A session that may write and is fit: where the last one was, else wherever one is.
    pub(crate) async fn connect(&self, role: SessionRole) -> DbResult<PgConnection> {
        if self.all.len() > 1
            && let HostCheck::Fit(session) =
                check_host(&self.current(), &self.settings, role, CURRENT_TIMEOUT).await
        {
            return Ok(session);
        }
        self.found(role).await.map_err(|error| match error {
            StoreError::Unavailable { source, .. } | StoreError::Query { source, .. } => source,
            other => DbError::lost(other.to_string()),
        })
    }

    /// The first of all hosts, in their order, that takes writes and is fit. All are asked at once.
    pub(crate) async fn found(&self, role: SessionRole) -> Result<PgConnection, StoreError> {
        let mut asked = JoinSet::new();
        for (n, host) in self.all.iter().cloned().enumerate() {
            let settings = self.settings.clone();
            asked.spawn(async move {
                let answer = check_host(&host, &settings, role, HOST_TIMEOUT).await;
                (n, host, answer)
            });
        }
        let mut answers = Vec::new();
        let mut until = Instant::now() + HOST_TIMEOUT + EARLIER_TIMEOUT;
        while let Ok(Some(answer)) = timeout_at(until, asked.join_next()).await {
            if matches!(answer, Ok((.., HostCheck::Fit(_)))) {
                until = until.min(Instant::now() + EARLIER_TIMEOUT);
            }
            answers.extend(answer.ok());
        }
        answers.sort_by_key(|(n, ..)| *n);
        let mut refusal = None;
        let mut seen = Vec::new();
        for (_, host, answer) in answers {
            match answer {
                HostCheck::Fit(session) => {
                    self.follow(&host);
                    return Ok(session);
                }
                HostCheck::Passing(why) => seen.push(why),
                HostCheck::Refused(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.unwrap_or_else(|| StoreError::Unavailable {
            op: "open",
            source: DbError::lost(seen.join("; ")),
        }))
    }
}

async fn check_host(
    options: &PgConnectOptions,
    settings: &PostgresSettings,
    role: SessionRole,
    limit: Duration,
) -> HostCheck {
    let place = place(options);
    let asking = async {
        let mut session = options.connect().await?;
        let verdict = session::prepare(&mut session, settings, role).await?;
        Ok::<_, DbError>((session, verdict))
    };
    match tokio::time::timeout(limit, asking).await {
        Ok(Ok((session, SessionCheck::Fit))) => HostCheck::Fit(session),
        Ok(Ok((_, SessionCheck::ReadOnly(why)))) => HostCheck::Passing(format!("{place}: {why}")),
        Ok(Ok((_, SessionCheck::Unfit(why)))) => HostCheck::Refused(StoreError::Refused(why)),
        Ok(Err(error)) => match StoreError::from_db("open", error) {
            StoreError::Unavailable { source, .. } => HostCheck::Passing(format!("{place}: {source}")),
            other => HostCheck::Refused(other),
        },
        Err(_) => HostCheck::Passing(format!("{place}: no answer within {} ms", limit.as_millis())),
    }
}

/// Host and port, for people.
fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
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
