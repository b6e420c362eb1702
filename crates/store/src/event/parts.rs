//! What was received with an event, as `webhook_payloads` has it: in parts or not, sealed or not, redacted or not.
//!
//! **Parts.** A large body is written in parts before its event is latched. SQLite has one writer, and a commit lasts
//! as long as its bytes take to the disk; on PostgreSQL a commit waits for the log bytes of all commits before it. So
//! the body of a large event is not part of the transaction that latches the event: it is written before, in
//! transactions of [`PART_BYTES`] each (up to [`PART_BYTES_MAX`] where the disk takes long for each commit), and small
//! events commit in between. The parts have the number that the event will have. `unlatched_bodies` has a row from the
//! first part until the latch, and the transaction that latches deletes that row; a sweep that deletes parts deletes
//! the row first. So the parts of a latched event are never swept, and an event without its parts is never latched.
//! Parts left by a crash are swept by their age.
//!
//! An encrypted body is one sealed text, cut into parts; a body with a missing part counts as gone. Deleting a row of
//! `webhook_payloads` deletes the parts (a trigger). Redacted bodies are written in one piece.
//!
//! **Redaction.** Some values of an event may not be stored. `body` never has those values. The bytes as received are
//! in `whole` beside it, only while they are needed: while the event waits to be dispatched or for an operator, and
//! while a message of it is neither done nor discarded. Dispatchers and senders read `whole`; where it is gone, nothing
//! is sent and nothing dispatched. Views for operators read `body`.
//!
//! Contents that templates and handlers made of those bytes for messages of such an event (`outbox_contents`) have the
//! values too, and are deleted with `whole`: by then all of its messages are done or discarded, and none is sent again.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::db::{Backend, DbError, DbResult, Executor, Row, StoreError};
use crate::handle::Store;
use hooklatch_core::seal::{KeyRing, SealError, SealedPlace};
use hooklatch_core::types::{EventKey, IncomingEvent, UnixMs};

/// Length of the first part. Bytes.
const PART_BYTES: usize = 128 << 10;
/// Length of the largest one. Bytes.
const PART_BYTES_MAX: usize = 1 << 20;
/// When a part took longer than this the next one is twice as long, when it took less than half of it half as long.
const PART_TIME: Duration = Duration::from_millis(10);
/// On SQLite, bytes after which the log is moved into the file: beside the writer, so that no commit has to do all of
/// it.
const CHECKPOINT_BYTES: usize = 4 << 20;

