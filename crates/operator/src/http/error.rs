//! Answers in JSON, and the only match from errors to status codes. Problems are RFC 9457 JSON with a stable `code`; they
//! reveal nothing to a sender about secrets or about which check failed.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::warn;
use uuid::Uuid;

use hooklatch_contract::{ChangedRows, ProblemView, Tagged};
use hooklatch_core::plain;
use hooklatch_core::types::{KeyMistake, ProblemCode, Role};
use hooklatch_receive::ReceiveError;
use hooklatch_receive::admit::AdmitError;
use hooklatch_store::{PeopleError, Refusal, StoreError};
use hooklatch_verify::spec::EventMethod;

/// An error as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Stable word for programs, such as `body_too_large`.
    pub(crate) code: ProblemCode,
    /// One sentence for people: what is wrong, and what to do about it.
    pub(crate) sentence: &'static str,
    /// A sentence about this one request, in place of `sentence`: which name, which value, and what to write instead.
    pub(crate) detail: Option<String>,
    /// Seconds until another try makes sense.
    pub(crate) retry_after_s: Option<u32>,
    /// State in which the subject stands, where that is why.
    pub(crate) state: Option<&'static str>,
    /// Number that was counted, where that is why.
    pub(crate) counted_n: Option<u64>,
    /// Operation that is in the way, where that is why.
    pub(crate) operation_id: Option<Uuid>,
    /// Rows that are why, and the number of all of them.
    pub(crate) rows: Option<Box<ChangedRows>>,
}

impl Problem {
    /// The refusal of every method but the one that a kind's events use.
    pub(super) fn method_of(events_by: EventMethod) -> Self {
        match events_by {
            EventMethod::Post => Self::METHOD,
            EventMethod::Get => Self::METHOD_GET,
        }
    }

    pub(crate) const fn new(code: ProblemCode, sentence: &'static str) -> Self {
        Self {
            status: status_of(code),
            code,
            sentence,
            detail: None,
            retry_after_s: None,
            state: None,
            counted_n: None,
            operation_id: None,
            rows: None,
        }
    }

    /// Adds the rows that are the reason; `what` describes them.
    fn with_rows(self, what: &str, rows: ChangedRows) -> Self {
        if rows.rows_n == 0 {
            return self;
        }
        let detail = format!("{}. {what}: {}", self.sentence, rows.in_words());
        Self { rows: Some(Box::new(rows)), ..self.with_detail(detail) }
    }

    /// A request of an operator that cannot be understood; `sentence` says what to write instead.
    pub(super) const fn bad_request(sentence: &'static str) -> Self {
        Self::new(ProblemCode::BadRequest, sentence)
    }

    /// Adds what is wrong with this one request.
    pub(super) fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// A token whose role does not suffice.
    pub(crate) const fn denied(needed: Role) -> Self {
        let sentence = match needed {
            Role::Viewer => "this needs a token",
            Role::Reader => "this token may not see contents: it needs the role `reader`",
            Role::Operator => "this token may look, but not act: it needs the role `operator`",
            Role::Admin => "this needs a token of the role `admin`",
        };
        Self::new(ProblemCode::Forbidden, sentence)
    }

    /// True when it is the server that cannot: its sender may send it again.
    pub(crate) fn is_ours(&self) -> bool {
        self.status.is_server_error()
    }

