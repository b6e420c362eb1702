//! The live tail: events as they come in, for any number of viewers and one look at the database.
//!
//! In reading order: `found.rs` (which events were found already, though numbers are not in the order of commits),
//! `ring.rs` (the newest events, one list for all), `hub.rs` (the two together, and who views), `poller.rs` (looks while
//! somebody views), `viewer.rs` (one viewer's place, and what it is told next).
//!
//! Not here: how it is told (`http/api/tail.rs`). Views alone pass through here, no contents.

#[cfg(test)]
mod fixture;
mod found;
mod hub;
mod poller;
mod ring;
mod viewer;

pub use hub::{TailHub, TooManyViewers, VIEWERS_N_MAX};
pub use viewer::{QUIET_EVERY, TailChoice, TailStep, TailViewer};
