//! The way to `/v1` inside the process: requests as a program would send them, without a network between.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::request::Builder;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use percent_encoding::utf8_percent_encode;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;

use super::trouble::PageError;
use hooklatch_contract::ProblemView;
use hooklatch_core::template::URL_ESCAPED;
use hooklatch_core::types::Principal;

/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A path made of these parts, each of which may hold anything; begins with a slash.
pub(crate) fn path(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| utf8_percent_encode(part, URL_ESCAPED).to_string());
    parts.fold(String::new(), |path, part| path + "/" + &part)
}

/// A path and its query, of the values that are there.
pub(crate) fn with_query(path: &str, values: &[(&str, Option<&str>)]) -> String {
    let given = values.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Headers of an order: they have it carried out once, and about one version.
#[derive(Debug, Clone, Default)]
pub(super) struct OrderHeaders {
    /// The idempotency key; `None` for a query with a body.
    pub key: Option<String>,
    /// Version that the subject must have.
    pub if_match: Option<String>,
}

/// A successful response.
#[derive(Debug)]
pub(super) struct ContractAnswer<T> {
    pub view: T,
    /// Version of the view, where it has one.
    pub etag: Option<String>,
}

/// Gets the response of a path below `/v1`.
pub(crate) async fn get(contract: &Router, who: &Principal, target: &str) -> Response {
    send(contract, who, (Method::GET, target), &OrderHeaders::default(), Body::empty()).await
}

/// Posts an order, as JSON.
pub(crate) async fn post(
    contract: &Router,
    who: &Principal,
    target: &str,
    headers: &OrderHeaders,
    order: &Value,
) -> Response {
    send(contract, who, (Method::POST, target), headers, Body::from(order.to_string())).await
}

async fn send(
    contract: &Router,
    who: &Principal,
    (method, target): (Method, &str),
    headers: &OrderHeaders,
    body: Body,
) -> Response {
    let mut request =
        request_builder(who, target).method(method).header(header::CONTENT_TYPE, "application/json");
    let given = [("idempotency-key", &headers.key), (header::IF_MATCH.as_str(), &headers.if_match)];
    for (name, value) in given {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    answered(contract, request.body(body)).await
}

/// A request of an authenticated caller.
fn request_builder(principal: &Principal, target: &str) -> Builder {
    Request::builder().uri(target).extension(principal.clone())
}

async fn answered(contract: &Router, request: http::Result<Request>) -> Response {
    match request {
        Ok(request) => match contract.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        // Every page sends valid paths and every form valid headers, so nothing of a request is left out.
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// Parses a response as a view, or as the error that it describes.
pub(crate) async fn parse_answer<T: DeserializeOwned>(
    response: Response,
) -> Result<ContractAnswer<T>, PageError> {
    let (parts, body) = response.into_parts();
    let text = |name: header::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let bytes = read.map_err(|_| PageError::INCOMPLETE)?.to_bytes();
    if parts.status.is_success() {
        let view = serde_json::from_slice(&bytes).map_err(|_| PageError::INCOMPLETE)?;
        return Ok(ContractAnswer { view, etag: text(header::ETAG) });
    }
    let retry_after_s = text(header::RETRY_AFTER).and_then(|value| value.parse().ok());
    Err(match serde_json::from_slice::<ProblemView>(&bytes) {
        Ok(problem) => PageError::of_problem(parts.status, problem, retry_after_s),
        Err(_) => PageError::of_status(parts.status),
    })
}
