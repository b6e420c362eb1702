//! The target of a destination's messages, and their form. The kinds of destinations are not known here:
//! `outbox/destinations` reads their keys and is the only one to look into a [`Target`].

use std::collections::BTreeMap;

use super::secret::Secret;

/// The place that messages go to, in the words of one kind of destination.
#[derive(Debug, Clone)]
pub struct Target {
    kind: &'static str,
    url: Secret,
    values: BTreeMap<&'static str, String>,
}

impl Target {
    /// Calls over HTTP, to the destination's `url`.
    pub fn http() -> Self {
        Self::new("http", Secret::new(""))
    }

    /// A destination of this kind; no url of a broker is ever shown, since it may hold a password.
    pub(crate) fn new(kind: &'static str, url: Secret) -> Self {
        Self { kind, url, values: BTreeMap::new() }
    }

    /// The same, with the value of a key that belongs to its kind.
    pub(crate) fn with(mut self, key: &'static str, value: String) -> Self {
        self.values.insert(key, value);
        self
    }

    /// Name of the kind of destination: `http`, `nats`, ….
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The url of what is not called over HTTP.
    pub(crate) fn url(&self) -> &Secret {
        &self.url
    }

    /// The value of a key that belongs to its kind; empty when it is absent.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }
}

/// The form in which a message reaches its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The body as it is; what else is known of it in headers, where the destination has them.
    Raw,
    /// `CloudEvents` 1.0, structured: one JSON document.
    CloudEvents,
}
