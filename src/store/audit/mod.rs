//! The audit log: what people decided and which contents they looked at, row by row, in the transaction of what it
//! tells.
//!
//! To read it: `append.rs` is the only place that writes rows.

mod append;

pub(super) use append::{AuditEntry, append};
