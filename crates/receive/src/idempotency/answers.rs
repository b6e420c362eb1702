//! Which answers are kept, what of them, and how they are given again.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::problem::problem;
use hooklatch_core::types::ProblemCode;
use hooklatch_store::{KeptAnswer, KeyState, NewAnswer};

/// Longest body that is kept. Bytes.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest headers that are kept, together. Bytes.
const HEADERS_BYTES_MAX: usize = 8 * 1024;

/// Headers that are given again: they belong to the answer. All others belong to the one exchange (`date`), to the
/// caller's session (`set-cookie`) or to the connection.
const HEADERS_KEPT: [HeaderName; 13] = [
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_TYPE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::LINK,
    header::LOCATION,
    header::VARY,
];

static REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
static EXPIRES_AT_MS: HeaderName = HeaderName::from_static("idempotency-expires-at-ms");

/// The state that an answer of this status leaves its key in; `None` where the same request may be answered otherwise
/// next time, and so is tried again.
pub(super) fn state_after(status: StatusCode) -> Option<KeyState> {
    let is_for_now = status.is_server_error()
        || matches!(
            status,
            // Neither depends on the request alone: who asks may be allowed to, later.
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::REQUEST_TIMEOUT
                | StatusCode::TOO_EARLY
                | StatusCode::TOO_MANY_REQUESTS
        );
    match status {
        _ if is_for_now => None,
        _ if status.is_client_error() => Some(KeyState::Failed),
        _ => Some(KeyState::Succeeded),
    }
}

/// What is kept of an answer; `body` is `None` where it is too long. An answer that says `no-store` is not stored: that
/// it was given is.
pub(crate) fn kept(
    state: KeyState,
    status: StatusCode,
    headers: &HeaderMap,
    body: Option<&[u8]>,
) -> NewAnswer {
    let (mut pairs, mut bytes_n) = (Vec::new(), 0);
    for name in &HEADERS_KEPT {
        for value in headers.get_all(name) {
            // What is not text is left out.
            let Ok(text) = value.to_str() else { continue };
            bytes_n += text.len();
            pairs.push((name.as_str(), text));
        }
    }
    let is_too_long = bytes_n > HEADERS_BYTES_MAX;
    if is_too_long {
        pairs.clear();
    }
    let directives = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let is_secret =
        directives.flat_map(|text| text.split(',')).any(|one| one.trim().eq_ignore_ascii_case("no-store"));
    NewAnswer {
        state,
        status: status.as_u16(),
        headers: serde_json::to_string(&pairs).unwrap_or_default(),
        body: body.filter(|_| !is_secret && !is_too_long).map(<[u8]>::to_vec),
    }
}

/// The first answer, once more.
pub(super) fn replay(kept: KeptAnswer) -> Response {
    let KeptAnswer { answer, expires_at_ms } = kept;
    let Some(body) = answer.body else {
        let sentence = "the request was carried out, and its answer was too long or too secret to be kept";
        let more = [("first_status", i64::from(answer.status)), ("expires_at_ms", expires_at_ms)];
        return replayed(problem(409, ProblemCode::IdempotencyAnswerNotKept, sentence, &more), expires_at_ms);
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let pairs: Vec<(String, String)> = serde_json::from_str(&answer.headers).unwrap_or_default();
    for (name, value) in pairs {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    replayed(response, expires_at_ms)
}

fn replayed(mut response: Response, expires_at_ms: i64) -> Response {
    response.headers_mut().insert(REPLAYED.clone(), HeaderValue::from_static("true"));
    known_until(response, expires_at_ms)
}

/// The answer, with the time until which its key is known.
pub(super) fn known_until(mut response: Response, expires_at_ms: i64) -> Response {
    response.headers_mut().insert(EXPIRES_AT_MS.clone(), HeaderValue::from(expires_at_ms));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_where_the_same_request_would_be_answered_the_same() {
        #[track_caller]
        fn check(statuses: &[u16], want: Option<KeyState>) {
            for status in statuses {
                let status = StatusCode::from_u16(*status).unwrap();
                assert_eq!(state_after(status), want, "{status}");
            }
        }
        check(&[200, 201, 202, 204, 206, 301, 303, 304, 307], Some(KeyState::Succeeded));
        check(
            &[400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 415, 418, 422, 423, 451],
            Some(KeyState::Failed),
        );
        check(&[401, 403, 408, 425, 429, 500, 501, 502, 503, 504, 520, 599], None);
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_belongs_to_the_answer_is_given_again_and_nothing_else() {
        let given = headers(&[
            ("content-type", "application/json"),
            ("location", "/orders/1"),
            ("link", "</a>"),
            ("link", "</b>"),
            ("set-cookie", "session=1"),
            ("date", "now"),
            ("connection", "close"),
            ("content-length", "2"),
            ("transfer-encoding", "chunked"),
            ("x-request-id", "1"),
        ]);
        let answer = kept(KeyState::Succeeded, StatusCode::CREATED, &given, Some(b"{}"));
        let response = replay(KeptAnswer { answer, expires_at_ms: 77 });
        assert_eq!(response.status(), StatusCode::CREATED);
        let mut names: Vec<&str> = response.headers().iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let want =
            ["content-type", "idempotency-expires-at-ms", "idempotency-replayed", "link", "link", "location"];
        assert_eq!(names, want);
        assert_eq!(response.headers()[&EXPIRES_AT_MS], "77");
    }

    #[test]
    fn an_answer_that_is_too_long_or_no_store_is_not_kept_and_its_repetition_reports_that() {
        let secret = headers(&[("cache-control", "private, No-Store")]);
        let answers = [
            kept(KeyState::Succeeded, StatusCode::OK, &secret, Some(b"token")),
            kept(KeyState::Succeeded, StatusCode::OK, &HeaderMap::new(), None),
        ];
        for answer in answers {
            assert_eq!(answer.body, None);
            let response = replay(KeptAnswer { answer, expires_at_ms: 1 });
            assert_eq!(response.status(), StatusCode::CONFLICT);
        }
        let cached = headers(&[("cache-control", "max-age=60")]);
        assert!(kept(KeyState::Failed, StatusCode::GONE, &cached, Some(b"")).body.is_some());
    }
}
