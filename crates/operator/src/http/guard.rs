//! Who has access to the operator side: the hosts and origins that requests may name, the bearer tokens of the API, and
//! the limit on wrong ones.
//!
//! A web page can have a browser send requests to any address that the page's name resolves to, also to ours behind the
//! firewall. So the `Host` must be one of ours (a page's own name that resolves here is not), and a request that a page
//! of another origin makes is refused; only a link to a page of the console may be followed from anywhere. Tools send
//! neither `Origin` nor `Sec-Fetch-Site`. `/livez` and `/readyz` are for probes that call us by any name, and reveal
//! nothing of value.
//!
//! After some wrong tokens their sender, and after many every sender of a wrong token, gets 429 in place of 401. A
//! valid token is never throttled, whatever its address or others sent before: an attacker who could lock operators out
//! by guessing would do so when they are needed most.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, header};
use tokio::time::Instant;
use tracing::warn;

use super::edge::{KnownCaller, Peer, split_port};
use super::error::Problem;
use super::token_gate::{Presented, TokenGate};
use hooklatch_core::logging::Sampler;
use hooklatch_core::net::peer_of;

/// Most characters of a client's text in a line.
const SHOWN_CHARS_MAX: usize = 200;

/// What stands at the beginning of paths that are for programs: a link to these has no business on a page.
const FOR_PROGRAMS: [&str; 4] = ["v1", "metrics", "openapi.json", "dev"];

/// Headers of a response that sets no others: browsers store no copy, sniff no content type, and show it in no frame.
/// Refusals and redirects are responses too.
const KEPT_TO_ITSELF: [(header::HeaderName, &str); 3] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// Cost of a wrong token to its sender, and the most that may be owed at once: 10 of them, then one a second.
const PEER_COST: Duration = Duration::from_secs(1);
const PEER_OWED_MAX: Duration = Duration::from_secs(10);
/// Cost of a wrong token to all senders together: 60, then ten a second.
const ALL_COST: Duration = Duration::from_millis(100);
const ALL_OWED_MAX: Duration = Duration::from_secs(6);
/// Most peers that are kept in mind; for further ones only the bound for all holds.
const PEERS_N_MAX: usize = 4_096;

/// Hosts that operators may call us by.
#[derive(Debug, Clone)]
pub struct OperatorHosts {
    listen: IpAddr,
    names: Vec<String>,
    /// Origin of the URL that people reach us at through a proxy.
    public_origin: Option<String>,
}

impl OperatorHosts {
    /// Loopback, the address we listen on (any address, when that is all interfaces) and these names; also those that
    /// are addresses. Pages of `public_origin` are ours, whatever `Host` a proxy makes of it.
    pub fn new(listen: SocketAddr, names: Vec<String>, public_origin: Option<String>) -> Self {
        Self { listen: listen.ip(), names, public_origin }
    }

    /// True when a `Host` is one of ours, whatever its port.
    fn has(&self, host: &str) -> bool {
        let name = split_port(host).0.trim_end_matches('.').to_ascii_lowercase();
        let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal.map(|address| address.to_canonical()) {
            Ok(address) => {
                let is_ours = address.is_loopback() || address == self.listen || self.listen.is_unspecified();
                is_ours || self.names.contains(&name)
            }
            Err(_) => name == "localhost" || self.names.contains(&name),
        }
    }

