//! PostgreSQL: several nodes on one database, READ COMMITTED, every commit flushed.
//!
//! Reading order: `pools.rs` (the purpose of each connection, and which server takes writes), `session.rs` (the
//! required settings of a connection), `statement.rs` (statements and transactions on it).

mod pools;
mod session;
pub(crate) mod statement;

pub(crate) use pools::Postgres;
pub(crate) use pools::open;
pub(super) use session::IS_WRITABLE;
pub(crate) use session::SessionReset;
