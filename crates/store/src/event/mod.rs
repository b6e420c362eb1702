//! Events: their rows, from the latch on. What an event is at each stage, how its row is read, and how rows are found,
//! counted and written after admission.
//!
//! `parts.rs`: what was received with an event, large bodies, and what is kept for operators alone. `view.rs`: what
//! operators see, and what became of its calls. Not here: how an event is latched (`admission/`), and what is kept
//! beside it (`apart.rs`).

mod parts;
mod view;

use bytes::Bytes;

use crate::damaged::note;
use crate::db::{DbError, DbResult, Executor, Row, StoreError, Value};
use crate::handle::Store;
use hooklatch_core::seal::{KeyRing, SealError};
use hooklatch_core::types::{BodyDigest, EventKey, EventState, MessageId, Name, ObjectVersion, UnixMs};

#[cfg(any(test, feature = "testing"))]
pub(super) use parts::STATEMENTS as PARTS_STATEMENTS;
pub(super) use parts::{
    ContentUnavailable, StoredPayload, payload_in_parts, payload_redacted, payload_whole_keep, stored_body,
    stored_body_bytes,
};
#[cfg(any(test, feature = "testing"))]
pub(super) use view::STATEMENTS as DELIVERY_STATEMENTS;
pub(super) use view::{event_columns, event_view, event_views};

/// The result of inserting one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Latched {
    /// This transaction inserted the row.
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
    /// Its signed text is there under another id, with the same content, as its kind's bodies may repeat: accepted as
    /// an event of its own, which the retries dispatch.
    Repeated,
}

/// A change of an event's row. Rows are inserted as `done`; only what differs is written.
#[derive(Debug, Clone)]
pub struct EventUpdate {
    /// Number of the event whose row it is.
    pub event_seq: i64,
    /// Key of the event, for operators.
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

/// An event's row, for operators and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Provider and id of the event.
    pub key: EventKey,
    /// Type of the event, as the sender names it.
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
    /// Time when the first copy was received.
    pub received_at_ms: UnixMs,
    /// Rule that identified the event, and the reason where that is not one of its kind's.
    pub identity: String,
}

/// An event taken out to be dispatched again, its row locked until the transaction ends.
#[derive(Debug, Clone)]
pub struct DueEvent {
    /// Provider and id of the event.
    pub key: EventKey,
    /// Number of the event.
    pub event_seq: i64,
    /// Type of the event, as the sender names it.
    pub event_type: String,
    /// Object that it is about, and the version of that.
    pub object: Option<ObjectVersion>,
    /// Number of dispatches so far.
    pub attempts_n: u32,
    /// Time when the first copy was received.
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
pub(crate) enum DueLookup {
    /// No event is due.
    None,
    /// This one is, and its row is locked.
    Event(Box<DueEvent>),
    /// This one was, and its key cannot be read: it stands as `failed` once the transaction is committed.
    PutAside,
}

/// Number of events of a provider in one state that needs an operator's attention: `retry`, `failed`,
/// `unreadable` or `conflict`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EventCount {
    /// Name of their provider.
    pub provider: String,
    /// `retry`, `failed`, `unreadable` or `conflict`.
    pub state: EventState,
    /// Number of events in this state.
    pub events_n: u64,
    /// Time when the oldest of them was received.
    pub oldest_received_at_ms: UnixMs,
}

/// Provider and id of an event, in the columns of these names.
pub(crate) fn event_key(row: &Row) -> DbResult<EventKey> {
    let provider = row.text("provider")?;
    let provider = Name::parse(&provider).map_err(|_| DbError::decode("provider", &provider))?;
    Ok(EventKey { provider, event_id: row.text("event_id")? })
}

/// Returns the state in the column `state`.
pub(crate) fn event_state(row: &Row) -> DbResult<EventState> {
    let word = row.text("state")?;
    EventState::parse(&word).ok_or_else(|| DbError::decode("state", format_args!("`{word}`")))
}

