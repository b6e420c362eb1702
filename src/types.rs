//! The words every layer shares: names, states, outcomes, times.
//!
//! Nothing here does I/O, reads a clock or knows a format. A value that exists has been checked;
//! no layer above checks it again.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

mod clock;
mod message_id;

pub use clock::Clock;
pub use message_id::{InvalidMessageId, MESSAGES_N_MAX, MessageId, idempotency_key};

/// Milliseconds since 1970-01-01 UTC. Columns of this type end in `_at_ms`.
pub type UnixMs = i64;

/// Longest event id, event type, object or lane that is stored, in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 255;

/// Number of shards that event-bound rows are spread over (`shard` columns, 0 to 1023).
pub const SHARDS_N: u16 = 1_024;

/// Name of a configured provider, of a provider kind or of a destination: 1 to 64 characters out of
/// `a-z`, `0-9`, `_` and `-`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// Why a text is not a [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name: use 1 to 64 characters out of a-z, 0-9, `_` and `-`")]
pub struct InvalidName(String);

impl Name {
    /// Checks `text` once; what comes back never needs checking again.
    #[doc(hidden)]
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if fits { Ok(Self(text.into())) } else { Err(InvalidName(text.chars().take(80).collect())) }
    }

    /// The name as text.
    #[doc(hidden)]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// So that whatever is kept by name is found by a text.
impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

/// SHA-256 of the signed bytes of one event, without the fields its kind names volatile.
pub type BodyDigest = [u8; 32];

/// What identifies an event: the configured provider and the provider's own id, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey {
    /// The configured provider (`[providers.NAME]`).
    pub provider: Name,
    /// The id as the kind's spec reads it: 1 to 255 bytes, no control characters.
    pub event_id: String,
}

impl EventKey {
    /// The shard of the event and of everything bound to it: FNV-1a over provider, NUL, id. Fixed for ever,
    /// because rows on disk carry it.
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
pub struct IncomingEvent {
    /// Who it is.
    pub key: EventKey,
    /// The sender's word for what happened; `unknown` when it could not be read.
    pub event_type: String,
    /// What the copy is compared by.
    pub digest: BodyDigest,
    /// For ids that no signature covers: equal for equal signed texts, whatever id they come under.
    pub replay_key: Option<BodyDigest>,
    /// How it was identified, for its row: `sender/1`, and why where nothing was where the kind looks.
    pub identity: String,
    /// Of a signal that nothing tells apart: for how long after its firing it is a copy. Milliseconds.
    pub window_ms: Option<i64>,
    /// Whether each copy begins that time anew.
    pub is_window_renewed: bool,
    /// What becomes of it should its key be taken by other content.
    pub on_conflict: OnConflict,
    /// What it is about and which state of it, when the kind says so.
    pub object: Option<ObjectVersion>,
    /// When it happened at the sender.
    pub created_at_ms: Option<UnixMs>,
    /// When it reached us.
    pub received_at_ms: UnixMs,
    /// The bytes that are kept: the body, or this event's part of a batch.
    pub body: Bytes,
    /// JSON text of what handlers receive; part of `body` unless that is a form.
    pub payload: Bytes,
    /// The request's headers as a JSON object, secrets and signatures blanked.
    pub headers: Arc<str>,
    /// Why it cannot be read; such an event is kept and shown, never dispatched.
    pub unreadable: Option<String>,
}

impl IncomingEvent {
    /// Why it goes by its content although its kind looks for something else.
    pub fn unidentified(&self) -> Option<&str> {
        // Most say their rule alone, which is shorter.
        if self.identity.len() < WANTING.len() {
            return None;
        }
        self.identity.split_once(WANTING).map(|(_, why)| why)
    }
}

/// What stands between the rule that an event was identified by and why none of its kind's did.
pub(crate) const WANTING: &str = " for want of another: ";

/// What becomes of other content under a key that is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// It is kept beside the first, for a person to decide.
    #[default]
    Keep,
    /// It is kept, and dispatched as an event of its own.
    Dispatch,
}

/// One state of one object at the sender.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectVersion {
    /// The object's id, unique within its provider.
    pub object: String,
    /// Goes up with each change.
    pub version: i64,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The lower-case word used in tables, API, metrics and console alike.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
            /// The value of a stored word; `None` for a word of a newer version.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
    };
}

words! {
    /// What admission found for one event.
    Outcome {
        /// New: its effects' intents are on disk.
        Accepted = "accepted",
        /// New and kept, but its id or shape could not be read; nothing was dispatched.
        Unreadable = "unreadable",
        /// Known id, or known signed text, with other content: kept beside the first one, which stands.
        Conflict = "conflict",
        /// The same signed bytes under another, unsigned id: recorded, not dispatched.
        Replayed = "replayed",
        /// Older than what was already seen of the same object; kept, not dispatched.
        Superseded = "superseded",
        /// Known: nothing changed.
        Duplicate = "duplicate",
    }
}

impl Outcome {
    /// The outcome a request of several events answers with: the one earliest in [`Outcome::ALL`].
    pub fn strongest(outcomes: impl IntoIterator<Item = Self>) -> Option<Self> {
        outcomes.into_iter().min_by_key(|outcome| *outcome as u8)
    }
}

