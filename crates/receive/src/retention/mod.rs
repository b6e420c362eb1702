//! Carries out `[retention]`: rounds over everything that is kept, in small batches whose size follows how long they
//! take, with pauses between, so that admission hardly notices. One node at a time.
//!
//! `pruner.rs` makes the rounds, `pace.rs` says how much at once. `wholes.rs` does the same for what redaction leaves
//! for a while. `overdue.rs` says how late it is. What may go, and that nothing else does, is the
//! store's part (`crates/store/src/retention/`).

mod overdue;
mod pace;
mod pruner;
mod wholes;

pub use overdue::overdue;
pub use pruner::{PruneRound, Pruner};
pub use wholes::delete_wholes;
