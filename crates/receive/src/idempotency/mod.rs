//! The layer for `Idempotency-Key`. Users have it as `hooklatch::idempotency`, where its contract is described.
//!
//! To read it: `fingerprint.rs` (which request it is), `answers.rs` (what is kept and given again), `problem.rs`,
//! `rules.rs` (what the layer was told), `claim.rs`, `carry.rs` (one request from its key to its answer), `layer.rs`.

mod answers;
mod carry;
mod claim;
mod fingerprint;
mod layer;
mod problem;
mod rules;

pub use claim::IdempotencyClaim;
pub use fingerprint::fingerprint;
pub use layer::IdempotencyLayer;
#[doc(hidden)]
pub use layer::IdempotencyService;
pub use rules::RequestRules;
