//! Operations: what a person ordered to be done to all that a filter found. The set is fixed and counted with the order
//! and worked off in batches, by whichever node gets to it.
//!
//! A batch is one transaction that holds the operation's row: in it are the acts on the next rows of the set, their
//! marks, their records and the operation's progress. So nobody needs a lease that could outlive its holder, a process
//! that dies leaves a batch undone or done as a whole, and no lock is held from one batch to the next.
//!
//! To read it: `types.rs`, `order.rs` (the set), `step.rs` with `acts.rs` (a batch), `list.rs` (what people see and
//! cancel). When batches are made, and how large, is decided elsewhere (`src/operations/`).

mod acts;
mod list;
mod order;
mod step;
mod types;

pub(super) use list::{operation_cancel, operation_list, operation_view};
pub(super) use order::operation_begin;
pub use types::{OPERATION_ROWS_N_MAX, OperationStep};
