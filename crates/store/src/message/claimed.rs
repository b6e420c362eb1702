//! From the rows of a claimed message to the message that a worker can send.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use uuid::Uuid;

use super::types::{LeaseWant, LeasedMessage, NewMessage, SettleTo, Settlement};
use hooklatch_core::seal::{KeyRing, SealError, SealedPlace};
use hooklatch_core::types::{
    AttemptResult, EventKey, IncomingEvent, MessageId, Name, UnixMs, idempotency_key, media_type,
};

/// A claimed message as the tables have it; times are the caller's.
#[derive(Debug)]
pub(super) struct ClaimedRow {
    pub message_id: MessageId,
    pub generation: i32,
    pub effect_name: Option<String>,
    pub destination: Name,
    pub lane: Option<String>,
    pub attempt_n: u32,
    pub attempts_before_n: u32,
    pub is_lapsed: bool,
    pub last_result: Option<String>,
    pub created_at_ms: UnixMs,
    pub lease_until_ms: UnixMs,
    pub first_sent_at_ms: UnixMs,
    pub key_valid_until_ms: UnixMs,
    pub(super) last_ended_at_ms: Option<UnixMs>,
    /// What is wrong with a value of its rows that cannot be read.
    pub(super) misread: Option<String>,
    pub event: Option<ClaimedEvent>,
    pub content: Option<ClaimedContent>,
    /// Headers and bytes of its event, where those are to be sent.
    pub payload: Option<ClaimedPayload>,
}

/// The event that a claimed message follows from.
#[derive(Debug)]
pub(super) struct ClaimedEvent {
    pub provider: String,
    pub event_id: String,
    pub event_type: String,
}

/// The call to make, where that is not a POST of the event's own bytes.
#[derive(Debug)]
pub(super) struct ClaimedContent {
    pub method: String,
    pub path: String,
    pub headers: String,
    pub body: Option<Vec<u8>>,
    pub key_id: Option<String>,
}

/// Headers and bytes of an event, as its row has them.
#[derive(Debug, Clone)]
pub(super) struct ClaimedPayload {
    pub headers: String,
    /// The body as received, or what redaction left of it.
    pub body: Vec<u8>,
    pub key_id: Option<String>,
    /// True when values in `headers` and `body` were replaced, and the original is no longer kept.
    pub(super) is_redacted: bool,
    /// True when `body` is the column `whole`.
    pub is_whole: bool,
}

/// Reason why a claimed message cannot be sent.
enum Unsendable {
    /// An operator has to look at it.
    Unreadable(String),
    /// It cannot be decrypted now, and may be later: its key may be configured again, or a changed value repaired.
    Locked(SealError),
}

impl From<String> for Unsendable {
    fn from(why: String) -> Self {
        Self::Unreadable(why)
    }
}

impl From<&str> for Unsendable {
    fn from(why: &str) -> Self {
        Self::Unreadable(why.to_owned())
    }
}

impl From<SealError> for Unsendable {
    fn from(error: SealError) -> Self {
        Self::Locked(error)
    }
}

/// Messages that a look for due ones took.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    pub messages: Vec<LeasedMessage>,
    /// Settlements of those that cannot be read, so that they block no other message.
    pub unreadable: Vec<Settlement>,
    /// Settlements of those that do not open: they are looked at again later.
    pub locked: Vec<Settlement>,
}

/// First and longest time until a message that did not open is looked at again. Milliseconds.
const LOCKED_FIRST_MS: i64 = 5_000;
const LOCKED_MAX_MS: i64 = 300_000;

impl Claimed {
    pub(crate) fn of(rows: Vec<ClaimedRow>, installation_id: &Uuid, now_ms: UnixMs, ring: &KeyRing) -> Self {
        let mut claimed = Self { messages: Vec::with_capacity(rows.len()), ..Self::default() };
        for row in rows {
            let unreadable = row.unreadable(now_ms);
            let again_at_ms = now_ms.saturating_add(row.locked_for_ms());
            match row.leased(installation_id, ring) {
                Ok(message) => claimed.messages.push(message),
                Err(Unsendable::Unreadable(why)) => {
                    claimed.unreadable.push(Settlement { error: Some(why), ..unreadable });
                }
                Err(Unsendable::Locked(error)) => claimed.locked.push(Settlement {
                    to: SettleTo::Ready { visible_at_ms: again_at_ms },
                    error: Some(error.to_string()),
                    ..unreadable
                }),
            }
        }
        claimed
    }
}

/// The destination of a claimed row, which is one of those that were asked for.
pub(super) fn destination_of(wants: &[LeaseWant], destination: &str) -> Option<Name> {
    wants.iter().find(|want| want.destination.as_str() == destination).map(|want| want.destination.clone())
}

impl ClaimedRow {
    fn is_previous_unknown(&self) -> bool {
        self.last_result.as_deref() == Some(AttemptResult::Unknown.as_str())
    }

    /// Returns what holds it, until an operator decides.
    fn unreadable(&self, now_ms: UnixMs) -> Settlement {
        let result =
            if self.is_previous_unknown() { AttemptResult::Unknown } else { AttemptResult::Released };
        Settlement {
            message_id: self.message_id,
            destination: self.destination.clone(),
            lane: self.lane.clone(),
            attempt_n: self.attempt_n,
            to: SettleTo::Held,
            result,
            http_status: None,
            error: None,
            response: None,
            is_unsent: true,
            sent_under: None,
            settled_at_ms: now_ms,
        }
    }

    /// Time until it is looked at again, each time longer: every look leaves a row.
    fn locked_for_ms(&self) -> i64 {
        LOCKED_FIRST_MS.saturating_mul(1 << self.attempts_before_n.min(10)).min(LOCKED_MAX_MS)
    }

