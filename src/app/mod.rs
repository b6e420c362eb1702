//! Starts and stops the parts of Hooklatch: what `hooklatch serve` and a user's own `main.rs` run.
//!
//! Start order: store, schema, providers, admission, outbox, listeners. Stop order is the reverse, and each
//! part gets the time to finish its work. Every task of the process is spawned here.
//!
//! In reading order: `builder.rs` is an [`App`] before it runs; `start.rs` starts it, with `database.rs` (open and
//! migrate), `entries.rs` (providers), `admission.rs` and `listeners.rs` (with `dev_curl.rs` for `--dev`); `running.rs`
//! is the running app and its stop; `run.rs` is the life of a process that runs only Hooklatch, from the sockets of its
//! service manager to its exit, and `reload.rs` reloads its configuration. `trial.rs` is an app for tests of handlers.
//! `parts.rs` restarts parts that panicked, `health.rs` is readiness, `gauges/` are the metrics, `doctor.rs` serves the
//! doctor, `tasks.rs` spawns tasks.
//!
//! Requests are handled in `http` and `receive`, not here.

mod admission;
mod builder;
mod database;
mod dev_curl;
mod doctor;
mod entries;
mod gauges;
mod health;
mod listeners;
mod parts;
mod reload;
mod run;
mod running;
mod start;
mod tasks;
mod trial;
mod what_if;
mod witness;

pub use builder::App;
pub(crate) use database::migrate;
pub use running::{Background, Running};
pub use trial::Trial;
