//! Reads the events of a verified request: ids, types, digests, payloads, by the kind's spec.
//!
//! Everything is taken from the raw text of the signed bytes: a number beyond 2^53 keeps its digits, and a
//! duplicate key on an id's path makes the event unreadable. An unreadable event is still an event, under an
//! id of our own, so that it is kept and shown.
//!
//! Reading order: `events.rs` (`read`) splits a request, `event.rs` reads one event, `identity.rs` finds its identity.
//! `headers.rs` blanks secrets before anything is kept. `fields.rs` is for kinds that verify with code. Nothing here
//! checks signatures: a `Verified` proves them.

mod event;
mod events;
mod fields;
mod headers;
mod identity;

pub use events::{EVENTS_N_MAX, ReadAs, answer, read, stored};
pub use fields::{
    Json, json_elements, json_is_missing, json_members, json_raw, json_text, json_with, xml_as_json,
};
pub use headers::{covered_header, kept_headers, shown_value, without as without_secrets};
