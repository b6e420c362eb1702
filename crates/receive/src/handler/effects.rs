//! The answer of a handler: the effects that it wants, which are messages, each to one destination; or why there are
//! none.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use hooklatch_core::types::{Name, stored_text};

/// The messages that follow from one event. Names are unique within an event; the default name is the
/// destination's.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) messages: Vec<Message>,
}

impl Effects {
    /// Starts without any message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one call: `POST body` as JSON to `destination`.
    #[must_use]
    pub fn call(self, destination: &str, body: impl Serialize) -> Self {
        self.message(Message::to(destination).json(body))
    }

    /// Adds one call that carries the event's own bytes, as the provider sent them.
    #[must_use]
    pub fn forward(self, destination: &str) -> Self {
        self.message(Message::to(destination))
    }

    /// Adds one message, as [`Message::to`] begins it.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    pub(crate) fn messages_mut(&mut self) -> &mut [Message] {
        &mut self.messages
    }

    /// The messages in the order they were added, to be written.
    pub(crate) fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// The messages in the order they were added.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}

/// One call to make. Frozen at admission: every attempt sends the same bytes under the same key.
#[derive(Debug)]
pub struct Message {
    /// Name of the destination that it goes to: `[destinations.NAME]`.
    pub destination: String,
    /// Name of the effect, unique within the event; part of the idempotency key.
    pub(crate) name: String,
    /// HTTP method of the call; `POST` unless set.
    pub(crate) method: String,
    /// Path that is appended to the destination's URL; empty unless set.
    pub(crate) path: String,
    /// Extra headers, sorted by name.
    pub(crate) headers: BTreeMap<String, String>,
    /// `None` sends the event's own bytes.
    pub body: Option<Bytes>,
    /// Name of its lane; none unless set.
    pub(crate) lane: Option<String>,
    /// A mistake made while building, reported when the handler returns.
    mistake: Option<String>,
}

impl Message {
    /// A message to `destination` that carries the event's own bytes until [`Message::json`] or
    /// [`Message::body`] say otherwise.
    pub fn to(destination: &str) -> Self {
        Self {
            destination: destination.to_owned(),
            name: destination.to_owned(),
            method: "POST".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: None,
            lane: None,
            mistake: None,
        }
    }

    /// Names the effect, for a second call to the same destination.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the body as JSON, with its content type.
    #[must_use]
    pub fn json(mut self, body: impl Serialize) -> Self {
        match serde_json::to_vec(&body) {
            Ok(bytes) => self.body = Some(bytes.into()),
            Err(error) => self.mistake = Some(format!("body of `{}` is not JSON: {error}", self.name)),
        }
        self.header("content-type", "application/json")
    }

    /// Sets the body as it is; set a `content-type` header with it.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets another method than `POST`.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    /// Sets a path below the destination's URL.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Puts it into a lane: messages of one lane of a destination go out in order, one at a time. 1 to 255
    /// bytes; the id of a customer or an account as a rule.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = Some(lane.into());
        self
    }

    /// Adds a header. `Idempotency-Key` and `Host` are not yours to set.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_ascii_lowercase(), value.to_owned());
        self
    }

    /// `Err(why)` when this message could not be stored or sent as it is.
    pub(crate) fn checked(&self) -> Result<(), String> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        Name::parse(&self.destination).map_err(|error| format!("destination {error}"))?;
        stored_text(&self.name).map_err(|why| format!("effect name {why}"))?;
        if let Some(lane) = &self.lane {
            stored_text(lane).map_err(|why| format!("lane {why}"))?;
        }
        http::Method::from_bytes(self.method.as_bytes())
            .map_err(|_| format!("`{}` is not a method", self.method))?;
        for (name, value) in &self.headers {
            let reserved =
                matches!(name.as_str(), "idempotency-key" | "host" | "content-length" | "connection");
            if reserved || http::HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(format!("header name `{name}` is reserved or not a header name"));
            }
            if http::HeaderValue::from_str(value).is_err() {
                return Err(format!("value of header `{name}` has characters a header cannot carry"));
            }
        }
        if !self.path.is_empty() && (!self.path.starts_with('/') || self.path.bytes().any(|b| b <= b' ')) {
            return Err(format!("path `{}` must start with `/` and have no spaces", self.path));
        }
        Ok(())
    }
}

/// The lane of a message, for a look at what handlers answer.
pub fn lane_of(message: &Message) -> Option<&str> {
    message.lane.as_deref()
}

/// The answer of a handler.
pub type Handled = Result<Effects, HandlerError>;

/// The reason why a handler did not answer with effects. The variant is the decision.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// Failed for now: the event is kept as `retry` and dispatched again with back-off.
    #[error("{0:#}")]
    Retry(#[from] anyhow::Error),
    /// The payload is not what the handler expects: kept as `failed`.
    #[error("payload does not fit the handler: {0}")]
    Payload(#[from] serde_json::Error),
    /// Refused for good: kept as `failed`.
    #[error("{0}")]
    Refused(String),
    /// Nothing to do: kept as `ignored`.
    #[error("{0}")]
    Ignore(&'static str),
}

/// Ends a handler with nothing to do; `why` is shown with the event.
pub fn ignore(why: &'static str) -> Handled {
    Err(HandlerError::Ignore(why))
}

/// Ends a handler for good: the event is kept as `failed` with `why` and not tried again by itself.
pub fn refuse(why: impl Into<String>) -> Handled {
    Err(HandlerError::Refused(why.into()))
}
