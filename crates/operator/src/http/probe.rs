//! Probes of the doctor: the response to a request with a valid token says what arrived of it, and nothing else
//! happens.
//!
//! For other requests this file has no effect: without a token that this installation made within two minutes, a
//! request is handled as usual, whatever its header or query says.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::extensions::KnownCaller;
use super::reply::view_reply;
use crate::doctor::{AnswerKey, PROBE_HEADER, ProbeKey, probe_answer, probe_token};
use hooklatch_core::types::Clock;

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
pub(crate) fn answered(key: &AnswerKey, parts: &http::request::Parts, body: &Bytes) -> Response {
    let mut response = view_reply(StatusCode::OK, &probe_answer(key, parts, body)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(KnownCaller);
    response
}
