//! Which request it is: everything of it that decides what it does.

use axum::extract::OriginalUri;
use http::request::Parts;
use http::{HeaderValue, header};
use sha2::{Digest, Sha256};

/// The digest of a request: SHA-256 over method, path, query, content type, `If-Match`, principal and the bytes of the body, each
/// behind its length. The bytes count as they are: JSON that is written otherwise is another request.
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
}
