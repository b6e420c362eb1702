//! Puts the parts together and takes them apart again: what `hooklatch serve` runs, and what a user's own
//! `main.rs` runs.
//!
//! Start order: store, schema, providers, admission, outbox, listeners. Stop order is the reverse, and each
//! part is given the time to finish what it holds. Every task of the process is spawned here.
//!
//! In reading order: `builder.rs` is an [`App`] before it runs; `start.rs` starts it, step by step, out of
//! `database.rs` (open and migrate), `entries.rs` (providers), `admission.rs` and `listeners.rs` (with `dev_curl.rs` for `--dev`); `running.rs` is what
//! runs, and how it stops; `run.rs` is the life of a process that does nothing else, from what its service manager
//! hands it to its exit, and `reload.rs` reads its configuration again. `trial.rs` is an app for tests of handlers. `parts.rs` starts parts again that panicked,
//! `health.rs` and `gauges/` say how it is, `doctor.rs` what the doctor needs. `tasks.rs` spawns.
//!
//! Nothing here knows a request: that is `http` and `receive`.

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
