//! Events: their rows, from the latch on.
//!
//! To read it: `rows.rs` (what an event is at each stage, and how rows are found, counted and written), `parts.rs` (what
//! was received with it, large bodies, and what is kept for operators alone), then `view.rs` (what operators see, and
//! what became of its calls). Not here: how an event is latched (`admission/`), and what is kept beside it
//! (`apart.rs`).

mod parts;
mod rows;
mod view;

pub(super) use parts::{
    ContentUnavailable, STATEMENTS as PARTS_STATEMENTS, StoredPayload, payload_in_parts, payload_redacted,
    payload_whole_keep, stored_body, stored_body_bytes,
};
pub(crate) use rows::{
    DUE_STATEMENTS, DueLookup, event_get, event_key, event_state, event_take_due, events_update, events_with,
};
pub use rows::{DueEvent, EventCount, EventRow, EventUpdate, Latched};
pub(super) use view::{STATEMENTS as DELIVERY_STATEMENTS, event_columns, event_view, event_views};
