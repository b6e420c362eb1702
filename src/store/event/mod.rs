//! Events: their rows, from the latch on.
//!
//! To read it: `types.rs` (what an event is at each stage), `payload.rs` (what was received with it), `parts.rs` (large bodies), `redacted.rs` (what
//! is kept of it for people alone), `rows.rs` (how rows are found, counted and written), then `view.rs` (what people see)
//! with `delivery.rs` (what became of its calls).
//! Not here: how an event is latched (`admission/`), and what is kept beside it (`apart.rs`).

mod delivery;
mod parts;
mod payload;
mod redacted;
mod rows;
mod types;
mod view;

pub(super) use delivery::STATEMENTS as DELIVERY_STATEMENTS;
pub(super) use parts::{STATEMENTS as PARTS_STATEMENTS, payload_in_parts, stored_body, stored_body_bytes};
pub(super) use payload::{NotAsItCame, StoredPayload};
pub(super) use redacted::{payload_redacted, payload_whole_keep};
pub(super) use rows::{DUE_STATEMENTS, event_get, event_take_due, events_update, events_with};
pub(super) use types::DueTaken;
pub use types::{DueEvent, EventCount, EventRow, EventUpdate, Latched};
pub(super) use types::{event_key, event_state};
pub(super) use view::{event_columns, event_view, event_views};
