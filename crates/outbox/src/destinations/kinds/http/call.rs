//! One call and its answer, whichever client makes it.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method};

use super::address::Address;

/// Most bytes of an answer that are read: of its headers, and of its body.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Idle connections are dropped before common destinations drop them (Node.js: 5 s), because a request written
/// to a connection that is being closed ends as unknown.
pub(super) const IDLE: Duration = Duration::from_secs(4);
/// Longest words kept of an error, in characters.
const WHY_CHARS_MAX: usize = 300;

/// One request that is to be sent.
pub(crate) struct Call<'a> {
    pub method: Method,
    pub address: &'a Address,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Longest time from connecting to the last byte of the answer.
    pub timeout: Duration,
    /// True when the body of the answer has a say.
    pub(super) is_body_wanted: bool,
}

/// The answer to one call.
pub(super) struct HttpAnswer {
    pub code: u16,
    pub retry_after: Option<String>,
    /// Empty if it was not wanted.
    pub body: Result<Bytes, BodyCut>,
}

/// The reason why a body is not whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyCut {
    TooLong,
    TooSlow,
    Broken(String),
}

/// The reason why there is no answer, in words without URLs, bodies or secrets.
pub(super) enum CallFailure {
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

/// The words for a time that was over.
pub(super) fn no_answer(timeout: Duration) -> String {
    format!("no answer within {} ms", timeout.as_millis())
}

/// The words for a good answer of a destination that cannot have looked at the request.
pub(super) fn answered_early(code: u16) -> String {
    format!("it answered {code} before it had taken the whole request")
}

/// An error and its causes in one line.
pub(crate) fn words(error: &(dyn Error + 'static)) -> String {
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
