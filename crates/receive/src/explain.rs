//! Explain: a saved request is judged as a received one would be, step by step, and without any effect. The command,
//! the API and the console show what is found here.
//!
//! [`parse`] takes a saved request apart (`POST /webhooks/NAME`, headers, an empty line and the body); [`judged`]
//! judges it, with the hints of `diagnose`; [`Explainer`] does both with the configured providers, for a running
//! server. Nothing here shows what a signature should have been.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::admit::{ProviderEntry, ProviderTable};
use crate::diagnose::diagnose;
use crate::provider::ActiveProvider;
use crate::verification::Heavy;
use hooklatch_contract::{
    ExplainEvent, ExplainLines, ExplainOrder, ExplainParts, ExplainRequest, ExplainStep, ExplainVerdict,
    ExplainView,
};
use hooklatch_core::figures::plural;
use hooklatch_core::types::{Reach, UnixMs};
use hooklatch_verify::spec::words;
use hooklatch_verify::{RawRequest, Verified, VerifyError, failed_at};

/// A saved request, taken apart.
#[derive(Debug, Clone)]
pub struct SavedRequest {
    /// The name behind `/webhooks/` in its path.
    pub provider: Option<String>,
    pub query: Option<String>,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Time to judge it at, where its first line says one.
    pub now_ms: Option<UnixMs>,
}

/// Takes a saved request apart. Lines end in LF or CRLF; the body is what follows the empty line, byte for
/// byte. The error says what is not as it must be.
pub fn parse(saved: &[u8]) -> Result<SavedRequest, String> {
    let mut rest = saved;
    let (mut now_ms, mut target, mut method) = (None, None, Method::POST);
    let mut headers = HeaderMap::new();
    loop {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return Err("the request has no empty line between headers and body".to_owned());
        };
        let (line, tail) = rest.split_at(end);
        rest = tail.get(1..).unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| "a header line is not text")?;
        let line = line.trim_end_matches('\r');
        if let Some(comment) = line.strip_prefix('#') {
            now_ms = said_time(comment)?.or(now_ms);
        } else if target.is_none() {
            method = line.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(method);
            let named = line.split(' ').nth(1).ok_or("the first line is not `POST /webhooks/NAME`")?;
            target = Some(named.to_owned());
        } else if line.is_empty() {
            break;
        } else {
            let pair = line.split_once(':');
            let (name, value) = pair.ok_or("a line before the empty line is not `NAME: VALUE`")?;
            append(&mut headers, name, value)?;
        }
    }
    let (provider, query) = named(&target.unwrap_or_default());
    Ok(SavedRequest { provider, query, method, headers, body: Bytes::copy_from_slice(rest), now_ms })
}

/// Parses a request that is saved in parts.
pub(super) fn of_parts(parts: &ExplainParts) -> Result<SavedRequest, String> {
    let method = parts.method.as_deref().unwrap_or("POST");
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "`method` is not a method")?;
    let mut headers = HeaderMap::new();
    for header in &parts.headers {
        append(&mut headers, &header.name, &header.value)?;
    }
    let body = match &parts.body_base64 {
        Some(text) => STANDARD.decode(text.trim()).map_err(|_| "`body_base64` is not Base64")?,
        None => parts.body.clone().into_bytes(),
    };
    let (provider, query) = named(&parts.path);
    Ok(SavedRequest { provider, query, method, headers, body: body.into(), now_ms: None })
}

/// The time in a comment: `now=` and unix seconds.
fn said_time(comment: &str) -> Result<Option<UnixMs>, String> {
    let now = comment.split_whitespace().find_map(|word| word.strip_prefix("now="));
    let seconds = now.map(str::parse::<i64>).transpose();
    let seconds = seconds.map_err(|_| "now= is not a number of seconds")?;
    Ok(seconds.map(|seconds| seconds.saturating_mul(1_000)))
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|error| error.to_string())?;
    let value = HeaderValue::from_str(value.trim()).map_err(|error| error.to_string())?;
    let added = headers.try_append(name, value);
    added.map(drop).map_err(|_| "there are too many headers".to_owned())
}

