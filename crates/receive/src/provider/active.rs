//! [`ActiveProvider`]: one `[providers.NAME]`. It verifies requests, reads events, and knows what is done about them.
//! It is made of a kind with an operator's configuration, for development, or to judge single requests.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::definition::{KindCode, KindError, Provider};
use super::dev::{dev_secret, dev_settings};
use crate::handler::{Envelope, EventContent, Handlers, Headers};
use hooklatch_core::config::{AgeConfig, KindSettings, ProviderConfig, Secret};
use hooklatch_core::json::{RedactedPaths, text_of};
use hooklatch_core::mistakes::{Mistake, shown};
use hooklatch_core::types::{IncomingEvent, Name, OnConflict, RedactedBody, TEST_EVENT, TypePattern};
use hooklatch_verify::spec::{AnswerSpec, EventMethod, SignatureSpec, Source, Spec};
use hooklatch_verify::{
    self as verify, DevKeys, KeyError, KeySource, Keys, KeysExt, RawRequest, RejectedRequest, Reply, SignAt,
    SignError, Signed, Unverified, Verified, VerifyError, read,
};

/// Remedy for a key or secret of another form than its kind wants.
pub(super) const CORRECT_IT: &str = "correct it; `hooklatch providers KIND` says what this kind needs";

/// A mistake of `key`, in the words of its error.
pub(crate) fn said(key: &str, why: impl Into<String>) -> Mistake {
    Mistake::said(key, why, CORRECT_IT)
}

/// The place of a key that cannot be used, and the remedy.
pub(super) fn of_key(spec: &Spec, error: &KeyError) -> Mistake {
    const MAKE_LONGER: &str = "have the sender make a longer one, or choose one: `openssl rand -hex 32`";
    match (error, &spec.signature.keys) {
        (KeyError::NoSetting(_), _) => said("", error.to_string()),
        (KeyError::NoPrivateKey { name }, _) => Mistake::said(
            format!("settings.{name}"),
            error.to_string(),
            "write { file = \"PATH\" } of the key whose public half the sender has, made by `openssl genrsa 2048`",
        ),
        (KeyError::SettingTooShort { name, .. }, _) | (KeyError::TooShort { .. }, Some(name)) => {
            Mistake::said(format!("settings.{name}"), error.to_string(), MAKE_LONGER)
        }
        (KeyError::TooShort { .. }, None) => Mistake::said("secrets", error.to_string(), MAKE_LONGER),
        _ => said("secrets", error.to_string()),
    }
}

/// Keys for the kind's signature, and for its alternative.
#[derive(Clone)]
pub(crate) struct Verifier {
    pub keys: Keys,
    pub alternative: Option<Keys>,
    pub unverified: Unverified,
}

impl Verifier {
    pub(crate) fn new(
        spec: &Spec,
        secrets: &[Secret],
        settings: &KindSettings,
        is_unverified_accepted: bool,
    ) -> Result<Self, KeyError> {
        // A kind that may be unsigned needs no key where the operator says so.
        let signature = if spec.signature.may_be_unsigned && secrets.is_empty() {
            &SignatureSpec { secrets_needed: false, ..spec.signature.clone() }
        } else {
            &spec.signature
        };
        let unverified = if is_unverified_accepted { Unverified::Accept } else { Unverified::Refuse };
        let alternative = spec.alternative.as_ref().map(|other| Keys::new(other, secrets, settings));
        Ok(Self {
            keys: Keys::new(signature, secrets, settings)?.with_own_key(spec)?,
            alternative: alternative.transpose()?,
            unverified,
        })
    }
}

/// The options of `[providers.NAME]` about events; empty where no operator was asked.
#[derive(Clone, Default)]
pub struct ActiveOptions {
    /// Decides what becomes of other content under an event's key; `None` leaves it to the kind.
    pub on_conflict: Option<OnConflict>,
    /// Patterns of the types that its sender was configured to send; empty for any.
    pub types: Vec<TypePattern>,
    /// Values that are not stored.
    pub redact: RedactedPaths,
    /// True when its events are not searched by the ids in them.
    pub(super) is_search_off: bool,
}

