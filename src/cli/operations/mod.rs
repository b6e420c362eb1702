//! `operations`: what was ordered to be done to all that a filter found.
//!
//! In reading order: `command.rs` has the arguments; `row.rs` puts an operation into words; `progress.rs` follows one to
//! its end.

mod command;
mod progress;
mod row;

pub(crate) use command::{OperationsArgs, command, operations};
pub(crate) use progress::{ended, follow};
