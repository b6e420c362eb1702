//! The only SQL. One [`Store`] over two databases: `sqlite/` and `postgres/` hold the same functions in the
//! same order, each with its own statements; one conformance suite (`tests/it/store.rs`) runs on both.
//!
//! Every operation is whole and runs to its end in a task of its own, within a limit (`limit.rs`): it may be asked
//! for by a future that is dropped. Those of [`Admission`], which is one transaction by itself, run where they are
//! called. A connection whose state is not known is closed (`pool.rs`).

/// One statement by itself, of the same name and with the same arguments in both dialects, on a connection that
/// reads or one that writes. What it is given must be its own.
macro_rules! alone {
    ($self:ident . $place:ident . $op:ident ( $($arg:expr),* )) => {
        limit::whole(stringify!($op), limit::OPERATION_LIMIT, {
            let backend = $self.0.clone();
            async move {
                let work = async {
                    match &backend {
                        Backend::Sqlite(db) => {
                            let mut held = db.$place().take().await?;
                            let work = sqlite::$op(held.connection()?, $($arg),*);
                            let answer = limit::limited(work).await;
                            held.give_back_after(answer)
                        }
                        Backend::Postgres(db) => {
                            let mut held = db.$place().take().await?;
                            let work = postgres::$op(held.connection()?, $($arg),*);
                            let answer = warnings::refused_with_warning(limit::limited(work)).await;
                            held.give_back_after(answer)
                        }
                    }
                };
                let answer = work.await.map_err(|source| StoreError::from_sqlx(stringify!($op), source));
                backend.note(&answer);
                answer
            }
        })
        .await
    };
}

/// Statements that belong together, the same way: one transaction.
macro_rules! together {
    ($self:ident . $op:ident ( $($arg:expr),* )) => {
        limit::whole(stringify!($op), limit::OPERATION_LIMIT, {
            let store = $self.clone();
            async move {
                let mut tx = store.begin(stringify!($op)).await?;
                let answer = in_tx!(tx, $op($($arg),*));
                let answer = tx.end(answer).await;
                store.0.note(&answer);
                answer
            }
        })
        .await
    };
}

/// The same inside an open transaction.
macro_rules! in_tx {
    ($tx:expr, $op:ident ( $($arg:expr),* )) => {{
        let answer = match &mut $tx.kind {
            TxKind::Sqlite(db) => match db.connection() {
                Ok(db) => limit::limited(sqlite::$op(db, $($arg),*)).await,
                Err(error) => Err(error),
            },
            TxKind::Postgres(db, _) => match db.connection() {
                Ok(db) => limit::limited(postgres::$op(db, $($arg),*)).await,
                Err(error) => Err(error),
            },
        };
        $tx.noted(stringify!($op), answer)
    }};
}

mod admission;
mod apart;
#[expect(dead_code, unused_imports, unreachable_pub, reason = "the nouns move to it one by one")]
mod db;
mod error;
mod evidence;
mod limit;
mod message;
mod migrations;
mod open_events;
mod opening;
mod operator;
mod pool;
mod postgres;
mod rows;
mod signal;
mod sqlite;
mod tx;
mod types;
mod warnings;

use std::time::Duration;

use uuid::Uuid;

pub use admission::{Admission, AtOnce};
pub use apart::{Conflicts, KeptContent};
pub use error::StoreError;
pub use evidence::{REJECTIONS_N_MAX, Rejection, SecretUse, Taught};
pub use migrations::SchemaState;
pub use open_events::{DueEvent, EventCount};
pub(crate) use opening::waiting;
pub use opening::{Pooling, PostgresSettings, StoreSettings};
pub use operator::{
    Act, AttemptRow, AuditRow, Chosen, DECISION_N_MAX, Decided, Decision, Decree, Filter, PauseRow,
};
use pool::Trust;
use tx::TxKind;
pub use tx::{Tx, TxConnection, Value};
use types::Now;
pub use types::{
    BornLease, EventRow, EventUpdate, Latched, LeaseWant, LeasedMessage, LostClaims, MessageCount,
    MessageRow, NewMessage, SettleTo, Settlement,
};

use crate::types::{Clock, EventKey, EventState, UnixMs};

/// How long operations under way have to end when the store is closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// The database. Cloning is cheap and shares the connections. The second part: whether it tells the time itself.
#[derive(Clone)]
pub struct Store(Backend, bool);

#[derive(Clone)]
enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Backend {
    /// What is known of the database by all its connections.
    fn trust(&self) -> &Trust {
        match self {
            Self::Sqlite(db) => db.writer().trust(),
            Self::Postgres(db) => db.writer().trust(),
        }
    }

    /// An operation that the database was not there for makes the next [`Store::probe`] look closer.
    fn note<T>(&self, answer: &Result<T, StoreError>) {
        if matches!(answer, Err(StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. })) {
            self.trust().doubt();
        }
    }
}

impl Store {
    fn new(backend: Backend) -> Self {
        Self(backend, false)
    }

    /// The same database, whose leases and due times go by its own clock where it has one, not by those of the
    /// nodes: clocks that differ then cost nobody his lease. A clock that tests set by hand goes before.
    #[must_use]
    pub fn timed_by(self, clock: &Clock) -> Self {
        Self(self.0, !clock.is_manual())
    }

    /// Whether leases and due times go by the database's own clock.
    pub fn is_own_clock(&self) -> bool {
        self.1 && matches!(self.0, Backend::Postgres(_))
    }

    fn now(&self, ms: UnixMs) -> Now {
        Now { ms, is_theirs: self.is_own_clock() }
    }

    /// How many transactions of handlers there may be at once, so that connections are left for everything else.
    pub(crate) fn handlers_n(&self) -> usize {
        match &self.0 {
            Backend::Sqlite(_) => 1,
            Backend::Postgres(db) => db.handlers_n(),
        }
    }

