//! HTTP destinations: one request per attempt, and what its end means.
//!
//! Redirects are not followed, bodies are not decompressed, proxies of the environment are not used. What
//! fails before the connection stands was surely not sent; everything later is unknown. Addresses and header
//! values are secrets: neither is ever part of an error's words.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;

use base64::Engine;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, Method, Response, Url, redirect};
use sha2::Sha256;
use tokio::time::{Instant, timeout_at};

use super::query::Query;
use super::{Answer, Asked, DestinationError};
use crate::config::{DestinationConfig, Secret, UnknownPolicy};
use crate::store::LeasedMessage;
use crate::types::{Name, UnixMs};

/// Most bytes of an answer that are read, for the sake of the connection; what they say plays no part.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest words kept of an error, in characters.
const WHY_CHARS_MAX: usize = 300;
/// Idle connections are dropped before common far sides drop them (Node.js: 5 s), because a request written
/// to a connection that is being closed ends as unknown.
const IDLE: Duration = Duration::from_secs(4);

/// One far side, its headers and its connections.
pub(super) struct HttpDestination {
    client: Client,
    base: Url,
    headers: HeaderMap,
    timeout: Duration,
    /// Keyed with the destination's `sign_secret`.
    signer: Option<Hmac<Sha256>>,
}

impl HttpDestination {
    /// `timeout` is from connect to last byte; connecting, TLS included, may take half of it.
    pub(super) fn new(
        name: &Name,
        config: &DestinationConfig,
        timeout: Duration,
    ) -> Result<Self, DestinationError> {
        let url_error = |why: String| DestinationError::Url { name: name.clone(), why };
        let base = Url::parse(&config.url).map_err(|error| url_error(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(url_error(format!("its scheme is `{}`", base.scheme())));
        }
        let headers = secret_headers(&config.headers)
            .map_err(|header| DestinationError::Header { name: name.clone(), header })?;
        let client = client(&base, config, timeout)
            .map_err(|error| DestinationError::Client { name: Some(name.clone()), why: words(error) })?;
        let signer =
            config.sign_secret.as_ref().and_then(|secret| Hmac::new_from_slice(&sign_key(secret)).ok());
        Ok(Self { client, base, headers, timeout, signer })
    }

    /// Sends the message once and says what came back.
    pub(super) async fn send(&self, message: &LeasedMessage, now_ms: UnixMs) -> Answer {
        let (method, url, mut headers) = match self.parts(message) {
            Ok(parts) => parts,
            Err(why) => return Answer::NotSent { why },
        };
        if let Some(signer) = &self.signer
            && let Err(why) = sign(signer.clone(), message, now_ms / 1_000, &mut headers)
        {
            return Answer::NotSent { why };
        }
        let request = self.client.request(method, url).headers(headers).body(message.body.clone());
        let deadline = Instant::now() + self.timeout;
        match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) => {
                let code = response.status().as_u16();
                let retry_after = response.headers().get(RETRY_AFTER);
                let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
                // The status decides, so a body that is cut off, endless or slow changes nothing.
                drop(timeout_at(deadline, read_capped(response)).await);
                Answer::Status { code, retry_after }
            }
            Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                Answer::NotSent { why: words(error) }
            }
            Ok(Err(error)) => Answer::Unknown { why: words(error) },
            Err(_) => Answer::Unknown { why: format!("no answer within {} ms", self.timeout.as_millis()) },
        }
    }

    /// Asks whether an earlier attempt of the message took effect.
    pub(super) async fn ask(&self, query: &Query, message: &LeasedMessage, timeout: Duration) -> Asked {
        let unclear = |why: String| Asked::Unclear { why: format!("asked whether it happened: {why}") };
        let Ok(url) = Url::parse(&query.url_of(message)) else {
            return unclear("the query's url is not an address".to_owned());
        };
        let mut request = self.client.get(url.clone());
        // The destination's credentials are for the destination's own host.
        if url.origin() == self.base.origin() {
            request = request.headers(self.headers.clone());
        }
        let answer = async {
            let response = request.send().await.map_err(words)?;
            let code = response.status().as_u16();
            Ok((code, read_capped(response).await.map_err(words)?))
        };
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok((_, None))) => unclear(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes")),
            Ok(Ok((code, Some(body)))) => query.judge(code, &body),
            Ok(Err(why)) => unclear(why),
            Err(_) => unclear(format!("no answer within {} ms", timeout.as_millis())),
        }
    }

    fn parts(&self, message: &LeasedMessage) -> Result<(Method, Url, HeaderMap), String> {
        let method = Method::from_bytes(message.method.as_bytes())
            .map_err(|_| format!("`{}` is not a method", message.method))?;
        let url = below(&self.base, &message.path)?;
        Ok((method, url, self.headers_of(message)?))
    }

    /// The message's own headers, then the destination's, then ours: the later wins.
    fn headers_of(&self, message: &LeasedMessage) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        if let Some(content_type) = &message.event_content_type {
            headers.insert(CONTENT_TYPE, value("content-type", content_type)?);
        }
        for (name, text) in &message.headers {
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("`{name}` is not a header name"))?;
            headers.insert(parsed, value(name, text)?);
        }
        for (name, secret) in &self.headers {
            headers.insert(name, secret.clone());
        }
        let attempt_n = message.attempt_n.to_string();
        let (event_id, event_type) = (ascii(&message.key.event_id), ascii(&message.event_type));
        let ours = [
            ("idempotency-key", message.idempotency_key.as_str()),
            ("hooklatch-message-id", &message.message_id),
            ("hooklatch-attempt", &attempt_n),
            ("hooklatch-provider", message.key.provider.as_str()),
            ("hooklatch-event-id", &event_id),
            ("hooklatch-event-type", &event_type),
        ];
        for (name, text) in ours {
            headers.insert(HeaderName::from_static(name), value(name, text)?);
        }
        Ok(headers)
    }
}

