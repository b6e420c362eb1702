//! Keys of requests, and the answers that were given under them: a request is carried out by whoever holds its key, and
//! its answer is kept for whoever sends it again.
//!
//! `idempotency_begin` takes a key and `idempotency_finish` writes the answer, both inside a transaction: that of the
//! effect, where the effect is ours (`decision/`, and a claim's own transaction), so that the two are one commit.
//! Elsewhere each is a transaction by itself, with a lock that ends and a fence that grows with each claim.
//!
//! To read it: `types.rs`, then `keys.rs`.

mod keys;
mod types;

pub(in crate::store) use keys::{idempotency_begin, idempotency_finish};
pub use types::{KeptAnswer, KeyClaim, KeyReply, KeyRequest, KeyState, NewAnswer};
