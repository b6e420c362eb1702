//! The destination of `serve --dev`: honours idempotency keys, lists the calls it got, and can be set to fail.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::error::json_reply;

/// Most keys that it remembers.
const CALLS_N_MAX: usize = 200;

/// Most failures that can be ordered at once, and the longest that one of them may take.
const TIMES_N_MAX: u32 = 1_000;
const HANG_MS_MAX: u64 = 60_000;

/// Calls that the echo remembers, and how the next ones fail.
#[derive(Clone, Default)]
pub struct EchoState(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    calls: VecDeque<EchoCall>,
    failing: Failing,
}

/// One key and the calls under it. Bodies are not kept.
#[derive(Debug, Clone, Serialize)]
struct EchoCall {
    idempotency_key: String,
    requests_n: u32,
    effects_n: u32,
    provider: String,
    event_id: String,
    event_type: String,
    body_bytes: usize,
}

/// An order for the next calls to fail: `{"status":500,"times":3}` or `{"hang_ms":20000,"times":1}`; up to
/// [`TIMES_N_MAX`] times, [`HANG_MS_MAX`] and with a status from 200 to 599, or 0 for 500.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Failing {
    status: u16,
    hang_ms: u64,
    times: u32,
}

/// `/dev/echo` (POST: an effect, GET: the list) and `/dev/echo-fail`.
pub fn router(state: EchoState) -> Router {
    Router::new()
        .route("/dev/echo", post(call).get(list))
        .route("/dev/echo/{*path}", post(call))
        .route("/dev/echo-fail", post(fail).get(get_failing))
        .layer(DefaultBodyLimit::max(64 * 1024 * 1024))
        .with_state(state)
}

impl Failing {
    fn is_bounded(&self) -> bool {
        let is_status = self.status == 0 || (200..=599).contains(&self.status);
        self.times <= TIMES_N_MAX && self.hang_ms <= HANG_MS_MAX && is_status
    }
}

impl EchoState {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A panic elsewhere leaves the list as it was, which is good enough for an echo.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The failure to play now, if there is one left.
    fn failure(&self) -> Option<Failing> {
        let mut memory = self.memory();
        let is_failing = memory.failing.times > 0;
        memory.failing.times = memory.failing.times.saturating_sub(1);
        is_failing.then(|| memory.failing.clone())
    }

    /// Counts a call, which acts once per key; `true` when it acted now.
    fn remember(&self, call: EchoCall) -> bool {
        let mut memory = self.memory();
        if let Some(before) =
            memory.calls.iter_mut().find(|before| before.idempotency_key == call.idempotency_key)
        {
            let acts_now = before.effects_n < call.effects_n;
            before.requests_n += 1;
            before.effects_n = before.effects_n.max(call.effects_n);
            return acts_now;
        }
        if memory.calls.len() == CALLS_N_MAX {
            memory.calls.pop_front();
        }
        memory.calls.push_back(call);
        true
    }
}

async fn call(State(state): State<EchoState>, headers: HeaderMap, body: Bytes) -> Response {
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let idempotency_key = text("idempotency-key");
    if idempotency_key.is_empty() {
        return json_reply(StatusCode::BAD_REQUEST, &serde_json::json!({ "echo": "no Idempotency-Key" }));
    }
    let failing = state.failure();
    let call = EchoCall {
        requests_n: 1,
        effects_n: u32::from(failing.is_none()),
        provider: text("hooklatch-provider"),
        event_id: text("hooklatch-event-id"),
        event_type: text("hooklatch-event-type"),
        body_bytes: body.len(),
        idempotency_key,
    };
    info!(
        event.id = call.event_id,
        event.kind = call.event_type,
        idempotency_key = call.idempotency_key,
        "echo got a call"
    );
    if let Some(failing) = failing {
        state.remember(call);
        // A destination that hangs, as it was configured to.
        tokio::time::sleep(Duration::from_millis(failing.hang_ms)).await;
        let status = StatusCode::from_u16(failing.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return json_reply(status, &serde_json::json!({ "echo": "failed as ordered" }));
    }
    let word = if state.remember(call) { "done" } else { "repeated" };
    json_reply(StatusCode::OK, &serde_json::json!({ "echo": word }))
}

async fn list(State(state): State<EchoState>) -> Response {
    let calls: Vec<EchoCall> = state.memory().calls.iter().cloned().collect();
    json_reply(StatusCode::OK, &serde_json::json!({ "calls": calls }))
}

async fn fail(State(state): State<EchoState>, body: Bytes) -> Response {
    match serde_json::from_slice::<Failing>(&body) {
        Ok(failing) if !failing.is_bounded() => {
            let why = format!(
                "`times` is up to {TIMES_N_MAX}, `hang_ms` up to {HANG_MS_MAX}, `status` 0 or from 200 to 599"
            );
            json_reply(StatusCode::BAD_REQUEST, &serde_json::json!({ "error": why }))
        }
        Ok(failing) => {
            let times = failing.times.max(1);
            state.memory().failing = Failing { times, ..failing };
            json_reply(StatusCode::OK, &serde_json::json!({ "failing_next": times }))
        }
        Err(error) => json_reply(StatusCode::BAD_REQUEST, &serde_json::json!({ "error": error.to_string() })),
    }
}

async fn get_failing(State(state): State<EchoState>) -> Response {
    json_reply(StatusCode::OK, &serde_json::json!({ "failing_next": state.memory().failing.times }))
}
