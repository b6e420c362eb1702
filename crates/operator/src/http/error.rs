//! The only match from errors to status codes. Problems are RFC 9457 JSON with a stable `code`, and tell a
//! sender nothing about secrets or about which check failed.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use tracing::warn;
use uuid::Uuid;

use hooklatch_contract::ChangedRows;
use hooklatch_core::types::{KeyMistake, ProblemCode, Role};
use hooklatch_receive::ReceiveError;
use hooklatch_receive::admit::AdmitError;
use hooklatch_store::{PeopleError, Refusal, StoreError};
use hooklatch_verify::spec::EventMethod;

/// An error as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// Stable word for programs, such as `body_too_large`.
    pub code: ProblemCode,
    /// One sentence for people: what is wrong, and what to do about it.
    pub sentence: &'static str,
    /// A sentence about this one request, in place of `sentence`: which name, which value, and what to write instead.
    pub detail: Option<String>,
    /// Seconds until another try makes sense.
    pub retry_after_s: Option<u32>,
    /// State in which the subject stands, where that is why.
    pub state: Option<&'static str>,
    /// Number that was counted, where that is why.
    pub counted_n: Option<u64>,
    /// Operation that is in the way, where that is why.
    pub operation_id: Option<Uuid>,
    /// Rows that are why, and the number of all of them.
    pub rows: Option<Box<ChangedRows>>,
}

impl Problem {
    /// The refusal of every method but the one that a kind's events use.
    pub(super) fn method_of(events_by: EventMethod) -> Self {
        match events_by {
            EventMethod::Post => Self::METHOD,
            EventMethod::Get => Self::METHOD_GET,
        }
    }

