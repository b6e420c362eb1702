//! [`Provider`]: a kind with what we do about its events, as a kind's module and a user's program build it.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::active::said;
use crate::handler::{Event, Handled, Handlers, TxHandler};
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::types::TypePattern;
use hooklatch_verify::spec::{Spec, SpecError};
use hooklatch_verify::{Keys, RawRequest, Reply, SignAt, SignError, Signed, Verified, VerifyFn};

/// The reason why a kind cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// Its `provider.toml` cannot be used.
    #[error(transparent)]
    Spec(SpecError),
    /// No built-in kind has the name that the program asked for.
    #[error("no built-in kind is called `{name}`; {}", remedy(*.nearest))]
    NoSuchKind {
        /// Name that was asked for.
        name: String,
        /// Built-in kind that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The program brings two kinds of one name along: the handlers of one of them would never run.
    #[error(
        "two kinds are called `{name}`, and the handlers of one of them would never run; put all handlers on one: \
         `kind(\"{name}\").on(…).on(…)`"
    )]
    Twice {
        /// Name that both of them have.
        name: String,
    },
}

impl KindError {
    /// Name of the kind; `?` when its spec does not say.
    pub fn kind(&self) -> &str {
        match self {
            Self::Spec(error) => &error.kind,
            Self::NoSuchKind { name, .. } | Self::Twice { name } => name,
        }
    }
}

fn remedy(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "`hooklatch providers` lists those that there are".to_owned(),
        |near| format!("did you mean `{near}`?"),
    )
}

/// Sample events: type and JSON text; built in, or read when the program starts.
#[derive(Debug, Clone)]
pub(super) enum Samples {
    BuiltIn(&'static [(&'static str, &'static str)]),
    Read(Arc<[(String, String)]>),
}

impl Samples {
    pub(crate) fn list(&self) -> Vec<(&str, &str)> {
        match self {
            Self::BuiltIn(list) => list.to_vec(),
            Self::Read(list) => list.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
        }
    }
}

/// Signing that no spec can say; `None` in [`Provider::sign_with`] means the spec's scheme.
pub type SignFn = fn(&Keys, &[u8], &SignAt) -> Result<Signed, SignError>;

/// An answer to a handshake that no spec can say; `None` when the request is not a handshake.
pub type HandshakeFn = fn(&RawRequest, &Keys) -> Option<Reply>;

/// Decodes a verified body into the JSON text that events are read from, where no pointer leads to what matters: by
/// decrypting a part of it, or from another format. The error says why it cannot.
pub type OpenFn = fn(&Keys, &[u8]) -> Result<Vec<u8>, String>;

/// The body of the answer to a request whose events were committed, where the sender wants it computed or signed;
/// `None` leaves the body that `[answer]` has. The same for a new event and for a copy. It runs beside what else is
/// served, and does no I/O.
pub type AnswerFn = fn(&Verified, &Keys) -> Option<String>;

/// A provider kind with what we do about its events.
#[derive(Clone)]
pub struct Provider {
    pub(crate) spec: Result<Arc<Spec>, KindError>,
    #[doc(hidden)]
    pub handlers: Handlers,
    pub(crate) verify_with: Option<VerifyFn>,
    pub(super) sign_with: Option<SignFn>,
    pub(super) handshake_with: Option<HandshakeFn>,
    pub(crate) open_with: Option<OpenFn>,
    pub(super) answer_with: Option<AnswerFn>,
    samples: Samples,
    pub(crate) mistakes: Vec<Mistake>,
}

impl Provider {
    /// Starts from the text of a `provider.toml`. A mistake in it is reported by the start of the app and by
    /// `hooklatch check`.
    pub fn from_spec(toml: &str) -> Self {
        Self::new(Spec::parse(toml).map(Arc::new).map_err(KindError::Spec))
    }

    /// A kind that cannot be used, so that the start and `check` say why.
    pub(crate) fn unusable(error: KindError) -> Self {
        Self::new(Err(error))
    }

    /// Starts from a spec that was read when the program started, with its sample events: type and JSON text.
    #[doc(hidden)]
    pub fn read(spec: Spec, samples: Vec<(String, String)>) -> Self {
        Self { samples: Samples::Read(samples.into()), ..Self::new(Ok(Arc::new(spec))) }
    }

    fn new(spec: Result<Arc<Spec>, KindError>) -> Self {
        Self {
            spec,
            handlers: Handlers::default(),
            verify_with: None,
            sign_with: None,
            handshake_with: None,
            open_with: None,
            answer_with: None,
            samples: Samples::BuiltIn(&[]),
            mistakes: Vec::new(),
        }
    }

