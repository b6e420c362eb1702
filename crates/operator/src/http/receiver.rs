//! The receiver: `POST /webhooks/{provider}`, `GET` for senders that send events by it, and what a kind's handshake
//! needs. It keeps the raw bytes, caps them in size, time and number, and leaves everything else to `receive`.
//!
//! A request with a valid token of the doctor is answered with what arrived of it, and nothing else happens. Without a
//! token that this installation made within two minutes, a request is handled as usual, whatever its header or query
//! says.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use tokio::time::Instant;
use uuid::Uuid;

use super::edge::{ConnectionContext, KnownCaller, Peer};
use super::error::{Problem, view_reply};
use crate::doctor::{AnswerKey, PROBE_HEADER, ProbeKey, probe_answer, probe_token};
use hooklatch_core::net::peer_of;
use hooklatch_core::stop;
use hooklatch_core::types::{ClientCertificate, Clock};
use hooklatch_receive::admit::{HeldMemory, LARGE_BYTES, MemoryRoom, ProviderEntry};
use hooklatch_receive::{Arrival, Receiver, SenderAnswer, UnreadReason, UnreadRequest};
use hooklatch_verify::RawRequest;
use hooklatch_verify::spec::EventMethod;

/// Memory that a request takes besides its headers and its body. Bytes.
const REQUEST_BYTES: usize = 1024;
/// Room that is taken for a body at first.
const FIRST_BYTES: usize = 4 << 10;
/// Room that is taken next; then four times as much again and again. Few steps, because allocators keep what each size
/// leaves behind.
const NEXT_BYTES: usize = 64 << 10;

/// Most bytes of a body over the cap that are read, so that its sender gets the response, and the longest wait for the
/// next ones.
const DRAIN_BYTES_MAX: usize = 4 << 20;
const DRAIN_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Bytes a second that a large body brings at least while another one waits for its place, once it had the place for
/// [`LARGE_GRACE`].
const LARGE_BYTES_PER_S_MIN: u64 = 1 << 20;
const LARGE_GRACE: Duration = Duration::from_millis(500);
/// Time between two looks at whether another one waits.
const LARGE_LOOK: Duration = Duration::from_millis(100);

/// The header that a kind reads a verified client certificate from.
static CLIENT_CERTIFICATE: HeaderName = HeaderName::from_static("hooklatch-client-certificate");

/// The header with the id of the request.
static REQUEST_ID: HeaderName = HeaderName::from_static("hooklatch-request-id");

/// The header of a server that may have fake events; no other server sends it.
static TEST_SERVER: HeaderName = HeaderName::from_static("hooklatch-test");

/// The header with the outcome of a verified request.
pub(super) static OUTCOME: HeaderName = HeaderName::from_static("hooklatch-outcome");

/// State of the receiver: all that it needs of the app.
pub struct ReceiverState {
    pub receiver: Receiver,
    pub clock: Clock,
    /// The URL that providers call, without a trailing slash.
    pub public_url: String,
    /// Largest body of a request for no provider. Bytes.
    pub body_bytes_max: usize,
    pub body_timeout: Duration,
    /// Recognises probes of the doctor, whose response says what arrived.
    pub probes: ProbeKey,
    /// Room for requests, from their headers until their events are written or given up.
    pub room: MemoryRoom,
    /// True when it takes fake events, and says so.
    pub is_test: bool,
}

/// What is allowed of one body.
struct BodyRules<'a> {
    bytes_max: usize,
    /// Address of the client.
    peer: Option<IpAddr>,
    /// True when its headers alone show that it will be rejected.
    is_rejected: &'a (dyn Fn() -> bool + Sync),
}

/// The connection that a request was received on, as far as it is known.
#[derive(Clone, Copy, Default)]
pub(super) struct ConnectionInfo<'a> {
    /// Its address; unknown on a server of a program's own.
    pub peer: Option<Peer>,
    /// The connection itself; unknown on a server of a program's own.
    pub(super) connection: Option<&'a ConnectionContext>,
}