/// The provider that a path names, and its query.
fn named(target: &str) -> (Option<String>, Option<String>) {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    (path.rsplit_once("/webhooks/").map(|(_, name)| name.to_owned()), query.map(str::to_owned))
}

/// A verdict without a step so far.
fn empty_view(verdict: ExplainVerdict, judged_at_ms: UnixMs) -> ExplainView {
    ExplainView {
        provider: None,
        verdict,
        failed_at: None,
        reason: None,
        judged_at_ms,
        age_s: None,
        lines: ExplainLines::AsGiven,
        steps: Vec::new(),
        events: Vec::new(),
        more_events_n: 0,
    }
}

fn add_step(view: &mut ExplainView, word: &str, text: impl Into<String>) {
    view.steps.push(ExplainStep { word: word.to_owned(), text: text.into() });
}

/// Says what is found in a request, and whether it would be believed. `others` are other providers of the same kind,
/// whose secrets may match.
pub fn judged<'a>(
    provider: &ActiveProvider,
    others: impl Iterator<Item = &'a ActiveProvider>,
    request: &RawRequest,
) -> ExplainView {
    let mut view = empty_view(ExplainVerdict::Believed, request.received_at_ms);
    view.provider = Some(provider.name().to_string());
    describe(&mut view, provider, request);
    if let Some(reply) = provider.handshake(request) {
        view.verdict = ExplainVerdict::Handshake;
        let text = format!("a handshake, answered with {} and {}", reply.status, reply.content_type);
        add_step(&mut view, "verdict", text);
        return view;
    }
    match provider.verify(request.clone()) {
        Err(error) => add_refusal(&mut view, provider, others, (request, &error)),
        Ok(verified) => add_events(&mut view, provider, &verified),
    }
    view
}

/// What can be seen before anything is verified.
fn describe(judged: &mut ExplainView, provider: &ActiveProvider, request: &RawRequest) {
    let spec = provider.spec();
    add_step(judged, "kind", format!("{} ({})", spec.kind, spec.docs));
    add_step(judged, "body", format!("{} bytes", request.body.len()));
    if spec.has_signed_url() {
        add_step(judged, "signed url", request.url.clone());
    }
    for name in &spec.signature.headers {
        let n = request.headers.get_all(name.as_str()).iter().count();
        add_step(judged, "header", format!("{name}: {}", plural(n as u64, "time")));
    }
}

fn add_refusal<'a>(
    judged: &mut ExplainView,
    provider: &ActiveProvider,
    others: impl Iterator<Item = &'a ActiveProvider>,
    (request, error): (&RawRequest, &VerifyError),
) {
    judged.verdict = ExplainVerdict::NotBelieved;
    judged.failed_at = Some(failed_at(error).step.to_owned());
    judged.age_s = match error {
        VerifyError::Stale { age_s, .. } => Some(*age_s),
        VerifyError::Future { ahead_s, .. } => Some(-*ahead_s),
        _ => None,
    };
    add_step(judged, "verdict", format!("not believed, at step `{}`: {error}", failed_at(error).step));
    let found = diagnose(provider, others, request, error);
    judged.reason = Some(found.reason.to_owned());
    match found.detail.split_once("; ") {
        Some((_, more)) => add_step(judged, "hint", more),
        None if matches!(error, VerifyError::Mismatch { .. }) => {
            add_step(
                judged,
                "hint",
                "the body must be the bytes that were sent: not parsed and written again",
            );
            add_step(
                judged,
                "hint",
                "each endpoint has a secret of its own: compare it with the sender's dashboard",
            );
            if provider.spec().has_signed_url() {
                add_step(
                    judged,
                    "hint",
                    "the URL above is signed too: it must be the one that the sender was given",
                );
            }
        }
        None => {}
    }
}

