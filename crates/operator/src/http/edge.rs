//! One connection's requests on their way to the router: what no router should see is answered here, bodies are watched
//! while they arrive, and the connection's life ends in time.
//!
//! hyper does not enforce all rules about the framing of HTTP/1.1 requests (RFC 9110 and 9112): one good `Host`, an
//! expectation that we know, a transfer coding that we know. A client that gets these wrong, or a proxy that reads them
//! otherwise than we do, may mean another request than we would see.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Version, header};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use rustls::ServerConfig;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt;

use super::error::Problem;
use super::listener::Limits;
use super::receiver::{self, ConnectionInfo, ReceiverState};
use super::room::{ConnectionLimiter, ConnectionSlot};
use hooklatch_core::current::Current;
use hooklatch_core::stop::Leaving;
use hooklatch_core::types::ClientCertificate;
use hooklatch_receive::Arrival;

/// Time that a body may take before its rate is looked at.
const RATE_GRACE: Duration = Duration::from_secs(2);

/// Refusals in a row that are sent at once; each further one is delayed longer than the last, up to a bound. A client
/// that gets refusals alone thereby has a few of them a second on each connection, and not our processors; a verified
/// request never waits.
const REFUSALS_AT_ONCE_N: u32 = 4;
const REFUSAL_DELAY_STEP: Duration = Duration::from_millis(20);
const REFUSAL_DELAY_MAX: Duration = Duration::from_millis(500);

/// A body of up to this many bytes usually arrives with its head: hyper skips the part that was not read, and the
/// connection goes on. Bytes.
const LEFT_BYTES_MAX: u64 = 8 << 10;

/// Client address of a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// The connection of a request, and the room it is in.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) limiter: Arc<ConnectionLimiter>,
    pub(super) slot: Arc<ConnectionSlot>,
}

/// Marks a response to an authenticated caller. A response with an outcome needs no such mark.
#[derive(Debug, Clone, Copy)]
pub struct KnownCaller;

/// What a listener serves: the routes of one configuration, and the receiver where it is one. A reload replaces them; a
/// request keeps those that it began with.
pub struct Routes {
    router: Router,
    receiver: Option<Arc<ReceiverState>>,
    /// True when webhooks reach the receiver without the router, which takes longer to find it.
    is_direct: bool,
}

impl Routes {
    /// The routes of the receiver; behind what `wrap` puts around them, if anything.
    pub fn receiver(state: Arc<ReceiverState>, wrap: Option<fn(Router) -> Router>) -> Self {
        let (router, is_direct) = (receiver::router(Arc::clone(&state)), wrap.is_none());
        let router = if let Some(wrap) = wrap { wrap(router) } else { router };
        Self { router, receiver: Some(state), is_direct }
    }

    /// The receiver, where these are its routes.
    pub(super) fn state(&self) -> Option<Arc<ReceiverState>> {
        self.receiver.clone()
    }
}

impl From<Router> for Routes {
    fn from(router: Router) -> Self {
        Self { router, receiver: None, is_direct: false }
    }
}

/// One connection, and what it may still do.
pub(super) struct Edge {
    pub(super) routes: Current<Routes>,
    pub(super) peer: Peer,
    /// The bounds of its listener.
    pub(super) limits: Arc<Limits>,
    /// Certificate that the peer showed.
    pub(super) client: Option<Arc<ClientCertificate>>,
    pub(super) connection: ConnectionContext,
    /// Number of its requests that were refused since the last one that was not.
    pub(super) refusals_n: AtomicU32,
    /// Number of requests that it may still bring.
    pub(super) requests_n_left: AtomicU32,
    /// After this it is closed behind an answer.
    pub(super) ends_at: Instant,
    /// It is also closed once a stop was announced: a client that sends another request then reaches another node.
    pub(super) leaving: Leaving,
    /// And once its listener has another configuration than this one of the handshake: a client whose authority was
    /// removed is not served on.
    pub(super) tls: Option<Arc<ServerConfig>>,
}

