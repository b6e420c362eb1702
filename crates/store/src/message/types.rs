//! The types of messages while they are planned, claimed, settled and listed; how their rows are read; the messages of
//! one event, and the latest time in the open ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::claimed::ClaimedRow;
use crate::damaged::{IntactRows, intact, of_row};
use crate::db::{DbError, DbResult, Row, StoreError};
use crate::handle::Store;
use crate::lane::Lane;
use hooklatch_core::types::{
    AttemptResult, EventKey, MessageId, MessageState, Name, SentUnder, SpanContext, UnixMs, idempotency_key,
};

/// A message to write: one call to make, frozen.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// Its number, which says whose event it follows from.
    pub message_id: MessageId,
    /// The event that it follows from: its content is encrypted for it.
    pub event: Arc<EventKey>,
    /// The shard of its event.
    pub shard: i16,
    /// 0, and one more for each deliberate re-run.
    pub generation: i32,
    /// Unique within event and generation.
    pub effect_name: String,
    /// Name of the destination that it goes to.
    pub destination: String,
    /// HTTP method of the call.
    pub method: String,
    /// Path below the destination's URL.
    pub path: String,
    /// Extra headers of the call.
    pub headers: BTreeMap<String, String>,
    /// `None`: the event's own bytes, as kept in `webhook_payloads`.
    pub body: Option<Bytes>,
    /// Bytes of the body that its call carries, about.
    pub body_bytes_n: u32,
    /// Messages of one lane of a destination go out in order, one at a time.
    pub lane: Option<String>,
    /// Due at once, from here.
    pub created_at_ms: UnixMs,
    /// Its first lease, when the worker takes it over right after the commit.
    pub lease: Option<InitialLease>,
    /// Time since when it may have been sent by an installation that this one was restored from: the destination's
    /// `unknown` decides about it, and its key counts from then on.
    pub unknown_since_ms: Option<UnixMs>,
}

impl NewMessage {
    /// A message that forwards the event's own bytes to `destination`, and is named after it. The beginning of those
    /// that tests make.
    pub fn forward(message_id: MessageId, event: EventKey, destination: &str) -> Self {
        Self {
            message_id,
            shard: event.shard(),
            event: Arc::new(event),
            generation: 0,
            effect_name: destination.to_owned(),
            destination: destination.to_owned(),
            method: "POST".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: None,
            body_bytes_n: 0,
            lane: None,
            created_at_ms: 0,
            lease: None,
            unknown_since_ms: None,
        }
    }

    /// True when it is a POST of the event's own bytes to the destination's own address, so that nothing has
    /// to be kept of what it says.
    pub(crate) fn is_forward(&self) -> bool {
        self.body.is_none() && self.method == "POST" && self.path.is_empty() && self.headers.is_empty()
    }

    /// Its headers as a column holds them: a JSON object.
    pub(crate) fn headers_json(&self) -> String {
        serde_json::json!(self.headers).to_string()
    }

    /// Its name as a column holds it: nothing where it is the destination's.
    pub(crate) fn effect_name_column(&self) -> Option<&str> {
        Some(self.effect_name.as_str()).filter(|name| *name != self.destination)
    }
}

/// The clock that an operation goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// Time that the caller's clock shows.
    pub ms: UnixMs,
    /// True when the database's own clock counts, where it has one: what the caller says are durations from
    /// `ms`, and times returned to the caller are converted to its own clock.
    pub(crate) is_theirs: bool,
}

/// Claims whose response was lost: no node has the messages that they leased.
#[derive(Debug, Clone)]
pub struct LostClaims {
    /// Names under which they were claimed.
    pub holders: Vec<String>,
    /// Destinations that were asked for.
    pub destinations: Vec<Name>,
    /// The oldest of them was made so long ago. Milliseconds.
    pub age_ms: i64,
}

/// The lease a message is written with: its first claim, made before another transaction can see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialLease {
    /// Name of the node that holds it.
    pub node: Arc<str>,
    /// Time at which it began, by the clock that the worker counts attempts and ages by.
    pub from_ms: UnixMs,
    /// Time at which it ends.
    pub until_ms: UnixMs,
    /// Past this nothing is sent by itself.
    pub key_valid_until_ms: UnixMs,
    /// Time when it was taken by the clock that these times are of: they become as many milliseconds from
    /// the moment of the insert, by the database's clock if it has one. `None`: they are written as they
    /// are.
    pub taken_at_ms: Option<UnixMs>,
}

