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
//! What is shown here is a contract. The crates below are not: they may change with every version. `ARCHITECTURE.md` is
//! the map; they are read best in this order, from bytes to calls:
//!
//! 1. `hooklatch-verify`: how one kind of sender signs and shapes its webhooks; pure functions from bytes to events.
//! 2. `hooklatch-receive`: providers and handlers; one transaction for everything that waits, and the answer it allows.
//! 3. `hooklatch-store`: the only SQL, on SQLite and PostgreSQL.
//! 4. `hooklatch-outbox`: leases, calls, settlements.
//! 5. `hooklatch-operator`, `hooklatch-console`: listeners, the operators' API, its pages.
//! 6. `app` and `cli` in this crate: the process around them.

mod app;
pub mod cli;
pub mod handler;
pub mod idempotency;
pub mod kind;
pub mod prelude;
pub mod testing;
#[cfg(test)]
mod tests;

pub use app::{App, Background, Running};
#[doc(inline)]
pub use hooklatch_receive::{kind::kind, provider::Provider};
#[doc(inline)]
pub use hooklatch_store::MigrationStep;

/// Rust that pages show, compiled as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/handlers.md")]
#[doc = include_str!("../docs/library.md")]
mod pages {}
