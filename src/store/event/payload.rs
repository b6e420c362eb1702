//! What was received with an event, as its row in `webhook_payloads` has it: sealed or not, redacted or not.

use crate::seal::{KeyRing, SealError, SealedPlace};
use crate::store::db::{DbResult, Row};
use crate::types::EventKey;

/// The columns of one row: `headers`, `body`, `whole`, `key_id` and `redacted_n`.
pub(in crate::store) struct StoredPayload {
    event_seq: i64,
    headers: String,
    body: Vec<u8>,
    whole: Option<Vec<u8>>,
    pub(in crate::store) key_id: Option<String>,
    pub(in crate::store) redacted_n: Option<i64>,
}

/// Reason why the bytes that came cannot be had.
pub(in crate::store) enum NotAsItCame {
    /// Values were replaced, and the rest is not kept.
    Redacted,
    Sealed(SealError),
}

impl From<SealError> for NotAsItCame {
    fn from(error: SealError) -> Self {
        Self::Sealed(error)
    }
}

impl StoredPayload {
    /// Reads it out of a row with these columns; `None` when nothing is kept any more.
    pub(in crate::store) fn of(row: &Row, event_seq: i64) -> DbResult<Option<Self>> {
        let (Some(headers), Some(body)) = (row.text_or_null("headers")?, row.bytes_or_null("body")?) else {
            return Ok(None);
        };
        Ok(Some(Self {
            event_seq,
            headers,
            body,
            whole: row.bytes_or_null("whole")?,
            key_id: row.text_or_null("key_id")?,
            redacted_n: row.int_or_null("redacted_n")?,
        }))
    }

    /// Headers and bytes as they came of this event, for handlers and destinations.
    pub(in crate::store) fn came(
        self,
        event: &EventKey,
        ring: &KeyRing,
    ) -> Result<(String, Vec<u8>), NotAsItCame> {
        let place = |column| SealedPlace::of_event(column, self.event_seq, event.as_pair());
        let key_id = self.key_id.as_deref();
        let body = match (self.whole, self.redacted_n) {
            (Some(whole), _) => ring.open(key_id, &place("whole"), whole)?,
            (None, None) => ring.open(key_id, &place("body"), self.body)?,
            (None, Some(_)) => return Err(NotAsItCame::Redacted),
        };
        Ok((ring.open_text(key_id, &place("headers"), self.headers)?, body))
    }

    /// Headers and bytes of this event for people.
    pub(in crate::store) fn shown(
        self,
        event: &EventKey,
        ring: &KeyRing,
    ) -> Result<(String, Vec<u8>), SealError> {
        let place = |column| SealedPlace::of_event(column, self.event_seq, event.as_pair());
        let key_id = self.key_id.as_deref();
        let body = ring.open(key_id, &place("body"), self.body)?;
        Ok((ring.open_text(key_id, &place("headers"), self.headers)?, body))
    }
}
