//! HTTP destinations: one request per attempt, and what its end means.
//!
//! Redirects are not followed, bodies are not decompressed, proxies of the environment are not used. What
//! fails before the connection stands was surely not sent; everything later is unknown. Addresses and header
//! values are secrets: neither is ever part of an error's words.

mod answer;
mod client;
mod sign;

use std::error::Error as _;
use std::time::Duration;

use base64::Engine;
use reqwest::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use reqwest::{Client, Method, Response, Url};
use tokio::time::{Instant, timeout_at};

use super::query::Query;
use super::{Answer, Asked, DestinationError, Sent};
use crate::config::{AuthConfig, DestinationConfig, Secret};
use crate::net::{Allowed, is_private_host, read_capped};
use crate::store::LeasedMessage;
use crate::template;
use crate::types::{Name, UnixMs};
use answer::Reader;
pub(crate) use client::http_client;
use sign::Signers;

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest words kept of an error, in characters.
const WHY_CHARS_MAX: usize = 300;

/// Where calls go.
enum Base {
    /// To one address, and what is below it.
    Fixed(Url),
    /// To wherever the message says, as the destination's template made it at admission; what the template
    /// leaves open has no say in what is fixed.
    Template {
        /// Scheme, host and port, when no value is in them.
        origin: Option<Url>,
        allowed: Allowed,
    },
}

/// One far side, its headers and its connections.
pub(super) struct HttpDestination {
    client: Client,
    base: Base,
    headers: HeaderMap,
    timeout: Duration,
    signers: Signers,
    reader: Reader,
}

impl HttpDestination {
    /// `timeout` is from connect to last byte.
    pub(super) fn new(
        name: &Name,
        config: &DestinationConfig,
        timeout: Duration,
    ) -> Result<Self, DestinationError> {
        let base = base(config).map_err(|why| DestinationError::Url { name: name.clone(), why })?;
        let headers = secret_headers(config)
            .map_err(|header| DestinationError::Header { name: name.clone(), header })?;
        let client = client::client(config, timeout)
            .map_err(|error| DestinationError::Client { name: Some(name.clone()), why: words(error) })?;
        Ok(Self {
            client,
            base,
            headers,
            timeout,
            signers: Signers::new(config),
            reader: Reader::new(config),
        })
    }

    /// Sends the message once and says what came back.
    pub(super) async fn send(&self, message: &LeasedMessage, now_ms: UnixMs) -> Sent {
        let (method, url, mut headers) = match self.parts(message) {
            Ok(parts) => parts,
            // No attempt of it can end better, and the far side has no part in it.
            Err(why) => return Answer::Forbidden { why }.into(),
        };
        if let Err(why) = self.signers.sign(message, now_ms / 1_000, &mut headers) {
            return Answer::Forbidden { why }.into();
        }
        let request = self.client.request(method, url).headers(headers).body(message.body.clone());
        let deadline = Instant::now() + self.timeout;
        match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) => self.answered(response, deadline).await,
            Ok(Err(error)) if is_private_host(&error) => Answer::Forbidden { why: words(error) }.into(),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                Answer::NotSent { why: words(error) }.into()
            }
            Ok(Err(error)) => Answer::Unknown { why: words(error) }.into(),
            Err(_) => {
                Answer::Unknown { why: format!("no answer within {} ms", self.timeout.as_millis()) }.into()
            }
        }
    }

    async fn answered(&self, response: Response, deadline: Instant) -> Sent {
        let code = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
        // Unless the body has a say, the status decides: one that is cut off, endless or slow changes nothing.
        let body = timeout_at(deadline, read_capped(response, ANSWER_BYTES_MAX)).await;
        let body = body.ok().and_then(Result::ok).flatten();
        Sent {
            response: self.reader.captured(body.as_deref()),
            answer: self.reader.confirm(code, retry_after, body.as_deref()),
        }
    }

    /// Asks whether an earlier attempt of the message took effect.
    pub(super) async fn ask(&self, query: &Query, message: &LeasedMessage, timeout: Duration) -> Asked {
        let unclear = |why: String| Asked::Unclear { why: format!("asked whether it happened: {why}") };
        let Ok(url) = Url::parse(&query.url_of(message)) else {
            return unclear("the query's url is not an address".to_owned());
        };
        // Whatever a cache remembers was said before the call ended.
        let mut request = self.client.get(url.clone()).header(CACHE_CONTROL, "no-cache");
        // The destination's credentials are for the destination's own host.
        if self.base.is_home_of(&url) {
            request = request.headers(self.headers.clone());
        }
        let answer = async {
            let response = request.send().await.map_err(words)?;
            let code = response.status().as_u16();
            Ok((code, read_capped(response, ANSWER_BYTES_MAX).await.map_err(words)?))
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
        Ok((method, self.base.url_of(message)?, self.headers_of(message)?))
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
        let (attempt_n, message_id) = (message.attempt_n.to_string(), message.message_id.to_string());
        let (event_id, event_type) = (ascii(&message.key.event_id), ascii(&message.event_type));
        let ours = [
            ("idempotency-key", message.idempotency_key.as_str()),
            ("hooklatch-message-id", &message_id),
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

/// Percent-encoded where a header could not carry it.
fn ascii(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::CONTROLS).to_string()
}

fn value(name: &str, text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| format!("value of header `{name}` has characters a header cannot carry"))
}

/// What every call carries; the error is the name of what cannot be a header.
fn secret_headers(config: &DestinationConfig) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut insert = |name: &str, secret: &Secret| {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| name.to_owned())?;
        let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| name.to_owned())?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
        Ok::<_, String>(())
    };
    for (name, secret) in &config.headers {
        insert(name, secret)?;
    }
    match &config.http.auth {
        Some(AuthConfig::Basic { user, password }) => {
            let both = format!("{user}:{}", password.reveal());
            let encoded = base64::engine::general_purpose::STANDARD.encode(both);
            insert(AUTHORIZATION.as_str(), &Secret::new(format!("Basic {encoded}")))?;
        }
        Some(AuthConfig::Bearer(token)) => {
            insert(AUTHORIZATION.as_str(), &Secret::new(format!("Bearer {}", token.reveal())))?;
        }
        None => {}
    }
    Ok(headers)
}

