//! `[database]`: its address, and how it is spoken to.

use super::problem::ConfigProblem;

/// `[database]`. Its `Debug` leaves out the URL, which may hold a password.
#[derive(Clone)]
pub struct DatabaseConfig {
    /// URL of the database: `sqlite://PATH` or `postgres://…`.
    pub url: String,
    /// False when a database that is missing or empty is an error, and only `hooklatch migrate` creates one.
    pub create: bool,
    /// File or variable that `create` was written in.
    pub(crate) create_source: String,
    /// True when `serve` brings the schema up to date.
    pub migrate: bool,
    /// Most connections (PostgreSQL; SQLite has one writer and this many readers).
    pub connections_n: u32,
    /// Longest wait of a start for a PostgreSQL that takes writes. Milliseconds.
    pub connect_wait_ms: u64,
    /// The pooler between us and PostgreSQL, if there is one.
    pub pooling: PoolingConfig,
    /// True when a PostgreSQL that waits for no standby is refused.
    pub replicated: bool,
}

/// `database.pooling`: the pooler between us and PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingConfig {
    /// No pooler, or one in session mode.
    Session,
    /// A pooler that gives every transaction another session.
    Transaction,
}

impl DatabaseConfig {
    /// The error where `what` is missing or empty, and `create` is false.
    pub(crate) fn missing(&self, what: &str) -> ConfigProblem {
        ConfigProblem {
            source: self.create_source.clone(),
            key: "database.create".to_owned(),
            value: Some("false".to_owned()),
            why: format!("allows no new database, and {what}"),
            remedy: "mount the volume that it is on, or correct database.url; if this is a new installation, run `hooklatch migrate` \
                     once, which creates the database"
                .to_owned(),
        }
    }
}

impl std::fmt::Debug for DatabaseConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseConfig")
            .field("create", &self.create)
            .field("migrate", &self.migrate)
            .field("connections_n", &self.connections_n)
            .field("connect_wait_ms", &self.connect_wait_ms)
            .field("pooling", &self.pooling)
            .field("replicated", &self.replicated)
            .finish_non_exhaustive()
    }
}
