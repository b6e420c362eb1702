//! Messages: one call to make each, from the commit that writes them to the settlement that ends them.
//!
//! To read it: `types.rs` (what a message is at each stage), `queue.rs` (claims and settlements, with the twins
//! `postgres.rs` and `sqlite.rs`), `claimed.rs` (from a claimed row to a message that can be sent), `list.rs` (what
//! people and gauges see). Admission writes messages (`admission/`), people decide about them (`decision/`).

mod claimed;
mod list;
mod postgres;
mod queue;
mod sqlite;
#[cfg(test)]
mod tests;
mod types;

pub(super) use list::message_state;
pub(super) use postgres::STATEMENTS;
pub(super) use queue::RARE_STATEMENTS;
pub use types::{
    InitialLease, LeaseWant, LeasedMessage, LostClaims, MessageCount, MessageRow, NewMessage, SettleTo,
    Settlement,
};
