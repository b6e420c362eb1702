//! Messages and their attempts, for callers without an operator. Newest first, by number: numbers are in the
//! order of time. The lists for operators are in `people/`.
//!
//! The ids by which operators find events: `event_search_ids`, sorted within blocks of 1,024 event numbers.
//!
//! Ids are random, and one B-tree of all of them would change a different page for each inserted id. Within a block
//! the pages are few, and the ids of one commit share them. A search probes each block, the newest first.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::damaged::{IntactRows, intact};
use super::db::{DbError, DbResult, Executor, Row, StoreError};
use super::handle::Store;
use super::message::{MessageRow, message_rows};
use hooklatch_core::seal::{KeyRing, SealedPlace};
use hooklatch_core::types::{AttemptResult, MessageId, MessageState, Name, UnixMs};

/// Choice of messages. A field that is `None` leaves nothing out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// State in which they stand.
    pub state: Option<MessageState>,
    /// Destination that they go to.
    pub destination: Option<Name>,
    /// Provider of their event.
    pub provider: Option<Name>,
}

/// One attempt of a message, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AttemptRow {
    /// 1 for the first.
    pub attempt_n: u32,
    /// Name of the node that made it.
    pub node: String,
    /// Time when it was claimed.
    pub started_at_ms: UnixMs,
    /// Time when it was settled; `None`: it is under way, or no node has taken over from the one that had it.
    pub finished_at_ms: Option<UnixMs>,
    /// Word for how it ended; `None` while it is under way.
    pub result: Option<AttemptResult>,
    /// The HTTP status, if there was a response.
    pub http_status: Option<i64>,
    /// Reason why it did not end done.
    pub error: Option<String>,
    /// The piece of the answer that was kept.
    pub response: Option<String>,
    /// Id of the key that this piece is sealed with; `None`: it is stored in the clear, or there is none.
    pub key_id: Option<String>,
    /// Reason why the piece is not shown although it is kept: it does not open.
    pub unopened: Option<String>,
}

impl AttemptRow {
    /// Reads an attempt of a message, with the piece of its answer where there is a key ring.
    pub fn of(row: &Row, message_id: MessageId, ring: Option<&KeyRing>) -> DbResult<Self> {
        let (attempt_n, key_id) = (row.count("attempt_n")?, row.text_or_null("key_id")?);
        let place = SealedPlace::of_answer(message_id.number(), attempt_n);
        let open = |(ring, stored): (&KeyRing, String)| ring.open_text(key_id.as_deref(), &place, stored);
        let (response, unopened) = match ring.zip(row.text_or_null("response")?).map(open).transpose() {
            Ok(response) => (response, None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Self {
            attempt_n,
            node: row.text_or_null("node")?.unwrap_or_default(),
            started_at_ms: row.int_or_null("started_at_ms")?.unwrap_or_default(),
            finished_at_ms: row.int_or_null("finished_at_ms")?,
            result: result_of(row)?,
            http_status: row.int_or_null("http_status")?,
            error: row.text_or_null("error")?,
            response,
            key_id,
            unopened,
        })
    }
}

/// Rows like those of the view `outbox_messages`, of one of its two tables, limited before their events are looked up.
macro_rules! newest {
    ($own:literal, $table:literal) => {
        concat!(
            "/* message_list */ SELECT m.*, e.provider, e.event_id, e.event_type
             FROM (SELECT q.message_id, q.generation, COALESCE(q.effect_name, q.destination) AS effect_name,
                          q.destination, q.lane, q.state, q.attempts_n, q.created_at_ms, q.first_sent_at_ms,
                          q.last_result, q.last_error, ",
            $own,
            " FROM ",
            $table,
            " q WHERE q.message_id < $1 AND (CAST($2 AS TEXT) IS NULL OR q.state = $2)
                AND (CAST($3 AS TEXT) IS NULL OR q.destination = $3)
                AND (CAST($4 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM processed_webhook_events p
                     WHERE p.event_seq = q.message_id / 1024 AND p.provider = $4))
              ORDER BY q.message_id DESC LIMIT $5) m
             JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024 ORDER BY m.message_id DESC"
        )
    };
}
const NEWEST_OPEN: &str = newest!(
    "q.visible_at_ms, q.key_valid_until_ms, CAST(NULL AS BIGINT) AS finished_at_ms, q.sent_under",
    "outbox_queue"
);
const NEWEST_FINISHED: &str = newest!(
    "q.finished_at_ms AS visible_at_ms, CAST(NULL AS BIGINT) AS key_valid_until_ms, q.finished_at_ms,
     CAST(NULL AS TEXT) AS sent_under",
    "outbox_finished"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("message_list of the queue", NEWEST_OPEN), ("message_list of history", NEWEST_FINISHED)];

impl Store {
    /// Returns one message; `None` when there is none.
    pub async fn message_get(&self, message_id: MessageId) -> Result<Option<MessageRow>, StoreError> {
        let installation_id = self.installation_id().await?;
        alone!(self.people.message_get(message_id, &installation_id))
    }

