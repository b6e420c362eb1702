//! Events: what admission finds and writes of them, and what people see.

use bytes::Bytes;

use super::db::{DbError, DbResult, Door, Row, StoreError, Value};
use super::handle::Store;
use crate::types::{BodyDigest, EventKey, EventState, MessageId, Name, ObjectVersion, UnixMs};

/// Finding of one insert of an event.
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

impl Store {
    /// Writes that an event failed again, while it still is in `retry` with `attempts_before`; `false` when
    /// it no longer is.
    pub async fn event_retry_later(
        &self,
        update: &EventUpdate,
        attempts_before: u32,
    ) -> Result<bool, StoreError> {
        let update = update.clone();
        alone!(self.writer.event_retry_later(&update, attempts_before))
    }

    /// Returns the row of one event; `None` when there is none.
    pub async fn event_get(&self, key: &EventKey) -> Result<Option<EventRow>, StoreError> {
        let key = key.clone();
        alone!(self.people.event_get(&key))
    }

    /// The newest events, at most `limit`, of one state or of all.
    pub async fn event_list(
        &self,
        state: Option<EventState>,
        limit: u32,
    ) -> Result<Vec<EventRow>, StoreError> {
        alone!(self.people.event_list(state, limit))
    }

    /// Returns how many events of each provider wait for a retry, have failed, or could not be read.
    pub async fn event_counts_open(&self) -> Result<Vec<EventCount>, StoreError> {
        alone!(self.reader.event_counts_open())
    }

    /// Returns how many bytes are kept of events that could not be read, by provider.
    pub async fn unreadable_bytes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        alone!(self.reader.unreadable_bytes())
    }
}

fn key_of(row: &Row) -> DbResult<EventKey> {
    let provider = row.text("provider")?;
    let provider = Name::parse(&provider).map_err(|_| DbError::decode("provider", &provider))?;
    Ok(EventKey { provider, event_id: row.text("event_id")? })
}

/// Returns the state in the column `state`.
pub(super) fn event_state(row: &Row) -> DbResult<EventState> {
    let word = row.text("state")?;
    EventState::parse(&word).ok_or_else(|| DbError::decode("state", format_args!("`{word}`")))
}

