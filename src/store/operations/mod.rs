//! Operations: what a person ordered to be done to all that a filter found. The set is fixed and counted with the order
//! and worked off in batches, by whichever node gets to it.
//!
//! A batch is one transaction that holds the operation's row: in it are the acts on the next rows of the set, their
//! marks, their records and the operation's progress. So nobody needs a lease that could outlive its holder, a process
//! that dies leaves a batch undone or done as a whole, and no lock is held from one batch to the next.
//!
//! To read it: `types.rs`, `set.rs` (the rows), `changed.rs` (which of them changed), `preview.rs` (what it would be), `order.rs`, `batch.rs` with `acts.rs` (a batch),
//! `steps.rs` with `results.rs` (operations that make calls go in steps, and stop when too many of them fail), `list.rs`
//! (what people see), `decide.rs` (they approve, continue and cancel). When batches are made, and how large, is decided
//! elsewhere (`src/operations/`).

mod acts;
mod batch;
mod changed;
mod decide;
mod list;
mod order;
mod preview;
mod results;
mod set;
mod steps;
mod types;

pub(super) use changed::SeenSets;
pub use decide::OperationAct;
pub(super) use decide::operation_decide;
pub(super) use list::{operation_list, operation_view, operations_for_persons};
pub(super) use order::operation_begin;
pub(super) use preview::{Looking, operation_preview, operation_preview_again};
pub use types::{BulkRules, OPERATION_ROWS_N_MAX, OperationStep};

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: [&[(&str, &str)]; 3] = [set::STATEMENTS, preview::STATEMENTS, order::STATEMENTS];
/// Those of a batch, likewise.
pub(super) const BATCH_STATEMENTS: &[(&str, &str)] = batch::STATEMENTS;
