//! JSON by raw text: finds what a pointer names without turning numbers into floats, and notices keys that are there
//! twice.
//!
//! `serde_json::Value` keeps the last of two equal keys and rounds numbers beyond 2^64; an id that is read through it
//! could be another one than the sender signed.
//!
//! `scan.rs` walks over one text, `tree.rs` keeps where its values are, `document.rs` finds what pointers name in it and compares texts of one event,
//! `by_value.rs` writes texts again in one way and so compares them however they are written, `redact.rs` leaves values
//! out. Nothing is turned into numbers but in `exact.rs`, for what needs values: there what would be changed is an error.

mod by_value;
mod document;
mod exact;
mod redact;
mod scan;
#[cfg(test)]
mod tests;
mod tree;

pub use by_value::{Rewrite, rewritten};
pub use document::{
    Document, PointerTarget, elements, find, first_elements, id_text, is_rendering, members, text, text_of,
};
pub use exact::exact_value;
pub use redact::RedactedPaths;
pub use scan::push_text;