impl Edge {
    /// The answer to one request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response, Infallible> {
        // One after the other, and others in between.
        let is_pipelined = self.slot().is_pipelined();
        if is_pipelined {
            tokio::task::yield_now().await;
        }
        let is_whole = request.body().is_end_stream();
        let is_short = request.body().size_hint().upper().is_some_and(|bytes_n| bytes_n <= LEFT_BYTES_MAX);
        let began = Instant::now();
        let has_place = if is_whole { self.slot().busy() } else { self.slot().receiving(began) };
        if !has_place {
            return std::future::pending().await;
        }
        self.slot().is_too_slow.store(false, Ordering::Relaxed);
        let mut response = match framing_mistake(&request) {
            Some(problem) => closing(self.misframed(&request, problem)),
            None => self.routed(request, began).await,
        };
        // The rest of a body is not read, and then the connection ends: the response announces that (RFC 9112, 9.6).
        if self.slot().is_in_request() && !is_short {
            response = closing(response);
        }
        let is_too_slow = self.slot().is_too_slow.load(Ordering::Relaxed);
        // The receiver returns this problem itself.
        if is_too_slow && self.routes.get().receiver.is_none() {
            response = Problem::TOO_SLOW.into_response();
        }
        if is_too_slow {
            response = closing(response);
        }
        let is_verified = response.headers().contains_key(&receiver::OUTCOME)
            || response.extensions().get::<KnownCaller>().is_some();
        // Who does not wait for answers gets no second refusal: one write could make us parse thousands of requests.
        if is_pipelined && !is_verified {
            response = closing(response);
        }
        let is_last = self.requests_n_left.fetch_sub(1, Ordering::Relaxed) <= 1;
        let now = Instant::now();
        let current = self.limits.tls.as_ref().map(|tls| tls.current());
        let is_other_tls =
            current.zip(self.tls.as_ref()).is_some_and(|(current, own)| !Arc::ptr_eq(&current, own));
        if is_last || is_other_tls || now >= self.ends_at || self.leaving.has_begun() {
            response = closing(response);
        }
        self.slot().answered(is_verified, now);
        if response.status().is_client_error() && !is_verified {
            self.refused().await;
        } else {
            self.refusals_n.store(0, Ordering::Relaxed);
        }
        Ok(response)
    }

    fn slot(&self) -> &Arc<ConnectionSlot> {
        &self.connection.slot
    }

    /// Holds a refusal back, while its connection may be closed for another one.
    async fn refused(&self) {
        if let Some(delay) = refusal_delay(self.refusals_n.fetch_add(1, Ordering::Relaxed)) {
            tokio::time::sleep_until(Instant::now() + delay).await;
        }
    }

    /// The answer to a request whose framing is wrong.
    fn misframed(&self, request: &Request<Incoming>, problem: Problem) -> Response {
        let Some(state) = self.routes.get().state() else { return problem.into_response() };
        let arrival = Arrival::now(Some(self.limits.origin.origin(self.peer.0, request.headers())));
        let head = (request.method(), request.uri(), request.headers());
        state.refused(state.usual(request), head, arrival, problem)
    }

    async fn routed(&self, request: Request<Incoming>, began: Instant) -> Response {
        let routes = self.routes.get();
        let direct = routes.receiver.as_ref().filter(|_| routes.is_direct);
        let usual = direct.and_then(|state| Some((state, state.usual(&request)?)));
        let (mut parts, body) = request.into_parts();
        let origin = Peer(self.limits.origin.origin(self.peer.0, &parts.headers));
        if let Some(client) = &self.client {
            parts.extensions.insert(Arc::clone(client));
        }
        let is_whole = body.is_end_stream();
        let body = WatchedBody {
            inner: body,
            slot: Arc::clone(self.slot()),
            bytes_per_s_min: self.limits.body_bytes_per_s_min,
            began,
            bytes_n: 0,
            deadline: None,
        };
        if let Some((state, entry)) = usual {
            // It has memory of its own, because it needs much, and most connections have no request most of the time.
            let from = ConnectionInfo { peer: Some(origin), connection: Some(&self.connection) };
            return Box::pin(state.answer(entry, Request::from_parts(parts, body), from)).await;
        }
        parts.extensions.insert(origin);
        parts.extensions.insert(self.connection.clone());
        let body = if is_whole { Body::empty() } else { Body::new(body) };
        let routed = Box::pin(routes.router.clone().oneshot(Request::from_parts(parts, body))).await;
        routed.unwrap_or_else(|never| match never {})
    }
}

/// Time that a refusal is held back after `before_n` refusals in a row; `None` for the first few.
fn refusal_delay(before_n: u32) -> Option<Duration> {
    let late_n = before_n.checked_sub(REFUSALS_AT_ONCE_N - 1).filter(|n| *n > 0)?;
    Some(REFUSAL_DELAY_STEP.saturating_mul(late_n).min(REFUSAL_DELAY_MAX))
}

/// Time by which the next byte of a body has to be there, counted from its beginning; `None` where any rate will do.
fn due_within(bytes_n: u64, bytes_per_s_min: u64) -> Option<Duration> {
    let paid_ms = bytes_n.saturating_mul(1_000).checked_div(bytes_per_s_min)?;
    Some(RATE_GRACE.saturating_add(Duration::from_millis(paid_ms)))
}

/// Closes the connection behind this answer: what follows is not read.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A body on its way in. The connection waits for its peer until the body is whole; a peer that is slower than the
/// least rate is given up.
struct WatchedBody {
    inner: Incoming,
    slot: Arc<ConnectionSlot>,
    bytes_per_s_min: u64,
    began: Instant,
    bytes_n: u64,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl WatchedBody {
    /// The time by which the next byte has to be there.
    fn due_at(&self) -> Option<Instant> {
        self.began.checked_add(due_within(self.bytes_n, self.bytes_per_s_min)?)
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(due_at) = self.due_at() else { return Poll::Pending };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due_at)));
        if deadline.deadline() != due_at {
            deadline.as_mut().reset(due_at);
        }
        std::task::ready!(deadline.as_mut().poll(cx));
        self.slot.is_too_slow.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err("the body comes in too slowly".into())))
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.bytes_n += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        let is_whole = match &polled {
            Poll::Ready(Some(Ok(_))) => self.inner.is_end_stream(),
            Poll::Ready(None) => true,
            Poll::Ready(Some(Err(_))) => false,
            Poll::Pending => return self.poll_deadline(cx),
        };
        // Evicted just now: the connection ends before a handler acts on its request.
        if is_whole && !self.slot.busy() {
            return Poll::Pending;
        }
        polled.map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Returns what is wrong with the framing of a request.
