//! The store: everything that is kept, one file for each noun. Its unit is a whole operation.
//!
//! What is hot (admission, claims, settlements) has a twin for each database, `NOUN/postgres.rs` and `NOUN/sqlite.rs`. All
//! else is written once, over a `Door` (`db/door.rs`), in PostgreSQL's words. `db/` alone knows a driver; one conformance suite
//! (`tests/it/store/`) runs on both databases.
//!
//! Every operation runs to its end in a task of its own, within a limit (`db/limit.rs`): it may be asked for by a future
//! that is dropped. Those of [`AdmissionTx`], which is one transaction by itself, run where they are called.

/// One operation by itself, on a connection for a `Place`. What it is given must be its own.
macro_rules! alone {
    ($self:ident . $place:ident . $op:ident ( $($arg:expr),* )) => {
        $self.0.backend.alone(stringify!($op), place!($place), move |mut door| {
            Box::pin(async move { $op(&mut door, $($arg),*).await })
        })
        .await
    };
}

/// Statements that belong together, the same way: one transaction.
macro_rules! together {
    ($self:ident . $op:ident ( $($arg:expr),* )) => { together!($self.writer.$op($($arg),*)) };
    ($self:ident . $place:ident . $op:ident ( $($arg:expr),* )) => {
        $self.0.backend.together(stringify!($op), place!($place), move |mut door| {
            Box::pin(async move { $op(&mut door, $($arg),*).await })
        })
        .await
    };
}

/// The same inside an open transaction.
macro_rules! in_tx {
    ($tx:expr, $op:ident ( $($arg:expr),* )) => {{
        let answer = match $tx.door() {
            Ok(mut door) => $op(&mut door, $($arg),*).await,
            Err(error) => Err(error),
        };
        $tx.noted(stringify!($op), answer)
    }};
}

macro_rules! place {
    (reader) => {
        crate::store::db::Place::Reader
    };
    (writer) => {
        crate::store::db::Place::Writer
    };
    (worker) => {
        crate::store::db::Place::Worker
    };
    (people) => {
        crate::store::db::Place::People
    };
    (deciding) => {
        crate::store::db::Place::Deciding
    };
}

mod admission;
mod apart;
mod db;
mod decision;
mod event;
mod lane;
mod look;
mod message;
mod migrations;
mod numbers;
mod program_migrations;
mod rejection;
mod retention;
mod signal;

use std::sync::{Arc, OnceLock};

use uuid::Uuid;

pub use admission::{AdmissionTx, Admitted, Candidate, Decide, Plan, Writes};
pub use apart::{Conflicts, KeptContent};
pub(crate) use db::waiting;
pub use db::{
    DbError, MigrationStep, Pooling, PostgresSettings, ProgramMigrationError, Row, SchemaState, StoreError,
    StoreSettings, Tx, Value,
};
pub use decision::{Act, DECISION_N_MAX, Decided, Decision, DecisionReply, DecisionTarget};
pub use event::{DueEvent, EventCount, EventRow, EventUpdate, Latched};
pub use look::{AttemptRow, AuditRow, Filter, PauseRow};
pub use message::{
    InitialLease, LeaseWant, LeasedMessage, LostClaims, MessageCount, MessageRow, NewMessage, SettleTo,
    Settlement,
};
#[doc(hidden)]
pub use migrations::FurtherStep;
pub use program_migrations::ProgramMigrations;
pub use rejection::{REJECTIONS_N_MAX, Rejection, SecretUse, Taught};
pub use retention::{Cuts, Found, Kind as PrunedKind, PRUNED_N_MAX, Place, PruneLease, Walk};

use crate::types::{Clock, UnixMs};
use db::{Backend, DbResult, Door};
use numbers::Numbers;

/// The database. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Store(Arc<Shared>, Clocked);

struct Shared {
    backend: Backend,
    numbers: Numbers,
    installation: OnceLock<Uuid>,
}

/// Whether leases and due times go by the database's own clock, where it has one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Clocked(bool);

impl Store {
    /// Connects, and refuses a database that could lose what it confirmed.
    pub async fn open(settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::open_with(settings, &PostgresSettings::default()).await
    }

