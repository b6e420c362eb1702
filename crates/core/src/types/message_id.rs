//! The number that a message goes by, and the key that its calls carry.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::event::EventKey;

/// Most messages of one event, those of its re-runs included.
pub const MESSAGES_N_MAX: u16 = 1_024;

/// A message's number: that of its event, times 1,024, and its place among the messages of that event, from 0. So the
/// messages of one event stand side by side. Written in decimal digits wherever people or programs read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(i64);

/// Reason why a text is not a [`MessageId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message's id is a whole number in decimal digits")]
pub struct InvalidMessageId;

impl MessageId {
    /// The message at `place` of the event with this number; `None` past the last place.
    pub fn of(event_seq: i64, place: u16) -> Option<Self> {
        let first = event_seq.checked_mul(i64::from(MESSAGES_N_MAX)).filter(|_| place < MESSAGES_N_MAX)?;
        first.checked_add(i64::from(place)).map(Self)
    }

    /// Makes the id from the number that a column holds.
    pub fn from_column(number: i64) -> Self {
        Self(number)
    }

    /// The number as a column holds it.
    pub fn number(self) -> i64 {
        self.0
    }

    /// The number of the event that it follows from.
    pub fn event_seq(self) -> i64 {
        self.0 / i64::from(MESSAGES_N_MAX)
    }

    /// Its place among the messages of its event, from 0.
    pub fn place(self) -> u16 {
        u16::try_from(self.0 % i64::from(MESSAGES_N_MAX)).unwrap_or_default()
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for MessageId {
    type Err = InvalidMessageId;

    fn from_str(text: &str) -> Result<Self, InvalidMessageId> {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_plain).map(Self).ok_or(InvalidMessageId)
    }
}

impl serde::Serialize for MessageId {
    /// Writes it as text: a number of this size is not the same in every program that reads JSON.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for MessageId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MessageId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9]{1,19}$" })
    }
}

/// The key every attempt of a message carries: a `UUIDv5` of what the message follows from. The parts carry their
/// lengths, so that no two different lists of parts read the same.
pub fn idempotency_key(installation_id: &Uuid, key: &EventKey, generation: i32, effect_name: &str) -> String {
    let provider = key.provider.as_str();
    let name = format!(
        "{}:{provider},{}:{},{generation},{}:{effect_name}",
        provider.len(),
        key.event_id.len(),
        key.event_id,
        effect_name.len(),
    );
    Uuid::new_v5(installation_id, name.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Name;

    #[test]
    fn idempotency_key_never_changes_because_destinations_remember_it() {
        let key = |provider: &str, event_id: &str| EventKey {
            provider: Name::parse(provider).expect("a name"),
            event_id: event_id.to_owned(),
        };
        let of = |key: &EventKey, name: &str| idempotency_key(&Uuid::nil(), key, 0, name);
        let first = of(&key("stripe", "evt_1"), "billing");
        assert_eq!(first, "d2a4bec6-cea3-515b-abf2-81dbd5fe4791");
        assert_ne!(first, of(&key("stripe", "evt_1"), "ledger"));
        assert_ne!(first, of(&key("stripe_test", "evt_1"), "billing"));
        assert_ne!(of(&key("a", "b,1:c"), "d"), of(&key("a", "b"), "c,1:d"), "parts carry their lengths");
    }

    #[test]
    fn a_message_id_encodes_its_event_and_place() {
        let id = MessageId::of(4_097, 3).expect("a place");
        assert_eq!((id.number(), id.event_seq(), id.place()), (4_195_331, 4_097, 3));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(MessageId::of(4_097, MESSAGES_N_MAX), None, "no place is left");
        for bad in ["", "-1", "+1", "1 ", "0x1", "99999999999999999999", "a"] {
            assert_eq!(bad.parse::<MessageId>(), Err(InvalidMessageId), "{bad:?}");
        }
    }

    #[test]
    fn numbers_of_one_event_stand_side_by_side_and_never_overflow() {
        let id = |seq, place| MessageId::of(seq, place);
        let last = id(7, MESSAGES_N_MAX - 1).expect("the last place");
        assert_eq!(id(8, 0).map(MessageId::number), Some(last.number() + 1));
        let highest_seq = i64::MAX / i64::from(MESSAGES_N_MAX);
        let highest = id(highest_seq, MESSAGES_N_MAX - 1).expect("the highest of all");
        assert_eq!((highest.number(), highest.event_seq(), highest.place()), (i64::MAX, highest_seq, 1_023));
        assert_eq!(id(highest_seq + 1, 0), None);
        assert_eq!(highest.to_string().parse(), Ok(highest));
        assert_eq!("9223372036854775808".parse::<MessageId>(), Err(InvalidMessageId));
        assert_eq!(
            serde_json::to_value(highest).expect("text"),
            "9223372036854775807",
            "as text, not as a number"
        );
    }
}
