//! `hooklatch restore-check`: what a restored database may lack and may send twice, and how it is taken over.
//!
//! `command.rs` is the command, `report.rs` what it finds, as programs read it; `judged.rs` says of messages and of senders
//! what follows, `words.rs` says it to people.

mod command;
mod judged;
mod report;
mod words;

pub(super) use command::{RestoreArgs, restore_check};
