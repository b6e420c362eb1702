//! Answers in JSON.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use hooklatch_contract::Tagged;
use hooklatch_core::plain;

/// A view of something that can change, with its version and the digest of these very bytes as `ETag`: `If-Match` goes by
/// the version, `If-None-Match` by both.
pub(super) fn tagged_reply<T: Serialize>(view: &T, version: &impl Tagged) -> Response {
    let Ok(body) = serde_json::to_value(view) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let text = json_text(&body);
    let digest: [u8; 32] = Sha256::digest(&text).into();
    let version = version.etag();
    let tag =
        format!("{}.{}\"", version.trim_end_matches('"'), hex::encode(digest.get(..8).unwrap_or_default()));
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json".to_owned()), (header::ETAG, tag)], text)
        .into_response()
}

/// A view of the contract, as JSON.
pub(super) fn view_reply(status: StatusCode, view: &impl Serialize) -> Response {
    match serde_json::to_value(view) {
        Ok(body) => json_reply(status, &body),
        // A view has no map whose keys are no text.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// JSON, which people read in terminals too: control characters in a client's text have no effect there.
pub(super) fn json_reply(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json_text(body)).into_response()
}

fn json_text(body: &Value) -> String {
    plain::text(&format!("{body}\n")).into_owned()
}
