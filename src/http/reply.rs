//! Answers in JSON.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use serde_json::Value;

use crate::api::Tagged;
use crate::plain;

/// A view of something that can change, with its version, for `If-Match`.
pub(super) fn tagged_reply<T: Serialize>(view: &T, version: &impl Tagged) -> Response {
    let mut response = view_reply(StatusCode::OK, view);
    if let Ok(tag) = version.etag().parse() {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// A view of the contract, as JSON.
pub(super) fn view_reply(status: StatusCode, view: &impl Serialize) -> Response {
    match serde_json::to_value(view) {
        Ok(body) => json_reply(status, &body),
        // A view has no map whose keys are no text.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// JSON, which people read in terminals too: what strangers wrote in it steers none.
pub(super) fn json_reply(status: StatusCode, body: &Value) -> Response {
    let text = plain::text(&format!("{body}\n")).into_owned();
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
