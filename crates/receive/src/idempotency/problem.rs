//! Refusals of the layer: RFC 9457 JSON with a stable `code`.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use hooklatch_core::types::ProblemCode;

/// An answer that says what is wrong, with numbers beside it.
pub(crate) fn problem(status: u16, code: ProblemCode, sentence: &str, more: &[(&str, i64)]) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::CONFLICT);
    let mut body = serde_json::json!({
        "type": "about:blank", "title": status.canonical_reason(), "status": status.as_u16(), "code": code,
        "detail": sentence,
    });
    if let Some(object) = body.as_object_mut() {
        object.extend(more.iter().map(|(name, number)| ((*name).to_owned(), (*number).into())));
    }
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The same, with the seconds after which another try makes sense.
pub(super) fn problem_for_now(
    status: u16,
    code: ProblemCode,
    sentence: &str,
    retry_after_s: i64,
) -> Response {
    let mut response = problem(status, code, sentence, &[]);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s));
    response
}

/// Another caller carries the request out.
pub(super) fn in_use(retry_after_s: i64) -> Response {
    let sentence = "a request under this `Idempotency-Key` is being carried out: repeat yours for its answer";
    problem_for_now(409, ProblemCode::IdempotencyKeyInUse, sentence, retry_after_s)
}

/// The database did not answer.
pub(crate) fn unavailable() -> Response {
    problem_for_now(503, ProblemCode::Unavailable, "the database did not answer", 5)
}