/// A configured provider, `[providers.NAME]`, that is ready for requests.
#[derive(Clone)]
pub struct ActiveProvider {
    pub name: Name,
    pub url: String,
    pub spec: Arc<Spec>,
    pub handlers: Handlers,
    /// Names of the headers that handlers see, in lower case.
    pub(super) header_names: Arc<[String]>,
    pub(crate) verifier: Verifier,
    pub options: ActiveOptions,
    pub(super) code: KindCode,
}

impl ActiveProvider {
    /// The name that it has in config, URL and tables.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The spec of its kind: how requests are signed and shaped.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The handlers and routes that take its events.
    pub fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    /// The URL to register with the sender.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Verifies the request, or returns why it is rejected.
    pub fn verify(&self, request: RawRequest) -> Result<Verified, VerifyError> {
        self.try_verify(request).map_err(|rejected| rejected.why)
    }

    /// Verifies like [`ActiveProvider::verify`]; a rejected request is returned with the reason.
    pub fn try_verify(&self, request: RawRequest) -> Result<Verified, Box<RejectedRequest>> {
        self.verify_by(&self.verifier.keys, request)
    }

    /// Verifies with `source` for keys that no setting holds.
    pub(crate) fn verify_with_source(
        &self,
        source: Arc<dyn KeySource>,
        request: RawRequest,
    ) -> Result<Verified, Box<RejectedRequest>> {
        self.verify_by(&self.verifier.keys.clone().with_source(source), request)
    }

    /// Verifies who signed the request, and then for which of the sender's customers.
    fn verify_by(&self, keys: &Keys, request: RawRequest) -> Result<Verified, Box<RejectedRequest>> {
        let verified = self.signed_by_sender(keys, request)?;
        match &self.spec.whose {
            Some(whose) => verified.of_own_account(whose, keys),
            None => Ok(verified),
        }
    }

    fn signed_by_sender(&self, keys: &Keys, request: RawRequest) -> Result<Verified, Box<RejectedRequest>> {
        let is_query = self.spec.method == EventMethod::Get && request.method == http::Method::GET;
        let request = if is_query { verify::with_query_as_body(request) } else { request };
        if let (Some(spec), Some(keys)) = (&self.spec.alternative, &self.verifier.alternative)
            && (spec.when_header.as_ref().is_some_and(|name| request.headers.contains_key(name))
                || spec.required_by.as_ref().is_some_and(|name| keys.settings().has(name)))
        {
            return verify::verify(spec, None, keys, Unverified::Refuse, request);
        }
        verify::verify(&self.spec.signature, self.code.verify, keys, self.verifier.unverified, request)
    }

    /// True when the headers alone say that a request will be rejected, whatever its body is: `request` has none. Only
    /// of kinds that sign in a header.
    pub fn rejects_by_headers(&self, request: RawRequest) -> bool {
        if self.spec.signatures().any(|one| one.headers.is_empty()) {
            return false;
        }
        match self.try_verify(request).map_err(|rejected| (rejected.why, rejected.request)) {
            Err((VerifyError::HeaderMissing(_) | VerifyError::HeaderRepeated(_), _)) => true,
            Err((VerifyError::Malformed { place, .. }, request)) => request.headers.contains_key(&place),
            _ => false,
        }
    }

