//! The receiver: `POST /webhooks/{provider}`, and what a kind's handshake needs. Keeps the raw bytes, caps them in size, time and number, and
//! leaves everything else to `receive.rs`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::Problem;
use crate::receive::{Answer, ReceiveError, Receiver};
use crate::types::Clock;
use crate::verify::RawRequest;

/// Bodies are accounted in units of this many bytes.
const UNIT_BYTES: usize = 1024;

/// Most bytes of a body over the cap that are read, so that its sender hears why.
const DRAIN_BYTES_MAX: usize = 4 << 20;

/// What the receiver needs of the app.
pub(crate) struct ReceiverState {
    pub(crate) receiver: Receiver,
    pub(crate) clock: Clock,
    /// What providers call, without a trailing slash.
    pub(crate) public_url: String,
    pub(crate) body_bytes_max: usize,
    pub(crate) body_timeout: Duration,
    /// Room for bodies, in units of [`UNIT_BYTES`].
    pub(crate) room: Semaphore,
}

impl ReceiverState {
    /// Room for `bytes` of bodies at once.
    pub(crate) fn room_for(bytes: usize) -> Semaphore {
        Semaphore::new(bytes.div_ceil(UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS))
    }
}

/// The receiver's routes.
pub(crate) fn router(state: Arc<ReceiverState>) -> Router {
    Router::new()
        .route("/webhooks/{provider}", any(webhook))
        .fallback(|| async { Problem::NO_SUCH_PROVIDER })
        .with_state(state)
}

async fn webhook(
    State(state): State<Arc<ReceiverState>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    match take(&state, &name, request).await {
        Ok(answer) => response(answer),
        Err(problem) => problem.into_response(),
    }
}

async fn take(state: &ReceiverState, name: &str, request: Request) -> Result<Answer, Problem> {
    let Some(entry) = state.receiver.entry(name) else {
        return Err(Problem::from(&ReceiveError::UnknownProvider));
    };
    if request.method() != Method::POST && !entry.provider.has_handshake(request.method().as_str()) {
        return Err(Problem::METHOD);
    }
    let is_event = request.method() == Method::POST;
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let url = format!("{}{path}", state.public_url);
    let (body, _room) = read_body(state, &parts.headers, body).await?;
    let raw = RawRequest {
        method: parts.method,
        url,
        headers: parts.headers,
        body,
        received_at_ms: state.clock.now_ms(),
    };
    if !is_event {
        return Receiver::answer(entry, &raw).ok_or(Problem::METHOD);
    }
    state.receiver.receive(entry, raw).await.map_err(|error| Problem::from(&error))
}

/// The whole body, and the room it takes up until the answer is written.
async fn read_body<'a>(
    state: &'a ReceiverState,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, SemaphorePermit<'a>), Problem> {
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > state.body_bytes_max) {
        // A sender that is still writing when the connection closes may never see the answer.
        drop(tokio::time::timeout(state.body_timeout, drain(body)).await);
        return Err(Problem::TOO_LARGE);
    }
    // Without a declared length the room of the largest body is taken.
    let units = declared.unwrap_or(state.body_bytes_max).div_ceil(UNIT_BYTES).max(1);
    let units = u32::try_from(units).map_err(|_| Problem::TOO_LARGE)?;
    let room = state.room.try_acquire_many(units).map_err(|_| Problem::SATURATED)?;
    let collect = Limited::new(body, state.body_bytes_max).collect();
    match tokio::time::timeout(state.body_timeout, collect).await {
        Err(_) => Err(Problem::TOO_SLOW),
        Ok(Ok(collected)) => Ok((collected.to_bytes(), room)),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::TOO_LARGE),
        Ok(Err(_)) => Err(Problem::BROKEN_BODY),
    }
}

/// Reads a body that is not wanted, up to [`DRAIN_BYTES_MAX`], and keeps nothing of it.
async fn drain(mut body: Body) {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => break,
        }
    }
}

fn response(answer: Answer) -> Response {
    let status = if answer.is_conflict_told {
        StatusCode::CONFLICT
    } else {
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK)
    };
    let mut response = (status, answer.body).into_response();
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(answer.content_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    for (name, value) in answer.headers {
        // A stranger's text that is no header value is left out, as if it had not been sent.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    if let Some(outcome) = answer.outcome {
        headers.insert(OUTCOME.clone(), HeaderValue::from_static(outcome.as_str()));
    }
    response
}

/// What became of a believed request.
pub(super) static OUTCOME: HeaderName = HeaderName::from_static("hooklatch-outcome");
