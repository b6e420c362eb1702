//! The place that a sealed value belongs to.

/// Words that begin everything that is authenticated beside a value: another format begins otherwise.
const FORMAT: &[u8] = b"hooklatch sealed 1";

/// The place of a value: what is sealed for one opens at no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedPlace<'a> {
    table: &'static str,
    column: &'static str,
    number: i64,
    attempt_n: u32,
    /// Provider and id of the event that it belongs to; empty where its row is not read with that of the event.
    event: (&'a str, &'a str),
}

impl<'a> SealedPlace<'a> {
    /// What was received with the event of this number, provider and id: `headers`, `body`, `whole` or `search_ids` of
    /// `webhook_payloads`.
    pub fn of_event(column: &'static str, event_seq: i64, event: (&'a str, &'a str)) -> Self {
        Self { table: "webhook_payloads", column, number: event_seq, attempt_n: 0, event }
    }

    /// The content of the message with this number, which follows from this event: `headers` or `body` of `outbox_contents`.
    pub fn of_message(column: &'static str, message_id: i64, event: (&'a str, &'a str)) -> Self {
        Self { table: "outbox_contents", column, number: message_id, attempt_n: 0, event }
    }

    /// The piece of the answer to one attempt of a message.
    pub fn of_answer(message_id: i64, attempt_n: u32) -> Self {
        Self { table: "outbox_attempts", column: "response", number: message_id, attempt_n, event: ("", "") }
    }

    /// A key of a sender, by a number made of its digest: `content` of `fetched_keys`.
    pub fn of_fetched_key(number: i64) -> Self {
        Self { table: "fetched_keys", column: "content", number, attempt_n: 0, event: ("", "") }
    }

    /// Its bytes: no two places have the same, because names hold no zero, numbers have one length, and the event's id is
    /// last.
    pub fn bytes(&self) -> Vec<u8> {
        let (provider, event_id) = self.event;
        let parts = [
            FORMAT,
            self.table.as_bytes(),
            self.column.as_bytes(),
            &self.number.to_be_bytes(),
            &self.attempt_n.to_be_bytes(),
            provider.as_bytes(),
            event_id.as_bytes(),
        ];
        parts.join(&0)
    }
}
