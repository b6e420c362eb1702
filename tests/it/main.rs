//! One integration-test binary: every further one would link the library again.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    clippy::items_after_statements,
    unreachable_pub,
    reason = "tests"
)]

mod admit;
mod api;
mod app;
mod bad_input;
#[cfg(feature = "brokers")]
mod brokers;
mod cli;
mod config;
mod crash;
mod database;
mod edge;
mod examples;
mod faults;
mod fetched;
mod fuzz;
mod guard;
mod handshakes;
mod kinds;
mod model;
mod operator;
mod outbox;
mod own_kinds;
mod private;
mod process;
mod providers;
mod reading;
mod sdk;
mod shown;
mod store;
mod stub;
mod tidy;
mod two_nodes;