/// The key bytes of a `sign_secret`: the base64 after `whsec_`, as Standard Webhooks writes it, else the text.
fn sign_key(secret: &Secret) -> Vec<u8> {
    let encoded = secret.reveal().strip_prefix("whsec_");
    let decoded = encoded.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    decoded.unwrap_or_else(|| secret.reveal().as_bytes().to_vec())
}

/// Standard Webhooks v1 (standardwebhooks.com): over id, time and body. The id is the idempotency key; the
/// time is that of the attempt, so that a late one is believed, too.
fn sign(
    mut mac: Hmac<Sha256>,
    message: &LeasedMessage,
    now_s: i64,
    headers: &mut HeaderMap,
) -> Result<(), String> {
    mac.update(format!("{}.{now_s}.", message.idempotency_key).as_bytes());
    mac.update(&message.body);
    let signature = base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes());
    headers.insert("webhook-id", value("webhook-id", &message.idempotency_key)?);
    headers.insert("webhook-timestamp", HeaderValue::from(now_s));
    headers.insert("webhook-signature", value("webhook-signature", &format!("v1,{signature}"))?);
    Ok(())
}

/// Percent-encoded where a header could not carry it.
fn ascii(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::CONTROLS).to_string()
}

fn value(name: &str, text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| format!("value of header `{name}` has characters a header cannot carry"))
}

fn secret_headers(configured: &BTreeMap<String, Secret>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, secret) in configured {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| name.clone())?;
        let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| name.clone())?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// What every client of ours has in common: no redirects, no retries of its own, no proxies.
fn builder() -> ClientBuilder {
    // An error says that one is installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .user_agent(concat!("hooklatch/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .pool_idle_timeout(IDLE)
}

/// A client for anything that is not a destination.
pub(crate) fn http_client() -> Result<Client, DestinationError> {
    builder().build().map_err(|error| DestinationError::Client { name: None, why: words(error) })
}

/// One for each destination: connections, and what may be done with idle ones, are its own.
fn client(base: &Url, config: &DestinationConfig, timeout: Duration) -> reqwest::Result<Client> {
    // A connection that the far side closes while it idles would make a person decide. A new one for each
    // call costs a handshake and leaves no such doubt.
    let idle_n = if config.unknown == UnknownPolicy::Hold { 0 } else { config.concurrency_n as usize };
    let mut builder = builder().connect_timeout(timeout / 2).pool_max_idle_per_host(idle_n);
    let asks_by_tls =
        matches!(&config.unknown, UnknownPolicy::Query(query) if !query.url.starts_with("http:"));
    if base.scheme() == "http" && !asks_by_tls {
        // Such a client never speaks TLS: it starts on a machine without certificate authorities, too.
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

/// `path` below `base`, its query joined to that of `base`. A path that climbs out is refused.
fn below(base: &Url, path: &str) -> Result<Url, String> {
    let mut url = base.clone();
    if path.is_empty() {
        return Ok(url);
    }
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let root = base.path().trim_end_matches('/');
    url.set_path(&format!("{root}{path}"));
    if !url.path().starts_with(&format!("{root}/")) {
        return Err("path of the message leaves the destination's".to_owned());
    }
    let queries: Vec<&str> =
        base.query().into_iter().chain(query).filter(|query| !query.is_empty()).collect();
    if !queries.is_empty() {
        url.set_query(Some(&queries.join("&")));
    }
    Ok(url)
}

/// The body, or `None` when it is longer than [`ANSWER_BYTES_MAX`]; the rest of it is never read.
async fn read_capped(mut response: Response) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// An error and its causes in one line, without the address.
fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_destination() {
        #[track_caller]
        fn check(base: &str, path: &str, want: Option<&str>) {
            let url = below(&Url::parse(base).unwrap(), path);
            assert_eq!(url.ok().as_ref().map(Url::as_str), want, "{base} {path}");
        }
        check("http://far/events", "", Some("http://far/events"));
        check("http://far", "/a", Some("http://far/a"));
        check("http://far/", "/a", Some("http://far/a"));
        check("http://far/events/", "/a/b", Some("http://far/events/a/b"));
        check("http://far/events?k=1", "", Some("http://far/events?k=1"));
        check("http://far/events?k=1", "/a?b=2", Some("http://far/events/a?k=1&b=2"));
        check("http://far/events", "/a#b", Some("http://far/events/a%23b"));
        check("http://far/events", "/@evil.test", Some("http://far/events/@evil.test"));
        check("http://far/events", "//evil.test/x", Some("http://far/events//evil.test/x"));
        for climbing in ["/../admin", "/%2e%2e/admin", "/a/../../admin", "/..", "/..\\..\\x", "admin"] {
            check("http://far/events", climbing, None);
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = BTreeMap::from([("authorization".to_owned(), Secret::new("Bearer canary"))]);
        let shown = format!("{:?}", secret_headers(&secret).unwrap());
        assert!(!shown.contains("canary"), "{shown}");
        let bad = BTreeMap::from([("x".to_owned(), Secret::new("canary\n"))]);
        assert_eq!(secret_headers(&bad).unwrap_err(), "x");
    }

    #[test]
    fn ids_become_values_that_a_header_can_carry() {
        assert_eq!(ascii("évt 1"), "%C3%A9vt 1");
        assert!(value("x", &ascii("é\u{7f}")).is_ok());
        assert!(value("x", "a\nb").is_err());
    }
}
