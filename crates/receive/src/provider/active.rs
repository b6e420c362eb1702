//! [`ActiveProvider`]: one `[providers.NAME]`. It believes requests, reads events and says what is done about them.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::definition::{AnswerFn, HandshakeFn, OpenFn, SignFn};
use super::verifier::{ActiveOptions, Verifier};
use crate::handler::{Envelope, EventContent, Handlers, Headers};
use hooklatch_core::config::AgeConfig;
use hooklatch_core::json::text_of;
use hooklatch_core::types::{IncomingEvent, Name, OnConflict, RedactedBody, TEST_EVENT};
use hooklatch_verify::read;
use hooklatch_verify::spec::{AnswerSpec, EventMethod, SignatureSpec, Spec};
use hooklatch_verify::{
    self as verify, KeySource, Keys, KeysExt, RawRequest, Reply, SignAt, SignError, Signed, Unbelieved,
    Unverified, Verified, VerifyError, VerifyFn,
};

/// A configured provider, `[providers.NAME]`, that is ready for requests.
#[derive(Clone)]
pub struct ActiveProvider {
    pub name: Name,
    pub url: String,
    pub spec: Arc<Spec>,
    pub handlers: Handlers,
    /// Names of the headers that handlers see, in lower case.
    pub(super) header_names: Arc<[String]>,
    pub verifier: Verifier,
    pub options: ActiveOptions,
    pub verify_with: Option<VerifyFn>,
    pub(super) sign_with: Option<SignFn>,
    pub(super) handshake_with: Option<HandshakeFn>,
    pub open_with: Option<OpenFn>,
    pub(super) answer_with: Option<AnswerFn>,
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

    /// Believes the request or says why not.
    pub fn verify(&self, request: RawRequest) -> Result<Verified, VerifyError> {
        self.believe(request).map_err(|unbelieved| unbelieved.why)
    }

    /// Does the same as [`ActiveProvider::verify`]; a request that is not believed is returned with the reason.
    pub fn believe(&self, request: RawRequest) -> Result<Verified, Box<Unbelieved>> {
        self.believe_by(&self.verifier.keys, request)
    }

    /// Does the same with `source` for keys that no setting holds.
    pub(crate) fn believe_from(
        &self,
        source: Arc<dyn KeySource>,
        request: RawRequest,
    ) -> Result<Verified, Box<Unbelieved>> {
        self.believe_by(&self.verifier.keys.clone().with_source(source), request)
    }

    /// Verifies who signed the request, and then for which of the sender's customers.
    fn believe_by(&self, keys: &Keys, request: RawRequest) -> Result<Verified, Box<Unbelieved>> {
        let verified = self.signed_by_sender(keys, request)?;
        match &self.spec.whose {
            Some(whose) => verified.of_own_account(whose, keys),
            None => Ok(verified),
        }
    }

    fn signed_by_sender(&self, keys: &Keys, request: RawRequest) -> Result<Verified, Box<Unbelieved>> {
        let is_query = self.spec.method == EventMethod::Get && request.method == http::Method::GET;
        let request = if is_query { verify::with_query_as_body(request) } else { request };
        if let (Some(spec), Some(keys)) = (&self.spec.alternative, &self.verifier.alternative)
            && (spec.when_header.as_ref().is_some_and(|name| request.headers.contains_key(name))
                || spec.required_by.as_ref().is_some_and(|name| keys.settings().has(name)))
        {
            return verify::verify(spec, None, keys, Unverified::Refuse, request);
        }
        verify::verify(&self.spec.signature, self.verify_with, keys, self.verifier.unverified, request)
    }

    /// True when the headers alone say that a request will be rejected, whatever its body is: `request` has none. Only of
    /// kinds that sign in a header.
    pub fn rejects_by_headers(&self, request: RawRequest) -> bool {
        if self.spec.signatures().any(|one| one.headers.is_empty()) {
            return false;
        }
        match self.believe(request).map_err(|unbelieved| (unbelieved.why, unbelieved.request)) {
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
        let by_code = || self.handshake_with.and_then(|answer| answer(request, keys));
        unsigned.find_map(|handshake| verify::reply(handshake, keys, request)).or_else(by_code)
    }

    /// True when a request of this method can be anything but an event.
    pub fn has_handshake(&self, method: &str) -> bool {
        let by_code = self.handshake_with.is_some() && method == "GET";
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
        match self.answer_with.and_then(|made| made(verified, &self.verifier.keys)) {
            Some(body) => Some(Cow::Owned(AnswerSpec { body, ..answer.into_owned() })),
            None => Some(answer),
        }
    }

    /// True when code makes the answer, which may take as long as a signature by a private key.
    pub(crate) fn computes_answers(&self) -> bool {
        self.answer_with.is_some()
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
        match self.open_with {
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
        match self.sign_with {
            Some(sign) => sign(&self.verifier.keys, body, at),
            None => verify::sign(&self.spec, &self.verifier.keys, body, at),
        }
    }
}

impl ActiveProvider {
    /// Gives handlers the whole envelope as payload.
    #[must_use]
    pub fn with_whole_payload(mut self) -> Self {
        for event in &mut Arc::make_mut(&mut self.spec).event {
            event.payload = String::new();
        }
        self
    }

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::provider::filled_sample;
    use hooklatch::providers::builtin;
    use hooklatch_verify::DevKeys;
    use hooklatch_verify::spec::{Identity, Source, Sources};

    const NOW_S: i64 = 1_767_225_600;

    /// The samples of a kind, signed and believed.
    fn believed(kind: &crate::provider::Provider, provider: &ActiveProvider) -> Vec<Verified> {
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
            for verified in believed(&kind, &provider).into_iter().take(1) {
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
            let requests = believed(&kind, &provider);
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