fn add_events(judged: &mut ExplainView, provider: &ActiveProvider, verified: &Verified) {
    add_step(judged, "verdict", format!("believed: secret {} matched", verified.secret_n() + 1));
    for event in &provider.spec().event {
        add_step(judged, "identified", words::identities(event));
    }
    for event in provider.read(verified) {
        let remembers_text = event.replay_key.is_some();
        let why = event.unreadable.as_ref().map(|why| format!(", unreadable: {why}")).unwrap_or_default();
        add_step(judged, "event", format!("{} of type {}{why}", event.key.event_id, event.event_type));
        add_step(judged, "identity", event.identity.clone());
        if remembers_text {
            add_step(judged, "", "its signed text is remembered too: the same under another id is a replay");
        }
        judged.events.push(ExplainEvent {
            event_id: event.key.event_id.clone(),
            event_type: event.event_type.clone(),
            identity: event.identity.clone(),
            unreadable: event.unreadable.clone(),
            remembers_text,
            known_state: None,
        });
    }
}

/// Most events that are shown.
const EVENTS_N_MAX: usize = 50;

/// Explains requests. Cloning is cheap.
#[derive(Clone)]
pub struct Explainer {
    entries: Arc<ProviderTable>,
    heavy: Heavy,
}

impl Explainer {
    /// Explains with these providers.
    pub fn new(entries: Arc<ProviderTable>) -> Self {
        Self { entries, heavy: Heavy::new() }
    }

    /// Judges what was asked about; `None` when its provider is not configured, or out of `reach`.
    pub async fn explain(&self, order: ExplainOrder, reach: &Reach, now_ms: UnixMs) -> Option<ExplainView> {
        let saved = match &order.request {
            ExplainRequest::Text(text) => parse(text.as_bytes()),
            ExplainRequest::Parts(parts) => of_parts(parts),
        };
        let saved = match saved {
            Ok(saved) => saved,
            Err(why) => return Some(not_read("request", &why, now_ms)),
        };
        let Some(name) = order.provider.clone().or_else(|| saved.provider.clone()) else {
            return Some(not_read(
                "provider",
                "its path names no provider: say which one it was for",
                now_ms,
            ));
        };
        let entry = self.entries.get(name.as_str()).filter(|_| reach.has(&name))?;
        let provider = entry.provider.clone();
        let is_other = |other: &&Arc<ProviderEntry>| {
            let other = &other.provider;
            other.name() != provider.name()
                && other.spec().kind == provider.spec().kind
                && reach.has(other.name().as_str())
        };
        let others = self.entries.values().filter(is_other).map(|other| other.provider.clone()).collect();
        let at_ms = order.at_ms.or(saved.now_ms).unwrap_or(now_ms);
        let bytes_n = saved.body.len();
        let case = Case { provider, others, saved, at_ms, is_at_own_time: order.at_own_time };
        self.heavy.run(bytes_n, move || case.view()).await
    }
}

/// What was asked about, with everything that it takes to answer.
struct Case {
    provider: ActiveProvider,
    others: Vec<ActiveProvider>,
    saved: SavedRequest,
    at_ms: UnixMs,
    is_at_own_time: bool,
}

impl Case {
    fn view(self) -> ExplainView {
        let body = self.saved.body.clone();
        let mut view = self.at_its_time(body.clone());
        if view.verdict == ExplainVerdict::NotBelieved
            && let Some((lines, other)) = other_lines(&body)
        {
            let second = self.at_its_time(other);
            if second.verdict != ExplainVerdict::NotBelieved {
                view = ExplainView { lines, ..second };
            }
        }
        view.more_events_n = view.events.len().saturating_sub(EVENTS_N_MAX) as u64;
        view.events.truncate(EVENTS_N_MAX);
        view
    }