impl EventRow {
    /// Reads a row with all columns of an event.
    pub fn of(row: &Row) -> DbResult<Self> {
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
    pub fn of(row: &Row, ring: &KeyRing) -> DbResult<Self> {
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
            Some(stored) => match stored.original(&key, ring) {
                Ok((headers, body)) => (headers, body, None, None),
                Err(ContentUnavailable::Redacted) => {
                    let why = "its body was redacted, and the original is no longer stored".to_owned();
                    (String::new(), Vec::new(), Some(why), None)
                }
                Err(ContentUnavailable::Sealed(error)) => (String::new(), Vec::new(), None, Some(error)),
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

impl Store {
    /// Writes that an event failed again, while it still is in `retry` with `attempts_before`; `false` when
    /// it no longer is.
    pub async fn event_retry_later(
        &self,
        update: &EventUpdate,
        attempts_before: u32,
    ) -> Result<bool, StoreError> {
        let update = update.clone();
        alone!(self, writer, "event_retry_later", |db| {
            let mut values = update_values(&update);
            values.push(attempts_before.into());
            let sql = "/* event_retry_later */ UPDATE processed_webhook_events
                SET state = $2, error = $3, attempts_n = $4, due_at_ms = $5, processed_at_ms = $6
                WHERE event_seq = $1 AND state = 'retry' AND attempts_n = $7";
            Ok(db.execute(sql, &values).await? == 1)
        })
    }

    /// Returns the row of one event; `None` when there is none.
    pub async fn event_get(&self, key: &EventKey) -> Result<Option<EventRow>, StoreError> {
        let key = key.clone();
        alone!(self.operators.event_get(&key))
    }

    /// Returns how many bytes are kept of events that could not be read, by provider.
    pub async fn unreadable_bytes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        alone!(self, reader, "unreadable_bytes", |db| {
            let sql = concat!(
                "/* unreadable_bytes */ SELECT e.provider, CAST(SUM(",
                stored_body_bytes!("p"),
                " + octet_length(p.headers) + COALESCE(octet_length(p.whole), 0)) AS BIGINT) AS bytes_n
                 FROM processed_webhook_events e JOIN webhook_payloads p ON p.event_seq = e.event_seq
                 WHERE e.state = 'unreadable' AND e.state IN ('retry', 'failed', 'unreadable', 'conflict')
                 GROUP BY e.provider"
            );
            let rows = db.fetch(sql, &[]).await?;
            rows.iter().map(|row| Ok((row.text("provider")?, row.int("bytes_n")?.unsigned_abs()))).collect()
        })
    }
}

/// The values of a statement that writes where an event stands: `$1` its number, `$2` to `$6` what its row is to say.
fn update_values(update: &EventUpdate) -> Vec<Value> {
    vec![
        update.event_seq.into(),
        update.state.as_str().into(),
        update.error.clone().into(),
        update.attempts_n.into(),
        update.due_at_ms.into(),
        update.processed_at_ms.into(),
    ]
}

pub(crate) async fn events_update(db: &mut Executor<'_>, updates: &[&EventUpdate]) -> DbResult<()> {
    for update in updates {
        db.execute(
            "/* events_update */ UPDATE processed_webhook_events
             SET state = $2, error = $3, attempts_n = $4, due_at_ms = $5, processed_at_ms = $6 WHERE event_seq = $1",
            &update_values(update),
        )
        .await?;
    }
    Ok(())
}

/// A statement that gives back all that an [`EventRow`] holds, of the rows that `which` is true of.
fn event_rows_sql(op: &str, which: &str) -> String {
    format!(
        "/* {op} */ SELECT provider, event_id, event_seq, event_type, digest, state, attempts_n, due_at_ms, error,
             received_at_ms, identity
         FROM processed_webhook_events WHERE {which}"
    )
}

pub(crate) async fn event_get(db: &mut Executor<'_>, key: &EventKey) -> DbResult<Option<EventRow>> {
    let sql = event_rows_sql("event_get", "provider = $1 AND event_id = $2");
    let row = db.fetch_optional(sql, &[key.provider.as_str().into(), (&key.event_id).into()]).await?;
    row.as_ref().map(EventRow::of).transpose()
}

/// The rows that have one of these ids, the oldest first.
pub(crate) async fn events_with(
    db: &mut Executor<'_>,
    provider: &Name,
    event_ids: &[String],
) -> DbResult<Vec<EventRow>> {
    let which = "provider = $1 AND event_id = ANY($2) ORDER BY received_at_ms, event_id";
    let values = [provider.as_str().into(), event_ids.to_vec().into()];
    db.fetch(event_rows_sql("events_with", which), &values).await?.iter().map(EventRow::of).collect()
}

/// The provider whose event has been due for longest, of some that are not paused. One look at the index of what is due
/// for each provider that has anything in it, however many wait there: those of a paused provider may be very many.
const DUE_PROVIDER: &str = "/* event_take_due */ WITH RECURSIVE p AS (
        SELECT (SELECT e.provider FROM processed_webhook_events e
                WHERE e.state = 'retry' ORDER BY e.provider, e.due_at_ms LIMIT 1) AS name
        UNION ALL
        SELECT (SELECT e.provider FROM processed_webhook_events e
                WHERE e.state = 'retry' AND e.provider > p.name ORDER BY e.provider, e.due_at_ms LIMIT 1)
        FROM p WHERE p.name IS NOT NULL)
    SELECT d.name FROM (
        SELECT p.name, COALESCE((SELECT e.due_at_ms FROM processed_webhook_events e
                        WHERE e.provider = p.name AND e.state = 'retry'
                        ORDER BY e.provider, e.due_at_ms LIMIT 1), 0) AS due_at_ms
        FROM p WHERE p.name = ANY($2)
          AND NOT EXISTS (SELECT 1 FROM provider_pauses x WHERE x.provider = p.name AND x.ended_at_ms IS NULL)) d
    WHERE d.due_at_ms <= $1 ORDER BY d.due_at_ms LIMIT 1";

/// Its longest due events; of equally long due ones the first received. By the index of what is due, and never by that
/// of the keys, which has all events of a provider. As many as other nodes may have locked. One that has lost its time
/// is due: SQLite's index has it before all others.
const FIRST_DUE: &str = "/* event_take_due */ SELECT event_seq, attempts_n FROM (
        SELECT event_seq, attempts_n FROM processed_webhook_events
        WHERE provider = $2 AND state = 'retry' AND due_at_ms IS NULL LIMIT 32) e
    UNION ALL SELECT event_seq, attempts_n FROM (
        SELECT event_seq, attempts_n FROM processed_webhook_events
        WHERE provider = $2 AND state = 'retry' AND due_at_ms <= $1
        ORDER BY provider, due_at_ms, event_seq LIMIT 32) d";
/// SKIP LOCKED: nodes pass each other instead of queueing behind one row.
const TAKE_DUE: &str = "/* event_take_due */ SELECT event_seq FROM processed_webhook_events
    WHERE event_seq = $2 AND state = 'retry' AND (due_at_ms IS NULL OR due_at_ms <= $1) FOR UPDATE SKIP LOCKED";
/// Puts aside an event whose key cannot be read: there is nothing to dispatch it by.
const PUT_ASIDE: &str = "/* event_take_due */ UPDATE processed_webhook_events
    SET state = 'failed', error = $2, due_at_ms = NULL, processed_at_ms = $3 WHERE event_seq = $1";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const DUE_STATEMENTS: &[(&str, &str)] =
    &[("provider of the longest due event", DUE_PROVIDER), ("longest due events", FIRST_DUE)];

impl Store {
    /// True when an event of these providers is due to be dispatched again. It may be another node's a moment later.
    pub async fn is_event_due(&self, now_ms: UnixMs, providers: &[Name]) -> Result<bool, StoreError> {
        let names: Vec<String> = providers.iter().map(Name::to_string).collect();
        alone!(self, reader, "event_take_due", |db| {
            Ok(db.fetch_optional(DUE_PROVIDER, &[now_ms.into(), names.into()]).await?.is_some())
        })
    }
}

/// The number of the event to be dispatched next, locked; of a provider whose due events all are locked, the next
/// provider's.
async fn longest_due(db: &mut Executor<'_>, now_ms: UnixMs, providers: &[Name]) -> DbResult<Option<i64>> {
    let mut names: Vec<String> = providers.iter().map(Name::to_string).collect();
    loop {
        let found = db.fetch_optional(DUE_PROVIDER, &[now_ms.into(), names.clone().into()]).await?;
        let Some(found) = found else { return Ok(None) };
        let name = found.text("name")?;
        if let Some(event_seq) = take_due(db, now_ms, &name).await? {
            return Ok(Some(event_seq));
        }
        names.retain(|other| *other != name);
    }
}

/// Locks the longest due event of a provider that no other node has. Events that waited for the end of a pause were
/// never dispatched, and keep their order: of those only the first may be taken, so one node dispatches them at a time.
async fn take_due(db: &mut Executor<'_>, now_ms: UnixMs, provider: &str) -> DbResult<Option<i64>> {
    let mut is_behind_waiting = false;
    for row in db.fetch(FIRST_DUE, &[now_ms.into(), provider.into()]).await? {
        let (event_seq, is_waiting) = (row.int("event_seq")?, row.int("attempts_n")? == 0);
        if is_waiting && std::mem::replace(&mut is_behind_waiting, true) {
            continue;
        }
        if db.fetch_optional(TAKE_DUE, &[now_ms.into(), event_seq.into()]).await?.is_some() {
            return Ok(Some(event_seq));
        }
    }
    Ok(None)
}

pub(crate) async fn event_take_due(
    db: &mut Executor<'_>,
    now_ms: UnixMs,
    providers: &[Name],
    ring: &KeyRing,
) -> DbResult<DueLookup> {
    let Some(event_seq) = longest_due(db, now_ms, providers).await? else { return Ok(DueLookup::None) };
    let row = db
        .fetch_one(
            concat!("/* event_take_due */ SELECT e.provider, e.event_id, e.event_seq, e.event_type, e.object, e.version,
                    e.attempts_n, e.received_at_ms, e.generation, p.headers, ", stored_body!("p"), " AS body, p.whole, p.key_id,
                    p.redacted_n,
                    (SELECT x.ended_at_ms FROM provider_pauses x WHERE x.provider = e.provider) AS pause_ended_at_ms,
                    (SELECT MAX(m.message_id) FROM (
                         SELECT MAX(message_id) AS message_id FROM outbox_queue
                         WHERE message_id >= $1 * 1024 AND message_id < ($1 + 1) * 1024
                         UNION ALL
                         SELECT MAX(message_id) FROM outbox_finished
                         WHERE message_id >= $1 * 1024 AND message_id < ($1 + 1) * 1024) m) AS highest
             FROM processed_webhook_events e LEFT JOIN webhook_payloads p ON p.event_seq = e.event_seq
             WHERE e.event_seq = $1"),
            &[event_seq.into()],
        )
        .await?;
    match DueEvent::of(&row, ring) {
        Ok(due) => Ok(DueLookup::Event(Box::new(due))),
        Err(error) => {
            let damaged = note("processed_webhook_events", &event_seq.to_string(), error)?;
            let why = format!("its row cannot be read: {}", damaged.why);
            db.execute(PUT_ASIDE, &[event_seq.into(), why.into(), now_ms.into()]).await?;
            Ok(DueLookup::PutAside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_found_by_its_own_index_however_many_events_a_provider_has() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch(include_str!("../../../../migrations/sqlite/0001_hooklatch.sql")).unwrap();
        for (name, sql) in DUE_STATEMENTS {
            let sql = format!("EXPLAIN QUERY PLAN {}", crate::db::to_sqlite(sql));
            let mut plan = db.prepare(&sql).unwrap();
            let steps =
                plan.query_map(rusqlite::params![1_i64, "[]"], |row| row.get::<_, String>("detail")).unwrap();
            let steps = steps.map(Result::unwrap).collect::<Vec<_>>().join("; ");
            let events =
                steps.split("; ").filter(|step| step.contains("SEARCH e ") || step.contains("processed"));
            for step in events {
                assert!(step.contains("processed_webhook_events_due"), "{name}: {steps}");
            }
            assert!(
                steps.contains("processed_webhook_events_due") && !steps.contains("SCAN e\n"),
                "{name}: {steps}"
            );
        }
    }
}
