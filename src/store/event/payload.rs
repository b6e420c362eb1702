//! What was received with an event, as its row in `webhook_payloads` has it: sealed or not, redacted or not.

use crate::seal::{KeyRing, SealError, SealedPlace};
use crate::store::db::{DbResult, Row};

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

    fn place(&self, column: &'static str) -> SealedPlace {
        SealedPlace::of_event(column, self.event_seq)
    }

    /// Headers and bytes as they came, for handlers and destinations.
    pub(in crate::store) fn came(self, ring: &KeyRing) -> Result<(String, Vec<u8>), NotAsItCame> {
        let (headers_at, body_at, whole_at) =
            (self.place("headers"), self.place("body"), self.place("whole"));
        let key_id = self.key_id.as_deref();
        let body = match (self.whole, self.redacted_n) {
            (Some(whole), _) => ring.open(key_id, &whole_at, whole)?,
            (None, None) => ring.open(key_id, &body_at, self.body)?,
            (None, Some(_)) => return Err(NotAsItCame::Redacted),
        };
        Ok((ring.open_text(key_id, &headers_at, self.headers)?, body))
    }

    /// Headers and bytes for people.
    pub(in crate::store) fn shown(self, ring: &KeyRing) -> Result<(String, Vec<u8>), SealError> {
        let (headers_at, body_at) = (self.place("headers"), self.place("body"));
        let key_id = self.key_id.as_deref();
        let body = ring.open(key_id, &body_at, self.body)?;
        Ok((ring.open_text(key_id, &headers_at, self.headers)?, body))
    }
}