    /// The verdict about this body; at the body's own time, where that was ordered.
    fn at_its_time(&self, body: Bytes) -> ExplainView {
        let view = self.judged(self.at_ms, body.clone());
        let Some(age_s) = view.age_s.filter(|_| self.is_at_own_time) else { return view };
        self.judged(self.at_ms.saturating_sub(age_s.saturating_mul(1_000)), body)
    }

    fn judged(&self, received_at_ms: UnixMs, body: Bytes) -> ExplainView {
        let query = self.saved.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("{}{query}", self.provider.url());
        let (method, headers) = (self.saved.method.clone(), self.saved.headers.clone());
        let request = RawRequest { method, url, headers, body, received_at_ms };
        judged(&self.provider, self.others.iter(), &request)
    }
}

/// The body with the other line ends: browsers and editors change them.
fn other_lines(body: &Bytes) -> Option<(ExplainLines, Bytes)> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains('\n'))?;
    let bare = text.replace("\r\n", "\n");
    Some(if bare == text {
        (ExplainLines::Crlf, bare.replace('\n', "\r\n").into())
    } else {
        (ExplainLines::Lf, bare.into())
    })
}

fn not_read(word: &str, why: &str, now_ms: UnixMs) -> ExplainView {
    let mut view = empty_view(ExplainVerdict::NotRead, now_ms);
    add_step(&mut view, word, why);
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::ExplainHeader;

    #[test]
    fn a_saved_request_is_taken_apart_byte_for_byte() {
        #[track_caller]
        fn check(saved: &[u8], why: &str) {
            let error = parse(saved).expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
        let saved =
            b"# now=1700000000\r\nPOST /in/webhooks/acme?x=1 HTTP/1.1\r\nX-A: 1\r\nx-a:2\r\n\r\n{ \n}\r\n";
        let found = parse(saved).expect("a request");
        assert_eq!((found.provider.as_deref(), found.query.as_deref()), (Some("acme"), Some("x=1")));
        assert_eq!(found.now_ms, Some(1_700_000_000_000));
        assert_eq!(found.body.as_ref(), b"{ \n}\r\n", "its line ends belong to what was signed");
        let values: Vec<&HeaderValue> = found.headers.get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        let found = parse(b"GET /webhooks/acme\n\n").expect("a request");
        assert_eq!((found.method, found.body.len(), found.now_ms), (Method::GET, 0, None));
        check(b"POST /webhooks/acme\nx: 1\n", "no empty line");
        check(b"POST\n\n", "the first line is not");
        check(b"POST /webhooks/acme\nx\n\n", "is not `NAME: VALUE`");
        check(b"# now=soon\nPOST /webhooks/acme\n\n", "now= is not a number");
        check(b"POST /webhooks/acme\nx: \xff\n\n", "not text");
    }

    #[test]
    fn parts_of_a_request_are_read_or_refused() {
        let header = |name: &str| vec![ExplainHeader { name: name.to_owned(), value: "1".to_owned() }];
        let parts = |body: &str, base64: Option<&str>| ExplainParts {
            path: "/webhooks/acme?x".to_owned(),
            headers: header("X-A"),
            body: body.to_owned(),
            body_base64: base64.map(str::to_owned),
            ..ExplainParts::default()
        };
        let found = of_parts(&parts("{}", None)).expect("a request");
        assert_eq!((found.provider.as_deref(), found.body.as_ref()), (Some("acme"), b"{}".as_slice()));
        let found = of_parts(&parts("", Some("/wA="))).expect("a request");
        assert_eq!((found.body.as_ref(), found.method), (b"\xff\0".as_slice(), Method::POST));
        assert_eq!(of_parts(&parts("", Some("?"))).err().as_deref(), Some("`body_base64` is not Base64"));
        let odd = ExplainParts { headers: header("a b"), ..ExplainParts::default() };
        assert!(of_parts(&odd).is_err());
        let odd = ExplainParts { method: Some("a b".to_owned()), ..ExplainParts::default() };
        assert!(of_parts(&odd).is_err());
    }
}