    /// The configured secrets, newest first.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
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
        let by_code = || self.code.handshake.and_then(|answer| answer(request, keys));
        unsigned.find_map(|handshake| verify::reply(handshake, keys, request)).or_else(by_code)
    }

    /// True when a request of this method can be anything but an event.
    pub fn has_handshake(&self, method: &str) -> bool {
        let by_code = self.code.handshake.is_some() && method == "GET";
        by_code || self.spec.handshake.iter().any(|handshake| handshake.method == method)
    }

    /// The answer, when the believed request is the kind's challenge and nothing else.
    pub fn challenge(&self, verified: &Verified) -> Option<Reply> {
        let mut signed = self.spec.handshake.iter().filter(|handshake| handshake.signed);
        signed.find_map(|handshake| verify::reply(handshake, &self.verifier.keys, verified.request()))
    }

    /// False when `[accept]` of the kind, or the setting in its place, does not list the event's environment.
    fn is_accepted(&self, event: &[u8]) -> bool {
        let Some(accept) = &self.spec.accept else { return true };
        let Ok(environment) = text_of(event, &accept.json) else { return true };
        let settings = self.verifier.keys.settings();
        if settings.has(&accept.setting) {
            settings.all(&accept.setting).any(|one| one.value.reveal() == environment)
        } else {
            accept.values.contains(&environment)
        }
    }

    /// The events of the request.
    pub fn read(&self, verified: &Verified) -> Vec<IncomingEvent> {
        self.read_at_most(verified, read::EVENTS_N_MAX)
    }

    /// Reads as [`ActiveProvider::read`] does; a request with more than `n_max` events is kept as one that cannot be
    /// read.
    pub fn read_at_most(&self, verified: &Verified, n_max: usize) -> Vec<IncomingEvent> {
        let by = read::ReadAs {
            name: &self.name,
            spec: &self.spec,
            types: &self.options.types,
            on_conflict: self.options.on_conflict,
            n_max,
            has_search: !self.options.is_search_off,
        };
        let mut events = read::read(by, verified, &|json| self.opened(json));
        for event in &mut events {
            event.is_undispatched = !self.is_accepted(&event.envelope);
        }
        if !self.options.redact.is_empty() {
            for event in &mut events {
                let redacted = self.options.redact.redacted(&event.body);
                event.redacted =
                    redacted.map(|it| RedactedBody { body: it.text.into(), values_n: it.values_n });
                // It is unknown what is in a body that was replaced as a whole.
                if event.redacted.as_ref().is_some_and(|redacted| redacted.values_n == 0) {
                    event.search_ids.clear();
                }
            }
        }
        events
    }

    /// The answer that the sender of a believed request wants instead of our JSON, once its events are committed.
    pub fn answer(&self, verified: &Verified) -> Option<Cow<'_, AnswerSpec>> {
        let answer = read::answer(&self.spec, verified)?;
        match self.code.answer.and_then(|made| made(verified, &self.verifier.keys)) {
            Some(body) => Some(Cow::Owned(AnswerSpec { body, ..answer.into_owned() })),
            None => Some(answer),
        }
    }

    /// True when code makes the answer, which may take as long as a signature by a private key.
    pub(crate) fn computes_answers(&self) -> bool {
        self.code.answer.is_some()
    }

    /// What handlers see of an event of a request.
    pub fn content(&self, event: &IncomingEvent) -> EventContent {
        self.seen(event.payload.clone(), event.envelope.clone(), Arc::clone(&event.headers))
    }

    /// What handlers see of an event as it was stored, for another dispatch.
    pub fn stored_content(&self, kept_headers: &str, body: &Bytes) -> Result<EventContent, String> {
        let (payload, envelope) = read::stored(&self.spec, kept_headers, body, &|json| self.opened(json))?;
        Ok(self.seen(payload, envelope, kept_headers.into()))
    }

    fn seen(&self, payload: Bytes, envelope: Bytes, kept_headers: Arc<str>) -> EventContent {
        let headers = Headers::new(kept_headers, Arc::clone(&self.header_names));
        EventContent { payload, envelope: Envelope::new(envelope), headers }
    }

    fn opened(&self, json: &Bytes) -> Result<Bytes, String> {
        match self.code.open {
            Some(open) => open(&self.verifier.keys, json).map(Bytes::from),
            None => Ok(json.clone()),
        }
    }

    /// The events of a request without a sender: test events, whose content an operator chooses. Their ids are none
    /// that a sender can have.
    pub fn test_events(
        &self,
        body: &[u8],
        at: &SignAt,
        n_max: usize,
    ) -> Result<Vec<IncomingEvent>, SignError> {
        // A signature inside an encrypted body has to be there for the body to be read; most kinds can do without.
        let signed = self.sign(body, at).unwrap_or_else(|_| verify::unsigned(&self.spec, body, at));
        let verified = Verified::by_operator(signed.request(at)?, &at.id);
        let mut events = self.read_at_most(&verified, n_max);
        for (n, event) in events.iter_mut().enumerate() {
            let place = if n == 0 { String::new() } else { format!(":{n}") };
            event.key.event_id = format!("{TEST_EVENT}{}{place}", at.id);
            "operator/1".clone_into(&mut event.identity);
            (event.replay_key, event.window_ms, event.is_window_renewed) = (None, None, false);
            (event.on_conflict, event.renderings) = (OnConflict::Keep, None);
        }
        Ok(events)
    }

    /// Signs `body` as the sender would, with the newest secret.
    pub fn sign(&self, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
        match self.code.sign {
            Some(sign) => sign(&self.verifier.keys, body, at),
            None => verify::sign(&self.spec, &self.verifier.keys, body, at),
        }
    }
}