    /// The message; or why it cannot be sent.
    fn leased(self, installation_id: &Uuid, ring: &KeyRing) -> Result<LeasedMessage, Unsendable> {
        let is_previous_unknown = self.is_previous_unknown();
        if let Some(misread) = self.misread {
            return Err(format!("it cannot be read: {misread}").into());
        }
        let event = self.event.ok_or("its event is no longer kept")?;
        let provider = Name::parse(&event.provider)
            .map_err(|_| format!("it cannot be read: its provider is called `{}`", event.provider))?;
        let key = EventKey { provider, event_id: event.event_id };
        let effect_name = self.effect_name.unwrap_or_else(|| self.destination.to_string());
        let (method, path, headers, own_body) = match self.content {
            Some(mut content) => {
                let (headers, body) = content.opened(self.message_id, &key, ring)?;
                let headers = serde_json::from_str(&headers)
                    .map_err(|_| "it cannot be read: its headers are no JSON object of texts")?;
                (content.method, content.path, headers, body)
            }
            None => ("POST".to_owned(), String::new(), BTreeMap::new(), None),
        };
        let (body, event_content_type) = match (own_body, self.payload) {
            (Some(body), _) => (body, None),
            (None, Some(payload)) => {
                let (kept, body) = payload.opened(self.message_id, &key, ring)?;
                (body, kept_content_type(&kept))
            }
            (None, None) => return Err("its body is no longer kept".into()),
        };
        Ok(LeasedMessage {
            message_id: self.message_id,
            idempotency_key: idempotency_key(installation_id, &key, self.generation, &effect_name),
            key,
            event_type: event.event_type,
            generation: self.generation,
            effect_name,
            destination: self.destination,
            method,
            path,
            headers,
            body: Bytes::from(body),
            event_content_type,
            traceparent: None,
            lane: self.lane,
            attempt_n: self.attempt_n,
            is_previous_unsettled: self.is_lapsed,
            is_previous_unknown,
            previous_ended_at_ms: self.last_ended_at_ms,
            attempts_before_n: self.attempts_before_n,
            created_at_ms: self.created_at_ms,
            first_sent_at_ms: self.first_sent_at_ms,
            key_valid_until_ms: self.key_valid_until_ms,
            lease_until_ms: self.lease_until_ms,
        })
    }
}

impl ClaimedContent {
    /// Its headers and its own body, in the clear.
    fn opened(
        &mut self,
        id: MessageId,
        event: &EventKey,
        ring: &KeyRing,
    ) -> Result<(String, Option<Vec<u8>>), SealError> {
        let place = |column| SealedPlace::of_message(column, id.number(), event.as_pair());
        let key_id = self.key_id.as_deref();
        let headers = std::mem::take(&mut self.headers);
        let headers = ring.open_text(key_id, &place("headers"), headers)?;
        let body = self.body.take();
        let open = |body| ring.open(key_id, &place("body"), body);
        Ok((headers, body.map(open).transpose()?))
    }
}

impl ClaimedPayload {
    /// Headers and bytes as received; an error where those are not kept any more.
    fn opened(
        self,
        id: MessageId,
        event: &EventKey,
        ring: &KeyRing,
    ) -> Result<(String, Vec<u8>), Unsendable> {
        if self.is_redacted {
            return Err("its body was redacted, and the original is no longer stored".into());
        }
        let place = |column| SealedPlace::of_event(column, id.event_seq(), event.as_pair());
        let key_id = self.key_id.as_deref();
        let column = if self.is_whole { "whole" } else { "body" };
        let body = ring.open(key_id, &place(column), self.body)?;
        Ok((ring.open_text(key_id, &place("headers"), self.headers)?, body))
    }
}

impl NewMessage {
    /// The message as the worker gets it that its first lease is for; `None` when it was written without a lease, or to
    /// a destination that has no name.
    pub fn to_leased(&self, event: &IncomingEvent, installation_id: &Uuid) -> Option<LeasedMessage> {
        let lease = self.lease.as_ref()?;
        let (body, event_content_type) = match &self.body {
            Some(body) => (body.clone(), None),
            None => (event.body.clone(), kept_content_type(&event.headers)),
        };
        Some(LeasedMessage {
            message_id: self.message_id,
            idempotency_key: idempotency_key(installation_id, &event.key, self.generation, &self.effect_name),
            key: event.key.clone(),
            event_type: event.event_type.clone(),
            generation: self.generation,
            effect_name: self.effect_name.clone(),
            destination: Name::parse(&self.destination).ok()?,
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body,
            event_content_type,
            traceparent: None,
            lane: self.lane.clone(),
            attempt_n: 1,
            attempts_before_n: 0,
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

/// The one header that is wanted here, of the kept headers, which are a JSON object.
#[derive(Deserialize)]
struct KeptHeaders<'a> {
    #[serde(rename = "content-type", borrow)]
    content_type: Option<Cow<'a, str>>,
}

/// The content type among kept headers.
fn kept_content_type(kept: &str) -> Option<String> {
    let kept: KeptHeaders<'_> = serde_json::from_str(kept).ok()?;
    kept.content_type.map(|text| media_type(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_is_found_among_kept_headers() {
        for (kept, wanted) in [
            (r#"{"content-type":"application/json"}"#, Some("application/json")),
            (r#"{"a":"b","content-type":"text\/xml","c":["d"]}"#, Some("text/xml")),
            (r#"{"a":"b"}"#, None),
            (r#"{"content-type":["a","b"]}"#, None),
            ("broken", None),
        ] {
            assert_eq!(kept_content_type(kept).as_deref(), wanted, "{kept}");
        }
    }
}
