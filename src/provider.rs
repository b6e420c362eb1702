//! A kind with its handlers, and the same made ready with an operator's configuration.
//!
//! [`Provider`] is what a kind's `mod.rs` builds. [`ActiveProvider`] is one `[providers.NAME]`: it verifies,
//! reads and dispatches. Neither does I/O.

mod dev;
mod refusal;
mod sample;
mod verifier;

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::config::{KindSettings, ProviderConfig, Secret};
pub(crate) use dev::sample_line;
pub use dev::{dev_secret, filled_sample};
pub(crate) use dev::{dev_settings, published_mistakes};

use crate::handler::{Event, Handled, Handlers, TxHandler, TypePattern};
use crate::mistakes::Mistake;
use crate::read;
use crate::spec::{AnswerSpec, Spec, SpecError};
use crate::types::{IncomingEvent, Name};
use crate::verify::{
    self, DevKeys, KeySource, Keys, RawRequest, Reply, SignAt, SignError, Signed, Unbelieved, Unverified,
    Verified, VerifyError, VerifyFn,
};
use refusal::{of_key, said};
use sample::Samples;
use verifier::{ActiveOptions, Verifier};

/// Signing that no spec can say; `None` in [`Provider::sign_with`] means the spec's scheme.
pub type SignFn = fn(&Keys, &[u8], &SignAt) -> Result<Signed, SignError>;

/// An answer to a handshake that no spec can say; `None` when the request is none.
pub type HandshakeFn = fn(&RawRequest, &Keys) -> Option<Reply>;

/// Makes the JSON text that an event is read from of the one that came, where no pointer leads to what matters: by
/// decrypting a part of it, or from another format; or says why it cannot.
pub type OpenFn = fn(&Keys, &[u8]) -> Result<Vec<u8>, String>;

/// A provider kind with what we do about its events.
#[derive(Clone)]
pub struct Provider {
    spec: Result<Arc<Spec>, SpecError>,
    handlers: Handlers,
    verify_with: Option<VerifyFn>,
    sign_with: Option<SignFn>,
    handshake_with: Option<HandshakeFn>,
    open_with: Option<OpenFn>,
    samples: Samples,
    mistakes: Vec<Mistake>,
}

impl Provider {
    /// Starts from the text of a `provider.toml`. A mistake in it is reported when the app is built.
    pub fn from_spec(toml: &str) -> Self {
        Self::new(Spec::parse(toml).map(Arc::new))
    }

    /// Starts from a spec that was read when the program started, with its sample events: type and JSON text.
    pub(crate) fn read(spec: Spec, samples: Vec<(String, String)>) -> Self {
        Self { samples: Samples::Read(samples.into()), ..Self::new(Ok(Arc::new(spec))) }
    }

