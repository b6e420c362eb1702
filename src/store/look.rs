//! What people look at: messages, their attempts, what was decided about them. Newest first, by number: numbers are in the
//! order of time.

mod counts;

use uuid::Uuid;

use super::db::{DbError, DbResult, Door, Row};
use super::message::MessageRow;
use super::{Store, StoreError};
use crate::types::{
    AttemptResult, EventKey, MESSAGES_N_MAX, MessageId, MessageState, Name, UnixMs, idempotency_key,
};

/// Which messages; what is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Where they stand.
    pub state: Option<MessageState>,
    /// Where they go.
    pub destination: Option<Name>,
    /// Where their event came from.
    pub provider: Option<Name>,
}

/// One attempt of a message, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AttemptRow {
    /// 1 for the first.
    pub attempt_n: u32,
    /// Who made it.
    pub node: String,
    /// When it was claimed.
    pub started_at_ms: UnixMs,
    /// When it was settled; `None`: it is under way, or nobody has taken over from the one who had it.
    pub finished_at_ms: Option<UnixMs>,
    /// How it ended.
    pub result: Option<String>,
    /// The HTTP status, if one came.
    pub http_status: Option<i64>,
    /// Why it did not end done.
    pub error: Option<String>,
    /// The piece of the answer that was kept.
    pub response: Option<String>,
}

/// A paused destination, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PauseRow {
    /// Which.
    pub destination: String,
    /// Who paused it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When.
    pub paused_at_ms: UnixMs,
}

/// One decision about a message, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AuditRow {
    /// When.
    pub at_ms: UnixMs,
    /// Who.
    pub actor: String,
    /// What.
    pub action: String,
    /// Why.
    pub detail: String,
}