/// Number of messages that a worker may take of one destination.
#[derive(Debug, Clone)]
pub struct LeaseWant {
    /// Name of the destination.
    pub destination: Name,
    /// At most this many messages.
    pub free_n: u32,
    /// No more than the first of them where their bodies would exceed this. Bytes.
    pub free_bytes_n: u64,
    /// Time for which the destination remembers a key, from the first send. Milliseconds.
    pub key_valid_for_ms: i64,
}

/// What a worker takes together with its settlements: the next message of each lane whose head they end.
#[derive(Debug, Clone)]
pub struct NextWant {
    /// The destinations of which it takes any. No body of one may be larger than its `free_bytes_n`.
    pub wants: Vec<LeaseWant>,
    /// Time that the caller's clock shows.
    pub now_ms: UnixMs,
    /// Length of the leases. Milliseconds.
    pub lease_ms: i64,
    /// Name under which they are claimed, used once.
    pub holder: String,
}

/// What became of settlements, and what was taken with them.
#[derive(Debug, Default)]
pub struct Settled {
    /// `false` for each whose token is no longer the message's: then nothing of it was written. `None` for each that is
    /// still to be settled: what is in its lane changed in that moment, or it takes more than one statement.
    pub written: Vec<Option<bool>>,
    /// The next messages of lanes, which were taken.
    pub next: Vec<LeasedMessage>,
    /// True when the next message of a lane may be due, and was not taken.
    pub is_more: bool,
}

/// A message held by one worker until its lease ends.
#[derive(Debug, Clone)]
pub struct LeasedMessage {
    /// Number of the message.
    pub message_id: MessageId,
    /// The event it follows from.
    pub key: EventKey,
    /// Type of the event.
    pub event_type: String,
    /// Number of deliberate re-runs of its event when it was written.
    pub generation: i32,
    /// Names the effect within the event.
    pub effect_name: String,
    /// Goes with every attempt.
    pub idempotency_key: String,
    /// Name of the destination that it goes to.
    pub destination: Name,
    /// HTTP method of the call.
    pub method: String,
    /// Path below the destination's URL.
    pub path: String,
    /// Extra headers of the call.
    pub headers: BTreeMap<String, String>,
    /// The bytes to send.
    pub body: Bytes,
    /// Content type of the event's own bytes, when those are sent.
    pub event_content_type: Option<String>,
    /// The span that the call is of, where calls say so. It is no part of what is kept, and in no signature.
    pub traceparent: Option<SpanContext>,
    /// Its lane, where others may wait behind it.
    pub lane: Option<String>,
    /// The fencing token: counts claims, this one included.
    pub attempt_n: u32,
    /// True when an earlier claim ended without a settlement: its worker died or was paused, and whether the
    /// call took effect is unknown.
    pub is_previous_unsettled: bool,
    /// True when the last settled attempt ended `unknown`.
    pub is_previous_unknown: bool,
    /// Time when the attempt before this one ended: settled, or at the latest with its lease. `None` for a
    /// first one.
    pub previous_ended_at_ms: Option<UnixMs>,
    /// Claims that do not count against the attempts allowed: those that were handed back unsent, and all before
    /// an operator's last word to send it again.
    pub attempts_before_n: u32,
    /// Time when it was written.
    pub created_at_ms: UnixMs,
    /// Time when the first attempt was claimed.
    pub first_sent_at_ms: UnixMs,
    /// Past this nothing is sent by itself.
    pub key_valid_until_ms: UnixMs,
    /// Time when the lease ends.
    pub lease_until_ms: UnixMs,
}

/// State into which a settlement puts a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleTo {
    /// The destination confirmed it.
    Done,
    /// Again, at this time.
    Ready {
        /// Time when it is visible next.
        visible_at_ms: UnixMs,
    },
    /// The message is given up: `dead`.
    Dead,
    /// An operator decides: `held`.
    Held,
}

impl SettleTo {
    /// Returns where the message stands then.
    pub fn state(self) -> MessageState {
        match self {
            Self::Done => MessageState::Done,
            Self::Ready { .. } => MessageState::Ready,
            Self::Dead => MessageState::Dead,
            Self::Held => MessageState::Held,
        }
    }
}