    pub(super) const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(crate) const REJECTED: Self = Self::new(ProblemCode::Rejected, "the request was not believed");
    pub(crate) const ADDRESS: Self =
        Self::new(ProblemCode::AddressRefused, "requests from this address are not taken");
    pub(crate) const NO_SUCH_PROVIDER: Self =
        Self::new(ProblemCode::NoSuchProvider, "no provider is configured at this address");
    pub(crate) const NOT_FOUND: Self = Self::new(ProblemCode::NotFound, "not found");
    pub(crate) const SEALED: Self = Self::new(
        ProblemCode::Sealed,
        "this content does not open here: its key is not configured, it was changed, or it is in clear and that is refused",
    );
    pub(super) const NO_SUCH_CURSOR: Self = Self::new(
        ProblemCode::CursorUnknown,
        "this list gave no such `cursor` or `since`: send one of them, as it was given",
    );
    pub(super) const NO_SINCE_OF_CALLS: Self = Self::new(
        ProblemCode::CursorUnknown,
        "a list by `delivery` has no `since`: calls change after their event arrived; go on with `cursor`",
    );
    pub(super) const BAD_REASON: Self =
        Self::bad_request("`reason` must be a text of 1 to 255 characters on one line");
    pub(super) const END_WITHOUT_PAUSE: Self =
        Self::new(ProblemCode::EndWithoutPause, "`until_ms` goes with `pause` alone");
    pub(crate) const CHANGED: Self =
        Self::new(ProblemCode::Changed, "it has changed since you read it: read it again and decide anew");
    pub(crate) const METHOD: Self = Self::new(ProblemCode::MethodNotAllowed, "send webhooks with POST");
    const METHOD_GET: Self = Self::new(ProblemCode::MethodNotAllowed, "webhooks of this kind come with GET");
    pub(crate) const OTHER_METHOD: Self =
        Self::new(ProblemCode::MethodNotAllowed, "this path has other methods: `Allow` lists them");
    pub(crate) const TOO_LARGE: Self =
        Self::new(ProblemCode::BodyTooLarge, "the body is over the configured limit");
    pub(crate) const TOO_SLOW: Self = Self::new(ProblemCode::BodyTooSlow, "the body did not arrive in time");
    pub(crate) const BAD_HOST: Self =
        Self::new(ProblemCode::HostBad, "send one `Host`, which is a host name or an address");
    pub(crate) const EXPECTATION: Self =
        Self::new(ProblemCode::ExpectationUnknown, "only 100-continue can be expected");
    pub(crate) const BAD_CODING: Self = Self::new(ProblemCode::CodingBad, "a body is chunked once at most");
    pub(crate) const UNKNOWN_CODING: Self =
        Self::new(ProblemCode::CodingUnknown, "the only transfer coding is chunked");
    pub(crate) const FOREIGN_HOST: Self = Self::new(
        ProblemCode::HostForeign,
        "this `Host` is none of ours; names that operators use go into `admin.hosts`",
    );
    pub(crate) const FOREIGN_ORIGIN: Self =
        Self::new(ProblemCode::OriginForeign, "requests of web pages of other origins are refused");
    pub(crate) const BROKEN_BODY: Self =
        Self::new(ProblemCode::BodyBroken, "the body ended before it was whole");
    pub(crate) const SATURATED: Self =
        Self::new(ProblemCode::Saturated, "too many requests are waiting").retry_after(1);
    pub(crate) const UNAVAILABLE: Self =
        Self::new(ProblemCode::Unavailable, "nothing was admitted").retry_after(5);
    pub(crate) const WHAT_IF_BUSY: Self = Self::new(ProblemCode::WhatIfBusy,
        "other what-if requests are being answered, or one of their handlers does not return: repeat it later",
    )
    .retry_after(5);
    pub(crate) const HANDLER_FAILED: Self = Self::new(ProblemCode::HandlerFailed, "nothing was admitted");
}

/// The status of a problem; 409 where the state of the subject is why.
const fn status_of(code: ProblemCode) -> StatusCode {
    use ProblemCode as Code;
    match code {
        Code::BadRequest
        | Code::BodyBroken
        | Code::CodingBad
        | Code::HostBad
        | Code::IdempotencyKeyMissing
        | Code::IdempotencyKeyMalformed => StatusCode::BAD_REQUEST,
        Code::Rejected | Code::TokenExpired | Code::TokenRevoked | Code::Unauthorized => {
            StatusCode::UNAUTHORIZED
        }
        Code::AddressRefused
        | Code::DestinationsOutOfReach
        | Code::Forbidden
        | Code::OriginForeign
        | Code::OwnOperation
        | Code::ScopeTooWide => StatusCode::FORBIDDEN,
        Code::CursorUnknown | Code::NoSuchProvider | Code::NotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
        Code::Changed => StatusCode::PRECONDITION_FAILED,
        Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::ExpectationUnknown => StatusCode::EXPECTATION_FAILED,
        Code::HostForeign => StatusCode::MISDIRECTED_REQUEST,
        Code::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        Code::VersionNeeded => StatusCode::PRECONDITION_REQUIRED,
        Code::TooManyWrongTokens => StatusCode::TOO_MANY_REQUESTS,
        Code::HandlerFailed | Code::RowDamaged => StatusCode::INTERNAL_SERVER_ERROR,
        Code::CodingUnknown => StatusCode::NOT_IMPLEMENTED,
        Code::Saturated | Code::TokensUnknown | Code::Unavailable | Code::WhatIfBusy => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::CONFLICT,
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_damaged_row() {
            // Logged as an ERROR where it was read.
            return Self::new(ProblemCode::RowDamaged, "a row of the database is damaged")
                .with_detail(damaged_detail(&error));
        }
        warn!(%error, "could not serve an operator");
        Self { sentence: "the database did not answer", ..Self::UNAVAILABLE }
    }
}