impl ReceiverState {
    /// Returns the provider of a usual webhook: a POST to a provider's path as it is registered with senders.
    /// Everything else that the routes take, such as the same path in other characters, gives `None`.
    pub(super) fn usual<B>(&self, request: &http::Request<B>) -> Option<&Arc<ProviderEntry>> {
        let name = request.uri().path().strip_prefix("/webhooks/")?;
        if request.method() == Method::POST { self.receiver.entry(name) } else { None }
    }

    /// The key of the doctor whose request it is.
    fn probed<B>(&self, request: &http::Request<B>) -> Option<AnswerKey> {
        probed(&self.probes, &self.clock, request.headers(), request.uri())
    }

    /// The answer to a request of the doctor.
    async fn probe<B>(
        &self,
        key: &AnswerKey,
        request: http::Request<B>,
        connection: Option<&ConnectionContext>,
    ) -> Response
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let (parts, body) = request.into_parts();
        let rules = BodyRules { bytes_max: self.body_bytes_max, peer: None, is_rejected: &|| false };
        match read_body(self, rules, &parts.headers, body, connection).await {
            Ok((body, _held)) => probe_response(key, &parts, &body),
            Err(problem) => problem.into_response(),
        }
    }

    /// The request as kinds see it, with the URL that the sender called.
    fn raw(&self, parts: http::request::Parts, body: Bytes) -> RawRequest {
        let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
        RawRequest {
            method: parts.method,
            url: [self.public_url.as_str(), path].concat(),
            headers: parts.headers,
            body,
            received_at_ms: self.clock.now_ms(),
        }
    }

    /// The answer to a request of this provider.
    pub(super) async fn answer<B>(
        &self,
        entry: &Arc<ProviderEntry>,
        request: http::Request<B>,
        from: ConnectionInfo<'_>,
    ) -> Response
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        // Apart, like all that is rare: the memory of every request would have room for it.
        if let Some(key) = self.probed(&request) {
            return Box::pin(self.probe(&key, request, from.connection)).await;
        }
        let arrival = Arrival::now(from.peer.map(|peer| peer.0));
        let (mut parts, body) = request.into_parts();
        if !entry.is_allowed(arrival.address) {
            self.receiver.refused_address(entry, &parts.headers, arrival, self.clock.now_ms());
            return self.identified(Problem::ADDRESS.into_response(), arrival);
        }
        if entry.caller.is_some() {
            show_certificate(&mut parts);
        }
        let events_by = entry.provider.spec().method;
        let is_event = parts.method.as_str() == events_by.as_str();
        let other_method = Problem::method_of(events_by);
        if !is_event && !entry.provider.has_handshake(parts.method.as_str()) {
            return self.refused(Some(entry), head(&parts), arrival, other_method);
        }
        let is_rejected =
            || is_event && entry.provider.rejects_by_headers(self.raw(parts.clone(), Bytes::new()));
        let rules = BodyRules {
            bytes_max: entry.body_bytes_max,
            peer: arrival.address.map(peer_of),
            is_rejected: &is_rejected,
        };
        let (body, held) = match read_body(self, rules, &parts.headers, body, from.connection).await {
            Ok(read) => read,
            Err(problem) => return self.refused(Some(entry), head(&parts), arrival, problem),
        };
        let uri = parts.uri.clone();
        let raw = self.raw(parts, body);
        let answer = if is_event {
            self.receiver.receive(entry, raw, held, arrival).await
        } else {
            match self.receiver.answer_handshake(entry, &raw) {
                Some(answer) => Ok(answer),
                None => {
                    return self.refused(
                        Some(entry),
                        (&raw.method, &uri, &raw.headers),
                        arrival,
                        other_method,
                    );
                }
            }
        };
        let mut response = match answer {
            Ok(answer) if entry.caller.is_some() => mark_authenticated(response(answer)),
            Ok(answer) => response(answer),
            Err(error) => Problem::from(&error).into_response(),
        };
        // The next event by GET may have the same URL: the answer to it is not a proxy's to give.
        if events_by == EventMethod::Get {
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        self.identified(response, arrival)
    }

    /// Refuses a request that was not verified, and records it.
    pub(super) fn refused(
        &self,
        entry: Option<&Arc<ProviderEntry>>,
        (method, uri, headers): (&Method, &Uri, &HeaderMap),
        arrival: Arrival,
        problem: Problem,
    ) -> Response {
        let request = UnreadRequest {
            method,
            path: uri.path(),
            headers,
            body_bytes_max: entry.map_or(self.body_bytes_max, |entry| entry.body_bytes_max),
            received_at_ms: self.clock.now_ms(),
        };
        let Problem { code, sentence, .. } = problem;
        let reason = UnreadReason { code: code.as_str(), sentence, is_ours: problem.is_ours() };
        self.receiver.refused_unread(entry, &request, arrival, reason);
        self.identified(problem.into_response(), arrival)
    }

    /// The answer with the id of its request, by which its log line and its rejection are found; on a test server with
    /// a header that says so.
    fn identified(&self, mut response: Response, arrival: Arrival) -> Response {
        let mut text = Uuid::encode_buffer();
        // Hexadecimal is always a value.
        if let Ok(value) = HeaderValue::from_str(arrival.request_id.hyphenated().encode_lower(&mut text)) {
            response.headers_mut().insert(REQUEST_ID.clone(), value);
        }
        if self.is_test {
            response.headers_mut().insert(TEST_SERVER.clone(), HeaderValue::from_static("true"));
        }
        response
    }
}

