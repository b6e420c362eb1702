//! The command line. A user's own `main.rs` calls [`main`] with kinds of its own and gets every command.
//!
//! Exit codes: see `shared.rs`. Results go to stdout, everything else to stderr.
//!
//! In reading order: `commands.rs` is the list of commands, `help.rs` lays out their `--help`; `shared.rs` has what all of
//! them need. `serve.rs` runs a server; `check.rs`, `providers/`, `sign/`, `explain.rs` and `new_kind/` need none;
//! `send.rs` (with `test_server.rs`) calls one; `database.rs`, `what_if.rs` and `restore/` open the database themselves.
//!
//! Commands of the operator API: `reach.rs` chooses the server, `api_client.rs` queries it, `output.rs` prints;
//! `remote.rs` is their common shape: a noun defines its arguments, its paths and its columns once. `bulk.rs` acts on
//! all that a filter finds. The nouns: `nouns.rs`, `access.rs`, `events.rs` with `ledger.rs`, `messages.rs`,
//! `operations.rs`, `tail.rs`; `doctor.rs` checks all of a server.
//!
//! Commands hold no rules of the product: each calls the module that has them.

mod access;
mod api_client;
mod bulk;
mod check;
mod commands;
mod database;
mod doctor;
mod events;
mod explain;
mod help;
mod ledger;
mod messages;
mod new_kind;
mod nouns;
mod operations;
mod output;
mod providers;
mod reach;
mod remote;
mod restore;
mod send;
mod serve;
mod shared;
mod sign;
mod tail;
mod test_server;
mod what_if;

pub use commands::{main, main_with};
