//! An event, from reading to the tables; and the number of a message that follows from it, with the key of its calls.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::clock::UnixMs;
use super::text::Name;

/// Number of shards that event-bound rows are spread over (`shard` columns, 0 to 1023).
const SHARDS_N: u16 = 1_024;

/// SHA-256 of the value of one event's JSON text or form, however it was written, or of its bytes where it is neither;
/// without the fields that its kind names volatile.
pub type BodyDigest = [u8; 32];

/// Identity of an event: the configured provider and the provider's own id, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey {
    /// The configured provider (`[providers.NAME]`).
    pub provider: Name,
    /// The id as the kind's spec reads it: 1 to 255 bytes, no control characters.
    pub event_id: String,
}

/// Prefix of the ids of test events, which operators make. Reading takes no sender's own id that starts so, so that
/// nothing in a request can mark an event as one.
pub const TEST_EVENT: &str = "test:";

impl EventKey {
    /// Provider and id, as what is encrypted is bound to them.
    pub fn as_pair(&self) -> (&str, &str) {
        (self.provider.as_str(), &self.event_id)
    }

    /// True for a test event, which an operator made.
    pub fn is_synthetic(&self) -> bool {
        self.event_id.starts_with(TEST_EVENT)
    }

    /// The shard of the event and of everything bound to it: FNV-1a over provider, NUL, id. It never changes, because
    /// rows on disk carry it.
    pub fn shard(&self) -> i16 {
        let bytes = self.provider.as_str().bytes().chain([0]).chain(self.event_id.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        i16::try_from(hash % u64::from(SHARDS_N)).unwrap_or_default()
    }
}

/// One event of a believed request, read and ready to be admitted.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the event")]
pub struct IncomingEvent {
    /// Provider and id of the event.
    pub key: EventKey,
    /// The sender's word for what happened; `unknown` when it could not be read.
    pub event_type: String,
    /// Digest that copies are compared by.
    pub digest: BodyDigest,
    /// Equal for equal signed texts, whatever id they are sent under; there when no signature covers the id.
    pub replay_key: Option<BodyDigest>,
    /// Rule that identified it, for its row: `sender/1`, and the reason where nothing was where the kind
    /// looks.
    pub identity: String,
    /// Time after a signal's firing for which an equal one is a copy, when nothing else distinguishes them.
    /// Milliseconds.
    pub window_ms: Option<i64>,
    /// True when each copy restarts that time.
    pub is_window_renewed: bool,
    /// True when a copy within that time has the signal dispatched once more when it ends.
    pub is_window_rearmed: bool,
    /// Time before which it is not dispatched: the end of the window of the signal that it repeats.
    pub not_before_ms: Option<UnixMs>,
    /// True when nothing in it differs from one event to the next, so that its signed text may be sent under another id
    /// again.
    pub is_repeatable: bool,
    /// The provider's rule for it, should its key be taken by other content.
    pub on_conflict: OnConflict,
    /// With [`OnConflict::Copy`]: which other content is the same event.
    pub renderings: Option<Arc<Renderings>>,
    /// Object that it is about and which state of it, when the kind says so.
    pub object: Option<ObjectVersion>,
    /// Ids that people find it by besides its own, in lower case: those that its kind's `search` names, and parts of a
    /// composed id. Up to four, each once.
    pub search_ids: Vec<String>,
    /// Time when it happened at the sender.
    pub created_at_ms: Option<UnixMs>,
    /// Time when it reached us.
    pub received_at_ms: UnixMs,
    /// The bytes that are kept: the body, or this event's part of a batch.
    pub body: Bytes,
    /// Kept in place of `body`, where values are not to be stored.
    pub redacted: Option<RedactedBody>,
    /// The body is stored already, in so many parts under the number that the event is latched with.
    pub stored_parts_n: Option<u32>,
    /// JSON text of what handlers receive; part of `body` unless that is a form.
    pub payload: Bytes,
    /// The whole JSON text that it was read from; `body` unless that is a form or was opened.
    pub envelope: Bytes,
    /// The request's headers as a JSON object, secrets and signatures blanked.
    pub headers: Arc<str>,
    /// Reason why it cannot be read; such an event is kept and shown, never dispatched.
    pub unreadable: Option<String>,
    /// Fingerprint of the secret that its request was signed with; `None` when none was used.
    pub secret: Option<i64>,
    /// True when it is kept and not dispatched: a test event without `route`, or one of a sandbox.
    pub is_undispatched: bool,
}

impl IncomingEvent {
    /// True when the sender signed it, and what its fields mean is to be asked of the sender: its type ends so.
    pub fn is_unconfirmed(&self) -> bool {
        self.event_type.ends_with(".unconfirmed")
    }
}

impl IncomingEvent {
    /// An event of which nothing more is known than these: what fills in the rest says so with `..`.
    pub fn new(
        key: EventKey,
        event_type: impl Into<String>,
        digest: BodyDigest,
        body: Bytes,
        received_at_ms: UnixMs,
    ) -> Self {
        Self {
            key,
            event_type: event_type.into(),
            digest,
            replay_key: None,
            identity: "sender/1".to_owned(),
            window_ms: None,
            is_window_renewed: false,
            is_window_rearmed: false,
            not_before_ms: None,
            is_repeatable: false,
            on_conflict: OnConflict::Keep,
            renderings: None,
            object: None,
            search_ids: Vec::new(),
            created_at_ms: None,
            received_at_ms,
            payload: body.clone(),
            envelope: body.clone(),
            body,
            redacted: None,
            stored_parts_n: None,
            headers: "{}".into(),
            unreadable: None,
            secret: None,
            is_undispatched: false,
        }
    }