/// Result of one attempt. Written only while `attempt_n` still is the message's claim counter.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Number of the message.
    pub message_id: MessageId,
    /// Name of the message's destination.
    pub destination: Name,
    /// Its lane, where others may wait behind it.
    pub lane: Option<String>,
    /// The fencing token of the claim.
    pub attempt_n: u32,
    /// State that the message gets.
    pub to: SettleTo,
    /// Word for how the attempt ended.
    pub result: AttemptResult,
    /// The HTTP status, if there was a response.
    pub http_status: Option<u16>,
    /// Reason, without bodies or secrets.
    pub error: Option<String>,
    /// The piece of the answer that is kept.
    pub response: Option<String>,
    /// Nothing was sent and nothing asked: the claim costs no attempt, and the last call's end stays where it is.
    pub is_unsent: bool,
    /// The rule for its destination, where this call or the one before it may have taken effect.
    pub sent_under: Option<SentUnder>,
    /// Time at which the attempt ended.
    pub settled_at_ms: UnixMs,
}

impl Settlement {
    /// The settlement of a call to `billing` that went well, for tests to say what is otherwise.
    #[cfg(test)]
    pub fn done(message_id: i64, attempt_n: u32) -> Self {
        Self {
            message_id: MessageId::from_column(message_id),
            destination: Name::parse("billing").expect("a name"),
            lane: None,
            attempt_n,
            to: SettleTo::Done,
            result: AttemptResult::Done,
            http_status: Some(200),
            error: None,
            response: None,
            is_unsent: false,
            sent_under: None,
            settled_at_ms: 1_000,
        }
    }

    /// When its message is due; since when it is held or dead.
    pub fn visible_at_ms(&self) -> Option<UnixMs> {
        match self.to {
            SettleTo::Ready { visible_at_ms } => Some(visible_at_ms),
            SettleTo::Dead | SettleTo::Held => Some(self.settled_at_ms),
            SettleTo::Done => None,
        }
    }

    /// True when its message's row in `outbox_finished` has all of it: a first attempt that succeeded.
    pub(crate) fn is_plainly_done(&self) -> bool {
        self.to == SettleTo::Done
            && self.attempt_n == 1
            && self.result == AttemptResult::Done
            && self.error.is_none()
            && self.response.is_none()
    }

    /// True when it leaves a row of its own in `outbox_attempts`.
    pub(crate) fn has_own_row(&self) -> bool {
        self.result != AttemptResult::Done || self.response.is_some() || self.attempt_n > 1
    }
}

/// Number of a destination's messages in one state. `done` is not counted (it only grows).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageCount {
    /// Name of the destination.
    pub destination: String,
    /// `ready`, `leased`, `waiting`, `held` or `dead`.
    pub state: MessageState,
    /// Number of messages in this state.
    pub messages_n: u64,
    /// The longest visible one's `visible_at_ms`.
    pub oldest_visible_at_ms: UnixMs,
}

/// A message's row, for operators and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Its lane, if it is in one.
    pub lane: Option<String>,
    /// Number of the message.
    pub message_id: MessageId,
    /// The event it follows from.
    pub key: EventKey,
    /// Type of the event.
    pub event_type: String,
    /// Names the effect within the event.
    pub effect_name: String,
    /// Goes with every attempt.
    pub idempotency_key: String,
    /// Name of the destination that it goes to.
    pub destination: String,
    /// State in which it stands.
    pub state: MessageState,
    /// Number of claims so far.
    pub attempts_n: u32,
    /// Due time, end of the lease, or since when it is held, dead or finished.
    pub visible_at_ms: UnixMs,
    /// Deliberate re-runs of its event before it.
    pub generation: i32,
    /// Word for how the last attempt ended.
    pub last_result: Option<AttemptResult>,
    /// Reason why the last attempt did not end done.
    pub last_error: Option<String>,
    /// Time when it was written.
    pub created_at_ms: UnixMs,
    /// Time when the first attempt was claimed.
    pub first_sent_at_ms: Option<UnixMs>,
    /// Past this nothing is sent by itself.
    pub key_valid_until_ms: Option<UnixMs>,
    /// Time when it was done or discarded.
    pub finished_at_ms: Option<UnixMs>,
    /// The strictest rule under which a call was made that may have taken effect.
    pub sent_under: Option<SentUnder>,
}

/// What was written of settlements, the messages that were taken with them, and whether another one is due.
pub(super) type SettledRows = (Vec<Option<bool>>, Vec<ClaimedRow>, bool);