/// What a message's row needs, of the queue and of history alike.
macro_rules! message {
    ($from:literal, $rest:literal) => {
        concat!(
            "SELECT m.message_id, m.generation, m.effect_name, m.destination, m.lane, m.state, m.attempts_n,
                    m.visible_at_ms, m.created_at_ms, m.first_sent_at_ms, m.key_valid_until_ms, m.finished_at_ms,
                    m.last_result, m.last_error, e.provider, e.event_id, e.event_type
             FROM (",
            $from,
            $rest,
            ") m JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024 ORDER BY m.message_id DESC"
        )
    };
}
macro_rules! open {
    ($rest:literal) => {
        message!(
            "SELECT message_id, generation, effect_name, destination, lane, state, attempts_n, visible_at_ms,
                    created_at_ms, first_sent_at_ms, key_valid_until_ms, CAST(NULL AS BIGINT) AS finished_at_ms,
                    last_result, last_error FROM outbox_queue q ",
            $rest
        )
    };
}
macro_rules! finished {
    ($rest:literal) => {
        message!(
            "SELECT message_id, generation, effect_name, destination, lane, state, attempts_n,
                    finished_at_ms AS visible_at_ms, created_at_ms, first_sent_at_ms,
                    CAST(NULL AS BIGINT) AS key_valid_until_ms, finished_at_ms, last_result, last_error
             FROM outbox_finished q ",
            $rest
        )
    };
}
/// Limited before anything is looked up for them.
macro_rules! newest {
    ($table:ident) => {
        $table!(
            "WHERE q.message_id < $1 AND (CAST($2 AS TEXT) IS NULL OR q.state = $2)
               AND (CAST($3 AS TEXT) IS NULL OR q.destination = $3)
               AND (CAST($4 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM processed_webhook_events p
                    WHERE p.event_seq = q.message_id / 1024 AND p.provider = $4))
             ORDER BY q.message_id DESC LIMIT $5"
        )
    };
}

impl Store {
    /// One message.
    pub async fn message_get(&self, message_id: MessageId) -> Result<Option<MessageRow>, StoreError> {
        let (first, installation) = (message_id.number(), self.installation_id().await?);
        let found = alone!(self.people.messages_between(first, first.saturating_add(1), installation))?;
        Ok(found.into_iter().next())
    }

    /// The messages of an event, those of its re-runs included, in their order.
    pub async fn message_list_of_event(&self, key: &EventKey) -> Result<Vec<MessageRow>, StoreError> {
        let (key, installation) = (key.clone(), self.installation_id().await?);
        alone!(self.people.messages_of(&key, installation))
    }

    /// The newest messages that `filter` finds, older than the one with the id `before`.
    pub async fn message_list(
        &self,
        filter: &Filter,
        before: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let (filter, installation) = (filter.clone(), self.installation_id().await?);
        alone!(self.people.message_list(&filter, before, limit, installation))
    }

    /// The newest attempts of a message, at most 100: those that history holds, the one under way, and a first one that
    /// went well.
    pub async fn attempt_list(&self, message_id: MessageId) -> Result<Vec<AttemptRow>, StoreError> {
        alone!(self.people.attempt_list(message_id))
    }

    /// The newest decisions about a message, at most 100.
    pub async fn audit_list(&self, message_id: MessageId) -> Result<Vec<AuditRow>, StoreError> {
        alone!(self.people.audit_list(message_id))
    }

    /// The destinations that are paused.
    pub async fn pause_list(&self) -> Result<Vec<PauseRow>, StoreError> {
        alone!(self.people.pause_list())
    }
}

async fn messages_between(
    db: &mut Door<'_>,
    first: i64,
    end: i64,
    installation: Uuid,
) -> DbResult<Vec<MessageRow>> {
    const OPEN: &str = concat!("/* message_get */ ", open!("WHERE message_id >= $1 AND message_id < $2"));
    const FINISHED: &str =
        concat!("/* message_get */ ", finished!("WHERE message_id >= $1 AND message_id < $2"));
    // The queue first: what is finished in between is found in history, and nothing is found twice.
    let mut rows = read(&db.fetch(OPEN, &[first.into(), end.into()]).await?, installation)?;
    let finished = read(&db.fetch(FINISHED, &[first.into(), end.into()]).await?, installation)?;
    rows.retain(|row| finished.iter().all(|one| one.message_id != row.message_id));
    rows.extend(finished);
    rows.sort_by_key(|row| row.message_id);
    Ok(rows)
}

async fn messages_of(db: &mut Door<'_>, key: &EventKey, installation: Uuid) -> DbResult<Vec<MessageRow>> {
    let sql = "/* messages_of */ SELECT event_seq FROM processed_webhook_events
               WHERE provider = $1 AND event_id = $2";
    let values = [key.provider.as_str().into(), key.event_id.as_str().into()];
    let Some(row) = db.fetch_optional(sql, &values).await? else { return Ok(Vec::new()) };
    let first = row.int("event_seq")?.saturating_mul(i64::from(MESSAGES_N_MAX));
    messages_between(db, first, first.saturating_add(i64::from(MESSAGES_N_MAX)), installation).await
}

/// Each table by its own key, downwards, until there are enough: what is open and what is finished are told apart by the
/// state that is asked for.
async fn message_list(
    db: &mut Door<'_>,
    filter: &Filter,
    before: Option<MessageId>,
    limit: u32,
    installation: Uuid,
) -> DbResult<Vec<MessageRow>> {
    const OPEN: &str = concat!("/* message_list */ ", newest!(open));
    const FINISHED: &str = concat!("/* message_list */ ", newest!(finished));
    let values = [
        before.map_or(i64::MAX, MessageId::number).into(),
        filter.state.map(MessageState::as_str).into(),
        filter.destination.as_ref().map(Name::as_str).into(),
        filter.provider.as_ref().map(Name::as_str).into(),
        limit.into(),
    ];
    let is_finished = filter.state.map(|state| matches!(state, MessageState::Done | MessageState::Discarded));
    let mut rows = Vec::new();
    if is_finished != Some(true) {
        rows = read(&db.fetch(OPEN, &values).await?, installation)?;
    }
    if is_finished != Some(false) {
        let finished = read(&db.fetch(FINISHED, &values).await?, installation)?;
        rows.retain(|row| finished.iter().all(|one| one.message_id != row.message_id));
        rows.extend(finished);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.message_id));
    rows.truncate(limit as usize);
    Ok(rows)
}