    /// Returns the bytes for the event's own row: without the values that are not to be stored, and without those that
    /// are stored in parts.
    pub fn stored_body(&self) -> &Bytes {
        static IN_PARTS: Bytes = Bytes::new();
        if self.stored_parts_n.is_some() {
            return &IN_PARTS;
        }
        self.redacted.as_ref().map_or(&self.body, |redacted| &redacted.body)
    }

    /// Returns why it goes by its content although its kind looks for something else.
    pub fn unidentified(&self) -> Option<&str> {
        // Most say their rule alone, which is shorter.
        if self.identity.len() < WANTING.len() {
            return None;
        }
        self.identity.split_once(WANTING).map(|(_, why)| why)
    }
}

/// A body as people see it, without the values that a provider's `redact` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedBody {
    /// Bytes that are kept.
    pub body: Bytes,
    /// Number of values that were replaced; 0: all of the body was, because it could not be looked into.
    pub values_n: u32,
}

/// Words between the rule that identified an event and the reason why none of its kind's did.
pub const WANTING: &str = " for want of another: ";

/// A provider's rule for other content under a key that is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// It is kept beside the first, for a person to decide.
    #[default]
    Keep,
    /// It is kept, and dispatched as an event of its own.
    Dispatch,
    /// It is a copy where [`Renderings`] say so, else as `Keep`.
    Copy,
}

/// Fields by which two contents under one key are one event that the sender wrote twice.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renderings {
    /// JSON pointers to what both have in common: each is equal in both, or in neither.
    pub same: Vec<String>,
    /// JSON pointer to what distinguishes the two: it is in both, with different values. Other content without that
    /// difference is a conflict.
    pub differs: String,
}

/// One state of one object at the sender.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectVersion {
    /// The object's id, unique within its provider.
    pub object: String,
    /// Goes up with each change.
    pub version: i64,
}

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
    use crate::types::Name;

    use super::*;

    #[test]
    fn shard_never_changes_because_rows_carry_it() {
        let key =
            |id: &str| EventKey { provider: Name::parse("stripe").expect("a name"), event_id: id.to_owned() };
        assert_eq!(["evt_1", "evt_2", "evt_3"].map(|id| key(id).shard()), [657, 376, 811]);
    }

    #[test]
    fn what_is_joined_for_the_shard_cannot_be_shifted_from_provider_to_id() {
        let key = |provider: &str, id: &str| EventKey {
            provider: Name::parse(provider).expect("a name"),
            event_id: id.to_owned(),
        };
        assert_ne!(key("ab", "c").shard(), key("a", "bc").shard());
        let shards: std::collections::BTreeSet<i16> =
            (0..20_000).map(|n| key("p", &n.to_string()).shard()).collect();
        assert_eq!(
            (shards.len(), shards.first(), shards.last()),
            (1_024, Some(&0), Some(&1_023)),
            "all are used"
        );
    }

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
