//! The messages and attempts of one event, bounded, for the program that sent it; and counts of further copies of
//! events.

use uuid::Uuid;

use super::db::{DbResult, Executor, Row, StoreError};
use super::event::{EventRow, event_get};
use super::handle::Store;
use super::message::MessageRow;
use super::queries::attempt_result;
use hooklatch_core::types::{AttemptResult, EventKey, EventState, MessageId, MessageState, UnixMs};

/// Most messages that are listed of an event.
const MESSAGES_N_MAX: u32 = 100;
/// Most attempts that are listed of all its messages.
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
    /// False when messages of it may have been pruned: it may have had more effects than are listed.
    pub effects_known: bool,
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
    /// The HTTP status, if there was a response.
    pub http_status: Option<i64>,
}

impl Store {
    /// Returns what followed from an event; `None` when there is none of this key.
    pub async fn event_receipt(&self, key: &EventKey) -> Result<Option<EventReceipt>, StoreError> {
        let (key, installation_id) = (key.clone(), self.installation_id().await?);
        alone!(self.operators.event_receipt(&key, &installation_id))
    }
}

async fn event_receipt(
    db: &mut Executor<'_>,
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
    let attempts = rows.iter().take(ATTEMPTS_N_MAX as usize).map(attempt);
    let attempts = attempts.collect::<DbResult<_>>()?;
    let messages: Vec<MessageRow> = messages.into_iter().take(MESSAGES_N_MAX as usize).collect();
    let effects_known = are_known(db, &event, &messages).await?;
    Ok(Some(EventReceipt { event, messages, attempts, has_more, effects_known }))
}

/// True when all messages that the event ever had are these. Read after them: what is pruned in between is then known to
/// be missing.
async fn are_known(db: &mut Executor<'_>, event: &EventRow, messages: &[MessageRow]) -> DbResult<bool> {
    let sql = "/* event_receipt */ SELECT l.messages_pruned_seq, e.generation
        FROM retention_lease l CROSS JOIN processed_webhook_events e WHERE l.one = 1 AND e.event_seq = $1";
    let Some(row) = db.fetch_optional(sql, &[event.event_seq.into()]).await? else { return Ok(false) };
    // Nothing of an event goes while a message of it is open; and one that no handler took has had none.
    let is_any_open =
        messages.iter().any(|one| !matches!(one.state, MessageState::Done | MessageState::Discarded));
    let is_handled = event.state == EventState::Handled || row.int("generation")? > 0;
    let had_none = messages.is_empty() && !is_handled;
    Ok(event.event_seq > row.int("messages_pruned_seq")? || is_any_open || had_none)
}

fn attempt(row: &Row) -> DbResult<ReceiptAttempt> {
    Ok(ReceiptAttempt {
        message_id: MessageId::from_column(row.int("message_id")?),
        attempt_n: row.count("attempt_n")?,
        started_at_ms: row.int("started_at_ms")?,
        finished_at_ms: row.int("finished_at_ms")?,
        result: attempt_result(&row.text("result")?)?,
        http_status: row.int_or_null("http_status")?,
    })
}

/// Copies of one event since the last count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyCount {
    /// Name of the provider.
    pub provider: String,
    /// Id of the event.
    pub event_id: String,
    /// Number of copies since then.
    pub copies_n: i64,
    /// Time when the first of them was received.
    pub first_at_ms: UnixMs,
    /// Time when the last of them was received.
    pub last_at_ms: UnixMs,
}

impl Store {
    /// Adds counts of copies; the earliest and the latest time stay.
    pub async fn event_copies_add(&self, counts: &[CopyCount]) -> Result<(), StoreError> {
        if counts.is_empty() {
            return Ok(());
        }
        let counts = counts.to_vec();
        together!(self, writer, "event_copies_add", |db| {
            let sql = "/* event_copies_add */ INSERT INTO event_copies AS c
                    (provider, event_id, copies_n, first_at_ms, last_at_ms) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT (provider, event_id) DO UPDATE SET copies_n = c.copies_n + excluded.copies_n,
                    first_at_ms = LEAST(c.first_at_ms, excluded.first_at_ms),
                    last_at_ms = GREATEST(c.last_at_ms, excluded.last_at_ms)";
            for one in &counts {
                let (provider, event_id) = (one.provider.as_str().into(), one.event_id.as_str().into());
                let (first, last) = (one.first_at_ms.into(), one.last_at_ms.into());
                db.execute(sql, &[provider, event_id, one.copies_n.into(), first, last]).await?;
            }
            Ok(())
        })
    }
}
