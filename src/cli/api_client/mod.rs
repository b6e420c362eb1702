//! The operators' API of a running server, as the commands ask it: views come back, orders go out.
//!
//! In reading order: `error.rs` says what can go wrong, in words; `keys.rs` remembers the key of a command until its
//! answer came; `heard.rs` is an answer as it came; `client.rs` asks, and asks again where an answer was lost; `patience.rs` waits between two tries;
//! `typist.rs` says who types.

mod client;
mod error;
mod heard;
mod keys;
mod patience;
mod typist;

pub(crate) use client::{ApiAnswer, ApiClient, OrderPlace};
pub(crate) use error::ApiError;
pub(crate) use keys::{CommandKeys, keys_folder};
pub(crate) use patience::patience;
