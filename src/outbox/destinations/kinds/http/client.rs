//! The clients of one destination, because connections, certificates, proxy and the addresses that may be reached are
//! its own: the lean one, and `reqwest` for proxies and for HTTP/2.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Client, ClientBuilder, Proxy, Response};
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};

use super::address::Origin;
use super::call::{ANSWER_BYTES_MAX, BodyCut, Call, CallFailure, HttpAnswer, IDLE, no_answer, retry_after};
use super::lean::{Lean, LeanOptions, LeanStop};
use super::tls::tls;
use crate::config::{DestinationConfig, HttpVersion, UnknownPolicy};
use crate::net::{Allowed, Guard, client_builder, is_private_host, read_capped};
use crate::outbox::destinations::error::DestinationError;
use crate::outbox::destinations::handshake::HandshakeEnd;
use crate::template;

fn builder() -> ClientBuilder {
    client_builder().pool_idle_timeout(IDLE)
}

/// A client for anything that is not a destination.
pub(crate) fn http_client() -> Result<Client, DestinationError> {
    builder().build().map_err(|error| DestinationError::Client { name: None, why: words(error) })
}

/// The same, which believes the authorities in `ca`, PEM, instead of those of the system.
pub(crate) fn http_client_believing(ca: &[u8]) -> Result<Client, DestinationError> {
    let failed = |error| DestinationError::Client { name: None, why: words(error) };
    let authorities = reqwest::Certificate::from_pem_bundle(ca).map_err(failed)?;
    builder().tls_certs_only(authorities).build().map_err(failed)
}

/// Makes the calls of one destination.
pub(super) struct Caller {
    lean: Lean,
    /// False once the destination has said that it would rather have HTTP/2, and where a proxy is in between.
    is_lean: AtomicBool,
    other: ReqwestCaller,
}

/// The client that knows proxies and HTTP/2, made when it is first needed.
struct ReqwestCaller {
    client: OnceLock<Result<Client, String>>,
    options: CallerOptions,
}

struct CallerOptions {
    tls: Option<ClientConfig>,
    connect_timeout: Duration,
    idle_n_max: usize,
    proxy: Option<String>,
    version: HttpVersion,
    allowed: Option<Allowed>,
}

impl Caller {
    /// `timeout` is from connect to last byte. `Err(why)` for options that cannot be used.
    pub(super) fn new(config: &DestinationConfig, timeout: Duration) -> Result<Self, String> {
        let http = &config.http;
        // A connection that the destination closes while it idles would make a person decide. A new one for each
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
        let lean = Lean::new(LeanOptions {
            allowed: options.allowed.clone(),
            tls: options.tls.clone(),
            connect_timeout: options.connect_timeout,
            idle_n_max: options.idle_n_max,
        });
        let is_lean = options.proxy.is_none() && options.version != HttpVersion::Only2;
        let other = ReqwestCaller { client: OnceLock::new(), options };
        if !is_lean {
            other.client()?;
        }
        Ok(Self { lean, is_lean: AtomicBool::new(is_lean), other })
    }

    /// Connects to `origin`, which has TLS, and hangs up; `None` where calls go through a proxy.
    pub(super) async fn handshake(&self, origin: &Origin, limit: Duration) -> Option<HandshakeEnd> {
        if self.other.options.proxy.is_some() {
            return None;
        }
        Some(self.lean.handshake(origin, limit).await)
    }

    /// Makes one call, once.
    pub(super) async fn call(&self, mut call: Call<'_>) -> Result<HttpAnswer, CallFailure> {
        if self.is_lean.load(Ordering::Relaxed) {
            match self.lean.call(&mut call).await {
                Ok(answered) => return Ok(answered),
                Err(LeanStop::Failed(failed)) => return Err(failed),
                // Until the next start.
                Err(LeanStop::Http2) => self.is_lean.store(false, Ordering::Relaxed),
            }
        }
        self.other.call(call).await
    }
}

impl ReqwestCaller {
    fn client(&self) -> Result<&Client, String> {
        let made = self.client.get_or_init(|| self.options.client().map_err(words));
        made.as_ref().map_err(String::clone)
    }

    async fn call(&self, call: Call<'_>) -> Result<HttpAnswer, CallFailure> {
        let client = self.client().map_err(CallFailure::NotSent)?;
        let deadline = Instant::now() + call.timeout;
        let request = client.request(call.method, call.address.url.clone());
        let request = request.headers(call.headers).body(call.body);
        match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) => Ok(answered(response, deadline).await),
            Ok(Err(error)) if is_private_host(&error) => Err(CallFailure::Private(words(error))),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                Err(CallFailure::NotSent(words(error)))
            }
            Ok(Err(error)) => Err(CallFailure::Unknown(words(error))),
            Err(_) => Err(CallFailure::Unknown(no_answer(call.timeout))),
        }
    }
}

async fn answered(response: Response, deadline: Instant) -> HttpAnswer {
    let code = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let body = match timeout_at(deadline, read_capped(response, ANSWER_BYTES_MAX)).await {
        Ok(Ok(Some(body))) => Ok(Bytes::from(body)),
        Ok(Ok(None)) => Err(BodyCut::TooLong),
        Ok(Err(error)) => Err(BodyCut::Broken(words(error))),
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
fn words(error: reqwest::Error) -> String {
    super::call::words(&error.without_url())
}
