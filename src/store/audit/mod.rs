//! The audit log: what people decided and which contents they looked at, row by row, in the transaction of what it
//! tells.
//!
//! Rows are numbered without gaps, and each has a hash of itself and of the hash before it: who changes, removes or
//! inserts one breaks the chain from there on. The newest hash stands in `audit_head`; noted elsewhere, it proves that
//! everything up to it is still as it was.
//!
//! To read it: `link.rs` is the hash of one row, `append.rs` the only place that writes rows, `verify.rs` follows them,
//! `prune.rs` cuts off what is old.

mod append;
mod link;
mod prune;
mod verify;

pub(super) use append::{AuditEntry, append};
pub(super) use prune::prune;
pub(super) use verify::audit_verify;
pub use verify::{AUDIT_VERIFIED_N_MAX, AuditPlace, AuditVerdict};