    /// True when a page of another origin makes the request. A name of ours is not enough: what else listens on other
    /// ports of it gets our cookie too, and over plain HTTP browsers send no more than `Origin`.
    fn is_foreign(&self, headers: &HeaderMap) -> bool {
        let host = text(headers, &header::HOST);
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let is_other = origins.any(|origin| {
            let origin = origin.to_str().unwrap_or_default();
            let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            let is_called = authority.is_some_and(|it| it.eq_ignore_ascii_case(host));
            let is_public = self.public_origin.as_ref().is_some_and(|own| origin.eq_ignore_ascii_case(own));
            !is_called && !is_public
        });
        is_other || is_cross_site(headers)
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// True when a browser marks the request as made by another site, or by another origin of this one.
fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get_all("sec-fetch-site").iter().any(|site| site != "same-origin" && site != "none")
}

/// True when a person follows a link to a page of the console: the browser shows it in place of the page with the link,
/// which cannot read it. A GET of a page changes nothing.
fn is_followed_link(request: &Request) -> bool {
    let headers = request.headers();
    let only = |name: &str, wanted: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|value| value == wanted) && values.next().is_none()
    };
    let first = request.uri().path().trim_start_matches('/').split('/').next().unwrap_or_default();
    request.method() == Method::GET
        && !headers.contains_key(header::ORIGIN)
        && only("sec-fetch-mode", "navigate")
        && only("sec-fetch-dest", "document")
        && !FOR_PROGRAMS.contains(&first)
}

/// The operator's routes, for us alone.
pub fn operators(router: Router, hosts: OperatorHosts) -> Router {
    let guarded = router.layer(middleware::from_fn_with_state(Arc::new(hosts), check_operator));
    guarded.layer(middleware::map_response(kept_to_itself))
}

async fn kept_to_itself(mut response: Response) -> Response {
    for (name, value) in KEPT_TO_ITSELF {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The receiver of `serve --dev`, whose secrets are public: for no browser at all.
pub fn without_browsers(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Request, next: Next| {
        let headers = request.headers();
        if headers.contains_key(header::ORIGIN) || is_cross_site(headers) {
            return refused(&request, "origin", Problem::FOREIGN_ORIGIN);
        }
        next.run(request).await
    }))
}

async fn check_operator(State(hosts): State<Arc<OperatorHosts>>, request: Request, next: Next) -> Response {
    let is_probe = request.method().is_safe() && matches!(request.uri().path(), "/livez" | "/readyz");
    if is_probe {
        return next.run(request).await;
    }
    let headers = request.headers();
    // What a request of absolute form names counts as its `Host` does.
    let named = request.uri().authority().is_none_or(|authority| hosts.has(authority.as_str()));
    if !named || !hosts.has(text(headers, &header::HOST)) {
        return refused(&request, "host", Problem::FOREIGN_HOST);
    }
    if hosts.is_foreign(headers) && !is_followed_link(&request) {
        return refused(&request, "origin", Problem::FOREIGN_ORIGIN);
    }
    next.run(request).await
}

fn refused(request: &Request, reason: &'static str, problem: Problem) -> Response {
    static LINES: Sampler = Sampler::new(5);
    metrics::counter!("hooklatch_operator_refused_total", "reason" => reason).increment(1);
    if let Some(left_out_n) = LINES.take() {
        let headers = request.headers();
        // A line is for people, and a caller may write 64 KiB into each of these.
        let short = |text: &str| text.chars().take(SHOWN_CHARS_MAX).collect::<String>();
        let (host, origin) = (short(text(headers, &header::HOST)), short(text(headers, &header::ORIGIN)));
        let path = short(request.uri().path());
        warn!(reason, host, origin, path, left_out_n, "refused a request that a web page may have made");
    }
    problem.into_response()
}

/// Lets requests with a valid token through, with their [`Principal`](hooklatch_core::types::Principal).
pub(super) async fn authenticated(
    State(gate): State<Arc<TokenGate>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let Some(given) = request.headers().get(header::AUTHORIZATION) else {
        // Who presents nothing guesses nothing.
        return Problem::UNAUTHORIZED.into_response();
    };
    let text = given.to_str().unwrap_or_default();
    let principal = match gate.judge(bearer(text).unwrap_or_default()).await {
        Presented::Valid(principal) => principal,
        Presented::Wrong => return wrong_token(gate.wrong(peer)),
        // Neither is a guess, so neither counts as one: its holder once had a valid token.
        Presented::Expired => return Problem::TOKEN_EXPIRED.into_response(),
        Presented::Revoked => return Problem::TOKEN_REVOKED.into_response(),
        Presented::Unavailable => return Problem::TOKENS_UNKNOWN.into_response(),
    };
    request.extensions_mut().insert(principal);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(KnownCaller);
    response
}