impl ActiveProvider {
    /// Bounds the age of signed times as its operator says.
    #[must_use]
    pub fn with_age(mut self, age: AgeConfig) -> Self {
        if age == AgeConfig::default() {
            return self;
        }
        let spec = Arc::make_mut(&mut self.spec);
        bounded(&mut spec.signature, age);
        let (past_s, future_s) = spec.signature.tolerances_s();
        self.verifier.keys = self.verifier.keys.with_tolerance_s(past_s, future_s);
        if let Some(other) = &mut spec.alternative {
            bounded(other, age);
            let (past_s, future_s) = other.tolerances_s();
            self.verifier.alternative =
                self.verifier.alternative.map(|keys| keys.with_tolerance_s(past_s, future_s));
        }
        self
    }
}

/// The operator's bounds in place of the kind's. How far ahead a time may be stays as it is.
fn bounded(signature: &mut SignatureSpec, age: AgeConfig) {
    let (_, ahead_s) = signature.tolerances_s();
    match (signature.tolerance_s, age.tolerance_s, age.max_age_s) {
        (Some(_), Some(past_s), _) => {
            (signature.tolerance_s, signature.tolerance_future_s) = (Some(past_s), Some(ahead_s));
        }
        // There is no bound on how far the sender's clock may be ahead either.
        (None, _, Some(past_s)) if signature.age_unchecked => {
            (signature.tolerance_s, signature.tolerance_future_s) = (Some(past_s), Some(u32::MAX));
        }
        _ => {}
    }
}

/// What a caller of ours lacks to show who it is.
fn caller_mistake(spec: &Spec, config: &ProviderConfig) -> Option<Mistake> {
    let is_by_certificate = config.settings.text("auth") == Some("mtls");
    let (is_missing, key, remedy) = if is_by_certificate {
        let is_missing = !config.settings.has("client_certificates");
        (is_missing, "settings.client_certificates", "name the SHA-256 of each certificate in hex")
    } else {
        (config.secrets.is_empty(), "secrets", "write secrets = [{ env = \"NAME\" }]")
    };
    let why = "there is none, so that no caller is accepted";
    (spec.first_party && is_missing).then(|| Mistake::said(key, why, remedy))
}

/// The spec without those places of search ids whose values are not to be stored.
fn unredacted(spec: &Arc<Spec>, redact: &RedactedPaths) -> Arc<Spec> {
    let mut spec = Arc::clone(spec);
    if redact.is_empty() {
        return spec;
    }
    for event in &mut Arc::make_mut(&mut spec).event {
        for source in &mut event.search.0 {
            if let Source::Json(pointers) = source {
                let kept: Vec<&str> = pointers.split('|').filter(|one| !redact.covers(one)).collect();
                *pointers = kept.join("|");
            }
        }
        event.search.0.retain(|source| !matches!(source, Source::Json(pointers) if pointers.is_empty()));
    }
    spec
}

/// The public URL of a provider that is not configured.
const LOCAL_URL: &str = "http://127.0.0.1:8080";

