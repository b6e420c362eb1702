//! JSON by raw text: finds what a pointer names without turning numbers into floats, and notices keys that are there
//! twice.
//!
//! `serde_json::Value` keeps the last of two equal keys and rounds numbers beyond 2^64; an id that is read through it
//! could be another one than the sender signed.
//!
//! Reading order: `scan.rs` walks over one text, `document.rs` finds what pointers name in it, `by_value.rs` compares
//! texts however they are written, `renderings.rs` texts of one event, `redact.rs` leaves values out, `write.rs` writes a
//! text as JSON has it, `wide.rs` finds whole numbers that `serde_json` rounds; `text.rs` has what names mean. Nothing is
//! turned into numbers.

mod by_value;
mod document;
#[cfg(test)]
mod oracle;
mod redact;
mod renderings;
mod scan;
mod text;
mod wide;
mod write;

pub use document::{Document, PointerTarget, elements, find, first_elements, members, text, text_of};
pub use redact::RedactedPaths;
pub use renderings::is_rendering;
pub use wide::has_wide_integer;
pub use write::push_text;
