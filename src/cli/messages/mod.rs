//! `messages`: calls that are to be made or were made, and what people decide about those that wait for them.
//!
//! In reading order: `command.rs` has the arguments and what each does; `filter.rs` is the choice of messages; `row.rs`
//! puts a message and its attempts into lines.

mod command;
mod filter;
mod row;

pub(crate) use command::{MessagesArgs, messages};