/// What is damaged, what that means, and what to do.
fn damaged_detail(error: &StoreError) -> String {
    let source = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    format!(
        "The row is damaged, and nothing is shown or done from it: {source}. Lists leave it out, and all other rows are \
         served. Restore this value from a backup, or correct it, as docs/runbooks/row-damaged.md says"
    )
}

impl From<PeopleError> for Problem {
    fn from(error: PeopleError) -> Self {
        match error {
            PeopleError::Denied(role) => Self::denied(role),
            PeopleError::NotFound => Self::NOT_FOUND,
            PeopleError::Changed => Self::CHANGED,
            PeopleError::Refused(refusal) => refusal.into(),
            PeopleError::Store(error) => error.into(),
        }
    }
}

/// The text of refused operations about rows that have changed since they were read.
const CHANGED_ROWS: &str = "New, gone or changed since the preview";

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::NOT_FOUND,
            Refusal::Changed => Self::CHANGED,
            Refusal::VersionNeeded { state } => Self { state: Some(state), ..Self::new(
        ProblemCode::VersionNeeded,
        "another operator decided about this first: read what became of it, then decide with its version in `If-Match`",
    ) },
            Refusal::KeyReused => Self::new(
                ProblemCode::IdempotencyKeyReused,
                "this `Idempotency-Key` was used for another request: send this one under a new key",
            ),
            Refusal::NotAllowed { state } => {
                let sentence = "this act is not possible in the state in which the subject stands";
                Self { state: Some(state), ..Self::new(ProblemCode::NotAllowed, sentence) }
            }
            Refusal::BodyGone => Self::new(
                ProblemCode::BodyGone,
                "the event's bytes are no longer kept, so that it cannot be dispatched",
            ),
            Refusal::StillOpen { messages_n } => {
                let sentence = "messages of the event are neither done nor discarded, and need its bytes";
                Self { counted_n: Some(messages_n), ..Self::new(ProblemCode::StillOpen, sentence) }
            }
            Refusal::OtherCount { counted_n, changed } => {
                let sentence =
                    "the filter finds another number now: look at them again, and order it with that number";
                Self { counted_n: Some(counted_n), ..Self::new(ProblemCode::OtherCount, sentence) }
                    .with_rows(CHANGED_ROWS, changed)
            }
            Refusal::OtherSet { changed } => Self::new(
                ProblemCode::OtherSet,
                "the filter finds as many as before, but not the same ones, or one of them was sent or handled since: look at \
                 them again, and order with the new `set`",
            )
            .with_rows(CHANGED_ROWS, changed),
            Refusal::OutOfReach { what } => Self::new(
        ProblemCode::DestinationsOutOfReach,
        "nothing was done: these events may call destinations that this token does not reach; use a token that reaches \
         them, or leave these events out",
    ).with_detail(what),
            Refusal::TestEvent => Self::new(
                ProblemCode::TestEvent,
                "this test event was made without calls, and is not run: make a new one with `route` to have its calls made",
            ),
            Refusal::TooMany { rows_n_max } => {
                let sentence = "the filter finds more than an operation acts on: narrow it down";
                Self { counted_n: Some(rows_n_max), ..Self::new(ProblemCode::TooMany, sentence) }
            }
            Refusal::TooManyRunning { running_n } => {
                let sentence = "too many operations are unfinished: wait for one to end, or cancel one";
                Self { counted_n: Some(running_n), ..Self::new(ProblemCode::TooManyRunning, sentence) }
            }
            Refusal::SameOperation { operation_id, shared } => {
                Self { operation_id, ..Self::new(
        ProblemCode::SameOperation,
        "another operation has the same act and filter, or acts on some of the same rows to the same effect, and is unfinished \
         or ended less than 10 minutes ago: look at that operation, and order with `again` if it is to be done once more",
    ) }.with_rows("Both are about", shared)
            }
            Refusal::OwnOperation => Self::new(
        ProblemCode::OwnOperation,
        "another operator has to approve this operation, not the person who ordered it",
    ),
            Refusal::EndPassed => {
                Self::new(ProblemCode::EndPassed, "`until_ms` has passed: a pause ends in the future")
            }
            Refusal::NeverAllowed => {
                Self::new(ProblemCode::NeverAllowed, "this act is not possible in that `state`")
            }
        }
    }
}

