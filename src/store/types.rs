//! What goes into the store and what comes out, the same for both databases.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::types::{AttemptResult, BodyDigest, EventKey, EventState, MessageState, Name, UnixMs};

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

/// A message to write: one call to make, frozen.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// `UUIDv7`.
    pub message_id: String,
    /// The event it follows from.
    pub key: EventKey,
    /// The event's type.
    pub event_type: String,
    /// 0, and one more for each deliberate re-run.
    pub generation: i32,
    /// Unique within event and generation.
    pub effect_name: String,
    /// Sent with every attempt.
    pub idempotency_key: String,
    /// Where to.
    pub destination: String,
    /// HTTP method.
    pub method: String,
    /// Below the destination's URL.
    pub path: String,
    /// Extra headers.
    pub headers: BTreeMap<String, String>,
    /// `None`: the event's own bytes, as kept in `webhook_payloads`.
    pub body: Option<Bytes>,
    /// Messages of one lane of a destination go out in order, one at a time.
    pub lane: Option<String>,
    /// Due at once, from here.
    pub created_at_ms: UnixMs,
    /// Its first lease, when its sender takes it over right after the commit.
    pub lease: Option<BornLease>,
}

/// Whose time an operation goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Now {
    /// What the caller's clock shows.
    pub(super) ms: UnixMs,
    /// Whether the database's own clock counts, where it has one: what the caller says are durations from `ms`,
    /// and what the caller is told is turned into its own times.
    pub(super) is_theirs: bool,
}

/// What a look for due messages took.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) messages: Vec<LeasedMessage>,
    /// What settles those that cannot be read.
    pub(super) unreadable: Vec<Settlement>,
}

impl Claimed {
    pub(super) fn add(&mut self, row: Result<LeasedMessage, Option<Box<Settlement>>>) {
        match row {
            Ok(message) => self.messages.push(message),
            Err(unreadable) => self.unreadable.extend(unreadable.map(|one| *one)),
        }
    }
}

/// Claims whose answer never came: nobody has what they took.
#[derive(Debug, Clone)]
pub struct LostClaims {
    /// What they were claimed as.
    pub holders: Vec<String>,
    /// Of these destinations.
    pub destinations: Vec<Name>,
    /// The oldest of them was made so long ago. Milliseconds.
    pub age_ms: i64,
}

/// The lease a message is written with: its first claim, made before it is there for anybody else to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BornLease {
    /// Whose it is.
    pub node: Arc<str>,
    /// When it began, by the clock that the sender counts attempts and ages by.
    pub from_ms: UnixMs,
    /// When it ends.
    pub until_ms: UnixMs,
    /// Past this nothing is sent by itself.
    pub key_valid_until_ms: UnixMs,
    /// When it was taken by the clock that these times are of: they become as many milliseconds from the moment
    /// of the insert, by the database's clock if it has one. `None`: they are written as they are.
    pub taken_at_ms: Option<UnixMs>,
}

/// What a worker may take of one destination.
#[derive(Debug, Clone)]
pub struct LeaseWant {
    /// The destination.
    pub destination: Name,
    /// At most this many messages.
    pub free_n: u32,
    /// How long the far side remembers a key, from the first send. Milliseconds.
    pub key_valid_for_ms: i64,
}

