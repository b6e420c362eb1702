//! `events`: what came in, all that is known of one, and what people decide about it.
//!
//! In reading order: `command.rs` has the arguments and what each does; `filter.rs` is the choice of events; `row.rs` a
//! line of the list; `ledger.rs` puts the ledger of one event into words, a line for each entry.

mod command;
mod filter;
mod ledger;
mod row;

pub(crate) use command::{EventsArgs, events};
pub(crate) use filter::EventFilterArgs;