words! {
    /// Where an event stands (`processed_webhook_events.state`).
    EventState {
        /// Handled; its effects are in the outbox.
        Done = "done",
        /// No handler or route wanted it, or a handler said so.
        Ignored = "ignored",
        /// A handler failed for now; dispatched again at `due_at_ms`.
        Retry = "retry",
        /// A handler refused it for good, or retries ran out.
        Failed = "failed",
        /// Older than what was seen of its object.
        Superseded = "superseded",
        /// Same signed bytes as an earlier event, under another unsigned id.
        Replayed = "replayed",
        /// Its id or shape could not be read.
        Unreadable = "unreadable",
        /// Other content under the id of another event, kept for a person's word.
        Conflict = "conflict",
        /// A conflict that a person looked at and wants nothing done about.
        Dismissed = "dismissed",
    }
}

words! {
    /// Where a message stands (`outbox_queue.state`, and `outbox_finished.state` once it is done or discarded).
    MessageState {
        /// Waits until `visible_at_ms`.
        Ready = "ready",
        /// Behind another message of its lane.
        Waiting = "waiting",
        /// Held by one worker until `visible_at_ms`.
        Leased = "leased",
        /// The destination confirmed it.
        Done = "done",
        /// Given up: refused for good, or attempts or age ran out.
        Dead = "dead",
        /// Waits for a person's word.
        Held = "held",
        /// A person said that it shall not be sent.
        Discarded = "discarded",
    }
}

words! {
    /// How one attempt of a message ended (`outbox_attempts.result`).
    AttemptResult {
        /// The destination confirmed it.
        Done = "done",
        /// Surely not done; may be tried again.
        Retry = "retry",
        /// Refused for good.
        Refused = "refused",
        /// Sent, but nobody knows whether it took effect.
        Unknown = "unknown",
        /// Not sent: handed back at shutdown.
        Released = "released",
    }
}

/// `Err(why)` when `text` may not go into a text column: empty, longer than [`TEXT_BYTES_MAX`], or with
/// control characters (both databases must give the same answer; PostgreSQL refuses NUL).
pub fn stored_text(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("is {} bytes long, the limit is {TEXT_BYTES_MAX}", text.len()));
    }
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(format!("contains the control character U+{:04X}", u32::from(control)));
    }
    Ok(())
}

/// Longest content type that is kept and sent on, in bytes.
const MEDIA_TYPE_BYTES_MAX: usize = 128;
/// What is said of bytes whose own content type says nothing that can be relied on.
const MEDIA_TYPE_UNKNOWN: &str = "application/octet-stream";

/// A `Content-Type` of a stranger as it may be kept and sent on: as it is when it is a media type with or without
/// parameters (RFC 9110, 8.3) of bounded length, else that of any bytes.
pub(crate) fn media_type(text: &str) -> &str {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let is_parameter = |text: &str| {
        let Some((name, value)) = text.trim().split_once('=') else { return false };
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let is_plain = |b: u8| (b' '..=b'~').contains(&b) && !b"\"\\".contains(&b);
        is_token(name) && quoted.map_or_else(|| is_token(value), |quoted| quoted.bytes().all(is_plain))
    };
    let mut parts = text.split(';');
    let essence = parts.next().unwrap_or_default().trim().split_once('/');
    let is_good = text.len() <= MEDIA_TYPE_BYTES_MAX
        && essence.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && parts.all(is_parameter);
    if is_good { text } else { MEDIA_TYPE_UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_media_type_of_bounded_length_is_kept_of_a_content_type() {
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "application/vnd.api+json;profile=\"a b\"",
            "multipart/form-data; boundary=----x",
        ] {
            assert_eq!(media_type(good), good);
        }
        let long = format!("a/{}", "b".repeat(200));
        for bad in [
            "",
            "json",
            "a/b/c",
            "a/",
            "a b/c",
            "a/b; x",
            "a/b; x=\u{fc}",
            "a/b\r\nx: y",
            "a/b;",
            "a/b; x=\"y",
            &long,
        ] {
            assert_eq!(media_type(bad), MEDIA_TYPE_UNKNOWN, "{bad:?}");
        }
    }

    #[test]
    fn names_are_short_and_plain() {
        for good in ["stripe", "stripe_test", "a", "acme-2", &"x".repeat(64)] {
            assert!(Name::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "Stripe", "a b", "a/b", "ü", &"x".repeat(65)] {
            assert!(Name::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_for_columns_is_bounded_and_without_control_characters() {
        assert_eq!(stored_text(&"x".repeat(255)), Ok(()));
        for bad in ["", "a\0b", "a\nb", &"x".repeat(256)] {
            assert!(stored_text(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn shard_never_changes_because_rows_carry_it() {
        let key =
            |id: &str| EventKey { provider: Name::parse("stripe").expect("a name"), event_id: id.to_owned() };
        assert_eq!(["evt_1", "evt_2", "evt_3"].map(|id| key(id).shard()), [657, 376, 811]);
    }

    #[test]
    fn strongest_outcome_of_a_batch_is_the_newest_news() {
        use Outcome::*;
        assert_eq!(Outcome::strongest([Duplicate, Accepted, Conflict]), Some(Accepted));
        assert_eq!(Outcome::strongest([Duplicate, Superseded]), Some(Superseded));
        assert_eq!(Outcome::strongest([]), None);
    }
}
