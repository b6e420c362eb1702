//! `[database]`: its address, and how it is spoken to.

/// `[database]`. Its `Debug` leaves out the URL, which may hold a password.
#[derive(Clone)]
pub struct DatabaseConfig {
    /// URL of the database: `sqlite://PATH` or `postgres://…`.
    pub url: String,
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

impl std::fmt::Debug for DatabaseConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseConfig")
            .field("migrate", &self.migrate)
            .field("connections_n", &self.connections_n)
            .field("connect_wait_ms", &self.connect_wait_ms)
            .field("pooling", &self.pooling)
            .field("replicated", &self.replicated)
            .finish_non_exhaustive()
    }
}