/// The stored bytes of a body, by its row of `webhook_payloads`; NULL when a part is missing.
macro_rules! stored_body {
    ($p:literal) => {
        stored_body!($p, "BYTEA")
    };
    ($p:literal, $bytes:literal) => {
        concat!(
            "CASE WHEN ",
            $p,
            ".parts_n IS NULL THEN ",
            $p,
            ".body ELSE (
                SELECT CAST(string_agg(b.part, CAST('' AS ",
            $bytes,
            ") ORDER BY b.part_n) AS ",
            $bytes,
            ")
                FROM webhook_body_parts b WHERE b.event_seq = ",
            $p,
            ".event_seq HAVING COUNT(*) = ",
            $p,
            ".parts_n) END"
        )
    };
}
/// Their length.
macro_rules! stored_body_bytes {
    ($p:literal) => {
        concat!(
            "(octet_length(",
            $p,
            ".body) + COALESCE((SELECT SUM(octet_length(b.part)) FROM webhook_body_parts b
                WHERE ",
            $p,
            ".parts_n IS NOT NULL AND b.event_seq = ",
            $p,
            ".event_seq), 0))"
        )
    };
}
pub(crate) use {stored_body, stored_body_bytes};

impl Store {
    /// Writes the body of an event that is to be latched under this number; returns the number of parts. To be followed
    /// by the latch of the event with that number, or by [`Store::body_parts_delete`].
    pub async fn body_parts_write(
        &self,
        event_seq: i64,
        event: &IncomingEvent,
        now_ms: UnixMs,
    ) -> Result<u32, StoreError> {
        let shard = i32::from(event.key.shard());
        let bytes = self.sealed_body(event_seq, event).await?;
        alone!(self, writer, "unlatched_body_insert", |db| {
            db.execute(BEGUN, &[event_seq.into(), now_ms.into()]).await.map(drop)
        })?;
        let (mut left, mut parts_n, mut part_bytes, mut unmoved) = (bytes, 0_u32, PART_BYTES, 0);
        while !left.is_empty() {
            let part = left.split_to(left.len().min(part_bytes));
            let since = Instant::now();
            unmoved += part.len();
            alone!(self, writer, "body_part_insert", |db| {
                let values = [event_seq.into(), parts_n.into(), shard.into(), part.as_ref().into()];
                db.execute(PART, &values).await.map(drop)
            })?;
            parts_n += 1;
            part_bytes = match since.elapsed() {
                took if took > PART_TIME => (part_bytes * 2).min(PART_BYTES_MAX),
                took if took < PART_TIME / 2 => (part_bytes / 2).max(PART_BYTES),
                _ => part_bytes,
            };
            if let Backend::Sqlite(db) = &self.parts.backend
                && unmoved >= CHECKPOINT_BYTES
            {
                unmoved = 0;
                db.checkpoint().await.map_err(|error| StoreError::from_db("checkpoint", error))?;
            }
        }
        Ok(parts_n)
    }

    /// Seals the body, where there is a key, on a blocking thread.
    async fn sealed_body(&self, event_seq: i64, event: &IncomingEvent) -> Result<Bytes, StoreError> {
        let (ring, key, body) = (self.ring.clone(), event.key.clone(), event.body.clone());
        if !ring.is_on() {
            return Ok(body);
        }
        let seal = move || sealed(&ring, &SealedPlace::of_event("body", event_seq, key.as_pair()), &body);
        let sealing =
            tokio::task::spawn_blocking(seal).await.unwrap_or_else(|error| Err(DbError::unsaid(error)));
        sealing.map_err(|error| StoreError::from_db("body_parts_write", error))
    }

    /// True when an event has this key, or this signed text: most copies, of which no parts need be written.
    pub async fn event_is_known(&self, event: &IncomingEvent) -> Result<bool, StoreError> {
        let (key, text) = (event.key.clone(), event.replay_key);
        alone!(self, reader, "event_is_known", |db| {
            let provider = key.provider.as_str();
            if db.fetch_optional(KNOWN_KEY, &[provider.into(), (&key.event_id).into()]).await?.is_some() {
                return Ok(true);
            }
            let Some(text) = text else { return Ok(false) };
            Ok(db.fetch_optional(KNOWN_TEXT, &[provider.into(), text.as_slice().into()]).await?.is_some())
        })
    }

    /// Deletes the parts that were written for this number, unless an event was latched under it. Returns whether it
    /// did.
    pub async fn body_parts_delete(&self, event_seq: i64) -> Result<bool, StoreError> {
        together!(self.body_parts_delete(event_seq))
    }

    /// Deletes the parts of one body that were begun before this time and never latched; `false` when there is none.
    pub async fn body_parts_sweep(&self, before_ms: UnixMs) -> Result<bool, StoreError> {
        together!(self, writer, "body_parts_sweep", |db| {
            let Some(row) = db.fetch_optional(UNLATCHED_OLD, &[before_ms.into()]).await? else {
                return Ok(false);
            };
            body_parts_delete(db, row.int("event_seq")?).await
        })
    }
}

fn sealed(ring: &KeyRing, place: &SealedPlace<'_>, body: &Bytes) -> DbResult<Bytes> {
    Ok(ring.seal(place, body)?.into_owned().into())
}

const BEGUN: &str =
    "/* body_parts_write */ INSERT INTO unlatched_bodies (event_seq, begun_at_ms) VALUES ($1, $2)";
const PART: &str = "/* body_parts_write */ INSERT INTO webhook_body_parts (event_seq, part_n, shard, part) VALUES ($1, $2, $3, $4)";
const KNOWN_KEY: &str =
    "/* event_is_known */ SELECT 1 AS n FROM processed_webhook_events WHERE provider = $1 AND event_id = $2";
const KNOWN_TEXT: &str = "/* event_is_known */ SELECT 1 AS n FROM processed_webhook_events WHERE provider = $1 AND replay_key = $2";
const IN_PARTS: &str = "/* payload_in_parts */ UPDATE webhook_payloads SET parts_n = $2 WHERE event_seq = $1";
const LATCHED: &str = "/* payload_in_parts */ DELETE FROM unlatched_bodies WHERE event_seq = $1";
const UNLATCHED_DELETE: &str = "/* body_parts_delete */ DELETE FROM unlatched_bodies WHERE event_seq = $1";
const PARTS_DELETE: &str = "/* body_parts_delete */ DELETE FROM webhook_body_parts WHERE event_seq = $1";
const UNLATCHED_OLD: &str =
    "/* body_parts_sweep */ SELECT event_seq FROM unlatched_bodies WHERE begun_at_ms < $1
        ORDER BY event_seq LIMIT 1 FOR UPDATE SKIP LOCKED";
/// The bytes of a body, as statements of other modules read them.
#[cfg(any(test, feature = "testing"))]
const STORED: &str = concat!(
    "/* body_parts_stored */ SELECT ",
    stored_body!("p"),
    " AS body FROM webhook_payloads p WHERE p.event_seq = $1"
);

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("body_parts begun", BEGUN),
    ("body_parts part", PART),
    ("body_parts known key", KNOWN_KEY),
    ("body_parts known text", KNOWN_TEXT),
    ("body_parts in parts", IN_PARTS),
    ("body_parts latched", LATCHED),
    ("body_parts unlatched delete", UNLATCHED_DELETE),
    ("body_parts delete", PARTS_DELETE),
    ("body_parts sweep", UNLATCHED_OLD),
    ("body_parts stored", STORED),
];

/// Marks a row that was just inserted as one whose body is in parts; an error when a sweep has deleted the parts.
pub(crate) async fn payload_in_parts(db: &mut Executor<'_>, event_seq: i64, parts_n: u32) -> DbResult<()> {
    db.execute(IN_PARTS, &[event_seq.into(), parts_n.into()]).await?;
    if db.execute(LATCHED, &[event_seq.into()]).await? == 0 { Err(DbError::vanished()) } else { Ok(()) }
}

async fn body_parts_delete(db: &mut Executor<'_>, event_seq: i64) -> DbResult<bool> {
    if db.execute(UNLATCHED_DELETE, &[event_seq.into()]).await? == 0 {
        return Ok(false);
    }
    db.execute(PARTS_DELETE, &[event_seq.into()]).await.map(|_| true)
}

/// The columns of one row: `headers`, `body`, `whole`, `key_id` and `redacted_n`.
pub(crate) struct StoredPayload {
    event_seq: i64,
    headers: String,
    body: Vec<u8>,
    whole: Option<Vec<u8>>,
    pub key_id: Option<String>,
    pub redacted_n: Option<i64>,
}

/// Reason why the bytes as received are not available.
pub(crate) enum ContentUnavailable {
    /// Values were replaced, and the rest is not kept.
    Redacted,
    Sealed(SealError),
}

impl From<SealError> for ContentUnavailable {
    fn from(error: SealError) -> Self {
        Self::Sealed(error)
    }
}

impl StoredPayload {
    /// Reads it out of a row with these columns; `None` when nothing is kept any more.
    pub(crate) fn of(row: &Row, event_seq: i64) -> DbResult<Option<Self>> {
        let (Some(headers), Some(body)) = (row.text_or_null("headers")?, row.bytes_or_null("body")?) else {
            return Ok(None);
        };
        Ok(Some(Self {
            event_seq,
            headers,
            body,
            whole: row.bytes_or_null("whole")?,
            key_id: row.text_or_null("key_id")?,
            redacted_n: row.int_or_null("redacted_n")?,
        }))
    }

    /// Length of the body as it is stored: of a sealed one, sealed.
    pub(crate) fn body_bytes_n(&self) -> u64 {
        self.body.len() as u64
    }

    /// Headers and bytes of this event as received, for handlers and destinations.
    pub(crate) fn original(
        self,
        event: &EventKey,
        ring: &KeyRing,
    ) -> Result<(String, Vec<u8>), ContentUnavailable> {
        let place = |column| SealedPlace::of_event(column, self.event_seq, event.as_pair());
        let key_id = self.key_id.as_deref();
        let body = match (self.whole, self.redacted_n) {
            (Some(whole), _) => ring.open(key_id, &place("whole"), whole)?,
            (None, None) => ring.open(key_id, &place("body"), self.body)?,
            (None, Some(_)) => return Err(ContentUnavailable::Redacted),
        };
        Ok((ring.open_text(key_id, &place("headers"), self.headers)?, body))
    }

    /// Headers and bytes of this event, for operators.
    pub(crate) fn shown(self, event: &EventKey, ring: &KeyRing) -> Result<(String, Vec<u8>), SealError> {
        let place = |column| SealedPlace::of_event(column, self.event_seq, event.as_pair());
        let key_id = self.key_id.as_deref();
        let body = ring.open(key_id, &place("body"), self.body)?;
        Ok((ring.open_text(key_id, &place("headers"), self.headers)?, body))
    }
}

/// True while something is to be made of the bytes of the event with this number.
macro_rules! is_needed {
    ($event_seq:literal) => {
        concat!(
            "(EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.event_seq = ",
            $event_seq,
            " AND e.state IN ('retry', 'failed', 'unreadable', 'conflict'))
              OR EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id >= ",
            $event_seq,
            " * 1024 AND q.message_id < (",
            $event_seq,
            " + 1) * 1024))"
        )
    };
}

/// Marks a row that was just inserted as redacted, before anything else can happen to its transaction, so that no
/// reader takes the redacted bytes for those received.
pub(crate) async fn payload_redacted(db: &mut Executor<'_>, event_seq: i64, values_n: u32) -> DbResult<()> {
    let sql = "/* payload_redacted */ UPDATE webhook_payloads SET redacted_n = $2 WHERE event_seq = $1";
    db.execute(sql, &[event_seq.into(), values_n.into()]).await.map(drop)
}

/// Keeps the received bytes of a redacted event if the transaction leaves something to be made of them: to be called at
/// its end.
pub(crate) async fn payload_whole_keep(
    db: &mut Executor<'_>,
    event_seq: i64,
    event: &IncomingEvent,
    ring: &KeyRing,
) -> DbResult<()> {
    let needed =
        concat!("/* payload_whole_keep */ SELECT CASE WHEN ", is_needed!("$1"), " THEN 1 ELSE 0 END AS n");
    if !db.fetch_one(needed, &[event_seq.into()]).await?.is_true("n")? {
        return Ok(());
    }
    let whole =
        ring.seal(&SealedPlace::of_event("whole", event_seq, event.key.as_pair()), &event.body)?.into_owned();
    let sql = "/* payload_whole_keep */ UPDATE webhook_payloads SET whole = $2 WHERE event_seq = $1";
    db.execute(sql, &[event_seq.into(), whole.into()]).await.map(drop)
}

impl Store {
    /// Deletes the received bytes of up to `limit` redacted events of which nothing is to be made any more, those
    /// with numbers behind `after`, and what their messages said. Says where to go on; `None` at the end.
    pub async fn wholes_delete(&self, after: i64, limit: u32) -> Result<Option<i64>, StoreError> {
        together!(self, writer, "wholes_delete", |db| {
            // Locks first, and decides by what is there when the locks are held: an operator who has the event
            // dispatched once more locks the same row.
            let rows = db
        .fetch(
            "/* wholes_delete */ SELECT event_seq FROM webhook_payloads WHERE whole IS NOT NULL AND event_seq > $1
             ORDER BY event_seq LIMIT $2 FOR UPDATE SKIP LOCKED",
            &[after.into(), limit.into()],
        )
        .await?;
            let ids = rows.iter().map(|row: &Row| row.int("event_seq")).collect::<DbResult<Vec<i64>>>()?;
            let next = ids.last().copied().filter(|_| ids.len() >= limit as usize);
            if !ids.is_empty() {
                let sql = concat!(
                    "/* wholes_delete */ UPDATE webhook_payloads SET whole = NULL WHERE event_seq = ANY($1) AND NOT ",
                    is_needed!("webhook_payloads.event_seq")
                );
                db.execute(sql, &[ids.clone().into()]).await?;
                let sql = "/* wholes_delete */ DELETE FROM outbox_contents WHERE message_id IN (
                SELECT c.message_id FROM webhook_payloads p JOIN outbox_contents c
                  ON c.message_id >= p.event_seq * 1024 AND c.message_id < (p.event_seq + 1) * 1024
                WHERE p.event_seq = ANY($1) AND p.whole IS NULL)";
                db.execute(sql, &[ids.into()]).await?;
            }
            Ok(next)
        })
    }
}
