//! Messages: one call to make each, from the commit that writes them to the settlement that ends them.
//!
//! Reading order: `types.rs` (a message at each stage, and the views of operators and gauges), `queue.rs` (claims and
//! settlements, with the twins `postgres.rs` and `sqlite.rs`), `claimed.rs` (from a claimed row to a message that can be
//! sent). Admission writes messages (`admission/`), operators decide about them (`decision/`).

/// True of a leased row of which nothing was sent before this claim: the claim itself set when its key was used first.
/// Given back unsent, it leaves no such time behind, from which the key's validity and the age of retries would run.
macro_rules! claim_was_first {
    () => {
        "first_sent_at_ms = leased_at_ms AND attempts_n = attempts_before_n + 1 AND COALESCE(last_result, '') <> 'unknown'"
    };
}

mod claimed;
mod postgres;
mod queue;
mod sqlite;
#[cfg(test)]
mod tests;
mod types;

pub(super) use postgres::STATEMENTS;
pub(super) use queue::RARE_STATEMENTS;
pub use types::{
    InitialLease, LeaseWant, LeasedMessage, LostClaims, MessageCount, MessageRow, NewMessage, SettleTo,
    Settlement,
};
pub(crate) use types::{message_rows, message_state};
