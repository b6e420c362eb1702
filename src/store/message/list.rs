//! Lists of messages: those of one event, and the latest time that the open ones tell of.

use uuid::Uuid;

use super::types::MessageRow;
use crate::store::damaged::{Intact, intact, of_row};
use crate::store::db::{DbError, DbResult, Door, Row, StoreError};
use crate::store::handle::Store;
use crate::types::{
    AttemptResult, EventKey, MessageId, MessageState, Name, SentUnder, UnixMs, idempotency_key,
};

impl Store {
    /// The messages of one event, by generation and effect name.
    pub async fn message_list_of_event(&self, key: &EventKey) -> Result<Vec<MessageRow>, StoreError> {
        let installation_id = self.installation_id().await?;
        let key = key.clone();
        alone!(self.people.message_list_of_event(&key, &installation_id))
    }

    /// The latest time that the open messages tell of; below it no clock of ours was when they were written.
    pub async fn message_latest_ms(&self) -> Result<Option<UnixMs>, StoreError> {
        alone!(self.reader.message_latest_ms())
    }
}

async fn message_latest_ms(db: &mut Door<'_>) -> DbResult<Option<UnixMs>> {
    let sql = "/* message_latest_ms */ SELECT MAX(GREATEST(created_at_ms, COALESCE(last_ended_at_ms, 0),
            COALESCE(first_sent_at_ms, 0), COALESCE(leased_at_ms, 0))) AS latest_ms
        FROM outbox_queue WHERE state IN ('ready', 'leased')";
    db.fetch_one(sql, &[]).await?.int_or_null("latest_ms")
}

const OF_EVENT: &str = "/* message_list_of_event */ SELECT m.* FROM outbox_messages m
    WHERE m.message_id >= CAST($1 AS BIGINT) * 1024 AND m.message_id < (CAST($1 AS BIGINT) + 1) * 1024
    ORDER BY m.generation, m.effect_name, m.message_id";

async fn message_list_of_event(
    db: &mut Door<'_>,
    key: &EventKey,
    installation_id: &Uuid,
) -> DbResult<Vec<MessageRow>> {
    let sql = "/* message_list_of_event */ SELECT event_seq FROM processed_webhook_events
        WHERE provider = $1 AND event_id = $2";
    let values = [key.provider.as_str().into(), (&key.event_id).into()];
    let Some(event) = db.fetch_optional(sql, &values).await? else { return Ok(Vec::new()) };
    let rows = db.fetch(OF_EVENT, &[event.int("event_seq")?.into()]).await?;
    rows.iter().map(|row| MessageRow::from_row(row, installation_id)).collect()
}

/// Rows of the view `outbox_messages`, those that are damaged apart.
pub(in crate::store) fn message_rows(rows: &[Row], installation_id: &Uuid) -> DbResult<Intact<MessageRow>> {
    intact(MESSAGES, "message_id", rows, |row| MessageRow::read(row, installation_id))
}

const MESSAGES: &str = "outbox_messages";

impl MessageRow {
    /// A row of the view `outbox_messages`; it is an error, with its number, when that is damaged.
    pub(in crate::store) fn from_row(row: &Row, installation_id: &Uuid) -> DbResult<Self> {
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
pub(in crate::store) fn message_state(row: &Row) -> DbResult<MessageState> {
    let state = row.text("state")?;
    MessageState::parse(&state)
        .ok_or_else(|| DbError::decode("state", format_args!("`{state}`, which is none of a message")))
}
