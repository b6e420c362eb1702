//! From rows to values, once for both databases: the columns have the same names, order and types.

use bytes::Bytes;
use sqlx::{ColumnIndex, Decode, Row, Type};

use super::evidence::{Rejection, SecretUse, Taught};
use super::operator::{AttemptRow, AuditRow, PauseRow};
use super::types::Token;
use super::{
    DueEvent, EventCount, EventRow, LeasedMessage, MessageCount, MessageRow, NewMessage, SettleTo, Settlement,
};
use crate::types::{
    AttemptResult, EventKey, IncomingEvent, MessageState, Name, ObjectVersion, UnixMs, media_type,
};

/// A row of either database: what the conversions below need of it.
pub(super) trait AnyRow {
    fn text(&self, n: usize) -> sqlx::Result<String>;
    fn text_or_null(&self, n: usize) -> sqlx::Result<Option<String>>;
    fn int(&self, n: usize) -> sqlx::Result<i64>;
    fn int_or_null(&self, n: usize) -> sqlx::Result<Option<i64>>;
    fn bytes_or_null(&self, n: usize) -> sqlx::Result<Option<Vec<u8>>>;
}

impl<R> AnyRow for R
where
    R: Row,
    usize: ColumnIndex<R>,
    for<'a> String: Decode<'a, R::Database> + Type<R::Database>,
    for<'a> i64: Decode<'a, R::Database> + Type<R::Database>,
    for<'a> Vec<u8>: Decode<'a, R::Database> + Type<R::Database>,
{
    fn text(&self, n: usize) -> sqlx::Result<String> {
        self.try_get(n)
    }
    fn text_or_null(&self, n: usize) -> sqlx::Result<Option<String>> {
        self.try_get(n)
    }
    fn int(&self, n: usize) -> sqlx::Result<i64> {
        self.try_get(n)
    }
    fn int_or_null(&self, n: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(n)
    }
    fn bytes_or_null(&self, n: usize) -> sqlx::Result<Option<Vec<u8>>> {
        self.try_get(n)
    }
}

fn odd(column: &str, value: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("column `{column}` holds `{value}`").into())
}

fn name(column: &str, text: &str) -> sqlx::Result<Name> {
    Name::parse(text).map_err(|_| odd(column, text))
}

/// The content type among kept headers, a JSON object.
fn kept_content_type(kept: &str) -> Option<String> {
    let headers: serde_json::Value = serde_json::from_str(kept).ok()?;
    headers.get("content-type")?.as_str().map(|text| media_type(text).to_owned())
}

fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn key(row: &impl AnyRow, first: usize) -> sqlx::Result<EventKey> {
    Ok(EventKey { provider: name("provider", &row.text(first)?)?, event_id: row.text(first + 1)? })
}

impl DueEvent {
    /// A row that cannot be read is given back as broken, so that it can be put aside.
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        let key = key(row, 0)?;
        let whole = Self::whole(row, key.clone());
        Ok(whole.unwrap_or_else(|why| Self {
            key,
            event_type: row.text(2).unwrap_or_default(),
            object: None,
            attempts_n: row.int(5).map_or(0, count),
            received_at_ms: row.int(6).unwrap_or_default(),
            generation: 0,
            headers: String::new(),
            body: Bytes::new(),
            broken: Some(format!("its row cannot be read: {why}")),
        }))
    }

    fn whole(row: &impl AnyRow, key: EventKey) -> sqlx::Result<Self> {
        let object = match (row.text_or_null(3)?, row.int_or_null(4)?) {
            (Some(object), Some(version)) => Some(ObjectVersion { object, version }),
            _ => None,
        };
        let (headers, body) = (row.text_or_null(7)?, row.bytes_or_null(8)?);
        let broken = (headers.is_none() || body.is_none()).then(|| "its body is no longer kept".to_owned());
        Ok(Self {
            key,
            event_type: row.text(2)?,
            object,
            attempts_n: count(row.int(5)?),
            received_at_ms: row.int(6)?,
            headers: headers.unwrap_or_default(),
            body: Bytes::from(body.unwrap_or_default()),
            generation: i32::try_from(row.int(9)?).unwrap_or(i32::MAX),
            broken,
        })
    }
}

