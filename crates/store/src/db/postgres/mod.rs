//! PostgreSQL: several nodes on one database, READ COMMITTED, every commit flushed.
//!
//! The purpose of each connection and how many there are, the servers that the URL names and which of them takes writes
//! now, and statements on a connection. `session.rs` has the required settings of a connection.

mod session;

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::query::Query;
use sqlx::{Column, ConnectOptions, Connection, PgConnection, Row as _, TypeInfo, ValueRef};
use sqlx_core::database::Database;
use sqlx_core::transaction::TransactionManager;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::info;

use self::session::{SessionCheck, SessionRole};
use super::backend::Purpose;
use super::error::{DbError, DbResult, StoreError};
use super::executor::Executor;
use super::limit::limited;
use super::opening::PostgresSettings;
use super::pool::{PoolHealth, PoolUsage, Session, SessionPool};
use super::value::{Cell, Row, Value};
use super::warnings::{listen, refused_with_warning};
use hooklatch_core::database_url;
use hooklatch_core::stop::ignore_result;

pub(crate) use session::{IS_WRITABLE, SessionReset};

/// The connections to one server.
#[derive(Clone)]
pub(crate) struct Postgres {
    /// Connections for everything else: PostgreSQL has no single writer.
    pub(crate) shared: SessionPool<PgConnection>,
    /// Connections for what operators look at and decide: their questions may be long, and nothing else waits behind
    /// them.
    operators: SessionPool<PgConnection>,
    /// One session for whole admissions: no other work delays it, and its prepared statements stay with it.
    pub(crate) committer: SessionPool<PgConnection>,
    /// Connections for claims and settlements alone, with the plans of those.
    worker: SessionPool<PgConnection>,
    hosts: Arc<DatabaseHosts>,
    /// How a session is reset after a handler used it.
    pub(crate) reset: Arc<SessionReset>,
    /// How many sessions handlers may take up.
    pub(crate) handlers_n: usize,
}

impl Postgres {
    pub(crate) fn pool(&self, purpose: Purpose) -> &SessionPool<PgConnection> {
        match purpose {
            Purpose::Reader | Purpose::Writer => &self.shared,
            Purpose::Worker => &self.worker,
            Purpose::Operators | Purpose::Deciding => &self.operators,
        }
    }

    /// How much of its connections is taken, by what they are for.
    pub(crate) fn used(&self) -> Vec<PoolUsage> {
        vec![
            self.shared.used("shared"),
            self.operators.used("operators"),
            self.committer.used("committer"),
            self.worker.used("worker"),
        ]
    }

    /// A connection outside of the pools, for work that takes longer than any operation.
    pub(crate) async fn alone(&self) -> DbResult<PgConnection> {
        self.hosts.connect(SessionRole::Plain).await
    }

