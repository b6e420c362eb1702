//! PostgreSQL: several nodes on one database, READ COMMITTED, every commit flushed.
//!
//! To read it: `pools.rs` (what each connection is for), `hosts.rs` (which server takes writes), `session.rs` and
//! `plans.rs` (what a connection must be like), `transactions.rs` and `statement.rs` (what is asked of it).

mod pools;
mod session;
pub(in crate::store) mod statement;
#[cfg(test)]
mod tests;

pub(in crate::store) use pools::Postgres;
pub(super) use pools::open;
pub(super) use session::IS_WRITABLE;
pub(in crate::store) use session::Tidy;
