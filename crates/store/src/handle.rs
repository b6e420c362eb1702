//! The store's handle: how a database is opened, what it is, and how it is closed.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use uuid::Uuid;

use super::db::limit::{OPERATION_LIMIT, whole};
use super::db::{Backend, PoolUsage, PostgresSettings, StoreError, StoreSettings};
use super::look::{LookedFor, NodeLooks};
use super::numbers::EventNumbers;
use super::operations::PreviewCache;
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{Clock, UnixMs};

/// The database. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Store {
    pub(crate) parts: Arc<StoreParts>,
    /// True when leases and due times go by the database's own clock, where it has one.
    is_timed_by_database: bool,
    /// Keys that seal what is kept of events and answers.
    pub(crate) ring: KeyRing,
    /// Time for which answers to operators are kept. Milliseconds.
    answers_kept_ms: i64,
}

/// Default time for which answers to operators are kept. Milliseconds.
const ANSWERS_KEPT_MS: i64 = 86_400_000;

/// Time that operations under way have to end when the store is closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// State that all clones of a [`Store`] share.
pub(crate) struct StoreParts {
    pub(super) backend: Backend,
    pub numbers: Arc<EventNumbers>,
    /// The installation's id, once it was read.
    pub installation: OnceLock<Uuid>,
    /// Notified when an operator has ordered an operation here.
    pub operation_ordered: Notify,
    /// The rows of the newest previews of operations.
    pub(super) preview_cache: Arc<PreviewCache>,
    /// What the node's looks found, for its parts.
    pub(super) look: NodeLooks,
    /// Whether the server had a recovery target when this process first checked.
    pub(super) had_target: OnceLock<bool>,
}

impl Store {
    /// Connects, and refuses a database that could lose what it confirmed.
    pub async fn open(settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::open_with(settings, &PostgresSettings::default()).await
    }

    /// Connects through what stands between us and PostgreSQL, and refuses a database that could lose what it
    /// confirmed.
    pub async fn open_with(
        settings: &StoreSettings,
        postgres: &PostgresSettings,
    ) -> Result<Self, StoreError> {
        let backend = Backend::open(settings, postgres).await?;
        let parts = StoreParts {
            backend,
            numbers: Arc::default(),
            installation: OnceLock::new(),
            operation_ordered: Notify::new(),
            preview_cache: Arc::default(),
            look: NodeLooks::default(),
            had_target: OnceLock::new(),
        };
        Ok(Self {
            parts: Arc::new(parts),
            is_timed_by_database: false,
            ring: KeyRing::default(),
            answers_kept_ms: ANSWERS_KEPT_MS,
        })
    }

    /// Makes leases and due times go by the database's own clock where it has one, not by those of the nodes: clocks
    /// that differ then cost no node its lease. A clock that tests set by hand goes before.
    #[must_use]
    pub fn timed_by(self, clock: &Clock) -> Self {
        Self { is_timed_by_database: !clock.is_manual(), ..self }
    }

    /// Seals bodies and captured answers with the first key of this ring when they are
    /// written, and opened with any of them. What was written in the clear is read as before.
    #[must_use]
    pub fn sealed_with(self, ring: KeyRing) -> Self {
        Self { ring, ..self }
    }

    /// The keys that it seals and opens with.
    pub fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// Sets the time for which answers to operators are kept. Milliseconds.
    #[must_use]
    pub fn keeping_answers(self, answers_kept_ms: i64) -> Self {
        Self { answers_kept_ms, ..self }
    }

    pub(super) fn answers_kept_ms(&self) -> i64 {
        self.answers_kept_ms
    }

    /// True when leases and due times go by the database's own clock.
    pub fn is_own_clock(&self) -> bool {
        self.is_timed_by_database && matches!(self.parts.backend, Backend::Postgres(_))
    }

    /// Returns how many transactions of handlers there may be at once, so that connections are left for
    /// everything else.
    pub fn handlers_n(&self) -> usize {
        match &self.parts.backend {
            Backend::Sqlite(_) => 1,
            Backend::Postgres(db) => db.handlers_n,
        }
    }

    /// The file that the database is; `None` for a server.
    pub fn file(&self) -> Option<PathBuf> {
        self.parts.backend.sqlite().map(|db| db.file.path().to_owned())
    }

    /// Why what is open is not the database that this process started on, if that was seen: then nothing is committed,
    /// and nothing may be sent, until a restart.
    pub fn replaced(&self) -> Option<&str> {
        let moved = self.parts.backend.sqlite().and_then(|db| db.file.moved());
        moved.or_else(|| self.parts.backend.health().replaced())
    }

    /// How much of the node's connections is taken, by what they are for.
    pub fn connections(&self) -> Vec<PoolUsage> {
        match &self.parts.backend {
            Backend::Sqlite(db) => db.used(),
            Backend::Postgres(db) => db.used(),
        }
    }

    /// Name of the database's dialect: `sqlite` or `postgres`.
    pub fn dialect(&self) -> &'static str {
        match &self.parts.backend {
            Backend::Sqlite(_) => "sqlite",
            Backend::Postgres(_) => "postgres",
        }
    }

    /// Succeeds when admission would work, as [`Store::look`] does.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.look(&Clock::system(), &LookedFor::default()).await.map(drop)
    }

    /// The database's clock minus ours; 0 where they are the same clock. Milliseconds.
    pub async fn clock_offset_ms(&self, now_ms: UnixMs) -> Result<i64, StoreError> {
        if matches!(self.parts.backend, Backend::Sqlite(_)) {
            return Ok(0);
        }
        let there_ms: UnixMs = alone!(self, reader, "clock_offset_ms", |db| {
            db.fetch_one("/* clock_offset_ms */ SELECT {clock_ms} AS now_ms", &[]).await?.int("now_ms")
        })?;
        Ok(there_ms.saturating_sub(now_ms))
    }

    /// Gives back the memory that connections without work keep for pages of an SQLite file.
    pub async fn give_back_pages(&self) {
        let Some(db) = self.parts.backend.sqlite().cloned() else { return };
        let given_back = whole("give_back_pages", OPERATION_LIMIT, async move {
            db.give_back_pages().await;
            Ok(())
        });
        if let Err(error) = given_back.await {
            tracing::debug!(%error, "could not give back memory");
        }
    }

    /// Closes every connection, after what runs on them; within seconds, whatever the database does.
    pub async fn close(&self) {
        match &self.parts.backend {
            Backend::Sqlite(db) => db.close(CLOSE_LIMIT).await,
            Backend::Postgres(db) => db.close(CLOSE_LIMIT).await,
        }
    }
}
