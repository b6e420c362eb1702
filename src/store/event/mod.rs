//! Events: their rows, from the latch on.
//!
//! To read it: `types.rs` (what an event is at each stage), then `rows.rs` (how rows are found, counted and written).
//! Not here: how an event is latched (`admission/`), and what is kept beside it (`apart.rs`).

mod rows;
mod types;

pub(super) use rows::{event_get, event_take_due, events_update, events_with};
pub use types::{DueEvent, EventCount, EventRow, EventUpdate, Latched};
pub(super) use types::{event_key, event_state};