impl From<KeyMistake> for Problem {
    fn from(mistake: KeyMistake) -> Self {
        let sentence = match mistake {
            KeyMistake::Missing => "send an `Idempotency-Key`, the same when you repeat the request",
            KeyMistake::Repeated => "send one `Idempotency-Key`, not several",
            KeyMistake::Malformed(_) => {
                "an `Idempotency-Key` is 1 to 255 visible ASCII characters, bare or in quotes, and one alone"
            }
        };
        Self::new(mistake.code(), sentence)
    }
}

impl From<&ReceiveError> for Problem {
    fn from(error: &ReceiveError) -> Self {
        match error {
            ReceiveError::Verify(_) => Self::REJECTED,
            ReceiveError::Admit(AdmitError::Saturated) => Self::SATURATED,
            ReceiveError::Keys(_) | ReceiveError::Admit(AdmitError::Unavailable(_)) => Self::UNAVAILABLE,
            ReceiveError::Admit(AdmitError::Rejected(_)) => Self::HANDLER_FAILED,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (rows, rows_n) = self.rows.as_ref().map(|all| (all.rows.clone(), all.rows_n)).unzip();
        let body = serde_json::json!(ProblemView {
            kind: "about:blank".to_owned(),
            title: self.status.canonical_reason().unwrap_or_default().to_owned(),
            status: self.status.as_u16(),
            code: self.code.as_str().to_owned(),
            detail: Some(self.detail.clone().unwrap_or_else(|| self.sentence.to_owned())),
            state: self.state.map(str::to_owned),
            counted_n: self.counted_n,
            operation_id: self.operation_id.map(|id| id.to_string()),
            rows: rows.unwrap_or_default(),
            rows_n,
        });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // RFC 9110, 15.5.2: a 401 names a scheme. That of a webhook is its kind's own.
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = if self == Self::REJECTED { "Signature" } else { "Bearer" };
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
        }
        // Elsewhere the router knows.
        if self == Self::METHOD {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        } else if self == Self::METHOD_GET {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}

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

/// An answer that caches and the store of answers must not keep.
pub(super) fn no_store(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn json_text(body: &Value) -> String {
    plain::text(&format!("{body}\n")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_receive::fetch::FetchError;
    use hooklatch_verify::{RawRequest, Unbelieved, VerifyError};

    #[test]
    fn every_error_has_its_documented_status() {
        #[track_caller]
        fn check(error: &ReceiveError, status: u16, retry_after_s: Option<u32>) {
            let problem = Problem::from(error);
            assert_eq!((problem.status.as_u16(), problem.retry_after_s), (status, retry_after_s), "{error}");
        }
        let request = RawRequest {
            method: http::Method::POST,
            url: String::new(),
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            received_at_ms: 0,
        };
        let why = VerifyError::Mismatch { keys_n: 1 };
        check(&Box::new(Unbelieved { why, request }).into(), 401, None);
        check(&FetchError::Away("x".to_owned()).into(), 503, Some(5));
        check(&AdmitError::Saturated.into(), 503, Some(1));
        check(&AdmitError::Unavailable("x".to_owned()).into(), 503, Some(5));
        check(&AdmitError::Rejected("x".to_owned()).into(), 500, None);
    }

    #[tokio::test]
    async fn a_problem_is_json_with_a_stable_code_and_retry_after() {
        async fn rendered(problem: Problem) -> (http::HeaderMap, serde_json::Value) {
            let response = problem.into_response();
            let headers = response.headers().clone();
            let body =
                http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
            (headers, serde_json::from_slice(&body).expect("JSON"))
        }
        let (headers, body) = rendered(Problem::SATURATED).await;
        assert_eq!((&body["status"], &body["code"]), (&503.into(), &"saturated".into()));
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(headers[header::RETRY_AFTER], "1");
        assert!(!headers.contains_key(header::ALLOW));
        let (headers, body) = rendered(Problem::METHOD).await;
        assert_eq!(
            (&headers[header::ALLOW], &body["status"]),
            (&HeaderValue::from_static("POST"), &405.into())
        );
        let (_, body) = rendered(Refusal::NotAllowed { state: "done" }.into()).await;
        assert_eq!((&body["status"], &body["state"]), (&409.into(), &"done".into()));
        let (_, body) =
            rendered(Refusal::OtherCount { counted_n: 7, changed: ChangedRows::default() }.into()).await;
        assert_eq!((&body["code"], &body["counted_n"]), (&"other_count".into(), &7.into()));
        // The response to a rejected request names no step, no secret and no figure.
        let (_, body) = rendered(Problem::REJECTED).await;
        let want = serde_json::json!({
            "type": "about:blank", "title": "Unauthorized", "status": 401, "code": "rejected",
            "detail": "the request was not believed",
        });
        assert_eq!(body, want);
    }
}