impl EventRow {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            key: key(row, 0)?,
            event_type: row.text(2)?,
            digest: row.bytes_or_null(3)?.unwrap_or_default(),
            state: row.text(4)?,
            attempts_n: count(row.int(5)?),
            due_at_ms: row.int_or_null(6)?,
            error: row.text_or_null(7)?,
            received_at_ms: row.int(8)?,
            identity: row.text(9)?,
        })
    }
}

impl LeasedMessage {
    /// Everything but `is_previous_unsettled`, which only the claim knows.
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        let headers = row.text(9)?;
        let own_body = row.bytes_or_null(10)?;
        let event_content_type = match (&own_body, row.text_or_null(18)?) {
            (None, Some(kept)) => kept_content_type(&kept),
            _ => None,
        };
        let body = match own_body {
            Some(body) => body,
            None => row.bytes_or_null(17)?.ok_or_else(|| odd("webhook_payloads.body", "nothing"))?,
        };
        Ok(Self {
            message_id: row.text(0)?,
            key: key(row, 1)?,
            event_type: row.text(3)?,
            effect_name: row.text(4)?,
            idempotency_key: row.text(5)?,
            destination: name("destination", &row.text(6)?)?,
            method: row.text(7)?,
            path: row.text(8)?,
            headers: serde_json::from_str(&headers).map_err(|_| odd("headers", "no JSON object"))?,
            body: Bytes::from(body),
            event_content_type,
            attempt_n: count(row.int(11)?),
            attempts_before_n: count(row.int(19)?),
            has_lane: row.text_or_null(20)?.is_some(),
            is_previous_unsettled: false,
            is_previous_unknown: row.text_or_null(16)?.as_deref() == Some(AttemptResult::Unknown.as_str()),
            previous_ended_at_ms: row.int_or_null(21)?,
            created_at_ms: row.int(15)?,
            first_sent_at_ms: row.int(13)?,
            key_valid_until_ms: row.int(14)?,
            lease_until_ms: row.int(12)?,
        })
    }
}

/// A claimed message; or, where its row cannot be read, what settles it, so that it stands in nobody's way. Not even
/// that of a row that does not say whose claim it is: its lease will end.
pub(super) fn claimed(
    row: &impl AnyRow,
    is_lapsed: bool,
    now_ms: UnixMs,
) -> Result<LeasedMessage, Option<Box<Settlement>>> {
    let error = match LeasedMessage::from_row(row) {
        Ok(message) => return Ok(LeasedMessage { is_previous_unsettled: is_lapsed, ..message }),
        Err(error) => error,
    };
    let is_body_gone = matches!((row.bytes_or_null(10), row.bytes_or_null(17)), (Ok(None), Ok(None)));
    let why = if is_body_gone {
        "its body is no longer kept".to_owned()
    } else {
        format!("it cannot be read: {error}")
    };
    let is_uncertain = row.text_or_null(16).is_ok_and(|last| last.as_deref() == Some("unknown"));
    let (Ok(message_id), Ok(attempt_n)) = (row.text(0), row.int(11)) else {
        tracing::error!(%error, "a claimed message does not say who it is");
        return Err(None);
    };
    Err(Some(Box::new(Settlement {
        message_id,
        has_lane: row.text_or_null(20).is_ok_and(|lane| lane.is_some()),
        attempt_n: count(attempt_n),
        to: SettleTo::Held,
        result: if is_uncertain { AttemptResult::Unknown } else { AttemptResult::Released },
        http_status: None,
        error: Some(why),
        response: None,
        is_unsent: true,
        settled_at_ms: now_ms,
    })))
}

impl MessageRow {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            message_id: row.text(0)?,
            key: key(row, 1)?,
            event_type: row.text(3)?,
            effect_name: row.text(4)?,
            idempotency_key: row.text(5)?,
            destination: row.text(6)?,
            state: row.text(7)?,
            attempts_n: count(row.int(8)?),
            visible_at_ms: row.int(9)?,
            last_result: row.text_or_null(10)?,
            last_error: row.text_or_null(11)?,
            created_at_ms: row.int(12)?,
            first_sent_at_ms: row.int_or_null(13)?,
            key_valid_until_ms: row.int_or_null(14)?,
            settled_at_ms: row.int_or_null(15)?,
            lane: row.text_or_null(16)?,
        })
    }
}

