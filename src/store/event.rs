//! Events: what admission finds and writes of them, and what people see.

use crate::types::{BodyDigest, EventKey, EventState, UnixMs};

/// What one insert of an event found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Latched {
    /// Nobody had it; the row is ours, in this transaction.
    New,
    /// It is there, with the same digest.
    Duplicate,
    /// It is there with other content, or its signed text is; kept beside the one that stands.
    Conflict {
        /// Digest of the copy that stands.
        first: BodyDigest,
        /// The id that stands.
        first_event_id: String,
    },
    /// Its signed text is there under another id, with the same content; kept under its own id as `replayed`.
    Replayed {
        /// The id that stands.
        first_event_id: String,
    },
}

/// A change of an event's row. Rows are born `done`; only what differs is written.
#[derive(Debug, Clone)]
pub struct EventUpdate {
    /// Whose row.
    pub event_seq: i64,
    /// Whose row, for people.
    pub key: EventKey,
    /// Where it stands now.
    pub state: EventState,
    /// Why, when there is a reason.
    pub error: Option<String>,
    /// How often it was dispatched.
    pub attempts_n: u32,
    /// When to dispatch it again; with `retry` only.
    pub due_at_ms: Option<UnixMs>,
    /// When this was decided.
    pub processed_at_ms: UnixMs,
}

/// An event's row, for people and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Who it is.
    pub key: EventKey,
    /// Its type.
    pub event_type: String,
    /// Its digest.
    pub digest: Vec<u8>,
    /// Its number, by which everything else is kept.
    pub event_seq: i64,
    /// Where it stands.
    pub state: EventState,
    /// Dispatches so far.
    pub attempts_n: u32,
    /// When it is dispatched again.
    pub due_at_ms: Option<UnixMs>,
    /// Why it stands there.
    pub error: Option<String>,
    /// When the first copy came.
    pub received_at_ms: UnixMs,
    /// Which rule told it from others, and why where that is not one of its kind's.
    pub identity: String,
}

