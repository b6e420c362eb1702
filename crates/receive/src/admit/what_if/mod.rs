//! What-if: the handlers of this binary are run on stored events, nothing is written, and what would follow is compared
//! with what was committed. For people who want to know before they deploy.
//!
//! Reading order: `runner.rs` asks the handlers of one event, on a thread of its own and within a time; `dry_run.rs` is
//! what happens there, with what is in `parts.rs`; `compare.rs` holds messages against those that were committed,
//! without I/O, and `shown.rs` says how much of a call is shown.
//!
//! Nothing here counts for admission: no version is raised, no row is taken, no slot is reserved, no metric moves.

mod compare;
mod dry_run;
mod parts;
mod runner;
mod shown;

pub use parts::WhatIfParts;
pub use runner::WhatIf;
pub use shown::ShownBytes;
