//! The clients of one destination, because connections, certificates, proxy and the addresses that may be reached are
//! its own: the lean one, and `reqwest` for proxies and for HTTP/2. A call and its answer are the same for both.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method};
use hyper::body::{Frame, SizeHint};
use reqwest::{Body, Client, ClientBuilder, Proxy, Response};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::time::{Instant, timeout_at};

use super::address::{Address, Origin};
use super::lean::{Lean, LeanStop, system_lookup};
use crate::destinations::{CONNECTION_AGE_MAX, DestinationError, HandshakeEnd};
use crate::locked;
use hooklatch_core::config::{DestinationConfig, HttpVersion, Secret, TlsConfig, UnknownPolicy};
use hooklatch_core::net::{Allowed, Guard, client_builder, is_private_host, read_capped};
use hooklatch_core::template;

/// Most bytes of an answer that are read: of its headers, and of its body.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Idle connections are dropped before common destinations drop them (Node.js: 5 s), because a request written
/// to a connection that is being closed ends as unknown.
pub(crate) const IDLE: Duration = Duration::from_secs(4);
/// Longest text of an error, in characters.
const WHY_CHARS_MAX: usize = 300;

/// One request that is to be sent.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) address: &'a Address,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Longest time from connecting to the last byte of the answer.
    pub(crate) timeout: Duration,
    /// True when the body of the answer has a say.
    pub(crate) is_body_wanted: bool,
}

/// The answer to one call.
pub(crate) struct HttpAnswer {
    pub(crate) code: u16,
    pub(crate) retry_after: Option<String>,
    /// Empty if it was not wanted.
    pub(crate) body: Result<Bytes, BodyCut>,
}

/// The reason why a body is not whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyCut {
    TooLong,
    TooSlow,
    Broken(String),
}

/// The reason why there is no answer, in words without URLs, bodies or secrets.
pub(crate) enum CallFailure {
    /// The address is not one that may be called.
    Private(String),
    /// No byte of the request has left.
    NotSent(String),
    /// The destination may have it.
    Unknown(String),
}

impl CallFailure {
    /// The words of what happened, without what it means.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Private(why) | Self::NotSent(why) | Self::Unknown(why) => why,
        }
    }
}

/// The `Retry-After` of an answer.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<String> {
    headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Why there is no answer, after a timeout.
pub(crate) fn no_answer(timeout: Duration) -> String {
    format!("no answer within {} ms", timeout.as_millis())
}

/// Why the outcome is unknown, after a good answer of a destination that cannot have looked at the request.
pub(crate) fn answered_early(code: u16) -> String {
    format!("it answered {code} before it had taken the whole request")
}

/// An error and its causes in one line.
pub(crate) fn error_line(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WHY_CHARS_MAX).collect()
}

/// The TLS of one destination; `None` where none of its calls can need any, so that those go out from a machine
/// without certificate authorities, too. `Err(why)` for what cannot be used.
pub(crate) fn tls(config: &DestinationConfig) -> Result<Option<ClientConfig>, String> {
    let asks_by_tls =
        matches!(&config.unknown, UnknownPolicy::Query(query) if !query.url.starts_with("http:"));
    let proxies_by_tls = config.http.proxy.as_ref().is_some_and(|proxy| !proxy.reveal().starts_with("http:"));
    let tls = &config.http.tls;
    if tls.ca.is_none() && config.url.starts_with("http:") && !asks_by_tls && !proxies_by_tls {
        return Ok(None);
    }
    let mut client = client(tls)?;
    client.alpn_protocols = match config.http.version {
        HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersion::Only11 => vec![b"http/1.1".to_vec()],
        HttpVersion::Only2 => vec![b"h2".to_vec()],
    };
    Ok(Some(client))
}

fn client(tls: &TlsConfig) -> Result<ClientConfig, String> {
    let text = |error: rustls::Error| error.to_string();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(text)?;
    let builder = if let Some(ca) = &tls.ca {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(text)?;
        }
        builder.with_root_certificates(roots)
    } else {
        let system = Verifier::new(provider).map_err(text)?;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(system))
    };
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else {
        return Ok(builder.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes())
        .map_err(|_| "tls.key holds no private key that can be read".to_owned())?;
    builder.with_client_auth_cert(certificates(certificate)?, key).map_err(text)
}

fn certificates(pem: &Secret) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem.reveal().as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| "a certificate of `tls` cannot be read".to_owned())
}

/// Size of the pieces in which a longer body is sent by `reqwest`.
const PIECE_BYTES: usize = 16 * 1024;

fn builder() -> ClientBuilder {
    client_builder().pool_idle_timeout(IDLE)
}

/// A client for anything that is not a destination.
pub fn http_client() -> Result<Client, DestinationError> {
    builder().build().map_err(|error| DestinationError::Client { name: None, why: reqwest_line(error) })
}

/// A client for anything that is not a destination, which trusts the authorities in `ca`, PEM, instead of the system's.
pub fn http_client_trusting(ca: &[u8]) -> Result<Client, DestinationError> {
    let failed = |error| DestinationError::Client { name: None, why: reqwest_line(error) };
    let authorities = reqwest::Certificate::from_pem_bundle(ca).map_err(failed)?;
    builder().tls_certs_only(authorities).build().map_err(failed)
}