/// A provider of this kind, under this name, behind this public URL.
fn active(
    (kind, name, public_url): (&Provider, &Name, &str),
    spec: &Arc<Spec>,
    verifier: Verifier,
) -> ActiveProvider {
    // Where nothing has to be signed, no header is covered.
    let names = spec.headers.iter().filter(|_| verifier.unverified == Unverified::Refuse);
    ActiveProvider {
        header_names: names.map(|name| name.to_ascii_lowercase()).collect(),
        name: name.clone(),
        url: format!("{public_url}/webhooks/{name}"),
        spec: Arc::clone(spec),
        handlers: kind.handlers.clone(),
        verifier,
        options: ActiveOptions::default(),
        code: kind.code,
    }
}

/// A kind as the program uses it: not for its users, who have [`Provider`] alone.
pub trait Kind {
    /// The kind itself.
    fn provider(&self) -> &Provider;

    /// The kind's name; `?` when its spec does not say.
    fn kind(&self) -> &str {
        match &self.provider().spec {
            Ok(spec) => &spec.kind,
            Err(error) => error.kind(),
        }
    }

    /// The spec, or the reason why there is none.
    fn spec(&self) -> Result<&Spec, &KindError> {
        self.provider().spec.as_deref()
    }

    /// The spec, shared with those that keep it.
    fn shared_spec(&self) -> Result<Arc<Spec>, String> {
        self.provider().spec.as_ref().map(Arc::clone).map_err(ToString::to_string)
    }

    /// The handlers of the program's own code; routes are not among them.
    fn handlers(&self) -> &Handlers {
        &self.provider().handlers
    }

    /// The sample event of this type, or which types there are.
    fn sample(&self, event_type: &str) -> anyhow::Result<&str> {
        let samples = self.sample_list();
        let found = samples.iter().find(|(known, _)| *known == event_type).map(|(_, text)| *text);
        found.ok_or_else(|| {
            let known: Vec<&str> = samples.iter().map(|(known, _)| *known).collect();
            let (kind, known) = (self.kind(), known.join(", "));
            anyhow::anyhow!("`{kind}` has no sample of type `{event_type}`; there are {known}")
        })
    }

    /// The sample events: type and JSON text.
    fn sample_list(&self) -> Vec<(&str, &str)> {
        self.provider().samples.iter().map(|(event_type, text)| (&**event_type, &**text)).collect()
    }

    /// This kind with these sample events: type and JSON text.
    fn with_samples(&self, samples: Vec<(String, String)>) -> Provider {
        let samples = samples.into_iter().map(|(event_type, text)| (event_type.into(), text.into()));
        Provider { samples: samples.collect(), ..self.provider().clone() }
    }

    /// Makes one `[providers.NAME]` of it, or says all that is wrong.
    fn activate(
        &self,
        name: &Name,
        config: &ProviderConfig,
        public_url: &str,
    ) -> Result<ActiveProvider, Vec<Mistake>> {
        let spec = self.provider().spec.as_ref().map_err(|error| vec![said("", error.to_string())])?;
        let mut mistakes = self.provider().mistakes.clone();
        let mut handlers = self.provider().handlers.clone();
        for route in &config.routes {
            for pattern in &route.on {
                handlers.add_route(pattern.clone(), route);
            }
        }
        let verifier = Verifier::new(spec, &config.secrets, &config.settings, config.is_unverified_accepted);
        let strong =
            verifier.as_ref().map_err(Clone::clone).and_then(|verifier| verifier.keys.check_strength(spec));
        mistakes.extend(strong.err().map(|error| of_key(spec, &error)));
        let redact = RedactedPaths::parse(config.redact.iter().map(String::as_str))
            .inspect_err(|(pointer, why)| {
                mistakes.push(said("redact", format!("`{}` {why}", shown(pointer))));
            })
            .unwrap_or_default();
        let options = ActiveOptions {
            on_conflict: config.on_conflict,
            types: config.types.clone(),
            redact,
            is_search_off: !config.has_search,
        };
        mistakes.extend(caller_mistake(spec, config));
        match verifier {
            Ok(verifier) if mistakes.is_empty() => {
                let spec = unredacted(spec, &options.redact);
                let mut active =
                    active((self.provider(), name, public_url), &spec, verifier).with_age(config.age);
                if config.is_payload_whole {
                    for event in &mut Arc::make_mut(&mut active.spec).event {
                        event.payload = String::new();
                    }
                }
                Ok(ActiveProvider { handlers, options, ..active })
            }
            _ => Err(mistakes),
        }
    }

