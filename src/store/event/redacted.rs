//! What is kept of an event some of whose values are not to be stored.
//!
//! `body` never has them. The bytes as they came stand beside it, in `whole`, only while something is to be made of
//! them: while the event waits to be dispatched or for a person, and while a message of it is neither done nor
//! discarded. Who sends or dispatches reads `whole`, and where that is gone nothing is sent and nothing dispatched. Who
//! looks reads `body`.

use crate::seal::{KeyRing, SealedPlace};
use crate::store::db::{DbResult, Door, Row, StoreError, Value};
use crate::store::handle::Store;
use crate::types::IncomingEvent;

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

/// Says that a row was redacted, and keeps the bytes as they came if the transaction leaves something to be made of
/// them: to be called at its end.
pub(in crate::store) async fn payload_redacted(
    db: &mut Door<'_>,
    event_seq: i64,
    event: &IncomingEvent,
    ring: &KeyRing,
) -> DbResult<()> {
    let Some(redacted) = &event.redacted else { return Ok(()) };
    let needed =
        concat!("/* payload_redacted */ SELECT CASE WHEN ", is_needed!("$1"), " THEN 1 ELSE 0 END AS n");
    let is_needed = db.fetch_one(needed, &[event_seq.into()]).await?.is_true("n")?;
    let whole = if is_needed {
        let sealed = ring.seal(&SealedPlace::of_event("whole", event_seq), &event.body)?;
        Some(sealed.into_owned())
    } else {
        None
    };
    db.execute(
        "/* payload_redacted */ UPDATE webhook_payloads SET redacted_n = $2, whole = $3 WHERE event_seq = $1",
        &[event_seq.into(), redacted.values_n.into(), Value::Bytes(whole)],
    )
    .await
    .map(drop)
}

impl Store {
    /// Deletes the bytes as they came of up to `limit` redacted events of which nothing is to be made any more, those
    /// with numbers behind `after`. Says where to go on; `None` at the end.
    pub async fn wholes_delete(&self, after: i64, limit: u32) -> Result<Option<i64>, StoreError> {
        together!(self.wholes_delete(after, limit))
    }
}

/// Locks first, and decides by what is there when the locks are held: a person who has the event dispatched once more
/// locks the same row.
async fn wholes_delete(db: &mut Door<'_>, after: i64, limit: u32) -> DbResult<Option<i64>> {
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
        db.execute(sql, &[ids.into()]).await?;
    }
    Ok(next)
}