    pub const fn new(status: StatusCode, code: ProblemCode, sentence: &'static str) -> Self {
        Self {
            status,
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

    /// The same, with the rows that are the reason; `what` describes them.
    fn with_rows(self, what: &str, rows: ChangedRows) -> Self {
        if rows.rows_n == 0 {
            return self;
        }
        let detail = format!("{}. {what}: {}", self.sentence, rows.in_words());
        Self { rows: Some(Box::new(rows)), ..self.with_detail(detail) }
    }

    /// A request of an operator that cannot be understood; `sentence` says what to write instead.
    pub(super) const fn bad_request(sentence: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ProblemCode::BadRequest, sentence)
    }

    /// The same, with what is wrong with this one request.
    pub(super) fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// A token whose role does not suffice.
    pub const fn denied(needed: Role) -> Self {
        let sentence = match needed {
            Role::Viewer => "this needs a token",
            Role::Reader => "this token may not see contents: it needs the role `reader`",
            Role::Operator => "this token may look, but not act: it needs the role `operator`",
            Role::Admin => "this needs a token of the role `admin`",
        };
        Self::new(StatusCode::FORBIDDEN, ProblemCode::Forbidden, sentence)
    }

    /// True when it is the server that cannot: its sender may send it again.
    pub fn is_ours(&self) -> bool {
        self.status.is_server_error()
    }

    pub(super) const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(crate) const REJECTED: Self =
        Self::new(StatusCode::UNAUTHORIZED, ProblemCode::Rejected, "the request was not believed");
    pub(crate) const ADDRESS: Self = Self::new(
        StatusCode::FORBIDDEN,
        ProblemCode::AddressRefused,
        "requests from this address are not taken",
    );
    pub(crate) const NO_SUCH_PROVIDER: Self = Self::new(
        StatusCode::NOT_FOUND,
        ProblemCode::NoSuchProvider,
        "no provider is configured at this address",
    );
    pub const NOT_FOUND: Self = Self::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, "not found");
    pub(crate) const SEALED: Self = Self::new(
        StatusCode::CONFLICT,
        ProblemCode::Sealed,
        "this content does not open here: its key is not configured, it was changed, or it is in clear and that is refused",
    );
    pub(super) const NO_SUCH_CURSOR: Self = Self::new(
        StatusCode::NOT_FOUND,
        ProblemCode::CursorUnknown,
        "this list gave no such `cursor` or `since`: send one of them, as it was given",
    );
    pub(super) const NO_SINCE_OF_CALLS: Self = Self::new(
        StatusCode::NOT_FOUND,
        ProblemCode::CursorUnknown,
        "a list by `delivery` has no `since`: calls change after their event arrived; go on with `cursor`",
    );
    pub(super) const BAD_REASON: Self =
        Self::bad_request("`reason` must be a text of 1 to 255 characters on one line");
    const SAME_OPERATION: Self = Self::new(
        StatusCode::CONFLICT,
        ProblemCode::SameOperation,
        "another operation has the same act and filter, or acts on some of the same rows to the same effect, and is unfinished \
         or ended less than 10 minutes ago: look at that operation, and order with `again` if it is to be done once more",
    );
    const OUT_OF_REACH: Self = Self::new(
        StatusCode::FORBIDDEN,
        ProblemCode::DestinationsOutOfReach,
        "nothing was done: these events may call destinations that this token does not reach; use a token that reaches \
         them, or leave these events out",
    );
    const OWN_OPERATION: Self = Self::new(
        StatusCode::FORBIDDEN,
        ProblemCode::OwnOperation,
        "another operator has to approve this operation, not the person who ordered it",
    );
    pub(super) const END_WITHOUT_PAUSE: Self =
        Self::new(StatusCode::CONFLICT, ProblemCode::EndWithoutPause, "`until_ms` goes with `pause` alone");
    pub(crate) const CHANGED: Self = Self::new(
        StatusCode::PRECONDITION_FAILED,
        ProblemCode::Changed,
        "it has changed since you read it: read it again and decide anew",
    );
    const VERSION_NEEDED: Self = Self::new(
        StatusCode::PRECONDITION_REQUIRED,
        ProblemCode::VersionNeeded,
        "another operator decided about this first: read what became of it, then decide with its version in `If-Match`",
    );
    pub(crate) const METHOD: Self =
        Self::new(StatusCode::METHOD_NOT_ALLOWED, ProblemCode::MethodNotAllowed, "send webhooks with POST");
    const METHOD_GET: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ProblemCode::MethodNotAllowed,
        "webhooks of this kind come with GET",
    );
    pub(crate) const OTHER_METHOD: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ProblemCode::MethodNotAllowed,
        "this path has other methods: `Allow` lists them",
    );
    pub(crate) const TOO_LARGE: Self = Self::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ProblemCode::BodyTooLarge,
        "the body is over the configured limit",
    );
    pub(crate) const TOO_SLOW: Self =
        Self::new(StatusCode::REQUEST_TIMEOUT, ProblemCode::BodyTooSlow, "the body did not arrive in time");
    pub(crate) const BAD_HOST: Self = Self::new(
        StatusCode::BAD_REQUEST,
        ProblemCode::HostBad,
        "send one `Host`, which is a host name or an address",
    );
    pub(crate) const EXPECTATION: Self = Self::new(
        StatusCode::EXPECTATION_FAILED,
        ProblemCode::ExpectationUnknown,
        "only 100-continue can be expected",
    );
    pub(crate) const BAD_CODING: Self =
        Self::new(StatusCode::BAD_REQUEST, ProblemCode::CodingBad, "a body is chunked once at most");
    pub(crate) const UNKNOWN_CODING: Self = Self::new(
        StatusCode::NOT_IMPLEMENTED,
        ProblemCode::CodingUnknown,
        "the only transfer coding is chunked",
    );
    pub(crate) const FOREIGN_HOST: Self = Self::new(
        StatusCode::MISDIRECTED_REQUEST,
        ProblemCode::HostForeign,
        "this `Host` is none of ours; names that operators use go into `admin.hosts`",
    );
    pub(crate) const FOREIGN_ORIGIN: Self = Self::new(
        StatusCode::FORBIDDEN,
        ProblemCode::OriginForeign,
        "requests of web pages of other origins are refused",
    );
    pub(crate) const BROKEN_BODY: Self =
        Self::new(StatusCode::BAD_REQUEST, ProblemCode::BodyBroken, "the body ended before it was whole");
    pub(crate) const SATURATED: Self =
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Saturated, "too many requests are waiting")
            .retry_after(1);
    pub const UNAVAILABLE: Self =
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Unavailable, "nothing was admitted")
            .retry_after(5);
    pub(crate) const WHAT_IF_BUSY: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        ProblemCode::WhatIfBusy,
        "other what-if requests are being answered, or one of their handlers does not return: repeat it later",
    )
    .retry_after(5);
    pub(crate) const HANDLER_FAILED: Self =
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::HandlerFailed, "nothing was admitted");
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_damaged_row() {
            // Logged as an ERROR where it was read.
            return Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                ProblemCode::RowDamaged,
                "a row of the database is damaged",
            )
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
        let conflict = |code, sentence| Self::new(StatusCode::CONFLICT, code, sentence);
        match refusal {
            Refusal::NotFound => Self::NOT_FOUND,
            Refusal::Changed => Self::CHANGED,
            Refusal::VersionNeeded { state } => Self { state: Some(state), ..Self::VERSION_NEEDED },
            Refusal::KeyReused => {
                let sentence =
                    "this `Idempotency-Key` was used for another request: send this one under a new key";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::IdempotencyKeyReused, sentence)
            }
            Refusal::NotAllowed { state } => {
                let sentence = "this act is not possible in the state in which the subject stands";
                Self { state: Some(state), ..conflict(ProblemCode::NotAllowed, sentence) }
            }
            Refusal::BodyGone => conflict(
                ProblemCode::BodyGone,
                "the event's bytes are no longer kept, so that it cannot be dispatched",
            ),
            Refusal::StillOpen { messages_n } => {
                let sentence = "messages of the event are neither done nor discarded, and need its bytes";
                Self { counted_n: Some(messages_n), ..conflict(ProblemCode::StillOpen, sentence) }
            }
            Refusal::OtherCount { counted_n, changed } => {
                let sentence =
                    "the filter finds another number now: look at them again, and order it with that number";
                Self { counted_n: Some(counted_n), ..conflict(ProblemCode::OtherCount, sentence) }
                    .with_rows(CHANGED_ROWS, changed)
            }
            Refusal::OtherSet { changed } => conflict(
                ProblemCode::OtherSet,
                "the filter finds as many as before, but not the same ones, or one of them was sent or handled since: look at \
                 them again, and order with the new `set`",
            )
            .with_rows(CHANGED_ROWS, changed),
            Refusal::OutOfReach { what } => Self::OUT_OF_REACH.with_detail(what),
            Refusal::TestEvent => conflict(
                ProblemCode::TestEvent,
                "this test event was made without calls, and is not run: make a new one with `route` to have its calls made",
            ),
            Refusal::TooMany { rows_n_max } => {
                let sentence = "the filter finds more than an operation acts on: narrow it down";
                Self { counted_n: Some(rows_n_max), ..conflict(ProblemCode::TooMany, sentence) }
            }
            Refusal::TooManyRunning { running_n } => {
                let sentence = "too many operations are unfinished: wait for one to end, or cancel one";
                Self { counted_n: Some(running_n), ..conflict(ProblemCode::TooManyRunning, sentence) }
            }
            Refusal::SameOperation { operation_id, shared } => {
                Self { operation_id, ..Self::SAME_OPERATION }.with_rows("Both are about", shared)
            }
            Refusal::OwnOperation => Self::OWN_OPERATION,
            Refusal::EndPassed => {
                conflict(ProblemCode::EndPassed, "`until_ms` has passed: a pause ends in the future")
            }
            Refusal::NeverAllowed => {
                conflict(ProblemCode::NeverAllowed, "this act is not possible in that `state`")
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
        Self::new(StatusCode::BAD_REQUEST, mistake.code(), sentence)
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
        let mut body = serde_json::json!({
            "type": "about:blank", "title": self.status.canonical_reason(), "status": self.status.as_u16(),
            "code": self.code, "detail": self.detail.as_deref().unwrap_or(self.sentence),
        });
        if let Some(fields) = body.as_object_mut() {
            let state = self.state.map(|state| ("state".to_owned(), state.into()));
            let counted_n = self.counted_n.map(|counted_n| ("counted_n".to_owned(), counted_n.into()));
            let operation_id = self.operation_id.map(|id| ("operation_id".to_owned(), id.to_string().into()));
            fields.extend(state.into_iter().chain(counted_n).chain(operation_id));
            if let Some(rows) = &self.rows {
                fields.insert("rows".to_owned(), rows.rows.clone().into());
                fields.insert("rows_n".to_owned(), rows.rows_n.into());
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_receive::fetch::FetchError;
    use hooklatch_verify::{RawRequest, RejectedRequest, VerifyError};

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
        check(&Box::new(RejectedRequest { why, request }).into(), 401, None);
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