/// The token in `Authorization`; the name of the scheme in any case (RFC 9110, 11.1).
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

/// The response to a wrong token; `wait_s` when it is one of too many.
fn wrong_token(wait_s: Option<u32>) -> Response {
    let Some(wait_s) = wait_s else { return Problem::UNAUTHORIZED.into_response() };
    Problem { retry_after_s: Some(wait_s), ..Problem::TOO_MANY_WRONG_TOKENS }.into_response()
}

/// Counts wrong operator tokens, by peer and for all together.
#[derive(Default)]
pub(super) struct Throttle(Mutex<WrongTokens>);

#[derive(Default)]
struct WrongTokens {
    /// An IPv4 address or an IPv6 /64, each.
    peers: HashMap<IpAddr, Owed>,
    all: Owed,
}

/// The time until which callers wait for the wrong tokens so far.
#[derive(Default)]
struct Owed(Option<Instant>);

impl Owed {
    fn left(&self, now: Instant) -> Duration {
        self.0.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Owes one more; or how long until one more may be owed.
    fn owe(&mut self, cost: Duration, max: Duration, now: Instant) -> Option<Duration> {
        let over = (self.left(now) + cost).saturating_sub(max);
        if over.is_zero() {
            self.0 = Some(now + self.left(now) + cost);
            return None;
        }
        Some(over)
    }
}

impl Throttle {
    /// A wrong token was presented; how many seconds its sender has to wait, when these were too many.
    pub(crate) fn wrong(&self, address: IpAddr) -> Option<u32> {
        let (peer, now) = (peer_of(address), Instant::now());
        let mut inner = self.inner();
        if inner.peers.len() >= PEERS_N_MAX {
            inner.peers.retain(|_, owed| !owed.left(now).is_zero());
        }
        let has_room = inner.peers.len() < PEERS_N_MAX || inner.peers.contains_key(&peer);
        let wait = if has_room {
            inner.peers.entry(peer).or_default().owe(PEER_COST, PEER_OWED_MAX, now)
        } else {
            None
        };
        // Who has to wait anyway has spent nothing of what others have.
        wait.or_else(|| inner.all.owe(ALL_COST, ALL_OWED_MAX, now)).map(seconds)
    }

    fn inner(&self) -> MutexGuard<'_, WrongTokens> {
        // Nothing in here can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whole seconds, rounded up.
fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str) -> OperatorHosts {
        OperatorHosts::new(
            listen.parse().expect("an address"),
            vec!["ops.internal".to_owned()],
            Some("https://ops.example.com:8443".to_owned()),
        )
    }

    #[test]
    fn loopback_the_own_address_and_configured_names_are_ours() {
        #[track_caller]
        fn check(listen: &str, host: &str, want: bool) {
            assert_eq!(hosts(listen).has(host), want, "{host} on {listen}");
        }
        for ours in [
            "127.0.0.1:8081",
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "[::1]:8081",
            "10.0.0.7",
            "ops.internal:80",
        ] {
            check("10.0.0.7:8081", ours, true);
        }
        for other in [
            "",
            "evil.example",
            "10.0.0.8",
            "localhost.evil.example",
            "ops.internal.evil.example",
            "127.0.0.1.evil.example",
        ] {
            check("10.0.0.7:8081", other, false);
        }
        check("0.0.0.0:8081", "10.0.0.8:8081", true);
        check("0.0.0.0:8081", "evil.example", false);
        check("[::]:8081", "[2001:db8::1]:8081", true);
    }

