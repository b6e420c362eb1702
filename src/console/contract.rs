//! The way to `/v1` inside the process: requests as a program would send them, without a network between.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;

use super::trouble::Trouble;
use crate::api::ProblemView;
use crate::http::ConnectionEnd;
use crate::http::token_gate::Credential;
use crate::types::Principal;

/// What stands for something else in a path, or cannot stand there: all but RFC 3986's unreserved characters.
const NOT_IN_A_PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A path made of these parts, each of which may hold anything; begins with a slash.
pub(super) fn path(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| utf8_percent_encode(part, NOT_IN_A_PART).to_string());
    parts.fold(String::new(), |path, part| path + "/" + &part)
}

/// A path and its query, of the values that are there.
pub(super) fn with_query(path: &str, values: &[(&str, Option<&str>)]) -> String {
    let given = values.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// An order as it is sent: what makes it one that is carried out once, and about one version.
#[derive(Debug, Clone, Default)]
pub(super) struct OrderHeaders {
    /// The key; nothing for a question that is asked with a body.
    pub(super) key: Option<String>,
    /// Version that the subject must have.
    pub(super) if_match: Option<String>,
}

/// An answer that is good.
#[derive(Debug)]
pub(super) struct ContractAnswer<T> {
    pub(super) view: T,
    /// Version of what is told, where it has one.
    pub(super) etag: Option<String>,
}

/// Asks for what is at this path below `/v1`; its answer may have no end.
pub(super) async fn asked(contract: &Router, who: (&Principal, &Credential), target: &str) -> Response {
    send(contract, who, (Method::GET, target), &OrderHeaders::default(), Body::empty()).await
}

/// Gives an order, as JSON.
pub(super) async fn ordered(
    contract: &Router,
    who: (&Principal, &Credential),
    target: &str,
    headers: &OrderHeaders,
    order: &Value,
) -> Response {
    send(contract, who, (Method::POST, target), headers, Body::from(order.to_string())).await
}

/// Where a stream goes on, and where it ends.
#[derive(Default)]
pub(super) struct LeftOff {
    /// Id of the last server-sent event that was heard.
    pub(super) after: Option<HeaderValue>,
    /// End of the connection on which it is told.
    pub(super) end: Option<ConnectionEnd>,
}

/// Asks for a stream.
pub(super) async fn followed(
    contract: &Router,
    (principal, credential): (&Principal, &Credential),
    target: &str,
    left_off: LeftOff,
) -> Response {
    let mut request = Request::get(target).extension(principal.clone()).extension(credential.clone());
    if let Some(after) = left_off.after {
        request = request.header("last-event-id", after);
    }
    if let Some(end) = left_off.end {
        request = request.extension(end);
    }
    answered(contract, request.body(Body::empty())).await
}

async fn send(
    contract: &Router,
    (principal, credential): (&Principal, &Credential),
    (method, target): (Method, &str),
    headers: &OrderHeaders,
    body: Body,
) -> Response {
    let mut request = Request::builder().method(method).uri(target);
    let given = [("idempotency-key", &headers.key), (header::IF_MATCH.as_str(), &headers.if_match)];
    for (name, value) in given {
        if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
            request = request.header(name, value);
        }
    }
    let request = request
        .header(header::CONTENT_TYPE, "application/json")
        .extension(principal.clone())
        .extension(credential.clone())
        .body(body);
    answered(contract, request).await
}

async fn answered(contract: &Router, request: http::Result<Request>) -> Response {
    match request {
        Ok(request) => match contract.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        // Nothing that a page asks for: a path is made of encoded parts.
        Err(_) => StatusCode::BAD_REQUEST.into_response_empty(),
    }
}

/// A status without a body, as an answer.
trait EmptyAnswer {
    fn into_response_empty(self) -> Response;
}

impl EmptyAnswer for StatusCode {
    fn into_response_empty(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self;
        response
    }
}

/// Reads an answer as a view, or what went wrong.
pub(super) async fn told<T: DeserializeOwned>(response: Response) -> Result<ContractAnswer<T>, Trouble> {
    let (parts, body) = response.into_parts();
    let text = |name: header::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let bytes = read.map_err(|_| Trouble::INCOMPLETE)?.to_bytes();
    if parts.status.is_success() {
        let view = serde_json::from_slice(&bytes).map_err(|_| Trouble::INCOMPLETE)?;
        return Ok(ContractAnswer { view, etag: text(header::ETAG) });
    }
    let retry_after_s = text(header::RETRY_AFTER).and_then(|value| value.parse().ok());
    Err(match serde_json::from_slice::<ProblemView>(&bytes) {
        Ok(problem) => Trouble::of_problem(parts.status, problem, retry_after_s),
        Err(_) => Trouble::of_status(parts.status),
    })
}
