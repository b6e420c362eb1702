//! Restored databases: a database that is a copy of an earlier state of its installation. How a copy is made on SQLite,
//! how a start detects that it runs on one, and how it is taken over without repeating any effect.
//!
//! Idempotency keys never change: an event that a sender sends once more gets the keys that it had, so the destination
//! recognizes them. Counters (numbers of events, firings of signals, further runs) would give the same keys to other
//! things, and continue above all that may have been given: see [`Store::restore_take_over`]. `docs/backup.md` explains
//! it to operators.
//!
//! Reading order: `standing.rs` (is it the database that ran last, and the witness of a file), `facts.rs` (what an
//! operator needs to know, and the lost time), `take_over.rs` (what is changed).

mod facts;
mod standing;
mod take_over;

pub use facts::{LostTime, OpenCount, ProviderTrace, RestoreFacts};
pub use standing::{RestoreStanding, WitnessState, WitnessWord};
pub use take_over::{TakeOver, TakenOver};
