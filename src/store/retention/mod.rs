//! Deletes what is old and no longer needed, a few rows at a time: first it is looked for (`walk`), then deleted in a
//! short transaction that asks again whether it may go (`delete`). Nothing that an open message or a waiting event
//! needs ever goes, and what goes last is an event's key.
//!
//! Numbers are in the order of time to within seconds, so a walk by number from the low end may stop where all is
//! young.
//!
//! To read it: `types.rs`, `prune.rs`, `walk.rs`, `words.rs`, `delete.rs`. When rounds are made, and how large their steps are, is
//! decided elsewhere (`src/retention/`).

mod delete;
mod prune;
mod types;
mod walk;
mod words;

pub use types::{Cuts, OldRows, PRUNED_N_MAX, PruneLease, PrunePlace, PruneWalk, PrunedKind};
