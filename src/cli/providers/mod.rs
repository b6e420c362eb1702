//! `providers`: the kinds of senders that there are, and the providers of a running server.
//!
//! `command.rs` lists and describes kinds, `live.rs` asks a server. `tests.rs` writes docs/providers.md.

mod command;
mod live;
#[cfg(test)]
mod tests;

pub(super) use command::{ProvidersArgs, providers};
