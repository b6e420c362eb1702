//! The only SQL. One [`Store`] over two databases: `sqlite/` and `postgres/` hold the same functions in the
//! same order, each with its own statements; one conformance suite (`tests/it/store.rs`) runs on both.
//!
//! Every operation is a whole transaction, except those of [`Admission`], which is one transaction by
//! itself. No operation is called from a future that a client can cancel: a cancelled `BEGIN` poisons a
//! pool (sqlx issue 4393).

/// One line per operation: same name, same arguments, in both dialects.
macro_rules! on_backend {
    ($self:ident . $op:ident ( $($arg:expr),* )) => {
        match &$self.0 {
            Backend::Sqlite(db) => sqlite::$op(db, $($arg),*).await,
            Backend::Postgres(db) => postgres::$op(db, $($arg),*).await,
        }
        .map_err(|source| StoreError::from_sqlx(stringify!($op), source))
    };
}

/// The same inside an open transaction.
macro_rules! in_tx {
    ($tx:expr, $op:ident ( $($arg:expr),* )) => {
        match &mut $tx.0 {
            TxKind::Sqlite(db) => sqlite::$op(&mut *db, $($arg),*).await,
            TxKind::Postgres(db) => postgres::$op(&mut *db, $($arg),*).await,
        }
        .map_err(|source| StoreError::from_sqlx(stringify!($op), source))
    };
}

mod admission;
mod error;
mod evidence;
mod migrations;
mod operator;
mod postgres;
mod rows;
mod sqlite;
mod tx;
mod types;

use uuid::Uuid;

pub use admission::Admission;
pub use error::StoreError;
pub use evidence::{REJECTIONS_N_MAX, Rejection, SecretUse};
pub use operator::{
    Act, AttemptRow, AuditRow, Chosen, DECISION_N_MAX, Decided, Decision, Decree, Filter, PauseRow,
};
pub use tx::{Tx, TxConnection, Value};
pub use types::{
    BornLease, DueEvent, EventRow, EventUpdate, Latched, LeaseWant, LeasedMessage, LostClaims, MessageCount,
    MessageRow, NewMessage, SchemaState, SettleTo, Settlement,
};
use types::{Claimed, Now, Token, laned};

use crate::types::{Clock, EventKey, EventState, UnixMs};

/// Where the database is.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// `sqlite://PATH` or `postgres://…`.
    pub url: String,
    /// Most connections; SQLite has one writer and this many readers.
    pub connections_n: u32,
}

/// The database. Cloning is cheap and shares the connections. The second part: whether it tells the time itself.
#[derive(Clone)]
pub struct Store(Backend, bool);

