//! Hooklatch: a webhook receiver that a team can trust with money.
//!
//! It verifies a provider's signature, latches the event exactly once, and makes every call that follows
//! from it happen exactly once in effect. This page is a guided tour; `ARCHITECTURE.md` is the map.
//!
//! 1. [`provider`] and [`spec`]: how one kind of sender signs and shapes its webhooks, and what we do about
//!    its events ([`handler`]).
//! 2. [`verify`] and [`read`]: pure functions from bytes to believed events.
//! 3. `receive` and `admit`: one transaction for everything that waits, and the answer it allows.
//! 4. [`store`]: the only SQL, on SQLite and PostgreSQL.
//! 5. `outbox`: leases, calls, settlements.
//! 6. `app`, `http`, `cli`: the process around it.
//!
//! A user's own `main.rs`:
//! ```no_run
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     hooklatch::App::load(None, vec![/* acme::provider() */])?.run().await
//! }
//! ```
//! or, to have every command of ours as well, `hooklatch::cli::main(vec![acme::provider()])`.

// So that a kind's folder is the same text inside this crate and inside a user's.
extern crate self as hooklatch;

mod admit;
mod app;
mod backoff;
#[doc(hidden)]
pub mod bench;
mod builtin;
pub mod cli;
#[doc(hidden)]
pub mod config;
mod database_url;
mod fetch;
pub mod handler;
mod http;
mod json;
pub mod kind;
mod kinds;
mod logging;
mod net;
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
mod setup;
#[doc(hidden)]
pub mod spec;
#[doc(hidden)]
pub mod store;
mod template;
pub mod testing;
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
