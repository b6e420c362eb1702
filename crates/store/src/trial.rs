//! The input of trial runs of handlers: an event as received, with what was committed for it, and a transaction that is
//! always rolled back.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::db::{DbResult, Executor, Row, StoreError, Tx};
use super::event::{ContentUnavailable, StoredPayload, event_columns, event_view, stored_body};
use super::handle::Store;
use super::message::message_state;
use hooklatch_contract::EventView;
use hooklatch_core::seal::{KeyRing, SealError, SealedPlace};
use hooklatch_core::types::{EventKey, MESSAGES_N_MAX, MessageId, MessageState, Reach};

/// An event as received, and what was committed for it.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Provider and id of the event.
    pub key: EventKey,
    /// Number of the event.
    pub event_seq: i64,
    /// Its row as operators see it.
    pub view: EventView,
    /// The highest version that was seen of its object, and the number of the event that brought it.
    pub newest: Option<(i64, i64)>,
    /// Headers and bytes as received, or why there are none.
    pub content: Result<CameContent, String>,
    /// The messages of its last generation, in their order.
    pub effects: Vec<CommittedEffect>,
}

/// Headers and bytes of an event as received.
#[derive(Debug, Clone)]
pub struct CameContent {
    /// Kept headers, as a JSON object.
    pub headers: String,
    /// Bytes of the body.
    pub body: Bytes,
}

/// A message that was committed.
#[derive(Debug, Clone)]
pub struct CommittedEffect {
    /// Number of the message.
    pub message_id: MessageId,
    /// Names the effect within the event.
    pub effect_name: String,
    /// State in which it stands.
    pub state: MessageState,
    /// Name of the destination that it goes to.
    pub destination: String,
    /// Lane that it is in.
    pub lane: Option<String>,
    /// The call, or why it cannot be read.
    pub call: Result<CommittedCall, String>,
}

/// The call of a message that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedCall {
    /// HTTP method of the call.
    pub method: String,
    /// Path below the destination's URL.
    pub path: String,
    /// Extra headers of the call.
    pub headers: BTreeMap<String, String>,
    /// `None`: the event's own bytes.
    pub body: Option<Bytes>,
}

fn event_sql() -> String {
    let (columns, body) = (event_columns!(), stored_body!("p"));
    format!(
        "/* event_committed */ SELECT {columns}, p.headers, {body} AS body, p.whole, p.key_id, p.redacted_n,
             v.version AS newest_version, v.event_seq AS newest_seq
         FROM processed_webhook_events e
         LEFT JOIN webhook_payloads p ON p.event_seq = e.event_seq
         LEFT JOIN object_versions v ON v.provider = e.provider AND v.object = e.object
         WHERE e.provider = $1 AND e.event_id = $2"
    )
}
const EFFECTS: &str =
    "/* event_committed */ SELECT m.message_id, m.effect_name, m.destination, m.lane, m.state, c.method, c.path,
         c.headers, c.body, c.key_id
     FROM outbox_messages m LEFT JOIN outbox_contents c ON c.message_id = m.message_id
     WHERE m.event_seq = $1 / 1024 AND m.message_id >= $1 AND m.message_id < $2 AND m.generation = $3
     ORDER BY m.message_id";

impl Store {
    /// Gets an event as received, with what was committed for it; `None` when there is none.
    pub async fn event_committed(&self, key: &EventKey) -> Result<Option<CommittedEvent>, StoreError> {
        let (key, ring) = (key.clone(), self.ring.clone());
        snapshot!(self.event_committed(&key, &ring))
    }

    /// Opens a transaction that is never committed, whatever is done in it. End it with `trial_ends`, in a task that is
    /// not cancelled: dropping it closes its connection.
    pub async fn trial_begin(&self) -> Result<Tx, StoreError> {
        let mut tx = self.parts.backend.begin("trial_begin", purpose!(writer)).await?;
        match tx.trial_begins().await {
            Ok(()) => Ok(tx),
            Err(error) => {
                hooklatch_core::stop::ignore_result(crate::db::trial_ends(tx)).await;
                Err(error)
            }
        }
    }
}

async fn event_committed(
    db: &mut Executor<'_>,
    key: &EventKey,
    ring: &KeyRing,
) -> DbResult<Option<CommittedEvent>> {
    let by_key = [key.provider.as_str().into(), key.event_id.as_str().into()];
    let Some(row) = db.fetch_optional(event_sql(), &by_key).await? else { return Ok(None) };
    let (event_seq, view) =
        (row.int("event_seq")?, event_view(db, &row, &Reach::These(BTreeSet::new())).await?);
    let newest = row.int_or_null("newest_version")?.zip(row.int_or_null("newest_seq")?);
    let first = event_seq.saturating_mul(i64::from(MESSAGES_N_MAX));
    let last = first.saturating_add(i64::from(MESSAGES_N_MAX));
    let rows = db.fetch(EFFECTS, &[first.into(), last.into(), view.generation.into()]).await?;
    Ok(Some(CommittedEvent {
        key: key.clone(),
        event_seq,
        newest,
        content: content(&row, event_seq, key, ring)?,
        effects: rows.iter().map(|row| effect(row, key, ring)).collect::<DbResult<_>>()?,
        view,
    }))
}

fn content(
    row: &Row,
    event_seq: i64,
    event: &EventKey,
    ring: &KeyRing,
) -> DbResult<Result<CameContent, String>> {
    let Some(stored) = StoredPayload::of(row, event_seq)? else {
        return Ok(Err("its body is no longer kept".to_owned()));
    };
    Ok(match stored.original(event, ring) {
        Ok((headers, body)) => Ok(CameContent { headers, body: body.into() }),
        Err(ContentUnavailable::Redacted) => {
            Err("its body was redacted, and the original is no longer stored".to_owned())
        }
        Err(ContentUnavailable::Sealed(error)) => Err(error.to_string()),
    })
}

fn effect(row: &Row, event: &EventKey, ring: &KeyRing) -> DbResult<CommittedEffect> {
    let message_id = MessageId::from_column(row.int("message_id")?);
    Ok(CommittedEffect {
        message_id,
        effect_name: row.text("effect_name")?,
        state: message_state(row)?,
        destination: row.text("destination")?,
        lane: row.text_or_null("lane")?,
        call: call(row, message_id, event, ring)?,
    })
}

/// A message without contents of its own is a POST of the event's bytes.
fn call(
    row: &Row,
    id: MessageId,
    event: &EventKey,
    ring: &KeyRing,
) -> DbResult<Result<CommittedCall, String>> {
    let Some(method) = row.text_or_null("method")? else {
        let (method, path, headers) = ("POST".to_owned(), String::new(), BTreeMap::new());
        return Ok(Ok(CommittedCall { method, path, headers, body: None }));
    };
    let (path, key_id) = (row.text("path")?, row.text_or_null("key_id")?);
    let (kept_headers, kept_body) = (row.text("headers")?, row.bytes_or_null("body")?);
    let opened = || -> Result<(String, Option<Vec<u8>>), SealError> {
        let key_id = key_id.as_deref();
        let place = |column| SealedPlace::of_message(column, id.number(), event.as_pair());
        let headers = ring.open_text(key_id, &place("headers"), kept_headers)?;
        let open = |body| ring.open(key_id, &place("body"), body);
        Ok((headers, kept_body.map(open).transpose()?))
    };
    Ok(opened().map_err(|error| error.to_string()).and_then(|(headers, body)| {
        let headers = serde_json::from_str(&headers).map_err(|_| "its headers cannot be read".to_owned())?;
        Ok(CommittedCall { method, path, headers, body: body.map(Bytes::from) })
    }))
}
