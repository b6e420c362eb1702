//! Answers in JSON.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::Value;

use crate::plain;

/// JSON, which people read in terminals too: what strangers wrote in it steers none.
pub(super) fn json_reply(status: StatusCode, body: &Value) -> Response {
    let text = plain::text(&format!("{body}\n")).into_owned();
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
