//! A kind of sender with its handlers, and the same made ready with an operator's configuration.
//!
//! In reading order: `definition.rs` is what a kind's module builds ([`Provider`]), and `kind_error.rs` why it cannot
//! be used; `activation.rs` makes an [`ActiveProvider`] of it, with the keys and options of `verifier.rs`, or says why
//! not (`refusal.rs`); `active.rs` is what one does: it believes, reads and signs. `sample.rs` holds sample events,
//! `dev.rs` fills them and knows the published secrets; `curl.rs` writes a signed request for a shell.
//!
//! Nothing here does I/O, and nothing here decides what becomes of an event: that is `admit`.

mod activation;
mod active;
mod curl;
mod definition;
mod dev;
mod kind_error;
mod refusal;
mod sample;
mod verifier;

pub use active::ActiveProvider;
pub use curl::curl;
pub use definition::{AnswerFn, HandshakeFn, OpenFn, Provider, SignFn};
pub use dev::{dev_secret, filled_sample, tamper};
pub use dev::{dev_settings, published_mistakes, sample_line};
pub use kind_error::KindError;