impl Base {
    /// Whether `url` is on the destination's own host, as far as the config names one.
    fn is_home_of(&self, url: &Url) -> bool {
        let (Self::Fixed(home) | Self::Template { origin: Some(home), .. }) = self else { return false };
        home.origin() == url.origin()
    }

    fn url_of(&self, message: &LeasedMessage) -> Result<Url, String> {
        let (origin, allowed) = match self {
            Self::Fixed(base) => return below(base, &message.path),
            Self::Template { origin, allowed } => (origin, allowed),
        };
        let url = Url::parse(&message.path).map_err(|_| "message has no address of its own".to_owned())?;
        if origin.as_ref().is_some_and(|origin| origin.origin() != url.origin()) {
            return Err("address of the message leaves the destination's host".to_owned());
        }
        if origin.is_none() {
            allowed.check(&url)?;
        }
        Ok(url)
    }
}

fn base(config: &DestinationConfig) -> Result<Base, String> {
    let url = Url::parse(&template::without_tags(&config.url)).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("its scheme is `{}`", url.scheme()));
    }
    if !template::is_template(&config.url) {
        return Ok(Base::Fixed(url));
    }
    let origin = (!template::has_host_template(&config.url)).then_some(url);
    Ok(Base::Template { origin, allowed: Allowed::new(&config.http.private_hosts) })
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
    use crate::config::UnknownPolicy;
    use crate::outbox::policy::tests::config;

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
        let mut config = config(UnknownPolicy::Retry);
        config.headers.insert("x-key".to_owned(), Secret::new("canary"));
        for auth in [
            AuthConfig::Bearer(Secret::new("canary")),
            AuthConfig::Basic { user: "u".to_owned(), password: Secret::new("canary") },
        ] {
            config.http.auth = Some(auth);
            let shown = format!("{config:?} {:?}", secret_headers(&config).unwrap());
            // dTpjYW5hcnk= is u:canary.
            assert!(!shown.contains("canary") && !shown.contains("dTpj"), "{shown}");
        }
        config.headers.insert("x".to_owned(), Secret::new("canary\n"));
        assert_eq!(secret_headers(&config).unwrap_err(), "x");
    }

    #[test]
    fn ids_become_values_that_a_header_can_carry() {
        assert_eq!(ascii("évt 1"), "%C3%A9vt 1");
        assert!(value("x", &ascii("é\u{7f}")).is_ok());
        assert!(value("x", "a\nb").is_err());
    }
}
