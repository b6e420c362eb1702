//! What followed from one event, bounded, for the program that sent it.

use uuid::Uuid;

use super::db::{DbError, DbResult, Door, StoreError};
use super::event::{EventRow, event_get};
use super::handle::Store;
use super::message::MessageRow;
use crate::types::{AttemptResult, EventKey, MessageId, UnixMs};

/// Most messages that are told of an event.
const MESSAGES_N_MAX: u32 = 100;
/// Most attempts that are told of all its messages.
const ATTEMPTS_N_MAX: u32 = 200;

/// An event with its messages, and their newest attempts.
#[derive(Debug, Clone)]
pub struct EventReceipt {
    /// Row of the event.
    pub event: EventRow,
    /// Its messages, in their order.
    pub messages: Vec<MessageRow>,
    /// Attempts of these messages that have a row, the newest of each first.
    pub attempts: Vec<ReceiptAttempt>,
    /// True when not all of it is here.
    pub has_more: bool,
}

/// One attempt, without what a destination said.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ReceiptAttempt {
    /// Message that was sent.
    #[serde(skip)]
    pub message_id: MessageId,
    /// 1 for the first.
    pub attempt_n: u32,
    /// Time when it was claimed.
    pub started_at_ms: UnixMs,
    /// Time when it was settled.
    pub finished_at_ms: UnixMs,
    /// Word for how it ended.
    pub result: AttemptResult,
    /// The HTTP status, if one came.
    pub http_status: Option<i64>,
}

impl Store {
    /// Returns what followed from an event; `None` when there is none of this key.
    pub async fn event_receipt(&self, key: &EventKey) -> Result<Option<EventReceipt>, StoreError> {
        let (key, installation_id) = (key.clone(), self.installation_id().await?);
        alone!(self.people.event_receipt(&key, &installation_id))
    }
}

async fn event_receipt(
    db: &mut Door<'_>,
    key: &EventKey,
    installation_id: &Uuid,
) -> DbResult<Option<EventReceipt>> {
    let Some(event) = event_get(db, key).await? else { return Ok(None) };
    let (first, behind) =
        (event.event_seq.saturating_mul(1_024), (event.event_seq + 1).saturating_mul(1_024));
    let messages_sql = "/* event_receipt */ SELECT m.* FROM outbox_messages m
        WHERE m.message_id >= $1 AND m.message_id < $2 ORDER BY m.message_id LIMIT $3";
    let rows = db.fetch(messages_sql, &[first.into(), behind.into(), (MESSAGES_N_MAX + 1).into()]).await?;
    let messages: Vec<MessageRow> =
        rows.iter().map(|row| MessageRow::from_row(row, installation_id)).collect::<DbResult<_>>()?;
    let attempts_sql =
        "/* event_receipt */ SELECT message_id, attempt_n, started_at_ms, finished_at_ms, result, http_status
        FROM outbox_attempts WHERE message_id >= $1 AND message_id < $2
        ORDER BY message_id DESC, attempt_n DESC LIMIT $3";
    let rows = db.fetch(attempts_sql, &[first.into(), behind.into(), (ATTEMPTS_N_MAX + 1).into()]).await?;
    let has_more = messages.len() > MESSAGES_N_MAX as usize || rows.len() > ATTEMPTS_N_MAX as usize;
    let attempts = rows.iter().take(ATTEMPTS_N_MAX as usize).map(|row| {
        let word = row.text("result")?;
        Ok(ReceiptAttempt {
            message_id: MessageId::from_column(row.int("message_id")?),
            attempt_n: row.count("attempt_n")?,
            started_at_ms: row.int("started_at_ms")?,
            finished_at_ms: row.int("finished_at_ms")?,
            result: AttemptResult::parse(&word)
                .ok_or_else(|| DbError::decode("result", format_args!("`{word}`")))?,
            http_status: row.int_or_null("http_status")?,
        })
    });
    let attempts = attempts.collect::<DbResult<_>>()?;
    let messages = messages.into_iter().take(MESSAGES_N_MAX as usize).collect();
    Ok(Some(EventReceipt { event, messages, attempts, has_more }))
}