/// The facts of a request that decide about it before its body is read.
fn head(parts: &http::request::Parts) -> (&Method, &Uri, &HeaderMap) {
    (&parts.method, &parts.uri, &parts.headers)
}

/// The routes of the receiver, one for each provider's path.
pub fn router(state: Arc<ReceiverState>) -> Router {
    Router::new()
        .route("/webhooks/{provider}", any(webhook))
        .route("/webhooks/{provider}/{key}", any(receipt))
        .fallback(not_found)
        .with_state(state)
}

/// A path that no provider has; the doctor may check how a request got there.
async fn not_found(State(state): State<Arc<ReceiverState>>, request: Request) -> Response {
    let connection = request.extensions().get::<ConnectionContext>().cloned();
    let arrival = Arrival::now(request.extensions().get::<Peer>().map(|peer| peer.0));
    if let Some(key) = state.probed(&request) {
        return state.probe(&key, request, connection.as_ref()).await;
    }
    let (parts, _) = request.into_parts();
    state.refused(None, head(&parts), arrival, Problem::NO_SUCH_PROVIDER)
}

async fn webhook(
    State(state): State<Arc<ReceiverState>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let Some(entry) = state.receiver.entry(&name) else {
        return not_found(State(state), request).await;
    };
    let connection = request.extensions().get::<ConnectionContext>().cloned();
    let peer = request.extensions().get::<Peer>().copied();
    state.answer(entry, request, ConnectionInfo { peer, connection: connection.as_ref() }).await
}

/// The receipt of a command, for the caller that sent it. All other requests get 404.
async fn receipt(
    State(state): State<Arc<ReceiverState>>,
    Path((name, key)): Path<(String, String)>,
    request: Request,
) -> Response {
    let Some(entry) = state.receiver.entry(&name).filter(|entry| entry.caller.is_some()) else {
        return not_found(State(state), request).await;
    };
    let (mut parts, _) = request.into_parts();
    let arrival = Arrival::now(parts.extensions.get::<Peer>().map(|peer| peer.0));
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let refused = state.refused(Some(entry), head(&parts), arrival, Problem::OTHER_METHOD);
        return ([(header::ALLOW, "GET, HEAD")], refused).into_response();
    }
    if !entry.is_allowed(arrival.address) {
        state.receiver.refused_address(entry, &parts.headers, arrival, state.clock.now_ms());
        return state.identified(Problem::ADDRESS.into_response(), arrival);
    }
    show_certificate(&mut parts);
    let raw = state.raw(parts, Bytes::new());
    let response = match state.receiver.receipt(entry, raw, &key, arrival).await {
        Ok(answer) => mark_authenticated(response(answer)),
        Err(error) => Problem::from(&error).into_response(),
    };
    state.identified(response, arrival)
}

