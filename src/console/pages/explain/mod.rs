//! A pasted request, and why it is or is not believed.
//!
//! In reading order: `ask.rs` is the form and the question, `found.rs` shows what was found.

mod ask;
mod found;

pub(super) use ask::routes;