/// Makes the calls of one destination.
pub(crate) struct Caller {
    lean: Lean,
    /// False once the destination has asked for HTTP/2, and where a proxy is in between.
    is_lean: AtomicBool,
    /// The client that knows proxies and HTTP/2, with the time at which it was made; made when it is first needed.
    other: Mutex<Option<(Instant, Client)>>,
    options: CallerOptions,
    /// [`CONNECTION_AGE_MAX`], but for tests.
    age_max: Duration,
}

/// The options of a destination's clients.
pub(crate) struct CallerOptions {
    pub(crate) tls: Option<ClientConfig>,
    pub(crate) connect_timeout: Duration,
    /// Most connections that are kept open for the next calls.
    pub(crate) idle_n_max: usize,
    pub(crate) proxy: Option<String>,
    pub(crate) version: HttpVersion,
    /// The addresses that a name may lead to; `None`: all.
    pub(crate) allowed: Option<Allowed>,
}

impl Caller {
    /// `timeout` is from connect to last byte. `Err(why)` for options that cannot be used.
    pub(crate) fn new(config: &DestinationConfig, timeout: Duration) -> Result<Self, String> {
        let http = &config.http;
        // A connection that the destination closes while it idles would make an operator decide. A new one for each
        // call costs a handshake and leaves no such doubt.
        let is_hold = config.unknown == UnknownPolicy::Hold;
        let options = CallerOptions {
            tls: tls(config)?,
            connect_timeout: http.connect_timeout_ms.map_or(timeout / 2, Duration::from_millis).min(timeout),
            idle_n_max: if is_hold { 0 } else { config.concurrency_n as usize },
            proxy: http.proxy.as_ref().map(|proxy| proxy.reveal().to_owned()),
            version: http.version,
            allowed: template::has_host_template(&config.url).then(|| Allowed::new(&http.private_hosts)),
        };
        let lean = Lean::new(system_lookup(options.allowed.clone()), &options);
        let is_lean = options.proxy.is_none() && options.version != HttpVersion::Only2;
        let (other, age_max) = (Mutex::default(), CONNECTION_AGE_MAX);
        let caller = Self { lean, is_lean: AtomicBool::new(is_lean), other, options, age_max };
        if !is_lean {
            caller.other()?;
        }
        Ok(caller)
    }

    /// Connects to `origin`, which has TLS, and hangs up; `None` where calls go through a proxy.
    pub(crate) async fn handshake(&self, origin: &Origin, limit: Duration) -> Option<HandshakeEnd> {
        if self.options.proxy.is_some() {
            return None;
        }
        Some(self.lean.handshake(origin, limit).await)
    }

    /// Makes one call, once.
    pub(crate) async fn call(&self, mut call: Call<'_>) -> Result<HttpAnswer, CallFailure> {
        if self.is_lean.load(Ordering::Relaxed) {
            match self.lean.call(&mut call).await {
                Ok(answered) => return Ok(answered),
                Err(LeanStop::Failed(failed)) => return Err(failed),
                // Until the next start.
                Err(LeanStop::Http2) => self.is_lean.store(false, Ordering::Relaxed),
            }
        }
        self.call_other(call).await
    }

    /// The other client, created again when it is old, and with it its connections. Calls under way end on those of
    /// before.
    fn other(&self) -> Result<Client, String> {
        let mut made = locked(&self.other);
        if let Some((made_at, client)) = made.as_ref()
            && made_at.elapsed() < self.age_max
        {
            return Ok(client.clone());
        }
        let client = self.options.client().map_err(reqwest_line)?;
        *made = Some((Instant::now(), client.clone()));
        Ok(client)
    }

    async fn call_other(&self, call: Call<'_>) -> Result<HttpAnswer, CallFailure> {
        let client = self.other().map_err(CallFailure::NotSent)?;
        let deadline = Instant::now() + call.timeout;
        let request = client.request(call.method, call.address.url.clone());
        let (body, is_taken) = Pieces::of(call.body);
        let request = request.headers(call.headers).body(body);
        match timeout_at(deadline, request.send()).await {
            // As on the lean client.
            Ok(Ok(response)) if response.status().is_success() && !is_taken.load(Ordering::Relaxed) => {
                Err(CallFailure::Unknown(answered_early(response.status().as_u16())))
            }
            Ok(Ok(response)) => Ok(answered(response, deadline).await),
            Ok(Err(error)) if is_private_host(&error) => Err(CallFailure::Private(reqwest_line(error))),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                Err(CallFailure::NotSent(reqwest_line(error)))
            }
            Ok(Err(error)) => Err(CallFailure::Unknown(reqwest_line(error))),
            Err(_) => Err(CallFailure::Unknown(no_answer(call.timeout))),
        }
    }
}

/// A body that notes when its last piece was taken, which HTTP/2 does only as far as the destination has room.
struct Pieces {
    left: Bytes,
    is_taken: Arc<AtomicBool>,
}

