//! The types of an event at each stage, and how they are read from its row.

use bytes::Bytes;

use super::payload::{NotAsItCame, StoredPayload};
use crate::seal::{KeyRing, SealError};
use crate::store::db::{DbError, DbResult, Row};
use crate::types::{BodyDigest, EventKey, EventState, MessageId, Name, ObjectVersion, UnixMs};

/// The result of inserting one event.
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
    /// Its signed text is there under another id, with the same content, as its kind's bodies may repeat: accepted as an
    /// event of its own, which the retries dispatch.
    Repeated,
}

/// A change of an event's row. Rows are inserted as `done`; only what differs is written.
#[derive(Debug, Clone)]
pub struct EventUpdate {
    /// Number of the event whose row it is.
    pub event_seq: i64,
    /// Key of the event, for people.
    pub key: EventKey,
    /// State in which it stands now.
    pub state: EventState,
    /// Reason for the state, where there is one.
    pub error: Option<String>,
    /// Number of times that it was dispatched.
    pub attempts_n: u32,
    /// Time when to dispatch it again; with `retry` only.
    pub due_at_ms: Option<UnixMs>,
    /// Time when this was decided.
    pub processed_at_ms: UnixMs,
}

/// An event's row, for people and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Provider and id of the event.
    pub key: EventKey,
    /// Type of the event, in the sender's words.
    pub event_type: String,
    /// Digest of its content: SHA-256.
    pub digest: Vec<u8>,
    /// Its number, by which everything else is kept.
    pub event_seq: i64,
    /// State in which it stands.
    pub state: EventState,
    /// Number of dispatches so far.
    pub attempts_n: u32,
    /// Time when it is dispatched again.
    pub due_at_ms: Option<UnixMs>,
    /// Reason why it stands there.
    pub error: Option<String>,
    /// Time when the first copy came.
    pub received_at_ms: UnixMs,
    /// Rule that told it from others, and the reason where that is not one of its kind's.
    pub identity: String,
}

/// An event taken out to be dispatched again, its row locked until the transaction ends.
#[derive(Debug, Clone)]
pub struct DueEvent {
    /// Provider and id of the event.
    pub key: EventKey,
    /// Number of the event.
    pub event_seq: i64,
    /// Type of the event, in the sender's words.
    pub event_type: String,
    /// Object that it is about, and the version of that.
    pub object: Option<ObjectVersion>,
    /// Number of dispatches so far.
    pub attempts_n: u32,
    /// Time when the first copy came.
    pub received_at_ms: UnixMs,
    /// Time from which its age counts: a pause of its provider made it no older.
    pub counted_from_ms: UnixMs,
    /// 0, and one more for each deliberate re-run.
    pub generation: i32,
    /// The first place that no message of the event has, finished ones included.
    pub next_place: u16,
    /// Kept headers, as a JSON object.
    pub headers: String,
    /// Bytes of the body that were kept.
    pub body: Bytes,
    /// Reason why it cannot be dispatched: what is kept of it is not there, or cannot be read.
    pub broken: Option<String>,
    /// Reason why it cannot be dispatched for now: it does not open.
    pub locked: Option<SealError>,
}

/// The end of a look for the event that is due for longest.
#[derive(Debug, Clone)]
pub(in crate::store) enum DueTaken {
    /// No event is due.
    None,
    /// This one is, and its row is locked.
    Event(Box<DueEvent>),
    /// This one was, and its key cannot be read: it stands as `failed` once the transaction is committed.
    PutAside,
}

/// Number of events of a provider in one state in which somebody should look at them: `retry`, `failed`,
/// `unreadable` or `conflict`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EventCount {
    /// Name of their provider.
    pub provider: String,
    /// `retry`, `failed`, `unreadable` or `conflict`.
    pub state: EventState,
    /// Number of events in this state.
    pub events_n: u64,
    /// Time when the oldest of them came.
    pub oldest_received_at_ms: UnixMs,
}

/// Provider and id of an event, in the columns of these names.
pub(in crate::store) fn event_key(row: &Row) -> DbResult<EventKey> {
    let provider = row.text("provider")?;
    let provider = Name::parse(&provider).map_err(|_| DbError::decode("provider", &provider))?;
    Ok(EventKey { provider, event_id: row.text("event_id")? })
}

/// Returns the state in the column `state`.
pub(in crate::store) fn event_state(row: &Row) -> DbResult<EventState> {
    let word = row.text("state")?;
    EventState::parse(&word).ok_or_else(|| DbError::decode("state", format_args!("`{word}`")))
}

impl EventRow {
    /// Reads a row with all columns of an event.
    pub(super) fn of(row: &Row) -> DbResult<Self> {
        Ok(Self {
            key: event_key(row)?,
            event_seq: row.int("event_seq")?,
            event_type: row.text("event_type")?,
            digest: row.bytes("digest")?,
            state: event_state(row)?,
            attempts_n: row.count("attempts_n")?,
            due_at_ms: row.int_or_null("due_at_ms")?,
            error: row.text_or_null("error")?,
            received_at_ms: row.int("received_at_ms")?,
            identity: row.text("identity")?,
        })
    }
}

impl DueEvent {
    /// A row that cannot be read is given back as broken, so that it can be put aside.
    pub(super) fn of(row: &Row, ring: &KeyRing) -> DbResult<Self> {
        let (key, event_seq) = (event_key(row)?, row.int("event_seq")?);
        let whole = Self::whole(row, key.clone(), event_seq, ring);
        Ok(whole.unwrap_or_else(|why| Self {
            key,
            event_seq,
            event_type: row.text("event_type").unwrap_or_default(),
            object: None,
            attempts_n: row.count("attempts_n").unwrap_or_default(),
            received_at_ms: row.int("received_at_ms").unwrap_or_default(),
            counted_from_ms: row.int("received_at_ms").unwrap_or_default(),
            generation: 0,
            next_place: 0,
            headers: String::new(),
            body: Bytes::new(),
            broken: Some(format!("its row cannot be read: {why}")),
            locked: None,
        }))
    }

    fn whole(row: &Row, key: EventKey, event_seq: i64, ring: &KeyRing) -> DbResult<Self> {
        let object = match (row.text_or_null("object")?, row.int_or_null("version")?) {
            (Some(object), Some(version)) => Some(ObjectVersion { object, version }),
            _ => None,
        };
        let (headers, body, broken, locked) = match StoredPayload::of(row, event_seq)? {
            None => (String::new(), Vec::new(), Some("its body is no longer kept".to_owned()), None),
            Some(stored) => match stored.came(&key, ring) {
                Ok((headers, body)) => (headers, body, None, None),
                Err(NotAsItCame::Redacted) => {
                    let why = "its body was redacted, and what came is no longer kept".to_owned();
                    (String::new(), Vec::new(), Some(why), None)
                }
                Err(NotAsItCame::Sealed(error)) => (String::new(), Vec::new(), None, Some(error)),
            },
        };
        Ok(Self {
            key,
            event_seq,
            event_type: row.text("event_type")?,
            object,
            attempts_n: row.count("attempts_n")?,
            received_at_ms: row.int("received_at_ms")?,
            counted_from_ms: row
                .int("received_at_ms")?
                .max(row.int_or_null("pause_ended_at_ms")?.unwrap_or(i64::MIN)),
            headers,
            body: Bytes::from(body),
            generation: i32::try_from(row.int("generation")?).unwrap_or(i32::MAX),
            next_place: row
                .int_or_null("highest")?
                .map_or(0, |highest| MessageId::from_column(highest).place().saturating_add(1)),
            broken,
            locked,
        })
    }
}
