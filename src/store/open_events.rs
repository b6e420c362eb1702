//! Events that wait for somebody: to be dispatched again, or to be looked at.

use bytes::Bytes;

use crate::types::{EventKey, ObjectVersion, UnixMs};

/// An event taken out to be dispatched again, its row locked until the transaction ends.
#[derive(Debug, Clone)]
pub struct DueEvent {
    /// Who it is.
    pub key: EventKey,
    /// Its type.
    pub event_type: String,
    /// What it is about.
    pub object: Option<ObjectVersion>,
    /// Dispatches so far.
    pub attempts_n: u32,
    /// When the first copy came.
    pub received_at_ms: UnixMs,
    /// 0, and one more for each deliberate re-run.
    pub generation: i32,
    /// Kept headers, as a JSON object.
    pub headers: String,
    /// Kept bytes.
    pub body: Bytes,
    /// Why it cannot be dispatched: what is kept of it is not there, or cannot be read.
    pub broken: Option<String>,
}

/// How many events of a provider stand where somebody should look: `retry`, `failed`, `unreadable` or `conflict`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EventCount {
    /// Whose they are.
    pub provider: String,
    /// `retry`, `failed`, `unreadable` or `conflict`.
    pub state: String,
    /// How many.
    pub events_n: u64,
    /// When the oldest of them came.
    pub oldest_received_at_ms: UnixMs,
}
