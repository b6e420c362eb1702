//! A database that is a copy of what an installation had at an earlier moment: how a copy is made on SQLite, how a start
//! notices that it runs on one, and how that is taken over without anything being done twice.
//!
//! What a key is made of never changes: an event that a sender sends once more gets the keys that it had, so the far
//! side has seen them. What is counted (numbers of events, firings of signals, further runs) would give the same words to
//! other things, and goes on above all that may have been given: see [`Store::restore_take_over`]. `docs/backup.md`
//! explains it to people.
//!
//! To read it: `standing.rs` (is it the one that ran last, and the witness of a file), `facts.rs` (what a person wants to
//! know, and the lost time), `take_over.rs` (what is changed).

mod facts;
mod standing;
mod take_over;

pub use facts::{LostTime, OpenCount, ProviderTrace, RestoreFacts};
pub use standing::{RestoreStanding, WitnessState, WitnessWord};
pub use take_over::{TakeOver, TakenOver};