    pub(crate) async fn close(&self, bound: Duration) {
        let (shared, operators) = (self.shared.close(bound), self.operators.close(bound));
        tokio::join!(self.committer.close(bound), self.worker.close(bound), shared, operators);
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
const OPERATORS_N: u32 = 2;
/// Number of the pool's connections that handlers leave to other work: a handler may keep one for seconds.
const LEFT_N: u32 = 2;

impl Shares {
    /// Divides connections, at least 6, of which one is for the outbox and two are for the pool.
    fn of(connections_n: u32) -> Self {
        let worker_n = if connections_n < 8 { 1 } else { 2 };
        let pool_n = connections_n.saturating_sub(COMMITTER_N + OPERATORS_N + worker_n).max(2);
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
    ignore_result(limited(async { Ok(Connection::close(first).await?) })).await;
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
        operators: pool(OPERATORS_N, SessionRole::Plain),
        committer: pool(COMMITTER_N, SessionRole::Committer),
        worker: pool(shares.worker, SessionRole::Worker),
        hosts,
        reset: Arc::new(SessionReset::of(settings)),
        handlers_n: shares.handlers as usize,
    })
}

/// Time for which the host that took writes last is asked alone, when there are others.
const CURRENT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time that a host may take to report its state: with the one above less than the pool waits for a
/// connection.
const HOST_TIMEOUT: Duration = Duration::from_secs(4);
/// Further time for the hosts before it in the URL, once one is found: all nodes choose the same.
const EARLIER_TIMEOUT: Duration = Duration::from_millis(250);

/// All hosts of the URL, in its order; never none.
struct DatabaseHosts {
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
    fn parse(url: &str, settings: PostgresSettings) -> Result<Self, StoreError> {
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
    fn current(&self) -> Arc<PgConnectOptions> {
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
    async fn connect(&self, role: SessionRole) -> DbResult<PgConnection> {
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
    async fn found(&self, role: SessionRole) -> Result<PgConnection, StoreError> {
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

/// Host and port, for logs and errors.
fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

fn bound<'q>(sql: &'static str, values: &'q [Value]) -> Query<'q, sqlx::Postgres, PgArguments> {
    values.iter().fold(sqlx::query(sql), |query, value| match value {
        Value::Int(number) => query.bind(number),
        Value::Text(text) => query.bind(text.as_deref()),
        Value::Bytes(bytes) => query.bind(bytes.as_deref()),
        Value::Texts(texts) => query.bind(texts),
        Value::Ints(numbers) => query.bind(numbers),
    })
}

/// All rows that `sql` gives back.
pub(crate) async fn fetch(db: &mut PgConnection, sql: &'static str, values: &[Value]) -> DbResult<Vec<Row>> {
    let rows = bound(sql, values).fetch_all(db).await?;
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    rows.iter().map(|found| row(found, &columns)).collect()
}

/// Returns how many rows `sql` changed.
pub(crate) async fn execute(db: &mut PgConnection, sql: &'static str, values: &[Value]) -> DbResult<u64> {
    Ok(bound(sql, values).execute(db).await?.rows_affected())
}

/// Returns the rows that a statement gave back.
fn row(found: &PgRow, columns: &Arc<[String]>) -> DbResult<Row> {
    let cells = (0..columns.len()).map(|n| cell(found, n)).collect::<DbResult<_>>()?;
    Ok(Row::new(Arc::clone(columns), cells))
}

fn cell(found: &PgRow, n: usize) -> DbResult<Cell> {
    let raw = found.try_get_raw(n)?;
    if raw.is_null() {
        return Ok(Cell::Null);
    }
    let kind = raw.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "INT8" => Cell::Int(found.try_get(n)?),
        "INT4" => Cell::Int(found.try_get::<i32, _>(n)?.into()),
        "INT2" => Cell::Int(found.try_get::<i16, _>(n)?.into()),
        "BOOL" => Cell::Int(found.try_get::<bool, _>(n)?.into()),
        "NUMERIC" => {
            let bytes = raw.as_bytes().map_err(DbError::lost)?;
            whole(bytes).map_or(Cell::Other("NUMERIC that is no 64-bit whole number".to_owned()), Cell::Int)
        }
        "TEXT" | "VARCHAR" | "CHAR" | "NAME" | "UNKNOWN" => Cell::Text(found.try_get(n)?),
        "BYTEA" => Cell::Bytes(found.try_get(n)?),
        "VOID" => Cell::Null,
        _ => Cell::Other(kind),
    })
}

/// A NUMERIC as it comes over the wire, such as a sum of BIGINTs: how many digits to the base of 10,000, the weight of
/// the first, the sign, how many decimal places are shown, the digits. `None` for what is no 64-bit whole number.
fn whole(bytes: &[u8]) -> Option<i64> {
    let mut words =
        bytes.chunks_exact(2).map(|pair| pair.try_into().map(u16::from_be_bytes).unwrap_or_default());
    let (digits_n, weight, sign, _) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let weight = i32::from(weight.cast_signed());
    let mut sum: i128 = 0;
    for n in 0..i32::from(digits_n) {
        let digit = i128::from(words.next()?);
        match u32::try_from(weight - n) {
            // A further group of digits would not fit into 64 bits.
            Ok(power @ 0..=4) => sum += digit * 10_000_i128.pow(power),
            _ if digit != 0 => return None,
            _ => {}
        }
    }
    match sign {
        0 => i64::try_from(sum).ok(),
        0x4000 => i64::try_from(-sum).ok(),
        _ => None,
    }
}

type Transactions = <sqlx::Postgres as Database>::TransactionManager;

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
        ignore_result(Connection::close(self)).await;
    }

    fn executor(&mut self) -> Executor<'_> {
        Executor::Postgres(self)
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
            assert_eq!(COMMITTER_N + OPERATORS_N + shares.worker + shares.pool, connections_n);
        }
    }

    #[test]
    fn a_sum_that_is_a_whole_number_is_read_as_one() {
        let numeric = |weight: i16, sign: u16, digits: &[u16]| {
            let head = [u16::try_from(digits.len()).unwrap(), weight.cast_unsigned(), sign, 0];
            whole(&head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>())
        };
        for (found, wanted) in [
            (numeric(0, 0, &[]), Some(0)),
            (numeric(0, 0, &[7]), Some(7)),
            (numeric(1, 0, &[1, 2]), Some(10_002)),
            (numeric(2, 0, &[5]), Some(500_000_000)),
            (numeric(0, 0x4000, &[42]), Some(-42)),
            (numeric(4, 0, &[922, 3372, 368, 5477, 5807]), Some(i64::MAX)),
            (numeric(4, 0, &[922, 3372, 368, 5477, 5808]), None),
            (numeric(4, 0x4000, &[922, 3372, 368, 5477, 5808]), Some(i64::MIN)),
            (numeric(5, 0, &[1]), None),
            (numeric(0, 0, &[1, 5000]), None),
            (numeric(0, 0xC000, &[]), None),
        ] {
            assert_eq!(found, wanted);
        }
    }
}
