//! Decisions of people about messages, events and destinations: each one in one transaction with its record and with
//! the answer to the request that carried it. The same request again is answered the same and decides nothing.
//!
//! To read it: `types.rs`, `decide.rs`, then what is particular to `messages.rs` and `events.rs`.

mod decide;
mod events;
mod messages;
mod types;

pub use types::{Act, DECISION_N_MAX, Decided, Decision, DecisionReply, DecisionTarget};