impl Pieces {
    /// The body of a request, and whether all of it was taken.
    fn of(body: Bytes) -> (Body, Arc<AtomicBool>) {
        let is_short = body.len() <= PIECE_BYTES;
        let is_taken = Arc::new(AtomicBool::new(is_short));
        if is_short {
            return (body.into(), is_taken);
        }
        (Body::wrap(Self { left: body, is_taken: Arc::clone(&is_taken) }), is_taken)
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece_n = PIECE_BYTES.min(self.left.len());
        let piece = self.left.split_to(piece_n);
        self.is_taken.store(self.left.is_empty(), Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

async fn answered(response: Response, deadline: Instant) -> HttpAnswer {
    let code = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let body = match timeout_at(deadline, read_capped(response, ANSWER_BYTES_MAX)).await {
        Ok(Ok(Some(body))) => Ok(Bytes::from(body)),
        Ok(Ok(None)) => Err(BodyCut::TooLong),
        Ok(Err(error)) => Err(BodyCut::Broken(reqwest_line(error))),
        Err(_) => Err(BodyCut::TooSlow),
    };
    HttpAnswer { code, retry_after, body }
}

impl CallerOptions {
    fn client(&self) -> reqwest::Result<Client> {
        let mut builder =
            builder().connect_timeout(self.connect_timeout).pool_max_idle_per_host(self.idle_n_max);
        builder = match self.version {
            HttpVersion::Auto => builder,
            HttpVersion::Only11 => builder.http1_only(),
            HttpVersion::Only2 => builder.http2_prior_knowledge(),
        };
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(Proxy::all(proxy)?);
        }
        if let Some(allowed) = &self.allowed {
            builder = builder.dns_resolver(Guard::new(allowed.clone()));
        }
        match &self.tls {
            Some(tls) => builder.tls_backend_preconfigured(tls.clone()),
            None => builder.tls_certs_only([]),
        }
        .build()
    }
}

/// An error and its causes in one line, without the address.
fn reqwest_line(error: reqwest::Error) -> String {
    error_line(&error.without_url())
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use reqwest::Url;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;
    use crate::policy::tests::config;

    /// A destination that speaks HTTP/2 and answers 200, with `is_reader` after it has read the request. Runs until
    /// dropped.
    async fn destination(is_reader: bool) -> (String, Arc<Mutex<usize>>, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (connections_n, mut running) = (Arc::<Mutex<usize>>::default(), JoinSet::new());
        let counted = Arc::clone(&connections_n);
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *counted.lock().unwrap() += 1;
                let answer = service_fn(move |request: Request<Incoming>| async move {
                    if is_reader {
                        let length = request.headers()["content-length"].to_str().unwrap().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        assert_eq!(length, body.len().to_string());
                    }
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                });
                let mut server =
                    hyper_util::server::conn::auto::Builder::new(TokioExecutor::new()).http2_only();
                server.http2().initial_stream_window_size(65_535);
                connections.spawn(async move {
                    drop(server.serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        (url, connections_n, running)
    }

    fn caller(url: &str) -> Caller {
        let mut config = DestinationConfig { url: url.to_owned(), ..config(UnknownPolicy::Retry) };
        config.http.version = HttpVersion::Only2;
        Caller::new(&config, Duration::from_secs(20)).unwrap()
    }

    async fn called(caller: &Caller, url: &str, bytes_n: usize) -> String {
        let address = Address::new(Url::parse(url).unwrap()).unwrap();
        let (method, headers, body) = (Method::POST, HeaderMap::new(), Bytes::from(vec![b'x'; bytes_n]));
        let timeout = Duration::from_secs(20);
        let call = Call { method, address: &address, headers, body, timeout, is_body_wanted: true };
        match caller.call(call).await {
            Ok(answered) => answered.code.to_string(),
            Err(CallFailure::Unknown(why)) => format!("unknown: {why}"),
            Err(failed) => failed.why(),
        }
    }

    #[tokio::test]
    async fn a_good_answer_to_half_a_request_is_unknown_over_http_2_as_well() {
        let (url, _, _running) = destination(false).await;
        let caller = caller(&url);
        let early = "unknown: it answered 200 before it had taken the whole request";
        assert_eq!(called(&caller, &url, 1_000_000).await, early);
        assert_eq!(called(&caller, &url, 1_000).await, "200", "it may have all of a short one");
        let (url, _, _running) = destination(true).await;
        for bytes_n in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 1_000_000] {
            assert_eq!(called(&caller, &url, bytes_n).await, "200", "{bytes_n}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_never_idle_is_replaced_when_it_is_old() {
        let (url, connections_n, _running) = destination(true).await;
        let mut caller = caller(&url);
        for _ in 0..2 {
            assert_eq!(called(&caller, &url, 1).await, "200");
        }
        assert_eq!(*connections_n.lock().unwrap(), 1);
        caller.age_max = Duration::ZERO;
        assert_eq!(called(&caller, &url, 1).await, "200");
        assert_eq!(*connections_n.lock().unwrap(), 2);
    }
}
