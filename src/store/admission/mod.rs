//! Admission: events are latched first, then whatever follows from those that are new is decided, and all of it is
//! there with one commit.
//!
//! [`Store::admit`] is the whole of it in one call. What can be known of a batch before it is latched decides how:
//!
//! - on SQLite one closure does everything on the writer's thread, decisions included;
//! - on PostgreSQL one statement does, where no decision depends on what is new;
//! - otherwise an open transaction ([`AdmissionTx`]) does it step by step: where handlers decide on PostgreSQL, where a
//!   handler writes in the same transaction, and where an event met something else than its own copy.
//!
//! The twins `postgres.rs` and `sqlite.rs` do the same and look different, because they pay for different things. On
//! PostgreSQL a round trip costs most and other nodes write at the same time: rows travel as arrays (`unnest`), as few
//! statements as can be, and what was new comes back as numbers. Two nodes that insert the same events wait for each
//! other, so all insert in one order (`batch.rs`). On SQLite a statement costs microseconds, and nobody else writes
//! between `BEGIN IMMEDIATE` and `COMMIT`: prepared statements of one row each, and a question in between costs
//! nothing, so handlers are asked in the middle, on that thread. A sorted order and locks are of no use there. What
//! both share (which copies are the first of their key, which versions are raised, which message heads its lane) is
//! decided once, without I/O, in `batch.rs` and `rows.rs`; the conformance suite runs the same cases through both.
//!
//! To read it: `types.rs`, `admit.rs`, `batch.rs`, then `judge.rs` and `beside.rs` (an event that was not new), and
//! `transaction.rs` with the twins below it, which write what `sealed.rs` has sealed.

mod admit;
mod batch;
mod beside;
mod judge;
mod postgres;
mod rows;
mod sealed;
mod sqlite;
#[cfg(test)]
mod tests;
mod transaction;
mod types;

pub(super) use postgres::STATEMENTS;
pub use transaction::AdmissionTx;
pub use types::{AdmittedBatch, Candidate, Decide, Plan, Writes};
