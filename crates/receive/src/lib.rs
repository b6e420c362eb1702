//! How a request is handled, as the README describes it: find the provider, verify, read, admit, answer.
//!
//! No HTTP types and no SQL: `http/` turns bytes into a `RawRequest` and a [`SenderAnswer`] into bytes. After
//! a valid signature there is no refusal of ours that a sender could act on: what cannot be read is kept.
//!
//! A **kind** is how one sort of sender signs and shapes its requests: a `provider.toml`, seldom with code beside it.
//! The built-in ones are in [`providers`], those of an operator's folder are read by [`mod@kind`], and a
//! [`provider::Provider`] is a kind with handlers. A **provider** is one configured `[providers.NAME]`: a
//! [`provider::ActiveProvider`], with its limits a [`admit::ProviderEntry`].
//!
//! Reading order: `receiver.rs` takes one request to its answer; `verification.rs` verifies it, `admit/` commits it,
//! `answer.rs` is what the sender gets. `unread.rs` records requests that are refused before they are verified,
//! `notes.rs` and `diagnose.rs` show the operator why a request was refused, `explain.rs` does so for saved ones, and
//! `counts.rs` counts how requests ended. `test_event.rs` makes test events without a sender, for operators.
//! `vectors.rs` and `pairs.rs` judge the requests beside a kind.

// A kind's folder is the same text inside this crate and inside a user's.
extern crate self as hooklatch;

pub mod admit;
mod answer;
mod counts;
mod diagnose;
mod explain;
pub mod fetch;
pub mod handler;
pub mod idempotency;
pub mod kind;
mod notes;
pub mod operations;
pub mod pairs;
pub mod provider;
#[path = "../providers/mod.rs"]
pub mod providers;
mod receiver;
pub mod retention;
mod test_event;
mod unread;
pub mod vectors;
mod verification;

pub use answer::SenderAnswer;
pub use explain::{Explainer, SavedRequest, judged, parse as parse_saved};
pub use kind::kind;
pub use notes::{RequestNotes, fingerprint};
pub use receiver::{CountedRequests, ReceiveError, Receiver};
pub use test_event::{NoTestEvent, TestEvents};
pub use unread::{Arrival, UnreadReason, UnreadRequest};