/// The lanes of these settlements, each once, in the one order in which all transactions lock them.
pub(super) fn lanes_of(settlements: &[Settlement]) -> Vec<Lane> {
    let lane = |one: &Settlement| Some((one.destination.to_string(), one.lane.clone()?));
    settlements.iter().filter_map(lane).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Store {
    /// The messages of one event, by generation and effect name.
    pub async fn message_list_of_event(&self, key: &EventKey) -> Result<Vec<MessageRow>, StoreError> {
        let installation_id = self.installation_id().await?;
        let key = key.clone();
        alone!(self, operators, "message_list_of_event", |db| {
            let sql = "/* message_list_of_event */ SELECT event_seq FROM processed_webhook_events
        WHERE provider = $1 AND event_id = $2";
            let values = [key.provider.as_str().into(), (&key.event_id).into()];
            let Some(event) = db.fetch_optional(sql, &values).await? else { return Ok(Vec::new()) };
            let rows = db.fetch(OF_EVENT, &[event.int("event_seq")?.into()]).await?;
            rows.iter().map(|row| MessageRow::from_row(row, &installation_id)).collect()
        })
    }

    /// The latest time in the rows of open messages: no clock of ours showed an earlier one when they were written.
    pub async fn message_latest_ms(&self) -> Result<Option<UnixMs>, StoreError> {
        alone!(self, reader, "message_latest_ms", |db| {
            let sql =
                "/* message_latest_ms */ SELECT MAX(GREATEST(created_at_ms, COALESCE(last_ended_at_ms, 0),
            COALESCE(first_sent_at_ms, 0), COALESCE(leased_at_ms, 0))) AS latest_ms
        FROM outbox_queue WHERE state IN ('ready', 'leased')";
            db.fetch_one(sql, &[]).await?.int_or_null("latest_ms")
        })
    }
}

const OF_EVENT: &str = "/* message_list_of_event */ SELECT m.* FROM outbox_messages m
    WHERE m.message_id >= CAST($1 AS BIGINT) * 1024 AND m.message_id < (CAST($1 AS BIGINT) + 1) * 1024
    ORDER BY m.generation, m.effect_name, m.message_id";

/// Rows of the view `outbox_messages`, those that are damaged apart.
pub(crate) fn message_rows(rows: &[Row], installation_id: &Uuid) -> DbResult<IntactRows<MessageRow>> {
    intact(MESSAGES, "message_id", rows, |row| MessageRow::read(row, installation_id))
}

const MESSAGES: &str = "outbox_messages";

impl MessageRow {
    /// A row of the view `outbox_messages`; it is an error, with its number, when that is damaged.
    pub(crate) fn from_row(row: &Row, installation_id: &Uuid) -> DbResult<Self> {
        of_row(MESSAGES, &row.key_text("message_id"), Self::read(row, installation_id))
    }

    fn read(row: &Row, installation_id: &Uuid) -> DbResult<Self> {
        let provider = row.text("provider")?;
        let provider = Name::parse(&provider)
            .map_err(|_| DbError::decode("provider", format_args!("`{provider}`, which is no name")))?;
        let key = EventKey { provider, event_id: row.text("event_id")? };
        let generation = i32::try_from(row.int("generation")?).unwrap_or(i32::MAX);
        let effect_name = row.text("effect_name")?;
        let last_result = row.text_or_null("last_result")?;
        Ok(Self {
            lane: row.text_or_null("lane")?,
            message_id: MessageId::from_column(row.int("message_id")?),
            event_type: row.text("event_type")?,
            idempotency_key: idempotency_key(installation_id, &key, generation, &effect_name),
            key,
            effect_name,
            destination: row.text("destination")?,
            state: message_state(row)?,
            attempts_n: row.count("attempts_n")?,
            visible_at_ms: row.int("visible_at_ms")?,
            generation,
            last_result: last_result.as_deref().and_then(AttemptResult::parse),
            last_error: row.text_or_null("last_error")?,
            created_at_ms: row.int("created_at_ms")?,
            first_sent_at_ms: row.int_or_null("first_sent_at_ms")?,
            key_valid_until_ms: row.int_or_null("key_valid_until_ms")?,
            finished_at_ms: row.int_or_null("finished_at_ms")?,
            sent_under: row.text_or_null("sent_under")?.as_deref().and_then(SentUnder::parse),
        })
    }
}

/// Returns where a message stands, in the column `state`.
pub(crate) fn message_state(row: &Row) -> DbResult<MessageState> {
    let state = row.text("state")?;
    MessageState::parse(&state)
        .ok_or_else(|| DbError::decode("state", format_args!("`{state}`, which is none of a message")))
}