    /// Takes events whose type fits `pattern` (a type, `prefix.*` or `*`) with a plain handler.
    #[must_use]
    pub fn on<T, F>(self, pattern: &str, handler: F) -> Self
    where
        T: DeserializeOwned,
        F: Fn(Event<T>) -> Handled + Send + Sync + 'static,
    {
        self.with(pattern, |handlers, pattern| handlers.add_plain(pattern, false, handler))
    }

    /// Takes events as [`Provider::on`] does, for the newest version of an object only.
    #[must_use]
    pub fn on_latest<T, F>(self, pattern: &str, handler: F) -> Self
    where
        T: DeserializeOwned,
        F: Fn(Event<T>) -> Handled + Send + Sync + 'static,
    {
        self.with(pattern, |handlers, pattern| handlers.add_plain(pattern, true, handler))
    }

    /// Takes events with an `async fn(&mut Tx, Event<T>) -> Handled` that writes the user's own tables in
    /// the transaction that admits the event.
    #[must_use]
    pub fn on_tx<T, H>(self, pattern: &str, handler: H) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        H: for<'a> TxHandler<'a, T> + 'static,
    {
        self.with(pattern, |handlers, pattern| handlers.add_transactional(pattern, false, handler))
    }

    /// Verifies with code instead of a named scheme (`scheme = "code"`).
    #[must_use]
    pub fn verify_with(mut self, verify: VerifyFn) -> Self {
        self.verify_with = Some(verify);
        self
    }

    /// Signs with code, for kinds whose signature is inside the body.
    #[must_use]
    #[doc(hidden)]
    pub fn sign_with(mut self, sign: SignFn) -> Self {
        self.sign_with = Some(sign);
        self
    }

    /// Answers handshakes with code, before anything is verified.
    #[must_use]
    #[doc(hidden)]
    pub fn handshake_with(mut self, answer: HandshakeFn) -> Self {
        self.handshake_with = Some(answer);
        self
    }

    /// Opens believed bodies with code before events are read from them; what it cannot open is kept as unreadable.
    /// The body is stored as received.
    #[must_use]
    #[doc(hidden)]
    pub fn open_with(mut self, open: OpenFn) -> Self {
        self.open_with = Some(open);
        self
    }

    /// Makes the body of `[answer]` with code, after the commit. Status and content type are what `[answer]` says.
    #[must_use]
    #[doc(hidden)]
    pub fn answer_with(mut self, answer: AnswerFn) -> Self {
        self.answer_with = Some(answer);
        self
    }

    /// Sample events for `sign` and `send`: type and JSON text.
    #[must_use]
    pub fn samples(mut self, samples: &'static [(&'static str, &'static str)]) -> Self {
        self.samples = Samples::BuiltIn(samples);
        self
    }

    /// The kind's name; `?` when its spec does not say.
    #[doc(hidden)]
    pub fn kind(&self) -> &str {
        match &self.spec {
            Ok(spec) => &spec.kind,
            Err(error) => error.kind(),
        }
    }

    /// The spec, or the reason why there is none.
    #[doc(hidden)]
    pub fn spec(&self) -> Result<&Spec, &KindError> {
        self.spec.as_deref()
    }

    /// The spec, shared with those that keep it.
    #[doc(hidden)]
    pub fn shared_spec(&self) -> Result<Arc<Spec>, String> {
        self.spec.as_ref().map(Arc::clone).map_err(ToString::to_string)
    }

    /// The handlers of the program's own code; routes are not among them.
    #[doc(hidden)]
    pub fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    /// The sample event of this type, or which types there are.
    #[doc(hidden)]
    pub fn sample(&self, event_type: &str) -> anyhow::Result<&str> {
        let samples = self.samples.list();
        let found = samples.iter().find(|(known, _)| *known == event_type).map(|(_, text)| *text);
        found.ok_or_else(|| {
            let known: Vec<&str> = samples.iter().map(|(known, _)| *known).collect();
            anyhow::anyhow!(
                "`{}` has no sample of type `{event_type}`; there are {}",
                self.kind(),
                known.join(", ")
            )
        })
    }

    /// The sample events: type and JSON text.
    #[doc(hidden)]
    pub fn sample_list(&self) -> Vec<(&str, &str)> {
        self.samples.list()
    }

    fn with(mut self, pattern: &str, add: impl FnOnce(&mut Handlers, TypePattern)) -> Self {
        match TypePattern::parse(pattern) {
            Ok(pattern) => add(&mut self.handlers, pattern),
            Err(why) => self.mistakes.push(said("", why)),
        }
        self
    }
}
