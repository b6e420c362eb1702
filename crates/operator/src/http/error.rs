//! Answers in JSON, and the only match from errors to status codes. Problems are RFC 9457 JSON with a stable `code`;
//! they reveal nothing to a sender about secrets or about which check failed.

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
use hooklatch_store::{OperatorError, Refusal, StoreError};
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

    fn counted(self, counted_n: u64) -> Self {
        Self { counted_n: Some(counted_n), ..self }
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
}

macro_rules! problems {
    ($($name:ident: $code:ident = $sentence:literal $(, after $seconds:literal)?;)*) => {
        impl Problem {
            $(pub(crate) const $name: Self =
                Self::new(ProblemCode::$code, $sentence)$(.retry_after($seconds))?;)*
        }
    };
}

// Name and code, what the problem is and what to do about it, and after how many seconds another try makes sense.
problems! {
    REJECTED: Rejected = "the request was not believed";
    ADDRESS: AddressRefused = "requests from this address are not taken";
    NO_SUCH_PROVIDER: NoSuchProvider = "no provider is configured at this address";
    NOT_FOUND: NotFound = "not found";
    SEALED: Sealed =
        "this content does not open here: its key is not configured, it was changed, or it is in clear and that is refused";
    NO_SUCH_CURSOR: CursorUnknown =
        "this list gave no such `cursor` or `since`: send one of them, as it was given";
    NO_SINCE_OF_CALLS: CursorUnknown =
        "a list by `delivery` has no `since`: calls change after their event arrived; go on with `cursor`";
    BAD_REASON: BadRequest = "`reason` must be a text of 1 to 255 characters on one line";
    END_WITHOUT_PAUSE: EndWithoutPause = "`until_ms` goes with `pause` alone";
    CHANGED: Changed = "it has changed since you read it: read it again and decide anew";
    METHOD: MethodNotAllowed = "send webhooks with POST";
    METHOD_GET: MethodNotAllowed = "webhooks of this kind come with GET";
    OTHER_METHOD: MethodNotAllowed = "this path has other methods: `Allow` lists them";
    TOO_LARGE: BodyTooLarge = "the body is over the configured limit";
    TOO_SLOW: BodyTooSlow = "the body did not arrive in time";
    BAD_HOST: HostBad = "send one `Host`, which is a host name or an address";
    EXPECTATION: ExpectationUnknown = "only 100-continue can be expected";
    BAD_CODING: CodingBad = "a body is chunked once at most";
    UNKNOWN_CODING: CodingUnknown = "the only transfer coding is chunked";
    FOREIGN_HOST: HostForeign = "this `Host` is none of ours; names that operators use go into `admin.hosts`";
    FOREIGN_ORIGIN: OriginForeign = "requests of web pages of other origins are refused";
    UNAUTHORIZED: Unauthorized = "send a bearer token: one of `admin.tokens`, or one that an admin made";
    TOKEN_EXPIRED: TokenExpired = "this token has expired: have an admin make another";
    TOKEN_REVOKED: TokenRevoked = "this token was revoked";
    // Tokens made at run time cannot be checked; the response does not reveal whether this is one.
    TOKENS_UNKNOWN: TokensUnknown =
        "the database does not answer: only tokens of the configuration can be judged now", after 5;
    TOO_MANY_WRONG_TOKENS: TooManyWrongTokens = "too many wrong tokens were sent: wait, or send a right one";
    BROKEN_BODY: BodyBroken = "the body ended before it was whole";
    SATURATED: Saturated = "too many requests are waiting", after 1;
    UNAVAILABLE: Unavailable = "nothing was admitted", after 5;
    WHAT_IF_BUSY: WhatIfBusy =
        "other what-if requests are being answered, or one of their handlers does not return: repeat it later", after 5;
    HANDLER_FAILED: HandlerFailed = "nothing was admitted";
    VERSION_NEEDED: VersionNeeded =
        "another operator decided about this first: read what became of it, then decide with its version in `If-Match`";
    KEY_REUSED: IdempotencyKeyReused =
        "this `Idempotency-Key` was used for another request: send this one under a new key";
    BODY_GONE: BodyGone = "the event's body is no longer kept: it can neither be shown nor dispatched";
    OTHER_SET: OtherSet =
        "the filter finds as many as before, but not the same ones, or one of them was sent or handled since: look \
         at them again, and order with the new `set`";
    OUT_OF_REACH: DestinationsOutOfReach =
        "nothing was done: these events may call destinations that this token does not reach; use a token that \
         reaches them, or leave these events out";
    TEST_EVENT: TestEvent =
        "this test event was made without calls, and is not run: make a new one with `route` to have its calls made";
    SAME_OPERATION: SameOperation =
        "another operation has the same act and filter, or acts on some of the same rows to the same effect, and is \
         unfinished or ended less than 10 minutes ago: look at that operation, and order with `again` if it is to be \
         done once more";
    OWN_OPERATION: OwnOperation =
        "another operator has to approve this operation, not the person who ordered it";
    END_PASSED: EndPassed = "`until_ms` has passed: a pause ends in the future";
    NEVER_ALLOWED: NeverAllowed = "this act is not possible in that `state`";
    NOT_ALLOWED: NotAllowed = "this act is not possible in the state in which the subject stands";
    STILL_OPEN: StillOpen = "messages of the event are neither done nor discarded, and need its bytes";
    OTHER_COUNT: OtherCount =
        "the filter finds another number now: look at them again, and order it with that number";
    TOO_MANY: TooMany = "the filter finds more than an operation acts on: narrow it down";
    TOO_MANY_RUNNING: TooManyRunning =
        "too many operations are unfinished: wait for one to end, or cancel one";
    TOKEN_SHOWN_ONCE: TokenShownOnce =
        "this request has made a token before, which was shown then and is kept nowhere: revoke it, and make another under another key";
    NAME_TAKEN: NameTaken = "another token has this name: choose another, or revoke that one first";
    TOO_MANY_TOKENS: TooManyTokens = "1000 tokens are valid: revoke some of them";
    SCOPE_TOO_WIDE: ScopeTooWide =
        "a token cannot reach further than the token that makes it: name `providers` and `destinations` of yours";
    ROUTE_OUT_OF_REACH: DestinationsOutOfReach =
        "`route` may call any destination, and this token reaches some alone";
    NO_SAMPLE: NoSample =
        "the kind of this provider has no sample of that type: choose one of the provider's `samples`, or give a `body`";
    TEST_EVENT_UNREADABLE: TestEventUnreadable =
        "no event of this provider's kind can be read in that body, so nothing was made";
    KEY_IN_USE: IdempotencyKeyInUse =
        "a decision about the same is being carried out: repeat yours for its answer", after 1;
}

