//! HTTP destinations: one request per attempt, and what its end means.
//!
//! Redirects are not followed, bodies are not decompressed, proxies of the environment are not used. What fails before
//! the first byte has left was surely not sent; everything later is unknown. Addresses and header values are secrets:
//! neither is ever part of an error's words.
//!
//! `parse.rs` reads the keys. A call goes to an address (`address.rs`), with headers (`headers.rs`) and signatures
//! (`sign.rs`), by one of two clients (`client.rs`: `lean/`, ours, or `reqwest`, which knows proxies and HTTP/2).
//! `answer.rs` reads the body of an answer, and asks whether an earlier attempt took effect.

mod address;
mod answer;
mod client;
mod headers;
mod lean;
mod parse;
mod sign;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use client::{http_client, http_client_trusting};
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue, Method};
use reqwest::Url;

use crate::destinations::kinds::{BROKER, DestinationKind};
use crate::destinations::{
    Asked, CallOutcome, ClientSettings, DestinationClient, DestinationError, HandshakeEnd,
};
use crate::policy::CallAnswer;
use crate::traces::HttpServer;
use address::{Address, Base};
use answer::{AnswerReader, Question, unclear};
use client::{ANSWER_BYTES_MAX, BodyCut, Call, CallFailure, Caller, HttpAnswer};
use headers::Headers;
use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::types::UnixMs;
use hooklatch_store::LeasedMessage;
use sign::Signers;

/// Calls over HTTP, to one address or to what a template makes of an event.
pub(crate) const HTTP: DestinationKind = DestinationKind {
    name: "http",
    schemes: &["http", "https"],
    own_keys: &[
        "headers",
        "query",
        "retry_after_max_ms",
        "sign_secret",
        "statuses",
        "method",
        "private_hosts",
        "auth",
        "hmac",
        "tls",
        "proxy",
        "http_version",
        "connect_timeout_ms",
        "success",
        "capture",
    ],
    unknown: parse::unknown,
    parse: |_, reading, config| parse::parse(reading, config),
    connect: Some(|settings| Ok(DestinationClient::Http(Box::new(HttpDestination::new(settings)?)))),
    ..BROKER
};

/// One destination, its headers and its connections.
pub(crate) struct HttpDestination {
    caller: Caller,
    base: Base,
    headers: Headers,
    timeout: Duration,
    signers: Signers,
    reader: AnswerReader,
    question: Option<Question>,
}

impl HttpDestination {
    /// Reads what the configuration says once; connects to nothing yet.
    pub(crate) fn new(settings: &ClientSettings<'_>) -> Result<Self, DestinationError> {
        let (config, timeout, name) = (settings.config, settings.timeout, || settings.name.clone());
        let base = Base::new(config).map_err(|why| DestinationError::Url(name(), why))?;
        let headers = Headers::new(config).map_err(|header| DestinationError::Header(name(), header))?;
        let caller = Caller::new(config, timeout)
            .map_err(|why| DestinationError::Client { name: Some(name()), why })?;
        let no_template = |key| move |why| DestinationError::Template(name(), key, why);
        let signers = Signers::new(config).map_err(no_template("hmac.signed"))?;
        let question = match &config.unknown {
            UnknownPolicy::Query(query) => {
                Some(Question::new(query.clone()).map_err(no_template("query.url"))?)
            }
            UnknownPolicy::Retry | UnknownPolicy::Hold => None,
        };
        Ok(Self { caller, base, headers, timeout, signers, reader: AnswerReader::new(config), question })
    }

    /// Sends the message once and returns the outcome; `Err` where there is no answer.
    pub(crate) async fn send(
        &self,
        message: &LeasedMessage,
        now_ms: UnixMs,
    ) -> Result<CallOutcome, CallAnswer> {
        // No attempt of what is forbidden can end better, and the destination has no part in it.
        let address = self.base.address_of(message).map_err(CallAnswer::Forbidden)?;
        let call = self.call(message, &address, now_ms).map_err(CallAnswer::Forbidden)?;
        let answered = self.caller.call(call).await.map_err(|failure| match failure {
            CallFailure::Private(why) => CallAnswer::Forbidden(why),
            CallFailure::NotSent(why) => CallAnswer::NotSent(why),
            CallFailure::Unknown(why) => CallAnswer::Unknown(why),
        })?;
        let body = answered.body.as_deref().ok();
        Ok(CallOutcome {
            response: self.reader.captured(body),
            answer: self.reader.confirm(answered.code, answered.retry_after, body),
        })
    }

