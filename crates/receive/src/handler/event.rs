//! The event: as a handler sees it, and as dispatch does before a handler's own type is known.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, Error};

use hooklatch_core::json::{PointerTarget, find};
use hooklatch_core::types::{Name, UnixMs};
use hooklatch_verify::read::covered_header;

/// An event as a handler sees it.
#[derive(Debug, Clone)]
pub struct Event<T> {
    /// The configured provider of the request.
    pub provider: Name,
    /// The provider's own id; with `provider` it names the event permanently.
    pub id: String,
    /// The provider's word for what happened, such as `invoice.paid`.
    pub event_type: String,
    /// The part of the envelope that the kind's `payload` pointer names: `hooklatch providers KIND` shows it. With
    /// `payload = ""` in the configuration, the whole envelope.
    pub payload: T,
    /// The whole text that the event was read from, parsed when you ask for it.
    pub envelope: Envelope,
    /// The request's headers that the kind lists and its signature covers.
    pub headers: Headers,
    /// Arrival of the first copy. Milliseconds since 1970, UTC.
    pub received_at_ms: UnixMs,
    /// Number of this dispatch: 1 at admission, one more at each retry.
    pub attempt_n: u32,
}

/// The JSON text that an event was read from: the request's body as it was signed; of a request with several events,
/// the element that is this event; of a form or an encrypted body, the JSON text in it. Nothing is parsed until you ask.
#[derive(Debug, Clone, Default)]
pub struct Envelope(Bytes);

impl Envelope {
    /// An envelope with this value as JSON, for tests of handlers.
    pub fn of(value: impl Serialize) -> Self {
        Self(serde_json::to_vec(&value).unwrap_or_default().into())
    }

    pub(crate) fn new(text: Bytes) -> Self {
        Self(text)
    }

    /// The text, byte for byte.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Parses the whole envelope.
    pub fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.0)
    }

    /// Parses the value at this JSON pointer alone (`/livemode`), whatever else there is and however large. An error when
    /// it is missing, is there twice, or has another type.
    pub fn at<T: DeserializeOwned>(&self, pointer: &str) -> serde_json::Result<T> {
        let why = match find(&self.0, pointer) {
            PointerTarget::One(raw) => return serde_json::from_slice(raw),
            PointerTarget::Missing => "is missing",
            PointerTarget::Doubled => "is there twice",
            PointerTarget::NotJson => "cannot be found: the envelope is not JSON",
        };
        Err(serde_json::Error::custom(format!("envelope: {pointer} {why}")))
    }
}

/// Headers of an event's request: those that its kind lists under `headers` and its signature covers. A stranger could
/// have written what no signature covers, so it is not here.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// A JSON object of the headers that are kept, secrets blanked.
    kept: Arc<str>,
    /// The names that may be read, in lower case.
    names: Arc<[String]>,
}

impl Headers {
    /// These headers, for tests of handlers.
    pub fn of<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let headers: serde_json::Map<_, _> =
            headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.into())).collect();
        let names = headers.keys().cloned().collect();
        Self::new(serde_json::Value::Object(headers).to_string().into(), names)
    }

    pub(crate) fn new(kept: Arc<str>, names: Arc<[String]>) -> Self {
        Self { kept, names }
    }

    /// The value of a header, by its name in any letter case; `None` when the request had none, or its kind does not
    /// list it.
    pub fn get(&self, name: &str) -> Option<String> {
        let name = self.names.iter().find(|known| known.eq_ignore_ascii_case(name))?;
        covered_header(&self.kept, name)
    }

    /// Those that the request had, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, String)> {
        self.names.iter().filter_map(|name| Some((name.as_str(), covered_header(&self.kept, name)?)))
    }
}

/// The texts of an event that its handlers, routes and templates read.
#[derive(Debug, Clone, Default)]
pub struct EventContent {
    /// JSON text of what the spec's `payload` points at.
    #[doc(hidden)]
    pub payload: Bytes,
    /// The whole text.
    #[doc(hidden)]
    pub envelope: Envelope,
    /// Headers of its request.
    #[doc(hidden)]
    pub headers: Headers,
}

