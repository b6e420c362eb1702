//! What unit tests of the tail begin with.

use crate::api::{DeliveryView, EventView};
use crate::types::EventState;

/// An event of `provider` with this number.
pub(super) fn event(provider: &str, seq: i64) -> EventView {
    EventView {
        synthetic: false,
        provider: provider.to_owned(),
        event_id: format!("evt_{seq}"),
        parts: Vec::new(),
        event_type: "paid".to_owned(),
        state: EventState::Handled,
        object: None,
        version: None,
        identity: "sender/1".to_owned(),
        received_at_ms: seq,
        created_at_ms: None,
        processed_at_ms: None,
        due_at_ms: None,
        attempts_n: 1,
        generation: 0,
        copies_n: 0,
        error: None,
        delivery: DeliveryView::default(),
    }
}