impl EventRow {
    fn of(row: &Row) -> DbResult<Self> {
        Ok(Self {
            key: key_of(row)?,
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
    fn of(row: &Row) -> DbResult<Self> {
        let (key, event_seq) = (key_of(row)?, row.int("event_seq")?);
        let whole = Self::whole(row, key.clone(), event_seq);
        Ok(whole.unwrap_or_else(|why| Self {
            key,
            event_seq,
            event_type: row.text("event_type").unwrap_or_default(),
            object: None,
            attempts_n: row.count("attempts_n").unwrap_or_default(),
            received_at_ms: row.int("received_at_ms").unwrap_or_default(),
            generation: 0,
            next_place: 0,
            headers: String::new(),
            body: Bytes::new(),
            broken: Some(format!("its row cannot be read: {why}")),
        }))
    }

    fn whole(row: &Row, key: EventKey, event_seq: i64) -> DbResult<Self> {
        let object = match (row.text_or_null("object")?, row.int_or_null("version")?) {
            (Some(object), Some(version)) => Some(ObjectVersion { object, version }),
            _ => None,
        };
        let (headers, body) = (row.text_or_null("headers")?, row.bytes_or_null("body")?);
        let broken = (headers.is_none() || body.is_none()).then(|| "its body is no longer kept".to_owned());
        Ok(Self {
            key,
            event_seq,
            event_type: row.text("event_type")?,
            object,
            attempts_n: row.count("attempts_n")?,
            received_at_ms: row.int("received_at_ms")?,
            headers: headers.unwrap_or_default(),
            body: Bytes::from(body.unwrap_or_default()),
            generation: i32::try_from(row.int("generation")?).unwrap_or(i32::MAX),
            next_place: row
                .int_or_null("highest")?
                .map_or(0, |highest| MessageId::from_column(highest).place().saturating_add(1)),
            broken,
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

async fn event_retry_later(db: &mut Door<'_>, update: &EventUpdate, attempts_before: u32) -> DbResult<bool> {
    let mut values = update_values(update);
    values.push(attempts_before.into());
    let changed_n = db
        .execute(
            "/* event_retry_later */ UPDATE processed_webhook_events
             SET state = $2, error = $3, attempts_n = $4, due_at_ms = $5, processed_at_ms = $6
             WHERE event_seq = $1 AND state = 'retry' AND attempts_n = $7",
            &values,
        )
        .await?;
    Ok(changed_n == 1)
}

pub(super) async fn events_update(db: &mut Door<'_>, updates: &[&EventUpdate]) -> DbResult<()> {
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

pub(super) async fn event_get(db: &mut Door<'_>, key: &EventKey) -> DbResult<Option<EventRow>> {
    let row = db
        .fetch_optional(
            "/* event_get */ SELECT provider, event_id, event_seq, event_type, digest, state, attempts_n, due_at_ms,
                    error, received_at_ms, identity
             FROM processed_webhook_events WHERE provider = $1 AND event_id = $2",
            &[key.provider.as_str().into(), key.event_id.as_str().into()],
        )
        .await?;
    row.as_ref().map(EventRow::of).transpose()
}

/// The newest events, all or those that `$more` is true of.
macro_rules! event_list_sql {
    ($more:literal) => {
        concat!(
            "/* event_list */ SELECT provider, event_id, event_seq, event_type, digest, state, attempts_n, due_at_ms,
                    error, received_at_ms, identity
             FROM processed_webhook_events WHERE ",
            $more,
            " ORDER BY event_seq DESC LIMIT $2"
        )
    };
}

async fn event_list(db: &mut Door<'_>, state: Option<EventState>, limit: u32) -> DbResult<Vec<EventRow>> {
    let is_open = state.is_some_and(|state| {
        matches!(
            state,
            EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict
        )
    });
    let sql = if is_open {
        // The index's own words: SQLite sees by nothing else that it has all of them.
        event_list_sql!("state = $1 AND state IN ('retry', 'failed', 'unreadable', 'conflict')")
    } else {
        event_list_sql!("CAST($1 AS TEXT) IS NULL OR state = $1")
    };
    let rows = db.fetch(sql, &[state.map(EventState::as_str).into(), limit.into()]).await?;
    rows.iter().map(EventRow::of).collect()
}

/// The rows that have one of these ids, the oldest first.
pub(super) async fn events_with(
    db: &mut Door<'_>,
    provider: &Name,
    event_ids: &[String],
) -> DbResult<Vec<EventRow>> {
    let rows = db
        .fetch(
            "/* events_with */ SELECT provider, event_id, event_seq, event_type, digest, state, attempts_n, due_at_ms,
                    error, received_at_ms, identity
             FROM processed_webhook_events WHERE provider = $1 AND event_id = ANY($2)
             ORDER BY received_at_ms, event_id",
            &[provider.as_str().into(), event_ids.to_vec().into()],
        )
        .await?;
    rows.iter().map(EventRow::of).collect()
}

async fn event_counts_open(db: &mut Door<'_>) -> DbResult<Vec<EventCount>> {
    let rows = db
        .fetch(
            "/* event_counts_open */ SELECT provider, state, COUNT(*) AS events_n, MIN(received_at_ms) AS oldest_at_ms
             FROM processed_webhook_events WHERE state IN ('retry', 'failed', 'unreadable', 'conflict')
             GROUP BY provider, state ORDER BY provider, state",
            &[],
        )
        .await?;
    let one = |row: &Row| {
        Ok(EventCount {
            provider: row.text("provider")?,
            state: event_state(row)?,
            events_n: row.int("events_n")?.unsigned_abs(),
            oldest_received_at_ms: row.int("oldest_at_ms")?,
        })
    };
    rows.iter().map(one).collect()
}

async fn unreadable_bytes(db: &mut Door<'_>) -> DbResult<Vec<(String, u64)>> {
    let rows = db
        .fetch(
            "/* unreadable_bytes */ SELECT e.provider,
                    CAST(SUM(octet_length(p.body) + octet_length(p.headers)) AS BIGINT) AS bytes_n
             FROM processed_webhook_events e JOIN webhook_payloads p ON p.event_seq = e.event_seq
             WHERE e.state = 'unreadable' AND e.state IN ('retry', 'failed', 'unreadable', 'conflict')
             GROUP BY e.provider",
            &[],
        )
        .await?;
    rows.iter().map(|row| Ok((row.text("provider")?, row.int("bytes_n")?.unsigned_abs()))).collect()
}

pub(super) async fn event_take_due(
    db: &mut Door<'_>,
    now_ms: UnixMs,
    providers: &[Name],
) -> DbResult<Option<DueEvent>> {
    // SKIP LOCKED: nodes pass each other instead of queueing behind one row.
    let names: Vec<String> = providers.iter().map(Name::to_string).collect();
    let taken = db
        .fetch_optional(
            "/* event_take_due */ SELECT event_seq FROM processed_webhook_events
             WHERE state = 'retry' AND state IN ('retry', 'failed', 'unreadable', 'conflict') AND due_at_ms <= $1
               AND provider = ANY($2)
             ORDER BY due_at_ms LIMIT 1 FOR UPDATE SKIP LOCKED",
            &[now_ms.into(), names.into()],
        )
        .await?;
    let Some(taken) = taken else { return Ok(None) };
    let row = db
        .fetch_one(
            "/* event_take_due */ SELECT e.provider, e.event_id, e.event_seq, e.event_type, e.object, e.version,
                    e.attempts_n, e.received_at_ms, e.generation, p.headers, p.body,
                    (SELECT MAX(m.message_id) FROM (
                         SELECT MAX(message_id) AS message_id FROM outbox_queue
                         WHERE message_id >= $1 * 1024 AND message_id < ($1 + 1) * 1024
                         UNION ALL
                         SELECT MAX(message_id) FROM outbox_finished
                         WHERE message_id >= $1 * 1024 AND message_id < ($1 + 1) * 1024) m) AS highest
             FROM processed_webhook_events e LEFT JOIN webhook_payloads p ON p.event_seq = e.event_seq
             WHERE e.event_seq = $1",
            &[taken.int("event_seq")?.into()],
        )
        .await?;
    DueEvent::of(&row).map(Some)
}
