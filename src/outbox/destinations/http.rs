//! HTTP: one request, its status, and an honest word about what is not known.

use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::super::DestinationError;
use super::super::policy::{Answer, retry_after_ms};
use super::Destination;
use crate::store::LeasedMessage;
use crate::types::Clock;

/// Most bytes of an answer's body that are read, so that the connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The one client: its pool of connections is shared by all destinations. No redirects, no decompression,
/// no proxy from the environment: what is sent goes where the config says.
pub(crate) fn http_client() -> Result<reqwest::Client, DestinationError> {
    // A second call finds the first one's provider, which is the same.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_idle_timeout(Duration::from_secs(20))
        .tcp_nodelay(true)
        .user_agent(concat!("hooklatch/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| DestinationError::Client(error.to_string()))
}

/// Sends the message as it was frozen, and reads the answer, all within the destination's timeout.
pub(super) async fn send(destination: &Destination, message: &LeasedMessage, clock: &Clock) -> Answer {
    let url = format!("{}{}", destination.config.url, message.path);
    let Ok(method) = Method::from_bytes(message.method.as_bytes()) else {
        return Answer::NotSent { why: format!("`{}` is not a method", message.method) };
    };
    let request = destination
        .client
        .request(method, url)
        .timeout(Duration::from_millis(destination.config.timeout_ms))
        .headers(headers(destination, message))
        .body(message.body.clone());
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) => return no_answer(&error),
    };
    let code = response.status().as_u16();
    let wait = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after_ms = wait.and_then(|value| retry_after_ms(value, clock.now_ms()));
    // The status decides. A body that stalls or never ends costs its connection, nothing else.
    let mut bytes_n = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes_n += chunk.len();
        if bytes_n > ANSWER_BYTES_MAX {
            break;
        }
    }
    Answer::Status { code, retry_after_ms }
}

/// Errors before the request was written are retried without a doubt; all others leave one.
fn no_answer(error: &reqwest::Error) -> Answer {
    let cause = innermost(error);
    if error.is_connect() || error.is_builder() {
        return Answer::NotSent { why: format!("could not connect: {cause}") };
    }
    if error.is_timeout() {
        return Answer::Unknown { why: "no answer in time".to_owned() };
    }
    Answer::Unknown { why: format!("connection lost before the answer: {cause}") }
}

/// The last cause: reqwest's own words repeat the URL, which may hold what is nobody's business.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn headers(destination: &Destination, message: &LeasedMessage) -> HeaderMap {
    let mut headers = destination.headers.clone();
    let mut set = |name: &str, value: &str| {
        // Checked when the message was made; what cannot be sent is left out rather than sent wrong.
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            headers.insert(name, value);
        }
    };
    if let Some(content_type) = &message.event_content_type {
        set("content-type", content_type);
    }
    for (name, value) in &message.headers {
        set(name, value);
    }
    set("idempotency-key", &message.idempotency_key);
    set("hooklatch-message-id", &message.message_id);
    set("hooklatch-attempt", &message.attempt_n.to_string());
    set("hooklatch-provider", message.key.provider.as_str());
    set("hooklatch-event-id", &ascii(&message.key.event_id));
    set("hooklatch-event-type", &ascii(&message.event_type));
    headers
}

/// Percent-encoded where a header could not carry it.
fn ascii(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::CONTROLS).to_string()
}