    /// Judges single requests with `secrets` however short: for published vectors and for `explain`. Settings
    /// that are not there are taken from the spec's examples.
    fn judge_with(&self, secrets: &[Secret], settings: &KindSettings) -> Result<ActiveProvider, String> {
        let spec = self.provider().spec.as_ref().map_err(ToString::to_string)?;
        let mut settings = settings.clone();
        for setting in spec.setting.iter().filter(|setting| setting.needed) {
            if let Some(dev) = setting.dev.as_deref().filter(|_| !settings.has(&setting.name)) {
                settings.push(&setting.name, None, dev);
            }
        }
        let verifier = Verifier::new(spec, secrets, &settings, false).map_err(|error| error.to_string())?;
        let name = Name::parse(&spec.kind).map_err(|error| error.to_string())?;
        Ok(active((self.provider(), &name, LOCAL_URL), spec, verifier))
    }

    /// Makes the provider that `serve --dev` has: with the published secret and settings, and with `keys` where the
    /// kind's sender signs with a private key.
    fn dev(&self, keys: &DevKeys) -> Result<ActiveProvider, String> {
        let spec = self.provider().spec.as_ref().map_err(ToString::to_string)?;
        let secrets = if spec.takes_secrets() { vec![Secret::new(dev_secret(spec))] } else { Vec::new() };
        let settings = dev_settings(spec, keys);
        let is_accepted = secrets.is_empty() && spec.signature.may_be_unsigned;
        let mut verifier =
            Verifier::new(spec, &secrets, &settings, is_accepted).map_err(|error| error.to_string())?;
        let sort = spec.setting.iter().find_map(|setting| setting.dev_key);
        verifier.keys = verifier.keys.with_signer(sort.and_then(|sort| keys.signing(sort)));
        let name = Name::parse(&spec.kind).map_err(|error| error.to_string())?;
        Ok(active((self.provider(), &name, LOCAL_URL), spec, verifier))
    }
}