/// The status of a problem; 409 where the state of the subject is why. It names every code, so that a new one gets its
/// status here.
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
        Code::HandlerFailed | Code::IdempotencyAnswerUnusable | Code::Internal | Code::RowDamaged => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        Code::CodingUnknown => StatusCode::NOT_IMPLEMENTED,
        Code::IdempotencyTimeout
        | Code::Saturated
        | Code::TokensUnknown
        | Code::Unavailable
        | Code::WhatIfBusy => StatusCode::SERVICE_UNAVAILABLE,
        Code::BodyGone
        | Code::EndPassed
        | Code::EndWithoutPause
        | Code::IdempotencyAnswerNotKept
        | Code::IdempotencyKeyInUse
        | Code::NameTaken
        | Code::NeverAllowed
        | Code::NoSample
        | Code::NotAllowed
        | Code::OtherCount
        | Code::OtherSet
        | Code::SameOperation
        | Code::Sealed
        | Code::StillOpen
        | Code::TestEvent
        | Code::TestEventUnreadable
        | Code::TokenShownOnce
        | Code::TooMany
        | Code::TooManyRunning
        | Code::TooManyTokens => StatusCode::CONFLICT,
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

impl From<OperatorError> for Problem {
    fn from(error: OperatorError) -> Self {
        match error {
            OperatorError::Denied(role) => Self::denied(role),
            OperatorError::NotFound => Self::NOT_FOUND,
            OperatorError::Changed => Self::CHANGED,
            OperatorError::Refused(refusal) => refusal.into(),
            OperatorError::Store(error) => error.into(),
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
            Refusal::VersionNeeded { state } => Self { state: Some(state), ..Self::VERSION_NEEDED },
            Refusal::KeyReused => Self::KEY_REUSED,
            Refusal::NotAllowed { state } => Self { state: Some(state), ..Self::NOT_ALLOWED },
            Refusal::BodyGone => Self::BODY_GONE,
            Refusal::StillOpen { messages_n } => Self::STILL_OPEN.counted(messages_n),
            Refusal::OtherCount { counted_n, changed } => {
                Self::OTHER_COUNT.counted(counted_n).with_rows(CHANGED_ROWS, changed)
            }
            Refusal::OtherSet { changed } => Self::OTHER_SET.with_rows(CHANGED_ROWS, changed),
            Refusal::OutOfReach { what } => Self::OUT_OF_REACH.with_detail(what),
            Refusal::TestEvent => Self::TEST_EVENT,
            Refusal::TooMany { rows_n_max } => Self::TOO_MANY.counted(rows_n_max),
            Refusal::TooManyRunning { running_n } => Self::TOO_MANY_RUNNING.counted(running_n),
            Refusal::SameOperation { operation_id, shared } => {
                Self { operation_id, ..Self::SAME_OPERATION }.with_rows("Both are about", shared)
            }
            Refusal::OwnOperation => Self::OWN_OPERATION,
            Refusal::EndPassed => Self::END_PASSED,
            Refusal::NeverAllowed => Self::NEVER_ALLOWED,
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

/// A view of something that can change, with its version and the digest of these very bytes as `ETag`: `If-Match` goes
/// by the version, `If-None-Match` by both.
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
