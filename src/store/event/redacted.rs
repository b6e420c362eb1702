//! What is kept of an event some of whose values are not to be stored.
//!
//! `body` never has them. The bytes as they came stand beside it, in `whole`, only while something is to be made of
//! them: while the event waits to be dispatched or for a person, and while a message of it is neither done nor
//! discarded. Who sends or dispatches reads `whole`, and where that is gone nothing is sent and nothing dispatched. Who
//! looks reads `body`.
//!
//! What templates and handlers made of those bytes for messages of such an event (`outbox_contents`) has the values too,
//! and goes when `whole` does: by then all of its messages are done or discarded, and none is ever sent again.

use crate::seal::{KeyRing, SealedPlace};
use crate::store::db::{DbResult, Door, Row, StoreError};
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

/// Says of a row that was just inserted that it was redacted: before anything else can happen to its transaction, so
/// that nobody ever takes what is left for what came.
pub(in crate::store) async fn payload_redacted(
    db: &mut Door<'_>,
    event_seq: i64,
    values_n: u32,
) -> DbResult<()> {
    let sql = "/* payload_redacted */ UPDATE webhook_payloads SET redacted_n = $2 WHERE event_seq = $1";
    db.execute(sql, &[event_seq.into(), values_n.into()]).await.map(drop)
}

/// Keeps the bytes as they came of a redacted event if the transaction leaves something to be made of them: to be called
/// at its end.
pub(in crate::store) async fn payload_whole_keep(
    db: &mut Door<'_>,
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
    /// Deletes the bytes as they came of up to `limit` redacted events of which nothing is to be made any more, those
    /// with numbers behind `after`, and what their messages said. Says where to go on; `None` at the end.
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
        db.execute(sql, &[ids.clone().into()]).await?;
        let sql = "/* wholes_delete */ DELETE FROM outbox_contents WHERE message_id IN (
                SELECT c.message_id FROM webhook_payloads p JOIN outbox_contents c
                  ON c.message_id >= p.event_seq * 1024 AND c.message_id < (p.event_seq + 1) * 1024
                WHERE p.event_seq = ANY($1) AND p.whole IS NULL)";
        db.execute(sql, &[ids.into()]).await?;
    }
    Ok(next)
}