    fn new(spec: Result<Arc<Spec>, SpecError>) -> Self {
        Self {
            spec,
            handlers: Handlers::default(),
            verify_with: None,
            sign_with: None,
            handshake_with: None,
            open_with: None,
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

    /// As [`Provider::on`], for the newest version of an object only.
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
    pub fn sign_with(mut self, sign: SignFn) -> Self {
        self.sign_with = Some(sign);
        self
    }

    /// Answers handshakes with code, before anything is verified.
    #[must_use]
    pub fn handshake_with(mut self, answer: HandshakeFn) -> Self {
        self.handshake_with = Some(answer);
        self
    }

    /// Opens believed bodies with code before events are read from them; what it cannot open is kept as unreadable.
    /// The body is stored as it came.
    #[must_use]
    pub fn open_with(mut self, open: OpenFn) -> Self {
        self.open_with = Some(open);
        self
    }

    /// Sample events for `sign` and `send`: type and JSON text.
    #[must_use]
    pub fn samples(mut self, samples: &'static [(&'static str, &'static str)]) -> Self {
        self.samples = Samples::BuiltIn(samples);
        self
    }

    /// The kind's name; `?` when its spec cannot be read.
    pub fn kind(&self) -> &str {
        self.spec.as_ref().map_or("?", |spec| spec.kind.as_str())
    }

    /// The spec, or what is wrong with it.
    pub fn spec(&self) -> Result<&Spec, &SpecError> {
        self.spec.as_deref()
    }

    /// The spec, for who keeps it.
    pub(crate) fn shared_spec(&self) -> Result<Arc<Spec>, String> {
        self.spec.as_ref().map(Arc::clone).map_err(ToString::to_string)
    }

    /// The sample events: type and JSON text.
    pub fn sample_list(&self) -> Vec<(&str, &str)> {
        self.samples.list()
    }

    /// Makes one `[providers.NAME]` of it, or says all that is wrong.
    pub fn activate(
        &self,
        name: &Name,
        config: &ProviderConfig,
        public_url: &str,
    ) -> Result<ActiveProvider, Vec<Mistake>> {
        let spec = self.spec.as_ref().map_err(|error| vec![said("", error.to_string())])?;
        let mut mistakes = self.mistakes.clone();
        let mut handlers = self.handlers.clone();
        for route in &config.routes {
            for pattern in &route.on {
                handlers.add_route(pattern.clone(), route);
            }
        }
        let verifier = Verifier::new(spec, &config.secrets, &config.settings, config.is_unverified_accepted);
        let strong =
            verifier.as_ref().map_err(Clone::clone).and_then(|verifier| verifier.keys.check_strength(spec));
        mistakes.extend(strong.err().map(|error| of_key(spec, &error)));
        let options = ActiveOptions { on_conflict: config.on_conflict, types: config.types.clone() };
        match verifier {
            Ok(verifier) if mistakes.is_empty() => {
                let active = self.active(name, spec, (handlers, verifier), public_url);
                Ok(ActiveProvider { options, ..active.with_age(config.age) })
            }
            _ => Err(mistakes),
        }
    }

    /// Judges single requests with `secrets` however short: for published vectors and for `explain`. Settings
    /// that are not there are taken from the spec's examples.
    pub fn judge_with(&self, secrets: &[Secret], settings: &KindSettings) -> Result<ActiveProvider, String> {
        let spec = self.spec.as_ref().map_err(ToString::to_string)?;
        let mut settings = settings.clone();
        for setting in spec.setting.iter().filter(|setting| setting.needed) {
            if let Some(dev) = setting.dev.as_deref().filter(|_| !settings.has(&setting.name)) {
                settings.push(&setting.name, None, dev);
            }
        }
        let verifier = Verifier::new(spec, secrets, &settings, false).map_err(|error| error.to_string())?;
        let name = Name::parse(&spec.kind).map_err(|error| error.to_string())?;
        Ok(self.active(&name, spec, (self.handlers.clone(), verifier), "http://127.0.0.1:8080"))
    }

    /// As `serve --dev` has it: with the published secret and settings, and with `keys` where the kind's sender
    /// signs with a private key.
    pub fn dev(&self, keys: &DevKeys) -> Result<ActiveProvider, String> {
        let spec = self.spec.as_ref().map_err(ToString::to_string)?;
        let secrets = if spec.takes_secrets() { vec![Secret::new(dev_secret(spec))] } else { Vec::new() };
        let settings = dev_settings(spec, keys);
        let is_accepted = secrets.is_empty() && spec.signature.may_be_unsigned;
        let mut verifier =
            Verifier::new(spec, &secrets, &settings, is_accepted).map_err(|error| error.to_string())?;
        let sort = spec.setting.iter().find_map(|setting| setting.dev_key);
        verifier.keys = verifier.keys.with_signer(sort.and_then(|sort| keys.signing(sort)));
        let name = Name::parse(&spec.kind).map_err(|error| error.to_string())?;
        Ok(self.active(&name, spec, (self.handlers.clone(), verifier), "http://127.0.0.1:8080"))
    }

    fn active(
        &self,
        name: &Name,
        spec: &Arc<Spec>,
        (handlers, verifier): (Handlers, Verifier),
        public_url: &str,
    ) -> ActiveProvider {
        ActiveProvider {
            name: name.clone(),
            url: format!("{public_url}/webhooks/{name}"),
            spec: Arc::clone(spec),
            handlers,
            verifier,
            options: ActiveOptions::default(),
            verify_with: self.verify_with,
            sign_with: self.sign_with,
            handshake_with: self.handshake_with,
            open_with: self.open_with,
        }
    }

    fn with(mut self, pattern: &str, add: impl FnOnce(&mut Handlers, TypePattern)) -> Self {
        match TypePattern::parse(pattern) {
            Ok(pattern) => add(&mut self.handlers, pattern),
            Err(why) => self.mistakes.push(said("", why)),
        }
        self
    }
}

/// One `[providers.NAME]`, verifier.
#[derive(Clone)]
pub struct ActiveProvider {
    name: Name,
    url: String,
    spec: Arc<Spec>,
    handlers: Handlers,
    verifier: Verifier,
    options: ActiveOptions,
    verify_with: Option<VerifyFn>,
    sign_with: Option<SignFn>,
    handshake_with: Option<HandshakeFn>,
    open_with: Option<OpenFn>,
}

impl ActiveProvider {
    /// Its name in config, URL and tables.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// How its kind signs and shapes requests.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What is done about its events.
    pub fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    /// The URL to register with the sender.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Believes the request or says why not.
    pub fn verify(&self, request: RawRequest) -> Result<Verified, VerifyError> {
        self.believe(request).map_err(|unbelieved| unbelieved.why)
    }

    /// As [`ActiveProvider::verify`]; a request that is not believed comes back with the reason.
    pub fn believe(&self, request: RawRequest) -> Result<Verified, Box<Unbelieved>> {
        if let (Some(spec), Some(keys)) = (&self.spec.alternative, &self.verifier.alternative)
            && (spec.when_header.as_ref().is_some_and(|name| request.headers.contains_key(name))
                || spec.required_by.as_ref().is_some_and(|name| keys.settings().has(name)))
        {
            return verify::verify(spec, None, (keys, Unverified::Refuse), request);
        }
        let keys = (&self.verifier.keys, self.verifier.unverified);
        verify::verify(&self.spec.signature, self.verify_with, keys, request)
    }

    /// Its configured secrets, newest first.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.verifier.keys.secrets()
    }

    /// The headers of a request as they may be kept: a JSON object, secrets and signatures blanked.
    pub(crate) fn kept_headers(&self, headers: &http::HeaderMap) -> String {
        read::without_secrets(&read::kept_headers(&self.spec, headers), self.secrets())
    }

    /// Asks `source` for keys that no setting holds.
    #[must_use]
    pub fn with_key_source(mut self, source: Arc<dyn KeySource>) -> Self {
        self.verifier.keys = self.verifier.keys.with_source(source);
        self
    }

    /// The answer to a request that is a handshake and has no signature.
    pub fn handshake(&self, request: &RawRequest) -> Option<Reply> {
        let keys = &self.verifier.keys;
        let mut unsigned = self.spec.handshake.iter().filter(|handshake| !handshake.signed);
        let by_code = || self.handshake_with.and_then(|answer| answer(request, keys));
        unsigned.find_map(|handshake| verify::reply(handshake, keys, request)).or_else(by_code)
    }

    /// Whether a request of this method can be anything but an event.
    pub fn has_handshake(&self, method: &str) -> bool {
        let by_code = self.handshake_with.is_some() && method == "GET";
        by_code || self.spec.handshake.iter().any(|handshake| handshake.method == method)
    }

    /// The answer, when the believed request is the kind's challenge and nothing else.
    pub fn challenge(&self, verified: &Verified) -> Option<Reply> {
        let mut signed = self.spec.handshake.iter().filter(|handshake| handshake.signed);
        signed.find_map(|handshake| verify::reply(handshake, &self.verifier.keys, verified.request()))
    }

    /// The events of the request.
    pub fn read(&self, verified: &Verified) -> Vec<IncomingEvent> {
        self.read_at_most(verified, read::EVENTS_N_MAX)
    }

    /// As [`ActiveProvider::read`]; a request with more than `n_max` events is kept as one that cannot be read.
    pub(crate) fn read_at_most(&self, verified: &Verified, n_max: usize) -> Vec<IncomingEvent> {
        let by = read::ReadAs {
            name: &self.name,
            spec: &self.spec,
            types: &self.options.types,
            on_conflict: self.options.on_conflict,
            n_max,
        };
        read::read(by, verified, &|json| self.opened(json))
    }

    /// What the sender of a believed request wants to hear instead of our JSON.
    pub fn answer(&self, verified: &Verified) -> Option<&AnswerSpec> {
        read::answer(&self.spec, verified)
    }

    /// The payload of an event as it was stored, for another dispatch.
    pub fn payload_of(&self, kept_headers: &str, body: &Bytes) -> Result<Bytes, String> {
        read::payload_of(&self.spec, kept_headers, body, &|json| self.opened(json))
    }

    fn opened(&self, json: &Bytes) -> Result<Bytes, String> {
        match self.open_with {
            Some(open) => open(&self.verifier.keys, json).map(Bytes::from),
            None => Ok(json.clone()),
        }
    }

    /// Signs `body` as the sender would, with the newest secret.
    pub fn sign(&self, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
        match self.sign_with {
            Some(sign) => sign(&self.verifier.keys, body, at),
            None => verify::sign(&self.spec, &self.verifier.keys, body, at),
        }
    }
}