async fn attempt_list(db: &mut Door<'_>, message_id: MessageId) -> DbResult<Vec<AttemptRow>> {
    let rows = db
        .fetch(
            "/* attempt_list */ SELECT attempt_n, node, started_at_ms, finished_at_ms, result, http_status, error, response
             FROM outbox_attempts WHERE message_id = $1
             UNION ALL
             SELECT attempts_n, node, leased_at_ms, NULL, NULL, NULL, NULL, NULL
             FROM outbox_queue WHERE message_id = $1 AND state = 'leased'
             UNION ALL
             SELECT attempts_n, node, COALESCE(first_sent_at_ms, created_at_ms), finished_at_ms, last_result, http_status,
                    NULL, NULL
             FROM outbox_finished f
             WHERE message_id = $1 AND attempts_n = 1 AND last_result = 'done'
               AND NOT EXISTS (SELECT 1 FROM outbox_attempts a WHERE a.message_id = f.message_id AND a.attempt_n = 1)
             ORDER BY attempt_n DESC LIMIT 100",
            &[message_id.number().into()],
        )
        .await?;
    let attempt = |row: &Row| {
        Ok(AttemptRow {
            attempt_n: row.count("attempt_n")?,
            node: row.text_or_null("node")?.unwrap_or_default(),
            started_at_ms: row.int_or_null("started_at_ms")?.unwrap_or_default(),
            finished_at_ms: row.int_or_null("finished_at_ms")?,
            result: row.text_or_null("result")?,
            http_status: row.int_or_null("http_status")?,
            error: row.text_or_null("error")?,
            response: row.text_or_null("response")?,
        })
    };
    rows.iter().map(attempt).collect()
}

async fn audit_list(db: &mut Door<'_>, message_id: MessageId) -> DbResult<Vec<AuditRow>> {
    let rows = db
        .fetch(
            "/* audit_list */ SELECT at_ms, actor, action, detail FROM audit_log WHERE message_id = $1
             ORDER BY at_ms DESC, audit_id DESC LIMIT 100",
            &[message_id.number().into()],
        )
        .await?;
    let decision = |row: &Row| {
        Ok(AuditRow {
            at_ms: row.int("at_ms")?,
            actor: row.text("actor")?,
            action: row.text("action")?,
            detail: row.text("detail")?,
        })
    };
    rows.iter().map(decision).collect()
}

async fn pause_list(db: &mut Door<'_>) -> DbResult<Vec<PauseRow>> {
    let rows = db
        .fetch(
            "/* pause_list */ SELECT destination, actor, reason, paused_at_ms FROM destination_pauses
             ORDER BY destination",
            &[],
        )
        .await?;
    let pause = |row: &Row| {
        Ok(PauseRow {
            destination: row.text("destination")?,
            actor: row.text("actor")?,
            reason: row.text("reason")?,
            paused_at_ms: row.int("paused_at_ms")?,
        })
    };
    rows.iter().map(pause).collect()
}

fn read(rows: &[Row], installation: Uuid) -> DbResult<Vec<MessageRow>> {
    rows.iter().map(|row| message_row(row, &installation)).collect()
}

fn message_row(row: &Row, installation: &Uuid) -> DbResult<MessageRow> {
    let (key, destination, state) = (key(row)?, row.text("destination")?, row.text("state")?);
    let effect_name = row.text_or_null("effect_name")?.unwrap_or_else(|| destination.clone());
    let generation = i32::try_from(row.int("generation")?).unwrap_or(i32::MAX);
    let result = |word: String| AttemptResult::parse(&word).ok_or_else(|| odd("last_result", &word));
    Ok(MessageRow {
        lane: row.text_or_null("lane")?,
        message_id: MessageId::from_column(row.int("message_id")?),
        event_type: row.text("event_type")?,
        idempotency_key: idempotency_key(installation, &key, generation, &effect_name),
        key,
        effect_name,
        destination,
        state: MessageState::parse(&state).ok_or_else(|| odd("state", &state))?,
        attempts_n: row.count("attempts_n")?,
        visible_at_ms: row.int("visible_at_ms")?,
        generation,
        last_result: row.text_or_null("last_result")?.map(result).transpose()?,
        last_error: row.text_or_null("last_error")?,
        created_at_ms: row.int("created_at_ms")?,
        first_sent_at_ms: row.int_or_null("first_sent_at_ms")?,
        key_valid_until_ms: row.int_or_null("key_valid_until_ms")?,
        finished_at_ms: row.int_or_null("finished_at_ms")?,
    })
}

fn key(row: &Row) -> DbResult<EventKey> {
    let provider = row.text("provider")?;
    let name = Name::parse(&provider).map_err(|_| odd("provider", &provider))?;
    Ok(EventKey { provider: name, event_id: row.text("event_id")? })
}

fn odd(column: &str, value: &str) -> DbError {
    DbError::decode(column, format_args!("`{value}`"))
}