impl Kind for Provider {
    fn provider(&self) -> &Provider {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hooklatch::providers::builtin;

    use super::*;
    use crate::provider::filled_sample;
    use hooklatch_verify::spec::{Identity, Sources};

    #[test]
    fn each_unusable_key_is_reported_at_its_place_with_its_remedy() {
        #[track_caller]
        fn check(kind: &str, error: &KeyError, key: &str, remedy: &str) {
            let mistake = of_key(&Spec::parse(kind).expect("a spec"), error);
            assert_eq!((mistake.key.as_str(), mistake.flaw.to_string()), (key, error.to_string()));
            assert!(mistake.remedy.contains(remedy), "{mistake:?}");
        }
        let by_secrets = include_str!("../../../../providers/stripe/provider.toml");
        let by_setting = include_str!("../../../../providers/ably/provider.toml");
        let short = KeyError::TooShort { position: 1, bytes_n: 3, min_n: 16 };
        check(by_secrets, &short, "secrets", "openssl rand");
        check(by_setting, &short, "settings.named_secrets", "openssl rand");
        let name = "password".to_owned();
        let setting = KeyError::SettingTooShort { name: name.clone(), bytes_n: 3, min_n: 16 };
        check(by_secrets, &setting, "settings.password", "openssl rand");
        check(by_secrets, &KeyError::Empty(1), "secrets", "correct it");
        check(by_secrets, &KeyError::Private, "secrets", "correct it");
        check(by_secrets, &KeyError::NoSetting(name), "", "correct it");
    }

    const NOW_S: i64 = 1_767_225_600;

    /// The samples of a kind, signed and believed.
    fn authenticated(kind: &crate::provider::Provider, provider: &ActiveProvider) -> Vec<Verified> {
        let one = |(event_type, sample): (&str, &str)| {
            let (url, id) = (provider.url().to_owned(), "id_1234567890".to_owned());
            let at = SignAt { now_s: NOW_S, url: url.clone(), id, event_type: event_type.to_owned() };
            let signed = provider.sign(filled_sample(sample, "1234567890", NOW_S).as_bytes(), &at).ok()?;
            let header = |(name, value): (String, String)| {
                Some((http::HeaderName::from_bytes(name.as_bytes()).ok()?, value.parse().ok()?))
            };
            let request = RawRequest {
                method: http::Method::POST,
                url,
                headers: signed.headers.into_iter().filter_map(header).collect(),
                body: signed.body.into(),
                received_at_ms: NOW_S * 1_000,
            };
            provider.verify(request).ok()
        };
        kind.sample_list().into_iter().filter_map(one).collect()
    }

    /// Each source by itself: of several places, each must be right.
    fn alternatives(source: &Source) -> Vec<Source> {
        let each = |names: &str, make: fn(String) -> Source| {
            names.split('|').map(|name| make(name.to_owned())).collect()
        };
        match source {
            Source::Json(pointers) => each(pointers, Source::Json),
            Source::Outer(pointers) => each(pointers, Source::Outer),
            other => vec![other.clone()],
        }
    }

    #[test]
    fn the_headers_of_a_request_that_is_believed_reject_it_before_its_body_is_there_in_no_kind() {
        let keys = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("keys");
        let (mut wrong, mut kinds_n) = (Vec::new(), 0);
        for kind in builtin() {
            let provider = kind.dev(&keys).expect("a provider");
            for verified in authenticated(&kind, &provider).into_iter().take(1) {
                kinds_n += 1;
                let headers_alone = RawRequest { body: Bytes::new(), ..verified.request().clone() };
                if provider.rejects_by_headers(headers_alone) {
                    wrong.push(kind.kind().to_owned());
                }
            }
        }
        assert!(wrong.is_empty() && kinds_n > 100, "{kinds_n}: {wrong:?}");
    }

    #[test]
    fn each_place_of_search_ids_leads_to_an_id_in_a_sample_of_its_kind() {
        let keys = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("keys");
        let (mut wrong, mut kinds_n) = (BTreeSet::new(), 0);
        for kind in builtin() {
            let provider = kind.dev(&keys).expect("a provider");
            if provider.spec.event.iter().all(|event| event.search.0.is_empty()) {
                continue;
            }
            kinds_n += 1;
            let requests = authenticated(&kind, &provider);
            // What two `[[event]]` of one kind have in common needs one sample.
            let mut found = BTreeSet::new();
            let mut missed = BTreeSet::new();
            for (n, event) in provider.spec.event.iter().enumerate() {
                for source in event.search.0.iter().flat_map(alternatives) {
                    let mut alone = provider.clone();
                    for (other_n, other) in Arc::make_mut(&mut alone.spec).event.iter_mut().enumerate() {
                        let is_it = other_n == n;
                        other.search = Sources(is_it.then(|| source.clone()).into_iter().collect());
                        // Parts of composed ids are found without a place.
                        other.identity.truncate(1);
                        for identity in &mut other.identity {
                            (identity.is, identity.id) = (Identity::Content, Sources::default());
                            identity.types.clear();
                            identity.has.clear();
                        }
                    }
                    let is_found = requests
                        .iter()
                        .any(|request| alone.read(request).iter().any(|one| !one.search_ids.is_empty()));
                    let of = if is_found { &mut found } else { &mut missed };
                    of.insert(format!("{}: {source:?}", provider.spec.kind));
                }
            }
            wrong.extend(missed.difference(&found).cloned());
        }
        assert!(wrong.is_empty(), "no sample has an id there: {wrong:#?}");
        assert!(kinds_n >= 25, "{kinds_n}");
    }
}
