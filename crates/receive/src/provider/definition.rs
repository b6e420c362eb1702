//! [`Provider`]: a kind with what we do about its events, as a kind's module and a user's program build it.

use std::borrow::Cow;
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

/// Signing that no spec can say; `None` in [`KindCode`] means the spec's scheme.
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

/// Code beside a spec, for what no spec can say.
#[derive(Clone, Copy, Default)]
pub struct KindCode {
    pub(crate) verify: Option<VerifyFn>,
    pub(super) sign: Option<SignFn>,
    pub(super) handshake: Option<HandshakeFn>,
    pub(crate) open: Option<OpenFn>,
    pub(super) answer: Option<AnswerFn>,
}

/// A provider kind with what we do about its events.
#[derive(Clone)]
pub struct Provider {
    pub(crate) spec: Result<Arc<Spec>, KindError>,
    pub(crate) handlers: Handlers,
    pub(crate) code: KindCode,
    pub(super) samples: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    pub(crate) mistakes: Vec<Mistake>,
}

impl Provider {
    /// Starts from the text of a `provider.toml`. A mistake in it is reported by the start of the app and by
    /// `hooklatch check`.
    pub fn from_spec(toml: &str) -> Self {
        Self::new(Spec::parse(toml).map(Arc::new).map_err(KindError::Spec))
    }

    /// Starts from a spec that was read when the program started.
    pub(crate) fn of_spec(spec: Spec) -> Self {
        Self::new(Ok(Arc::new(spec)))
    }

    /// A kind that cannot be used, so that the start and `check` say why.
    pub(crate) fn unusable(error: KindError) -> Self {
        Self::new(Err(error))
    }

    fn new(spec: Result<Arc<Spec>, KindError>) -> Self {
        Self {
            spec,
            handlers: Handlers::default(),
            code: KindCode::default(),
            samples: Vec::new(),
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
        self.code.verify = Some(verify);
        self
    }

    /// Sample events for `sign` and `send`: type and JSON text.
    #[must_use]
    pub fn samples(mut self, samples: &'static [(&'static str, &'static str)]) -> Self {
        self.samples =
            samples.iter().map(|(event_type, text)| ((*event_type).into(), (*text).into())).collect();
        self
    }

    fn with(mut self, pattern: &str, add: impl FnOnce(&mut Handlers, TypePattern)) -> Self {
        match TypePattern::parse(pattern) {
            Ok(pattern) => add(&mut self.handlers, pattern),
            Err(why) => self.mistakes.push(said("", why)),
        }
        self
    }
}

/// Code of single built-in kinds: `use hooklatch::kind::prelude::*` has it, and no contract.
pub trait WithCode: Sized {
    /// This kind with other code.
    #[must_use]
    fn with_code(self, change: impl FnOnce(&mut KindCode)) -> Self;

    /// Signs with code, for kinds whose signature is inside the body.
    #[must_use]
    fn sign_with(self, sign: SignFn) -> Self {
        self.with_code(|code| code.sign = Some(sign))
    }

    /// Answers handshakes with code, before anything is verified.
    #[must_use]
    fn handshake_with(self, answer: HandshakeFn) -> Self {
        self.with_code(|code| code.handshake = Some(answer))
    }

    /// Opens verified bodies with code before events are read from them; what it cannot open is kept as unreadable.
    /// The body is stored as received.
    #[must_use]
    fn open_with(self, open: OpenFn) -> Self {
        self.with_code(|code| code.open = Some(open))
    }

    /// Makes the body of `[answer]` with code, after the commit. Status and content type are what `[answer]` says.
    #[must_use]
    fn answer_with(self, answer: AnswerFn) -> Self {
        self.with_code(|code| code.answer = Some(answer))
    }
}

impl WithCode for Provider {
    fn with_code(mut self, change: impl FnOnce(&mut KindCode)) -> Self {
        change(&mut self.code);
        self
    }
}