    /// The same, knowing what stands between us and PostgreSQL.
    pub async fn open_with(
        settings: &StoreSettings,
        postgres: &PostgresSettings,
    ) -> Result<Self, StoreError> {
        let backend = Backend::open(settings, postgres).await?;
        let shared = Shared { backend, numbers: Numbers::default(), installation: OnceLock::new() };
        Ok(Self(Arc::new(shared), Clocked(false)))
    }

    /// The same database, whose leases and due times go by its own clock where it has one, not by those of the
    /// nodes: clocks that differ then cost nobody his lease. A clock that tests set by hand goes before.
    #[must_use]
    pub fn timed_by(self, clock: &Clock) -> Self {
        Self(self.0, Clocked(!clock.is_manual()))
    }

    /// Whether leases and due times go by the database's own clock.
    pub fn is_own_clock(&self) -> bool {
        self.1 == Clocked(true) && matches!(self.0.backend, Backend::Postgres(_))
    }

    /// How many transactions of handlers there may be at once, so that connections are left for everything else.
    pub(crate) fn handlers_n(&self) -> usize {
        self.0.backend.handlers_n()
    }

    /// `sqlite` or `postgres`.
    pub fn dialect(&self) -> &'static str {
        self.0.backend.dialect()
    }

    /// Brings the schema up to date; gives back the versions that were applied now.
    pub async fn migrate(&self) -> Result<Vec<i64>, StoreError> {
        let applied = self.0.backend.migrate(migrations::ALL).await?;
        let id = Uuid::new_v4().to_string();
        alone!(self.writer.installation_create(&id))?;
        Ok(applied)
    }

    /// Whether this binary may run on the schema.
    pub async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        self.0.backend.schema_state(migrations::ALL).await
    }

    /// What this installation is called in idempotency keys; made by the first migration.
    pub async fn installation_id(&self) -> Result<Uuid, StoreError> {
        if let Some(id) = self.0.installation.get() {
            return Ok(*id);
        }
        let text: String = alone!(self.reader.installation_text())?;
        let id = Uuid::parse_str(&text)
            .map_err(|_| StoreError::inconsistent("installation", "installation_id", "1"))?;
        Ok(*self.0.installation.get_or_init(|| id))
    }

    /// Whether admission would work: a transaction that may write can be opened where admission opens its own. After
    /// anything went wrong a row is written, and its commit awaited, before the answer is yes again. Answers within 2 s.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.0.backend.probe().await
    }

    /// The database's clock minus ours; 0 where they are the same clock. Milliseconds.
    pub async fn clock_offset_ms(&self, now_ms: UnixMs) -> Result<i64, StoreError> {
        self.0.backend.clock_offset_ms(now_ms).await
    }

    /// Closes every connection, after what runs on them; within seconds, whatever the database does.
    pub async fn close(&self) {
        self.0.backend.close().await;
    }

    /// Opens the transaction of one batch. To be called where nobody drops it: it is rolled back then, with its
    /// connection.
    pub async fn admission_begin(&self) -> Result<AdmissionTx, StoreError> {
        let tx = self.0.backend.begin("admission_begin", place!(writer)).await;
        self.0.backend.note(&tx);
        tx.map(AdmissionTx::new)
    }
}

async fn installation_create(db: &mut Door<'_>, id: &str) -> DbResult<()> {
    let now_ms = Clock::system().now_ms();
    db.execute(
        "/* installation_create */ INSERT INTO installation (one, installation_id, created_at_ms) VALUES (1, $1, $2)
         ON CONFLICT DO NOTHING",
        &[id.into(), now_ms.into()],
    )
    .await
    .map(drop)
}

async fn installation_text(db: &mut Door<'_>) -> DbResult<String> {
    let sql = "/* installation_id */ SELECT installation_id FROM installation";
    db.fetch_one(sql, &[]).await?.text("installation_id")
}

/// The statements of the hot operations on PostgreSQL, by name, for tests that look at their plans.
#[doc(hidden)]
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [admission::STATEMENTS, message::STATEMENTS].concat()
}

/// Those of lists that people look at, in the words of both databases, likewise.
#[doc(hidden)]
pub fn list_statements() -> &'static [(&'static str, &'static str)] {
    look::STATEMENTS
}
