//! The command line. A user's own `main.rs` calls [`main`] with kinds of its own and gets every command.
//!
//! Exit codes: see `ending.rs`. What a program may read goes to stdout, everything else to stderr.
//!
//! In reading order: `commands.rs` is the list of commands, `help.rs` lays out their `--help`; `shared.rs` has what all of them need. `serve.rs` and
//! `bench/` run a server; `check.rs`, `providers/`, `sign/`, `explain.rs`, `vectors.rs` and `manual.rs` need
//! none; `send.rs` (with `test_server.rs`) and `health.rs` call one; `prune.rs`, `keys.rs`, `what_if.rs`, `backup.rs` and `restore/` open the
//! database themselves.
//! `retention.rs` puts how long ids are kept into words; `spec::words` has the words for kinds.
//!
//! Commands over the operators' API: `reach.rs` says which server, `api_client/` asks it, `output/` prints; `desk.rs` is
//! the three of them. `decide.rs` orders something about one subject, `bulk.rs` about all that a filter finds,
//! `states.rs` reads words. Then one file or folder for each noun: `events/`, `messages/`, `destinations.rs`, `lanes.rs`,
//! `rejected.rs`, `operations/`, `tokens.rs`, `audit.rs`, `tail.rs`, `statistics.rs`, `search.rs`, `taught.rs`, `test_event.rs`,
//! `erase.rs`, `whoami.rs`; `doctor/` asks all of them how they are.
//!
//! It is not where anything is decided: each command asks the room that knows.

mod api_client;
mod audit;
mod backup;
mod bench;
mod bulk;
mod check;
mod commands;
mod decide;
mod desk;
mod destinations;
mod doctor;
mod ending;
mod erase;
mod events;
mod explain;
mod health;
mod help;
mod keys;
mod lanes;
mod manual;
mod messages;
mod new_kind;
mod operations;
mod output;
mod pause;
mod providers;
mod prune;
mod reach;
mod rejected;
mod restore;
mod retention;
mod search;
mod send;
mod serve;
mod settings;
mod shared;
mod sign;
mod states;
mod statistics;
mod tail;
mod taught;
mod test_event;
mod test_server;
mod tokens;
mod vectors;
mod what_if;
mod whoami;

pub use commands::{main, main_with};
