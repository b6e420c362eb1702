//! How a request is handled, as the README describes it: find the provider, verify, read, admit, answer.
//!
//! No HTTP types and no SQL: `http/` turns bytes into a `RawRequest` and a [`SenderAnswer`] into bytes. After
//! a valid signature there is no refusal of ours that a sender could act on: what cannot be read is kept.
//!
//! Reading order: `receiver.rs` takes one request to its answer; `believe.rs` verifies it, `heavy.rs` away from the
//! threads that serve requests when it is large; `error.rs` says why it was not admitted, and `answer.rs` what the
//! sender gets. `caller.rs` is what callers of ours get instead, and `receipt.rs` what followed from their commands.
//! `notes.rs` and `diagnose.rs` show the operator why a request was refused, `explain/` says it of saved ones, and
//! `counts.rs` counts how requests ended; `refusing.rs` knows since when none was admitted.
//! `test_event.rs` makes test events without a sender, for operators.
//! `unread.rs` records requests that are refused before they are verified, and `unknown_paths.rs` those for no provider.

// A kind's folder is the same text inside this crate and inside a user's.
extern crate self as hooklatch;

pub mod admit;
mod answer;
mod believe;
pub mod builtin;
mod caller;
mod copies;
mod counts;
mod diagnose;
mod error;
mod explain;
pub mod fetch;
pub mod handler;
mod heavy;
pub mod idempotency;
pub mod kind;
pub mod kinds;
mod notes;
pub mod operations;
pub mod pairs;
pub mod provider;
#[path = "../providers/mod.rs"]
pub mod providers;
mod receipt;
mod receiver;
mod refusing;
pub mod retention;
mod signed_times;
mod test_event;
mod unknown_paths;
mod unread;
pub mod vectors;

pub use answer::SenderAnswer;
pub use error::ReceiveError;
pub use explain::{Explainer, SavedRequest, judged, parse as parse_saved};
pub use notes::{RequestNotes, fingerprint};
pub use receiver::{CountedRequests, Receiver};
pub use test_event::{NoTestEvent, TestEvents};
pub use unread::{Arrival, UnreadReason, UnreadRequest};

pub use builtin::kind;
