//! A person's request: its principal, and the way from there to `/v1` inside the process, without a network between.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use percent_encoding::utf8_percent_encode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use crate::ConsoleState;
use crate::entrance;
use crate::page::{Frame, PageError};
use hooklatch_contract::ProblemView;
use hooklatch_core::template::URL_ESCAPED;
use hooklatch_core::types::{Principal, Role, UnixMs};
use hooklatch_operator::http::KnownCaller;

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

/// An authenticated request.
#[derive(Clone)]
pub(crate) struct Visit {
    pub state: Arc<ConsoleState>,
    pub principal: Principal,
    /// Time when it was received.
    pub now_ms: UnixMs,
}

/// Headers of an order: they have it carried out once, and about one version.
#[derive(Debug, Clone, Default)]
pub(crate) struct OrderHeaders {
    /// The idempotency key; `None` for a query with a body.
    pub key: Option<String>,
    /// Version that the subject must have.
    pub if_match: Option<String>,
}

/// A view, and its version where it has one.
pub(crate) type Tagged<T> = (T, Option<String>);

/// Authenticates a request, and draws the frame around what its handler returns.
pub(crate) async fn authenticated(
    State(state): State<Arc<ConsoleState>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let principal = match entrance::authenticate(&parts, &state).await {
        Ok(principal) => principal,
        Err(answer) => return *answer,
    };
    let path = parts.uri.path().to_owned();
    let visit =
        Visit { state: Arc::clone(&state), principal: principal.clone(), now_ms: state.clock.now_ms() };
    parts.extensions.insert(visit);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let frame = Frame { state: &state, principal: Some(&principal), path: &path };
    let Some(mut page) = frame.around(&mut response) else { return response };
    page.extensions_mut().insert(KnownCaller);
    page
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        parts.extensions.get().cloned().ok_or_else(PageError::not_found)
    }
}

impl Visit {
    /// True when they have this role, or a stronger one.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.principal.role >= role
    }

    /// The address of one of our own paths, behind whatever proxy.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.state.base)
    }

    /// Gets a path below `/v1`, as a view.
    pub(crate) async fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, PageError> {
        self.get_tagged(target).await.map(|(view, _)| view)
    }

    /// Gets a path below `/v1`, as a view with its version.
    pub(crate) async fn get_tagged<T: DeserializeOwned>(&self, target: &str) -> Result<Tagged<T>, PageError> {
        parse_answer(self.get_response(target).await).await
    }

    /// Gets the response, unparsed.
    pub(crate) async fn get_response(&self, target: &str) -> Response {
        self.send((Method::GET, target), &OrderHeaders::default(), Body::empty()).await
    }

    /// Posts an order, which is carried out once for each key.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        target: &str,
        headers: &OrderHeaders,
        order: &impl Serialize,
    ) -> Result<T, PageError> {
        let order = serde_json::to_vec(order).map_err(|_| PageError::incomplete())?;
        let response = self.send((Method::POST, target), headers, Body::from(order)).await;
        parse_answer(response).await.map(|(view, _)| view)
    }

    async fn send(&self, (method, target): (Method, &str), headers: &OrderHeaders, body: Body) -> Response {
        let mut request = Request::builder()
            .uri(target)
            .extension(self.principal.clone())
            .method(method)
            .header(header::CONTENT_TYPE, "application/json");
        let given = [("idempotency-key", &headers.key), (header::IF_MATCH.as_str(), &headers.if_match)];
        for (name, value) in given {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        match request.body(body) {
            Ok(request) => match self.state.contract.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            // Every page sends valid paths and every form valid headers, so nothing of a request is left out.
            Err(_) => StatusCode::BAD_REQUEST.into_response(),
        }
    }
}

/// Parses a response as a view, or as the error that it describes.
pub(crate) async fn parse_answer<T: DeserializeOwned>(response: Response) -> Result<Tagged<T>, PageError> {
    let (parts, body) = response.into_parts();
    let text = |name: header::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let bytes = read.map_err(|_| PageError::incomplete())?.to_bytes();
    if parts.status.is_success() {
        let view = serde_json::from_slice(&bytes).map_err(|_| PageError::incomplete())?;
        return Ok((view, text(header::ETAG)));
    }
    let retry_after_s = text(header::RETRY_AFTER).and_then(|value| value.parse().ok());
    Err(if let Ok(problem) = serde_json::from_slice::<ProblemView>(&bytes) {
        PageError::of_problem(parts.status, problem, retry_after_s)
    } else {
        let reason = parts.status.canonical_reason().unwrap_or("this did not work");
        PageError::new(parts.status, "unexpected", reason)
    })
}
