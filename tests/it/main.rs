//! One integration-test binary: every further one would link the library again.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod cli;
mod config;
mod database;
mod providers;
mod store;