#[derive(Clone)]
enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Store {
    /// Connects, and refuses a database that could lose what it confirmed.
    pub async fn open(settings: &StoreSettings) -> Result<Self, StoreError> {
        let url = &settings.url;
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return postgres::open(url, settings.connections_n).await.map(Backend::Postgres).map(Self::new);
        }
        if url.starts_with("sqlite:") {
            return sqlite::open(url, settings.connections_n).await.map(Backend::Sqlite).map(Self::new);
        }
        Err(StoreError::Refused("database url must start with `sqlite:` or `postgres:`".to_owned()))
    }

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
        on_backend!(self.migrate())?;
        let after = self.schema_version().await?;
        on_backend!(self.installation_create(&Uuid::new_v4().to_string()))?;
        Ok((before + 1..=after).collect())
    }

    /// Whether the schema is the one this binary wants.
    pub async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        Ok(SchemaState::of(self.schema_version().await?, migrations::latest()))
    }

    async fn schema_version(&self) -> Result<i64, StoreError> {
        on_backend!(self.schema_version())
    }

    /// What this installation is called in idempotency keys; made by the first migration.
    pub async fn installation_id(&self) -> Result<Uuid, StoreError> {
        let text: String = on_backend!(self.installation_id())?;
        Uuid::parse_str(&text).map_err(|_| StoreError::inconsistent("installation", "installation_id", "1"))
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        on_backend!(self.ping())
    }

    /// The database's clock minus ours; 0 where they are the same clock. Milliseconds.
    pub async fn clock_offset_ms(&self, now_ms: UnixMs) -> Result<i64, StoreError> {
        on_backend!(self.clock_offset_ms(now_ms))
    }

    /// Closes every connection, after what runs on them.
    pub async fn close(&self) {
        match &self.0 {
            Backend::Sqlite(db) => sqlite::close(db).await,
            Backend::Postgres(db) => postgres::close(db).await,
        }
    }

    /// Opens the transaction of one batch.
    pub async fn admission_begin(&self) -> Result<Admission, StoreError> {
        on_backend!(self.admission_begin()).map(Admission::new)
    }

    /// Writes that an event failed again, while it still is in `retry` with `attempts_before`; `false` when
    /// it no longer is.
    pub async fn event_retry_later(
        &self,
        update: &EventUpdate,
        attempts_before: u32,
    ) -> Result<bool, StoreError> {
        on_backend!(self.event_retry_later(update, i64::from(attempts_before)))
    }

    /// One event's row.
    pub async fn event_get(&self, key: &EventKey) -> Result<Option<EventRow>, StoreError> {
        on_backend!(self.event_get(key))
    }

    /// The newest events, at most `limit`, of one state or of all.
    pub async fn event_list(
        &self,
        state: Option<EventState>,
        limit: u32,
    ) -> Result<Vec<EventRow>, StoreError> {
        on_backend!(self.event_list(state.map(EventState::as_str), i64::from(limit)))
    }

    /// How many events wait for a retry, have failed, or could not be read.
    pub async fn event_counts_open(&self) -> Result<Vec<(String, u64)>, StoreError> {
        on_backend!(self.event_counts_open())
    }

    /// The messages of one event, by effect name.
    pub async fn message_list_of_event(&self, key: &EventKey) -> Result<Vec<MessageRow>, StoreError> {
        on_backend!(self.message_list_of_event(key))
    }

    /// Takes due messages of the wanted destinations, each for `lease_ms`, counting and recording an
    /// attempt before any byte leaves. A lease that ended without a settlement is due like any other. A message
    /// that cannot be read is held, with the reason, and stands in nobody's way. `node` names who claims them; a
    /// name of its own for each look lets [`Store::message_release`] tell them.
    pub async fn message_lease(
        &self,
        wants: &[LeaseWant],
        now_ms: UnixMs,
        lease_ms: i64,
        node: &str,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        let wants: Vec<&LeaseWant> = wants.iter().filter(|want| want.free_n > 0).collect();
        if wants.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.now(now_ms);
        let claimed: Claimed = on_backend!(self.message_lease(&wants, now, lease_ms, node))?;
        if !claimed.unreadable.is_empty() {
            for one in &claimed.unreadable {
                let (message_id, error) = (&one.message_id, one.error.as_deref().unwrap_or_default());
                tracing::error!(message.id = %message_id, error, "message cannot be read; it is held");
            }
            // If this fails, their leases end, and they come here again.
            if let Err(error) = self.message_settle(&claimed.unreadable).await {
                tracing::warn!(%error, "could not hold the messages that cannot be read");
            }
        }
        Ok(claimed.messages)
    }

    /// Gives back what was claimed by looks whose answer was lost: none of it was sent. Says how many.
    pub async fn message_release(&self, lost: &LostClaims, now_ms: UnixMs) -> Result<u64, StoreError> {
        on_backend!(self.message_release(lost, self.now(now_ms)))
    }

    /// Prolongs the lease of a message to `lease_ms` from now while its call is under way; `false` when it is no
    /// longer this worker's: then nothing was changed.
    pub async fn message_extend(
        &self,
        message_id: &str,
        attempt_n: u32,
        now_ms: UnixMs,
        lease_ms: i64,
    ) -> Result<bool, StoreError> {
        on_backend!(self.message_extend(message_id, attempt_n, self.now(now_ms), lease_ms))
    }

    /// Writes what attempts came to. `false` for each whose token is no longer the message's: then nothing
    /// of it was written.
    pub async fn message_settle(&self, settlements: &[Settlement]) -> Result<Vec<bool>, StoreError> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let settled: std::collections::HashSet<Token> =
            on_backend!(self.message_settle(settlements, self.is_own_clock()))?;
        let is_written = |one: &Settlement| settled.contains(&(one.message_id.clone(), one.attempt_n));
        Ok(settlements.iter().map(is_written).collect())
    }

    /// The latest time that the open messages tell of; below it no clock of ours was when they were written.
    pub async fn message_latest_ms(&self) -> Result<Option<UnixMs>, StoreError> {
        on_backend!(self.message_latest_ms())
    }

    /// How many unfinished messages stand where.
    pub async fn message_counts(&self) -> Result<Vec<MessageCount>, StoreError> {
        on_backend!(self.message_counts())
    }
}