impl AttemptRow {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            attempt_n: count(row.int(0)?),
            node: row.text(1)?,
            started_at_ms: row.int(2)?,
            finished_at_ms: row.int_or_null(3)?,
            result: row.text_or_null(4)?,
            http_status: row.int_or_null(5)?,
            error: row.text_or_null(6)?,
            response: row.text_or_null(7)?,
        })
    }
}

impl Rejection {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            rejection_id: row.text(0)?,
            provider: row.text(1)?,
            received_at_ms: row.int(2)?,
            step: row.text(3)?,
            reason: row.text(4)?,
            detail: row.text(5)?,
            headers: row.text(6)?,
            body_digest: hex::encode(row.bytes_or_null(7)?.unwrap_or_default()),
            body_bytes_n: row.int(8)?,
        })
    }
}

impl SecretUse {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            provider: row.text(0)?,
            fingerprint: row.text(1)?,
            matched_n: row.int(2)?,
            last_matched_at_ms: row.int(3)?,
        })
    }
}

impl Taught {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self { provider: row.text(0)?, secret: row.text(1)?, taught_at_ms: row.int(2)? })
    }
}

impl PauseRow {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            destination: row.text(0)?,
            actor: row.text(1)?,
            reason: row.text(2)?,
            paused_at_ms: row.int(3)?,
        })
    }
}

impl AuditRow {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self { at_ms: row.int(0)?, actor: row.text(1)?, action: row.text(2)?, detail: row.text(3)? })
    }
}

impl MessageCount {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        let state = row.text(1)?;
        Ok(Self {
            destination: row.text(0)?,
            state: MessageState::parse(&state).ok_or_else(|| odd("state", &state))?,
            messages_n: row.int(2)?.unsigned_abs(),
            oldest_visible_at_ms: row.int(3)?,
        })
    }
}

impl EventCount {
    pub(super) fn from_row(row: &impl AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            provider: row.text(0)?,
            state: row.text(1)?,
            events_n: row.int(2)?.unsigned_abs(),
            oldest_received_at_ms: row.int(3)?,
        })
    }
}

impl NewMessage {
    pub(super) fn headers_json(&self) -> String {
        serde_json::json!(self.headers).to_string()
    }

    /// The message in the hands of the worker it was born to; `None` when it was born free, or to a destination
    /// that has no name.
    pub fn born_leased(&self, event: &IncomingEvent) -> Option<LeasedMessage> {
        let lease = self.lease.as_ref()?;
        let (body, event_content_type) = match &self.body {
            Some(body) => (body.clone(), None),
            None => (event.body.clone(), kept_content_type(&event.headers)),
        };
        Some(LeasedMessage {
            message_id: self.message_id.clone(),
            key: self.key.clone(),
            event_type: self.event_type.clone(),
            effect_name: self.effect_name.clone(),
            idempotency_key: self.idempotency_key.clone(),
            destination: Name::parse(&self.destination).ok()?,
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body,
            event_content_type,
            attempt_n: 1,
            attempts_before_n: 0,
            has_lane: false,
            is_previous_unsettled: false,
            is_previous_unknown: false,
            previous_ended_at_ms: None,
            created_at_ms: self.created_at_ms,
            first_sent_at_ms: lease.from_ms,
            key_valid_until_ms: lease.key_valid_until_ms,
            lease_until_ms: lease.until_ms,
        })
    }
}

/// A message and the claim that its settlement was written for.
pub(super) fn settled(row: &impl AnyRow) -> sqlx::Result<Token> {
    Ok((row.text(0)?, count(row.int(1)?)))
}

impl SettleTo {
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Done => MessageState::Done,
            Self::Ready { .. } => MessageState::Ready,
            Self::Dead => MessageState::Dead,
            Self::Held => MessageState::Held,
        }
        .as_str()
    }

    pub(super) fn visible_at_ms(self) -> Option<i64> {
        match self {
            Self::Ready { visible_at_ms } => Some(visible_at_ms),
            _ => None,
        }
    }
}

impl Settlement {
    /// As SQLite's `json_each` takes it.
    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "message_id": self.message_id,
            "attempt_n": self.attempt_n,
            "state": self.to.state(),
            "visible_at_ms": self.to.visible_at_ms(),
            "result": self.result.as_str(),
            "http_status": self.http_status,
            "error": self.error,
            "response": self.response,
            "is_unsent": self.is_unsent,
            "settled_at_ms": self.settled_at_ms,
        })
    }
}
