//! A kind of sender with its handlers, and the same made ready with an operator's configuration.
//!
//! `definition.rs` is what a kind's module builds ([`Provider`]); `active.rs` makes an [`ActiveProvider`] of it, or
//! reports why not; `dev.rs` stands in for a sender. Nothing here does I/O, and nothing here decides what becomes of an
//! event: that is `admit`.

mod active;
mod definition;
mod dev;

pub use active::{ActiveProvider, Kind};
pub use definition::{AnswerFn, HandshakeFn, KindCode, KindError, OpenFn, Provider, SignFn, WithCode};
pub use dev::{curl, dev_secret, dev_settings, filled_sample, published_mistakes, sample_line, tamper};