    #[test]
    fn a_link_is_followed_to_pages_and_to_nothing_else() {
        #[track_caller]
        fn check(method: &str, path: &str, more: &[(&str, &str)], want: bool) {
            let mut request = Request::builder().method(method).uri(path);
            for (name, value) in more {
                request = request.header(*name, *value);
            }
            let request = request.body(axum::body::Body::empty()).expect("a request");
            assert_eq!(is_followed_link(&request), want, "{method} {path} {more:?}");
        }
        let link = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        for (path, want) in [
            ("/", true),
            ("/events/stripe/evt_1", true),
            ("/v1", false),
            ("/v1/events", false),
            ("//v1/events", false),
            ("/metrics", false),
            ("/openapi.json", false),
            ("/dev/echo", false),
        ] {
            check("GET", path, &link, want);
        }
        check("POST", "/events", &link, false);
        check("GET", "/events", &[], false);
        check("GET", "/events", &link[..1], false);
        check("GET", "/events", &[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")], false);
        check("GET", "/events", &[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")], false);
        check("GET", "/events", &[link[0], link[1], ("sec-fetch-dest", "iframe")], false);
        check("GET", "/events", &[link[0], link[1], ("origin", "http://evil.example")], false);
    }

    #[test]
    fn a_page_of_another_origin_is_recognised_by_its_request_headers() {
        #[track_caller]
        fn check(given: &[(&'static str, &str)], want: bool) {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "127.0.0.1:8081".parse().expect("a value"));
            for (name, value) in given {
                headers.append(*name, value.parse().expect("a value"));
            }
            assert_eq!(hosts("127.0.0.1:8081").is_foreign(&headers), want, "{given:?}");
        }
        check(&[], false);
        check(&[("origin", "http://127.0.0.1:8081")], false);
        check(&[("origin", "https://ops.example.com:8443")], false);
        check(&[("sec-fetch-site", "same-origin")], false);
        check(&[("sec-fetch-site", "none")], false);
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1:3000",
            "http://localhost:8081",
            "",
            // What else listens there is not ours.
            "https://ops.internal",
            "http://ops.internal:3000",
            "http://ops.example.com:8443",
            "https://ops.example.com",
            "https://ops.example.com:9443",
            "https://ops.example.com:8443.evil.example",
            "chrome-extension://127.0.0.1:8081",
        ] {
            check(&[("origin", origin)], true);
        }
        check(&[("origin", "http://127.0.0.1:8081"), ("origin", "http://evil.example")], true);
        check(&[("sec-fetch-site", "cross-site")], true);
        check(&[("sec-fetch-site", "same-site")], true);
    }

    #[test]
    fn the_scheme_is_read_in_any_case_and_no_other_is_taken() {
        for good in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(bearer(good), Some("abc"), "{good}");
        }
        for bad in ["", "abc", "Basic abc", "Bearerabc", "Bearer\tabc"] {
            assert_eq!(bearer(bad), None, "{bad}");
        }
    }

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4((0xc000_0200 + n).into())
    }

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_tokens_are_answered_at_once_and_then_one_a_second() {
        let throttle = Throttle::default();
        for _ in 0..10 {
            assert_eq!(throttle.wrong(ip(1)), None);
        }
        assert_eq!(throttle.wrong(ip(1)), Some(1));
        assert_eq!(throttle.wrong(ip(2)), None, "others do not wait");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((throttle.wrong(ip(1)), throttle.wrong(ip(1))), (None, Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn all_guessing_peers_share_ten_a_second_and_a_64_is_one_peer() {
        let throttle = Throttle::default();
        let unthrottled_n = (0..1_000).filter(|n| throttle.wrong(ip(n % 100)).is_none()).count();
        assert_eq!(unthrottled_n, 60);
        tokio::time::advance(Duration::from_secs(100)).await;
        let v6 = |n: u128| IpAddr::V6((0x2001_0db8_u128 << 96 | n).into());
        assert_eq!((0..1_000).filter(|n| throttle.wrong(v6(*n)).is_none()).count(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_in_mind_of_peers_is_bounded() {
        let throttle = Throttle::default();
        for n in 0..20_000 {
            throttle.wrong(ip(n));
        }
        assert!(throttle.inner().peers.len() <= PEERS_N_MAX);
    }
}