/// Puts the client certificate that TLS has verified where kinds look for it, and removes what the client put there.
fn show_certificate(parts: &mut http::request::Parts) {
    parts.headers.remove(&CLIENT_CERTIFICATE);
    if let Some(client) = parts.extensions.get::<Arc<ClientCertificate>>() {
        // Hexadecimal is always a value.
        let shown = HeaderValue::try_from(hex::encode(client.fingerprint));
        parts.headers.extend(shown.into_iter().map(|value| (CLIENT_CERTIFICATE.clone(), value)));
    }
}

/// Marks a response to an authenticated caller.
fn mark_authenticated(mut response: Response) -> Response {
    response.extensions_mut().insert(KnownCaller);
    response
}

/// The whole body, and the room that its request takes up from here on.
async fn read_body<B>(
    state: &ReceiverState,
    rules: BodyRules<'_>,
    headers: &HeaderMap,
    body: B,
    connection: Option<&ConnectionContext>,
) -> Result<(Bytes, HeldMemory), Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > rules.bytes_max) {
        // A sender that is still writing when the connection closes may never see the answer. One that waits for a word
        // before it sends the body need not send it.
        if !headers.contains_key(header::EXPECT) {
            let drained = Box::pin(tokio::time::timeout(state.body_timeout, drain(body)));
            stop::ignore_result(drained).await;
        }
        return Err(Problem::TOO_LARGE);
    }
    let headers_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let mut held = None;
    let mut is_held = || {
        held = state.room.hold(REQUEST_BYTES + headers_bytes);
        held.is_some()
    };
    with_memory(connection, &mut is_held).await;
    let held = held.ok_or(Problem::SATURATED)?;
    let collect = collected(body, declared, &rules, held, connection);
    let mut collect = std::pin::pin!(collect);
    // Most bodies arrive with their headers, and need no timer.
    let first = std::future::poll_fn(|cx| Poll::Ready(collect.as_mut().poll(cx))).await;
    let read = match first {
        Poll::Ready(collected) => collected,
        Poll::Pending => {
            let in_time = tokio::time::timeout(state.body_timeout, collect).await;
            in_time.unwrap_or(Err(Problem::TOO_SLOW))
        }
    };
    let is_too_slow = connection.is_some_and(|it| it.slot.is_too_slow.load(Ordering::Relaxed));
    read.map_err(
        |problem| if is_too_slow && problem == Problem::BROKEN_BODY { Problem::TOO_SLOW } else { problem },
    )
}

/// Takes memory, from those who keep it longest if need be.
async fn with_memory(
    connection: Option<&ConnectionContext>,
    is_held: &mut (dyn FnMut() -> bool + Send),
) -> bool {
    match connection {
        Some(connection) => connection.limiter.with_memory(&connection.slot, is_held).await,
        None => is_held(),
    }
}

/// Reads a body into memory of its own. Memory is reserved for the bytes that arrived and not for those that were
/// announced, so that a peer that announces much and sends little keeps no other out. Of a body that will be rejected
/// whatever follows, no more than [`LARGE_BYTES`] are kept, and it takes no place among the large ones.
async fn collected<B>(
    mut body: B,
    declared: Option<usize>,
    rules: &BodyRules<'_>,
    mut held: HeldMemory,
    connection: Option<&ConnectionContext>,
) -> Result<(Bytes, HeldMemory), Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut bytes: Vec<u8> = Vec::new();
    let mut pace: Option<LargePace> = None;
    while let Some(frame) = next_frame(&mut body, &held, (pace.as_ref(), bytes.len())).await? {
        let frame = frame.map_err(|_| Problem::BROKEN_BODY)?;
        let Some(data) = frame.data_ref() else { continue };
        let needed = bytes.len() + data.len();
        if needed > rules.bytes_max {
            return Err(Problem::TOO_LARGE);
        }
        // No connection is evicted for it: a small body, however slow, has no such place.
        if needed > LARGE_BYTES && pace.is_none() {
            if (rules.is_rejected)() {
                drain(&mut body).await;
                break;
            }
            held.large(rules.peer).await;
            pace = Some(LargePace { since: Instant::now(), bytes_n: needed });
        }
        if needed > bytes.capacity() {
            let whole = declared.unwrap_or(rules.bytes_max).max(needed);
            let step = if bytes.capacity() == 0 { FIRST_BYTES } else { NEXT_BYTES };
            let capacity = bytes.capacity().saturating_mul(4).max(step).clamp(needed, whole);
            let more = capacity - bytes.capacity();
            if !with_memory(connection, &mut || held.add(more)).await {
                return Err(Problem::SATURATED);
            }
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(data);
    }
    held.is_in_the_way(None);
    bytes.shrink_to_fit();
    Ok((Bytes::from(bytes), held))
}

