//! Hooklatch: a webhook receiver that a team can trust with money.
//!
//! It verifies a sender's signature, latches the event exactly once, and makes every call that follows
//! from it happen exactly once in effect.
//!
//! A program of yours begins with a built-in kind and a handler ([`prelude`]):
//!
//! ```no_run
//! use hooklatch::prelude::*;
//!
//! #[derive(Deserialize)]
//! struct Invoice {
//!     id: String,
//! }
//!
//! fn invoice_paid(event: Event<Invoice>) -> Handled {
//!     Ok(Effects::new().call("receipts", json!({ "invoice": event.payload.id })))
//! }
//!
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     App::load(None, vec![kind("stripe").on("invoice.paid", invoice_paid)])?.run().await
//! }
//! ```
//!
//! or, to have every command of ours as well, with [`cli::main`]. `docs/library.md` goes from `cargo add` to a tested
//! handler. In the order of need: [`handler`], [`App`], [`testing`], and [`kind`](mod@kind) for verification of your
//! own.
//!
//! What is shown here is a contract; what is public besides is for our own tests (`docs/adr/0070-releases.md`).
//!
//! The source is read best in this order, from bytes to calls; `ARCHITECTURE.md` is the map:
//!
//! 1. `provider` and `spec`: how one kind of sender signs and shapes its webhooks, and what we do about its events
//!    (`handler`).
//! 2. `verify` and `read`: pure functions from bytes to believed events.
//! 3. `receive` and `admit`: one transaction for everything that waits, and the answer it allows.
//! 4. `store`: the only SQL, on SQLite and PostgreSQL.
//! 5. `outbox`: leases, calls, settlements.
//! 6. `app`, `http`, `cli`: the process around it.

// This makes a kind's folder the same text inside this crate and inside a user's.
extern crate self as hooklatch;

mod admit;
#[doc(hidden)]
pub mod api;
mod app;
mod backoff;
#[doc(hidden)]
pub mod bench;
mod builtin;
pub mod cli;
#[doc(hidden)]
pub mod config;
mod console;
mod current;
mod database_url;
mod disk;
mod doctor;
mod fetch;
mod figures;
mod filter;
pub mod handler;
mod http;
pub mod idempotency;
mod json;
pub mod kind;
mod kinds;
#[doc(hidden)]
pub mod load;
mod logging;
#[doc(hidden)]
pub mod meters;
#[doc(hidden)]
pub mod mistakes;
mod net;
mod operations;
#[doc(hidden)]
pub mod outbox;
#[doc(hidden)]
pub mod pairs;
mod plain;
pub mod prelude;
#[doc(hidden)]
pub mod provider;
#[doc(hidden)]
#[path = "../providers/mod.rs"]
pub mod providers;
#[doc(hidden)]
pub mod read;
mod receive;
mod retention;
#[doc(hidden)]
pub mod seal;
mod service;
mod setup;
#[doc(hidden)]
pub mod spec;
#[doc(hidden)]
pub mod stop;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
mod template;
pub mod testing;
#[cfg(test)]
mod tests;
mod times;
mod tls;
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "nobody exports what is told"))]
mod traces;
#[doc(hidden)]
pub mod types;
#[doc(hidden)]
pub mod vectors;
#[doc(hidden)]
pub mod verify;

pub use app::{App, Background, Running};
pub use builtin::kind;
pub use provider::Provider;
pub use store::MigrationStep;

/// Rust that pages show, compiled as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/handlers.md")]
#[doc = include_str!("../docs/library.md")]
mod pages {}
