//! `when` and `lane` of a route: a condition on an event, and the place of one value in it.
//!
//! `parse.rs` reads an expression once, when the configuration is loaded; `condition.rs` evaluates it; `place.rs` is
//! the place of one value; `decimal.rs` compares numbers as they are written. What an event has at a place a [`Lookup`]
//! finds, by the raw text. A value that is missing, doubled or of another type is an error and never false: the event is then kept
//! as `failed`, where an operator sees it. ADR 0017 says why this is not a language of its own size.

mod condition;
mod decimal;
mod parse;
mod place;

pub use condition::Filter;
pub use place::{Found, Lookup, Place, Root};
