//! PostgreSQL: several nodes on one database, READ COMMITTED, every commit flushed.
//!
//! To read it: `pools.rs` (what each connection is for, and which server takes writes), `session.rs` (what a connection
//! must be like), `statement.rs` (statements and transactions on it).

mod pools;
mod session;
pub(crate) mod statement;
#[cfg(test)]
mod tests;

pub(crate) use pools::Postgres;
pub(crate) use pools::open;
pub(super) use session::IS_WRITABLE;
pub(crate) use session::SessionReset;