    /// `sqlite` or `postgres`.
    pub fn dialect(&self) -> &'static str {
        match &self.0 {
            Backend::Sqlite(_) => "sqlite",
            Backend::Postgres(_) => "postgres",
        }
    }

    /// Brings the schema up to date; gives back the versions that were applied now.
    pub async fn migrate(&self) -> Result<Vec<i64>, StoreError> {
        let before = self.schema_version().await?;
        match &self.0 {
            Backend::Sqlite(db) => sqlite::migrate(db).await,
            Backend::Postgres(db) => postgres::migrate(db).await,
        }
        .map_err(|source| StoreError::from_sqlx("migrate", source))?;
        let after = self.schema_version().await?;
        let id = Uuid::new_v4().to_string();
        alone!(self.writer.installation_create(&id))?;
        Ok((before + 1..=after).collect())
    }

    /// Whether this binary may run on the schema.
    pub async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        let found = self.schema_version().await?;
        // Before there was a floor, no binary could run on a schema newer than its own.
        let floor: Option<i64> = alone!(self.writer.schema_floor())?;
        Ok(SchemaState::of(found, floor.unwrap_or(found), migrations::latest()))
    }

    async fn schema_version(&self) -> Result<i64, StoreError> {
        alone!(self.writer.schema_version())
    }

    /// What this installation is called in idempotency keys; made by the first migration.
    pub async fn installation_id(&self) -> Result<Uuid, StoreError> {
        let text: String = alone!(self.reader.installation_id())?;
        Uuid::parse_str(&text).map_err(|_| StoreError::inconsistent("installation", "installation_id", "1"))
    }

    /// Whether admission would work: a transaction that may write can be opened where admission opens its own. After
    /// anything went wrong a row is written, and its commit awaited, before the answer is yes again. Answers within 2 s.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let store = self.clone();
        limit::whole("probe", limit::PROBE_LIMIT, async move {
            let is_doubted = store.0.trust().is_doubted();
            let mut tx = store.begin("probe").await?;
            let answer = in_tx!(tx, probe(is_doubted));
            if is_doubted {
                tx.end(answer).await?;
                store.0.trust().restore();
                return Ok(());
            }
            answer?;
            tx.roll_back().await
        })
        .await
    }

    /// The database's clock minus ours; 0 where they are the same clock. Milliseconds.
    pub async fn clock_offset_ms(&self, now_ms: UnixMs) -> Result<i64, StoreError> {
        alone!(self.reader.clock_offset_ms(now_ms))
    }

    /// Closes every connection, after what runs on them; within seconds, whatever the database does.
    pub async fn close(&self) {
        match &self.0 {
            Backend::Sqlite(db) => sqlite::close(db, CLOSE_LIMIT).await,
            Backend::Postgres(db) => postgres::close(db, CLOSE_LIMIT).await,
        }
    }

    /// Opens the transaction of one batch. To be called where nobody drops it: it is rolled back then, with its
    /// connection.
    pub async fn admission_begin(&self) -> Result<Admission, StoreError> {
        let tx = self.begin("admission_begin").await;
        self.0.note(&tx);
        tx.map(Admission::new)
    }

    async fn begin(&self, op: &'static str) -> Result<Tx, StoreError> {
        self.begin_in(op, postgres::Postgres::writer).await
    }

    /// The same for what a person decides.
    async fn begin_deciding(&self, op: &'static str) -> Result<Tx, StoreError> {
        self.begin_in(op, postgres::Postgres::people).await
    }

    /// SQLite has one place to write; of PostgreSQL's it is `place`.
    async fn begin_in(
        &self,
        op: &'static str,
        place: fn(&postgres::Postgres) -> &pool::Pool<sqlx::Postgres>,
    ) -> Result<Tx, StoreError> {
        let kind = match &self.0 {
            // IMMEDIATE: a deferred transaction that writes later fails at once when another wrote meanwhile.
            Backend::Sqlite(db) => db.writer().begin(Some("BEGIN IMMEDIATE")).await.map(TxKind::Sqlite),
            Backend::Postgres(db) => {
                place(db).begin(None).await.map(|held| TxKind::Postgres(held, db.tidy()))
            }
        };
        kind.map(Tx::new).map_err(|source| StoreError::from_sqlx(op, source))
    }

    /// Writes that an event failed again, while it still is in `retry` with `attempts_before`; `false` when
    /// it no longer is.
    pub async fn event_retry_later(
        &self,
        update: &EventUpdate,
        attempts_before: u32,
    ) -> Result<bool, StoreError> {
        let update = update.clone();
        alone!(self.writer.event_retry_later(&update, i64::from(attempts_before)))
    }

    /// One event's row.
    pub async fn event_get(&self, key: &EventKey) -> Result<Option<EventRow>, StoreError> {
        let key = key.clone();
        alone!(self.people.event_get(&key))
    }

    /// The newest events, at most `limit`, of one state or of all.
    pub async fn event_list(
        &self,
        state: Option<EventState>,
        limit: u32,
    ) -> Result<Vec<EventRow>, StoreError> {
        alone!(self.people.event_list(state.map(EventState::as_str), i64::from(limit)))
    }

    /// How many events of each provider wait for a retry, have failed, or could not be read.
    pub async fn event_counts_open(&self) -> Result<Vec<EventCount>, StoreError> {
        alone!(self.reader.event_counts_open())
    }

    /// How many bytes are kept of events that could not be read, by provider.
    pub async fn unreadable_bytes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let found: Vec<(String, i64)> = alone!(self.reader.unreadable_bytes())?;
        Ok(found.into_iter().map(|(provider, bytes_n)| (provider, bytes_n.unsigned_abs())).collect())
    }
}
