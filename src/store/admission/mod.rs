//! Admission: events are latched first, then whatever follows from those that are new is decided, and all of it is there
//! with one commit.
//!
//! [`Store::admit`] is the whole of it in one call. What can be known of a batch before it is latched decides how:
//!
//! - on SQLite one closure does everything on the writer's thread, decisions included;
//! - on PostgreSQL one statement does, where no decision depends on what is new;
//! - otherwise an open transaction ([`AdmissionTx`]) does it step by step: where handlers decide on PostgreSQL, where a
//!   handler writes in the same transaction, and where an event met something else than its own copy.

mod admit;
mod batch;
mod beside;
mod judge;
mod postgres;
mod rows;
mod sqlite;
mod transaction;
mod types;

pub(super) use postgres::STATEMENTS;
pub use transaction::AdmissionTx;
pub use types::{AdmittedBatch, Candidate, Decide, Plan, Writes};
