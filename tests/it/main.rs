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
    reason = "tests"
)]

mod config;
mod database;
mod outbox;
mod providers;
mod store;
mod stub;