    /// The newest messages that `filter` finds, older than the one with the id `before`.
    pub async fn message_list(
        &self,
        filter: &Filter,
        before: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let (filter, installation_id) = (filter.clone(), self.installation_id().await?);
        alone!(self.people.message_list(&filter, before, limit, &installation_id))
    }

    /// The newest attempts of a message, at most 100: those that history holds, the one under way, and a first one that
    /// went well.
    pub async fn attempt_list(&self, message_id: MessageId) -> Result<Vec<AttemptRow>, StoreError> {
        Ok(self.attempts_of(message_id).await?.rows)
    }

    /// The same, with those that are damaged.
    pub(super) async fn attempts_of(
        &self,
        message_id: MessageId,
    ) -> Result<IntactRows<AttemptRow>, StoreError> {
        let ring = self.ring.clone();
        alone!(self.people.attempt_list(message_id, &ring))
    }
}

async fn message_get(
    db: &mut Executor<'_>,
    message_id: MessageId,
    installation_id: &Uuid,
) -> DbResult<Option<MessageRow>> {
    let sql = "/* message_get */ SELECT m.* FROM outbox_messages m WHERE m.message_id = $1";
    let row = db.fetch_optional(sql, &[message_id.number().into()]).await?;
    row.map(|row| MessageRow::from_row(&row, installation_id)).transpose()
}

/// Reads each table by its own key, from the newest down, until there are enough rows. The queue comes first: a message
/// that is finished meanwhile is found in the history and shown as finished.
async fn message_list(
    db: &mut Executor<'_>,
    filter: &Filter,
    before: Option<MessageId>,
    limit: u32,
    installation_id: &Uuid,
) -> DbResult<Vec<MessageRow>> {
    let values = [
        before.map_or(i64::MAX, MessageId::number).into(),
        filter.state.map(MessageState::as_str).into(),
        filter.destination.as_ref().map(Name::as_str).into(),
        filter.provider.as_ref().map(Name::as_str).into(),
        limit.into(),
    ];
    let is_finished = filter.state.map(|state| matches!(state, MessageState::Done | MessageState::Discarded));
    let mut found = BTreeMap::new();
    for (sql, is_of_history) in [(NEWEST_OPEN, false), (NEWEST_FINISHED, true)] {
        if is_finished.is_some_and(|wanted| wanted != is_of_history) {
            continue;
        }
        for row in message_rows(&db.fetch(sql, &values).await?, installation_id)?.rows {
            found.insert(row.message_id, row);
        }
    }
    Ok(found.into_values().rev().take(limit as usize).collect())
}

async fn attempt_list(
    db: &mut Executor<'_>,
    message_id: MessageId,
    ring: &KeyRing,
) -> DbResult<IntactRows<AttemptRow>> {
    let rows = db
        .fetch(
            "/* attempt_list */ SELECT attempt_n, node, started_at_ms, finished_at_ms, result, http_status, error, response,
                    key_id
             FROM outbox_attempts WHERE message_id = $1
             UNION ALL
             SELECT attempts_n, node, leased_at_ms, NULL, NULL, NULL, NULL, NULL, NULL
             FROM outbox_queue WHERE message_id = $1 AND state = 'leased'
             UNION ALL
             SELECT attempts_n, node, COALESCE(first_sent_at_ms, created_at_ms), finished_at_ms, last_result, http_status,
                    NULL, NULL, NULL
             FROM outbox_finished f
             WHERE message_id = $1 AND attempts_n = 1 AND last_result = 'done'
               AND NOT EXISTS (SELECT 1 FROM outbox_attempts a WHERE a.message_id = f.message_id AND a.attempt_n = 1)
             ORDER BY attempt_n DESC LIMIT 100",
            &[message_id.number().into()],
        )
        .await?;
    intact("outbox_attempts", "attempt_n", &rows, |row| AttemptRow::of(row, message_id, Some(ring)))
}

/// Returns the result of an attempt; `None` while it is under way.
fn result_of(row: &Row) -> DbResult<Option<AttemptResult>> {
    let Some(word) = row.text_or_null("result")? else { return Ok(None) };
    AttemptResult::parse(&word).map(Some).ok_or_else(|| DbError::decode("result", format_args!("`{word}`")))
}

/// Event numbers of one block.
const BLOCK_N: i64 = 1_024;

/// Deletes the ids of the events `$2`, which are in the blocks `$1`.
macro_rules! search_ids_delete {
    ($name:literal) => {
        concat!(
            "/* ",
            $name,
            " */ DELETE FROM event_search_ids WHERE block = ANY($1) AND event_seq = ANY($2)"
        )
    };
}
pub(crate) use search_ids_delete;

/// The block of an event.
pub(crate) fn search_block(event_seq: i64) -> i64 {
    event_seq.div_euclid(BLOCK_N)
}

/// The blocks of these events, each once.
pub(crate) fn search_blocks(events: &[i64]) -> Vec<i64> {
    let blocks: std::collections::BTreeSet<i64> = events.iter().copied().map(search_block).collect();
    blocks.into_iter().collect()
}