    /// Host and port that every call goes to over TLS; the empty text where each message names its own, and `None`
    /// where there is no TLS.
    pub(crate) fn tls_host(&self) -> Option<String> {
        match self.base.origin() {
            None => Some(String::new()),
            Some(origin) if origin.is_tls => Some(origin.header.to_str().unwrap_or_default().to_owned()),
            Some(_) => None,
        }
    }

    /// The server that a message goes to; `None` for what is not called.
    pub(crate) fn server_of(&self, message: &LeasedMessage) -> Option<HttpServer> {
        let origin = Arc::clone(&self.base.address_of(message).ok()?.origin);
        let (scheme, port) = if origin.is_tls { ("https", 443) } else { ("http", 80) };
        let port = origin.uri.port_u16().unwrap_or(port);
        Some(HttpServer { scheme, address: origin.host.clone(), port })
    }

    /// Connects there and hangs up; `None` where calls go elsewhere or through a proxy.
    pub(crate) async fn handshake(&self, limit: Duration) -> Option<HandshakeEnd> {
        let origin = self.base.origin().filter(|origin| origin.is_tls)?;
        self.caller.handshake(&origin, limit).await
    }

    fn call<'a>(
        &self,
        message: &LeasedMessage,
        address: &'a Address,
        now_ms: UnixMs,
    ) -> Result<Call<'a>, String> {
        let method = Method::from_bytes(message.method.as_bytes())
            .ok()
            .filter(|method| *method != Method::CONNECT)
            .ok_or_else(|| format!("`{}` is not a method", message.method))?;
        let mut headers = self.headers.of(message)?;
        self.signers.sign(message, now_ms / 1_000, &mut headers)?;
        // Last, so that it is in no signature; another attempt has another one.
        headers::insert_traceparent(message, &mut headers);
        let (body, is_body_wanted) = (message.body.clone(), self.reader.wants_body());
        Ok(Call { method, address, headers, body, timeout: self.timeout, is_body_wanted })
    }

    /// Asks whether an earlier attempt of the message took effect.
    pub(crate) async fn ask(&self, message: &LeasedMessage, timeout: Duration) -> Asked {
        let Some(question) = &self.question else {
            return Asked::Unclear("no query is configured".to_owned());
        };
        let address = match address_of(question, message) {
            Ok(address) => address,
            Err(why) => return unclear(why),
        };
        let mut headers = self.headers.of_question(self.base.is_home_of(&address.url));
        // What a cache holds was answered before the call ended.
        headers.append(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let (method, body) = (Method::GET, Bytes::new());
        let call = Call { method, address: &address, headers, body, timeout, is_body_wanted: true };
        match self.caller.call(call).await {
            Ok(HttpAnswer { code, body: Ok(body), .. }) => question.judge(code, &body),
            Ok(HttpAnswer { body: Err(BodyCut::TooLong), .. }) => {
                unclear(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"))
            }
            Ok(HttpAnswer { body: Err(BodyCut::TooSlow), .. }) => unclear(client::no_answer(timeout)),
            Ok(HttpAnswer { body: Err(BodyCut::Broken(why)), .. }) => unclear(why),
            Err(failed) => unclear(failed.why()),
        }
    }
}

/// The address that the question about `message` goes to.
fn address_of(question: &Question, message: &LeasedMessage) -> Result<Address, String> {
    let url = question.url_of(message)?;
    Url::parse(&url)
        .map_err(drop)
        .and_then(|url| Address::new(url).map_err(drop))
        .map_err(|()| "the query's url is not an address".to_owned())
}

/// Makes calls as an HTTP destination does. For benches, and not promised.
pub struct BareCalls {
    caller: Caller,
    address: Address,
    timeout: Duration,
}

impl BareCalls {
    /// To `config.url`, which must be an address. `Err(why)` for what cannot be used.
    pub fn new(config: &DestinationConfig) -> Result<Self, String> {
        let url = Url::parse(&config.url).map_err(|error| error.to_string())?;
        let timeout = Duration::from_millis(config.timeout_ms);
        Ok(Self { caller: Caller::new(config, timeout)?, address: Address::new(url)?, timeout })
    }

    /// Posts `body` once, under `key`; the status, once the whole answer was read. `Err(why)` when there was none.
    pub async fn post(&self, key: HeaderValue, body: Bytes) -> Result<u16, String> {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", key);
        let (method, address, timeout) = (Method::POST, &self.address, self.timeout);
        let call = Call { method, address, headers, body, timeout, is_body_wanted: false };
        self.caller.call(call).await.map(|answered| answered.code).map_err(CallFailure::why)
    }
}
