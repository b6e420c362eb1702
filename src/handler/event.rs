//! The event: as a handler sees it, and as dispatch does before a handler's own type is known.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::types::{Name, UnixMs};

/// An event as a handler sees it.
#[derive(Debug, Clone)]
pub struct Event<T> {
    /// The configured provider it came through.
    pub provider: Name,
    /// The provider's own id; with `provider` it names the event for ever.
    pub id: String,
    /// The provider's word for what happened, such as `invoice.paid`.
    pub event_type: String,
    /// The part of the request that the kind's `payload` pointer points at.
    pub payload: T,
    /// Arrival of the first copy. Milliseconds since 1970, UTC.
    pub received_at_ms: UnixMs,
    /// Number of this dispatch: 1 at admission, one more at each retry.
    pub attempt_n: u32,
}

/// An event as dispatch sees it, before a handler's own type is known.
#[derive(Debug, Clone)]
pub struct RawEvent {
    /// Name of the configured provider.
    pub provider: Name,
    /// The provider's own id of it.
    pub event_id: String,
    /// The provider's word for what happened.
    pub event_type: String,
    /// JSON text of what the spec's `payload` points at.
    pub payload: Bytes,
    /// Arrival of the first copy. Milliseconds since 1970, UTC.
    pub received_at_ms: UnixMs,
    /// Number of this dispatch: 1 at admission, one more at each retry.
    pub attempt_n: u32,
}

impl RawEvent {
    /// The same event with its payload read as a handler wants it.
    pub(crate) fn typed<T: DeserializeOwned>(&self) -> serde_json::Result<Event<T>> {
        Ok(Event {
            provider: self.provider.clone(),
            id: self.event_id.clone(),
            event_type: self.event_type.clone(),
            payload: serde_json::from_slice(&self.payload)?,
            received_at_ms: self.received_at_ms,
            attempt_n: self.attempt_n,
        })
    }
}
