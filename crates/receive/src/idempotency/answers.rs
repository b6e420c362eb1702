//! Which request a key belongs to, which answers are kept, what of them, and how they are given again.

use axum::body::Body;
use axum::extract::OriginalUri;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

use hooklatch_core::types::ProblemCode;
use hooklatch_store::{KeptAnswer, KeyState, NewAnswer};

/// The digest of a request: SHA-256 over method, path, query, content type, `If-Match`, principal and the bytes of the
/// body, each behind its length. The bytes count as they are: JSON that is written otherwise is another request.
pub fn fingerprint(parts: &Parts, principal: &str, body: &[u8]) -> [u8; 32] {
    let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
    let content_type = parts.headers.get(header::CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
    let if_match: Vec<&[u8]> =
        parts.headers.get_all(header::IF_MATCH).iter().map(HeaderValue::as_bytes).collect();
    let if_match = if_match.join(&b',');
    // A query that is there and empty is another one than none.
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let all = [
        parts.method.as_str().as_bytes(),
        uri.path().as_bytes(),
        query.as_bytes(),
        content_type,
        &if_match,
        principal.as_bytes(),
        body,
    ];
    let with_length = |hash: Sha256, part: &&[u8]| {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        hash.chain_update(length.to_be_bytes()).chain_update(part)
    };
    all.iter().fold(Sha256::new(), with_length).finalize().into()
}

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

/// A problem with the seconds after which another try makes sense.
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn another_version_that_is_expected_makes_another_request() {
        let of = |tag: &str| {
            let request = http::Request::post("/v1/a").header("if-match", tag).body(()).unwrap();
            fingerprint(&request.into_parts().0, "ann", b"{}")
        };
        assert_ne!(of("\"a\""), of("\"b\""));
        assert_eq!(of("\"a\""), of("\"a\""));
    }

    fn of(method: &str, uri: &str, content_type: Option<&str>, principal: &str, body: &str) -> [u8; 32] {
        let mut request = http::Request::builder().method(method).uri(uri);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        fingerprint(&request.body(()).unwrap().into_parts().0, principal, body.as_bytes())
    }

    #[test]
    fn requests_with_different_deciding_parts_have_different_fingerprints_wherever_a_part_ends() {
        let json = Some("application/json");
        let all = [
            of("POST", "/v1/a", json, "ann", "{}"),
            of("PUT", "/v1/a", json, "ann", "{}"),
            of("POST", "/v1/b", json, "ann", "{}"),
            of("POST", "/v1/a/", json, "ann", "{}"),
            of("POST", "/v1/a?", json, "ann", "{}"),
            of("POST", "/v1/a?x=1", json, "ann", "{}"),
            of("POST", "/v1/a?x=1&y=2", json, "ann", "{}"),
            of("POST", "/v1/a?y=2&x=1", json, "ann", "{}"),
            of("POST", "/v1/a", None, "ann", "{}"),
            of("POST", "/v1/a", Some("application/json; charset=utf-8"), "ann", "{}"),
            of("POST", "/v1/a", json, "bob", "{}"),
            of("POST", "/v1/a", json, "ann", ""),
            of("POST", "/v1/a", json, "ann", "{ }"),
            of("POST", "/v1/a", json, "ann{", "}"),
            of("POST", "/v1/a", json, "", "ann{}"),
            of("POST", "/v1/aapplication/json", None, "ann", "{}"),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(of("POST", "/v1/a", json, "ann", "{}"), all[0]);
    }

    #[test]
    fn a_nested_route_is_fingerprinted_by_its_original_path() {
        let nested = |original: &'static str| {
            let request = http::Request::post("/pay").body(()).unwrap();
            let mut parts = request.into_parts().0;
            parts.extensions.insert(OriginalUri(http::Uri::from_static(original)));
            fingerprint(&parts, "ann", b"")
        };
        assert_ne!(nested("/orders/pay"), nested("/refunds/pay"));
    }

    #[test]
    fn headers_that_decide_nothing_change_nothing() {
        let with = |name: &str| {
            let request = http::Request::post("/a").header(name, "x").body(()).unwrap();
            fingerprint(&request.into_parts().0, "ann", b"")
        };
        assert_eq!(with("user-agent"), with("traceparent"));
    }

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