/// A message held by one worker until its lease ends.
#[derive(Debug, Clone)]
pub struct LeasedMessage {
    /// `UUIDv7`.
    pub message_id: String,
    /// The event it follows from.
    pub key: EventKey,
    /// The event's type.
    pub event_type: String,
    /// Names the effect within the event.
    pub effect_name: String,
    /// Goes with every attempt.
    pub idempotency_key: String,
    /// Where to.
    pub destination: Name,
    /// HTTP method.
    pub method: String,
    /// Below the destination's URL.
    pub path: String,
    /// Extra headers.
    pub headers: BTreeMap<String, String>,
    /// The bytes to send.
    pub body: Bytes,
    /// Content type of the event's own bytes, when those are sent.
    pub event_content_type: Option<String>,
    /// Whether others may wait behind it.
    pub has_lane: bool,
    /// The fencing token: counts claims, this one included.
    pub attempt_n: u32,
    /// Whether an earlier claim ended without a settlement: its worker died or was paused, and whether the
    /// call took effect is unknown.
    pub is_previous_unsettled: bool,
    /// Whether the last settled attempt ended `unknown`.
    pub is_previous_unknown: bool,
    /// When the attempt before this one ended: settled, or at the latest with its lease. `None` for a first one.
    pub previous_ended_at_ms: Option<UnixMs>,
    /// Claims that do not count against the attempts allowed: those that were handed back unsent, and all before
    /// a person's last word to send it again.
    pub attempts_before_n: u32,
    /// When it was written.
    pub created_at_ms: UnixMs,
    /// When the first attempt was claimed.
    pub first_sent_at_ms: UnixMs,
    /// Past this nothing is sent by itself.
    pub key_valid_until_ms: UnixMs,
    /// When the lease ends.
    pub lease_until_ms: UnixMs,
}

/// Where a settled message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleTo {
    /// The destination confirmed it.
    Done,
    /// Again, at this time.
    Ready {
        /// When it is visible next.
        visible_at_ms: UnixMs,
    },
    /// Given up.
    Dead,
    /// A person decides.
    Held,
}

/// What one attempt came to. Written only while `attempt_n` still is the message's claim counter.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Which message.
    pub message_id: String,
    /// Whether others may wait behind it in a lane.
    pub has_lane: bool,
    /// The fencing token.
    pub attempt_n: u32,
    /// Where it goes.
    pub to: SettleTo,
    /// How the attempt ended.
    pub result: AttemptResult,
    /// The HTTP status, if one came.
    pub http_status: Option<u16>,
    /// Why, in words without bodies or secrets.
    pub error: Option<String>,
    /// The piece of the answer that is kept.
    pub response: Option<String>,
    /// Nothing was sent and nothing asked: the claim costs no attempt, and the last call's end stays where it is.
    pub is_unsent: bool,
    /// When.
    pub settled_at_ms: UnixMs,
}

/// A message's id and a claim of it: who may settle it.
pub(super) type Token = (String, u32);

/// The messages among these that others may wait behind.
pub(super) fn laned(settlements: &[Settlement]) -> Vec<String> {
    settlements.iter().filter(|one| one.has_lane).map(|one| one.message_id.clone()).collect()
}

/// How many messages of a destination stand where. `done` is not counted (it only grows).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageCount {
    /// The destination.
    pub destination: String,
    /// `ready`, `leased`, `waiting`, `held` or `dead`.
    pub state: MessageState,
    /// How many.
    pub messages_n: u64,
    /// The longest visible one's `visible_at_ms`.
    pub oldest_visible_at_ms: UnixMs,
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
    /// Where it stands, as stored.
    pub state: String,
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

/// A message's row, for people and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Its lane, if it is in one.
    pub lane: Option<String>,
    /// `UUIDv7`.
    pub message_id: String,
    /// The event it follows from.
    pub key: EventKey,
    /// The event's type.
    pub event_type: String,
    /// Names the effect within the event.
    pub effect_name: String,
    /// Goes with every attempt.
    pub idempotency_key: String,
    /// Where to.
    pub destination: String,
    /// Where it stands, as stored.
    pub state: String,
    /// Claims so far.
    pub attempts_n: u32,
    /// Due time or end of the lease.
    pub visible_at_ms: UnixMs,
    /// How the last attempt ended.
    pub last_result: Option<String>,
    /// Why the last attempt did not end done.
    pub last_error: Option<String>,
    /// When it was written.
    pub created_at_ms: UnixMs,
    /// When the first attempt was claimed.
    pub first_sent_at_ms: Option<UnixMs>,
    /// Past this nothing is sent by itself.
    pub key_valid_until_ms: Option<UnixMs>,
    /// When it was settled last.
    pub settled_at_ms: Option<UnixMs>,
}
