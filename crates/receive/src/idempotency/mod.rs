//! `Idempotency-Key` for routes of your own: a layer for an axum 0.8 router that carries a request out once and answers
//! its repetitions with the first answer.
//!
//! The layer comes from [`Background::idempotency`](hooklatch::Background::idempotency). Requests that may change
//! something (all but GET, HEAD, OPTIONS and TRACE) need a key: 1 to 255 visible ASCII characters, bare or as a quoted
//! string. Keys belong to a principal, which you name.
//!
//! | a request under a key | answer |
//! |---|---|
//! | is new | your handler's |
//! | was answered 2xx, 3xx or 4xx | that answer again, with `Idempotency-Replayed: true` |
//! | is being carried out | that answer, if it comes within [`wait`](IdempotencyLayer::wait); else 409 `idempotency_key_in_use` with `Retry-After` |
//! | is another request than the first | 422 `idempotency_key_reused`, or [another status](IdempotencyLayer::mismatch_status) |
//! | was answered 401, 403, 408, 425, 429 or 5xx, panicked, or was not answered within its [`lock`](IdempotencyLayer::lock) | your handler is asked again |
//!
//! Without a key the answer is 400 `idempotency_key_missing`; with something else as a key, several or a list of them 400
//! `idempotency_key_malformed`. Each answer says in `Idempotency-Expires-At-Ms` until when the key is known.
//!
//! A handler by itself takes effect *at least once*: a process that dies between the effect and the answer leaves a key
//! that the next request takes over. Where the effect is in the database of Hooklatch, [`IdempotencyClaim`] makes the
//! effect and the answer one commit, and it is *exactly once*.
//!
//! To read it: `fingerprint.rs` (which request it is), `answers.rs` (what is kept and given again), `problem.rs`,
//! `rules.rs` (the layer's settings), `claim.rs`, `carry.rs` (one request from its key to its answer), `layer.rs`.

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
pub use layer::IdempotencyService;
pub use rules::RequestRules;