/// Since when a large body has its place, and how many bytes were there then.
struct LargePace {
    since: Instant,
    bytes_n: usize,
}

impl LargePace {
    /// Bytes a second at which it arrives, where that is less than one may that is in another's way.
    fn too_slow(&self, bytes_n: usize) -> Option<u64> {
        let took_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let arrived_n = u64::try_from(bytes_n.saturating_sub(self.bytes_n)).unwrap_or(u64::MAX);
        let rate = arrived_n.saturating_mul(1_000) / took_ms;
        (self.since.elapsed() > LARGE_GRACE && rate < LARGE_BYTES_PER_S_MIN).then_some(rate)
    }
}

/// The next part of a body of which `bytes_n` bytes are there. A large one gives up when it is slow and in the way of
/// another: two clients could otherwise keep all large bodies waiting.
async fn next_frame<B>(
    body: &mut B,
    held: &HeldMemory,
    (pace, bytes_n): (Option<&LargePace>, usize),
) -> Result<Option<Result<Frame<Bytes>, B::Error>>, Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let Some(pace) = pace else { return Ok(body.frame().await) };
    loop {
        let rate = pace.too_slow(bytes_n);
        if held.is_in_the_way(rate) && rate.is_some() {
            return Err(Problem::TOO_SLOW);
        }
        if let Ok(frame) = tokio::time::timeout(LARGE_LOOK, body.frame()).await {
            return Ok(frame);
        }
    }
}

/// Reads a body that is not wanted, up to [`DRAIN_BYTES_MAX`], and keeps nothing of it. Ends as soon as the client
/// pauses.
async fn drain(mut body: impl HttpBody<Data = Bytes> + Unpin) {
    let mut left = DRAIN_BYTES_MAX;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(DRAIN_PAUSE_MAX, body.frame()).await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => break,
        }
    }
}

fn response(answer: SenderAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = match answer.content_type {
        Cow::Borrowed(known) => HeaderValue::from_static(known),
        // What can be none is plain text.
        Cow::Owned(text) => {
            HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("text/plain; charset=utf-8"))
        }
    };
    headers.insert(header::CONTENT_TYPE, content_type);
    for (name, value) in answer.headers {
        // Text of a client that is not a valid header value is left out, as if it had not been sent.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    if let Some(outcome) = answer.outcome {
        headers.insert(OUTCOME.clone(), HeaderValue::from_static(outcome.as_str()));
    }
    response
}

/// The key of the answer to a request with a valid token; `None` for nearly all requests.
pub(crate) fn probed(
    probes: &ProbeKey,
    clock: &Clock,
    headers: &HeaderMap,
    uri: &http::Uri,
) -> Option<AnswerKey> {
    // These two checks rule out most requests.
    if uri.query().is_none() && !headers.contains_key(&PROBE_HEADER) {
        return None;
    }
    probes.good(probe_token(headers, uri)?, clock.now_ms())
}

/// The answer to it.
pub(crate) fn probe_response(key: &AnswerKey, parts: &http::request::Parts, body: &Bytes) -> Response {
    let mut response = view_reply(StatusCode::OK, &probe_answer(key, parts, body)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(KnownCaller);
    response
}