pub(crate) fn framing_mistake<B>(request: &Request<B>) -> Option<Problem> {
    let headers = request.headers();
    if !is_host_good(headers, request.version()) {
        return Some(Problem::BAD_HOST);
    }
    // RFC 9110, 10.1.1: an expectation that is not known may be answered with 417.
    let mut expected = values(headers, &header::EXPECT);
    // RFC 9110, 5.6.1.2: an empty member of a list does not count.
    if !expected.all(|word| word.is_empty() || word.eq_ignore_ascii_case("100-continue")) {
        return Some(Problem::EXPECTATION);
    }
    coding_mistake(headers)
}

/// RFC 9112, 3.2: 400 when HTTP/1.1 has no `Host`, when there is more than one, and when it is not a host.
fn is_host_good(headers: &HeaderMap, version: Version) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => host.to_str().is_ok_and(|host| host.is_empty() || is_authority(host)),
        (Some(_), Some(_)) => false,
    }
}

/// `HOST` or `HOST:PORT`, where an IPv6 address is in brackets.
fn is_authority(host: &str) -> bool {
    let (name, port) = split_port(host);
    let is_name = match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()),
        None => {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte))
        }
    };
    is_name && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// A host without its port, and the port.
pub(super) fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    }
}

/// RFC 9112, 6.1 and 7: `chunked` once and last; 501 for codings that are not known.
fn coding_mistake(headers: &HeaderMap) -> Option<Problem> {
    if !headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let codings: Vec<&str> = values(headers, &header::TRANSFER_ENCODING).collect();
    match codings.as_slice() {
        [one] if one.eq_ignore_ascii_case("chunked") => None,
        many if many.iter().all(|coding| coding.eq_ignore_ascii_case("chunked")) => Some(Problem::BAD_CODING),
        _ => Some(Problem::UNKNOWN_CODING),
    }
}

/// The members of a list that may be spread over several lines; one that is not text becomes a member that is unknown.
fn values<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_delayed_more_and_more_up_to_a_bound() {
        let ms = |before_n| refusal_delay(before_n).map(|delay| delay.as_millis());
        let found: Vec<Option<u128>> = [0, 3, 4, 5, 28, 29, u32::MAX].map(ms).into();
        assert_eq!(found, [None, None, Some(20), Some(40), Some(500), Some(500), Some(500)]);
    }

    #[test]
    fn a_body_earns_its_time_byte_by_byte_behind_a_grace() {
        #[track_caller]
        fn check(bytes_n: u64, bytes_per_s_min: u64, want_ms: Option<u64>) {
            assert_eq!(due_within(bytes_n, bytes_per_s_min), want_ms.map(Duration::from_millis));
        }
        check(0, 1_000, Some(2_000));
        check(500, 1_000, Some(2_500));
        check(3_000, 1_000, Some(5_000));
        check(1, 3, Some(2_333));
        check(1 << 20, 0, None);
        assert!(due_within(u64::MAX, 1).is_some(), "no length overflows");
    }

    #[test]
    fn what_the_rfcs_forbid_is_answered_as_they_say() {
        #[track_caller]
        fn check(version: Version, headers: &[(&str, &str)], want: Option<u16>) {
            let mut request = Request::builder().version(version).uri("/x");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(()).expect("a request");
            assert_eq!(framing_mistake(&request).map(|problem| problem.status.as_u16()), want, "{headers:?}");
        }
        let new = Version::HTTP_11;
        for good in ["a", "a:80", "127.0.0.1:8080", "[::1]:80", "", "a.b-c.example"] {
            check(new, &[("host", good)], None);
        }
        check(Version::HTTP_10, &[], None);
        check(new, &[], Some(400));
        check(new, &[("host", "a"), ("host", "a")], Some(400));
        for bad in ["a b", "a@b", "a/b", "a,b", ":80", "a:b:c", "\u{fc}"] {
            check(new, &[("host", bad)], Some(400));
        }
        check(new, &[("host", "a"), ("expect", "100-Continue")], None);
        check(new, &[("host", "a"), ("expect", "")], None);
        check(new, &[("host", "a"), ("expect", "200-maybe")], Some(417));
        check(new, &[("host", "a"), ("expect", "100-continue, x")], Some(417));
        for (coding, want) in [
            ("chunked", None),
            ("Chunked", None),
            ("chunked, chunked", Some(400)),
            ("gzip, chunked", Some(501)),
            ("chunked, gzip", Some(501)),
            ("identity", Some(501)),
            ("", Some(501)),
        ] {
            check(new, &[("host", "a"), ("transfer-encoding", coding)], want);
        }
        let twice = [("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        check(new, &twice, Some(400));
    }
}