/// An event as dispatch sees it, before a handler's own type is known.
#[derive(Debug, Clone)]
pub struct RawEvent {
    /// Name of the configured provider.
    #[doc(hidden)]
    pub provider: Name,
    /// The provider's own id of it.
    #[doc(hidden)]
    pub event_id: String,
    /// The provider's word for what happened.
    #[doc(hidden)]
    pub event_type: String,
    /// JSON text of what the spec's `payload` points at.
    #[doc(hidden)]
    pub payload: Bytes,
    /// The whole text.
    #[doc(hidden)]
    pub envelope: Envelope,
    /// Headers of its request.
    #[doc(hidden)]
    pub headers: Headers,
    /// Arrival of the first copy. Milliseconds since 1970, UTC.
    #[doc(hidden)]
    pub received_at_ms: UnixMs,
    /// Number of this dispatch: 1 at admission, one more at each retry.
    #[doc(hidden)]
    pub attempt_n: u32,
    /// What was parsed of it for transactional handlers before their transaction began.
    #[doc(hidden)]
    pub ahead: ParsedAhead,
}

/// Events that were parsed ahead, one for each transactional handler, in the types that those take.
#[derive(Clone, Default)]
pub struct ParsedAhead(Arc<Mutex<Vec<Box<dyn Any + Send>>>>);

impl std::fmt::Debug for ParsedAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ParsedAhead")
    }
}

impl ParsedAhead {
    fn all(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RawEvent {
    /// Parses it as `T` now, for a later [`RawEvent::take_typed`]. What does not parse is not kept: its handler says so.
    pub(super) fn parse_ahead<T: DeserializeOwned + Send + 'static>(&self) {
        if let Ok(event) = self.typed::<T>() {
            self.ahead.all().push(Box::new(event));
        }
    }

    /// The same event with its payload read as a handler wants it: as it was parsed ahead, if it was.
    pub(super) fn take_typed<T: DeserializeOwned + Send + 'static>(&self) -> serde_json::Result<Event<T>> {
        let parsed = {
            let mut all = self.ahead.all();
            all.iter().position(|one| one.is::<Event<T>>()).map(|n| all.swap_remove(n))
        };
        match parsed.and_then(|parsed| parsed.downcast().ok()) {
            Some(event) => Ok(*event),
            None => self.typed(),
        }
    }

    /// The same event with its payload read as a handler wants it.
    #[doc(hidden)]
    pub fn typed<T: DeserializeOwned>(&self) -> serde_json::Result<Event<T>> {
        Ok(Event {
            provider: self.provider.clone(),
            id: self.event_id.clone(),
            event_type: self.event_type.clone(),
            payload: serde_json::from_slice(&self.payload)?,
            envelope: self.envelope.clone(),
            headers: self.headers.clone(),
            received_at_ms: self.received_at_ms,
            attempt_n: self.attempt_n,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static PARSED_N: AtomicU32 = AtomicU32::new(0);

    struct Counted;

    impl<'de> serde::Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            PARSED_N.fetch_add(1, Ordering::Relaxed);
            serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
        }
    }

    #[test]
    fn what_was_parsed_ahead_is_not_parsed_again() {
        let event = RawEvent {
            provider: Name::parse("p").expect("a name"),
            event_id: "e".to_owned(),
            event_type: "t".to_owned(),
            payload: Bytes::from_static(b"{}"),
            envelope: Envelope::default(),
            headers: Headers::default(),
            received_at_ms: 0,
            attempt_n: 1,
            ahead: ParsedAhead::default(),
        };
        event.parse_ahead::<Counted>();
        event.parse_ahead::<u8>();
        assert!(event.take_typed::<Counted>().is_ok());
        assert_eq!(PARSED_N.load(Ordering::Relaxed), 1);
        assert!(event.take_typed::<Counted>().is_ok() && event.take_typed::<u8>().is_err());
        assert_eq!(PARSED_N.load(Ordering::Relaxed), 2, "once for each handler");
    }
}
