//! A kind with its handlers, and the same made ready with an operator's configuration.
//!
//! [`Provider`] is what a kind's `mod.rs` builds. [`ActiveProvider`] is one `[providers.NAME]`: it verifies,
//! reads and dispatches. Neither does I/O.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde::de::DeserializeOwned;

use crate::handler::{Event, Handled, Handlers, TxHandler, TypePattern};
use crate::spec::{Spec, SpecError};
use crate::types::{IncomingEvent, Name, UnixMs};
use crate::verify::{Keys, RawRequest, Verified, VerifyError};

/// Verification that no spec can say: which of the keys signed the request, or why it is not believed.
/// Gives back the index of the secret that matched.
pub type VerifyFn = fn(&RawRequest, &Keys) -> Result<usize, VerifyError>;

/// A provider kind with what we do about its events.
#[derive(Clone)]
pub struct Provider {
    spec: Result<Arc<Spec>, SpecError>,
    handlers: Handlers,
    verify_with: Option<VerifyFn>,
    mistakes: Vec<String>,
}

impl Provider {
    /// Starts from the text of a `provider.toml`. A mistake in it is reported when the app is built.
    pub fn from_spec(toml: &str) -> Self {
        Self {
            spec: Spec::parse(toml).map(Arc::new),
            handlers: Handlers::default(),
            verify_with: None,
            mistakes: Vec::new(),
        }
    }

    /// Takes events whose type fits `pattern` (a type, `prefix.*` or `*`) with a plain handler.
    #[must_use]
    pub fn on<T, F>(mut self, pattern: &str, handler: F) -> Self
    where
        T: DeserializeOwned,
        F: Fn(Event<T>) -> Handled + Send + Sync + 'static,
    {
        if let Some(pattern) = self.pattern(pattern) {
            self.handlers.add_plain(pattern, false, handler);
        }
        self
    }

    /// As [`Provider::on`], for the newest version of an object only.
    #[must_use]
    pub fn on_latest<T, F>(mut self, pattern: &str, handler: F) -> Self
    where
        T: DeserializeOwned,
        F: Fn(Event<T>) -> Handled + Send + Sync + 'static,
    {
        if let Some(pattern) = self.pattern(pattern) {
            self.handlers.add_plain(pattern, true, handler);
        }
        self
    }

    /// Takes events with an `async fn(&mut Tx, Event<T>) -> Handled` that writes the user's own tables in
    /// the transaction that admits the event.
    #[must_use]
    pub fn on_tx<T, H>(mut self, pattern: &str, handler: H) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        H: for<'a> TxHandler<'a, T> + 'static,
    {
        if let Some(pattern) = self.pattern(pattern) {
            self.handlers.add_transactional(pattern, false, handler);
        }
        self
    }

    /// Verifies with code instead of the spec's scheme (`scheme = "code"`).
    #[must_use]
    pub fn verify_with(mut self, verify: VerifyFn) -> Self {
        self.verify_with = Some(verify);
        self
    }

    fn pattern(&mut self, text: &str) -> Option<TypePattern> {
        TypePattern::parse(text)
            .map_err(|mistake| self.mistakes.push(mistake))
            .ok()
    }
}
