//! The command line. A user's own `main.rs` calls [`main`] with kinds of its own and gets every command.
//!
//! Exit codes: 0 fine, 1 what was asked about is not (or the command failed), 2 usage. What a program may
//! read goes to stdout, everything else to stderr.
//!
//! In reading order: `commands.rs` is the list of commands; `shared.rs` has what all of them need. `serve.rs` and
//! `bench/` run a server; `check.rs`, `providers/`, `sign/`, `explain.rs` and `vectors.rs` need none; `send.rs` and
//! `health.rs` call one. `api_client.rs` speaks to the operators' API for `events.rs`, `messages.rs`,
//! `destinations.rs`, `erase.rs` and `taught.rs`; `prune.rs` and `keys.rs` open the
//! database themselves. `words.rs` and `retention.rs`
//! put specs into words.
//!
//! It is not where anything is decided: each command asks the room that knows.

mod api_client;
mod bench;
mod check;
mod commands;
mod destinations;
mod erase;
mod events;
mod explain;
mod health;
mod keys;
mod messages;
mod providers;
mod prune;
mod retention;
mod send;
mod serve;
mod shared;
mod sign;
mod taught;
mod vectors;
mod words;

pub use commands::{main, main_with};
