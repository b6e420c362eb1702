//! `bench`: a load on a server of its own, or on a test server, and what it took.
//!
//! `command.rs` is the command; `server.rs` starts a server for one load; `postmaster.rs` finds the database's process.
//! The load itself and its figures are `crate::bench`.

mod command;
mod postmaster;
mod server;

pub(super) use command::{BenchArgs, bench};
