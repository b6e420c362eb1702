//! What the receiver answers to a probe: what arrived, as digests.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Uri};
use sha2::{Digest, Sha256};

use super::key::AnswerKey;
use hooklatch_contract::{ArrivedHeader, ArrivedView, ProbeAnswer};

/// The header that has a probe's token.
pub static PROBE_HEADER: HeaderName = HeaderName::from_static("hooklatch-probe");
/// The name of the same in the query: on the way, one of the two may be lost.
pub(crate) const PROBE_QUERY: &str = "hooklatch-probe";
/// Most headers that are listed.
const HEADERS_N_MAX: usize = 200;

/// The token that a request has, in its header or in its query; `None` for nearly all requests.
pub fn probe_token<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let in_header = headers.get(&PROBE_HEADER).and_then(|value| value.to_str().ok());
    in_header.or_else(|| query_token(uri.query()?))
}

fn query_token(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix(PROBE_QUERY)?.strip_prefix('='))
}

/// The response to a request with a valid token: it contains no value of the request.
pub fn probe_answer(key: &AnswerKey, parts: &http::request::Parts, body: &Bytes) -> ProbeAnswer {
    let query = parts.uri.query();
    let kept: Vec<&str> = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(|pair| !pair.starts_with(PROBE_QUERY) && !pair.is_empty())
        .collect();
    let separator = if kept.is_empty() { "" } else { "?" };
    let header = |name: &HeaderName| ArrivedHeader {
        name: name.as_str().to_owned(),
        digest: key
            .digest(name.as_str(), parts.headers.get_all(name).iter().map(http::HeaderValue::as_bytes)),
    };
    let arrived = ArrivedView {
        method: parts.method.to_string(),
        path: format!("{}{separator}{}", parts.uri.path(), kept.join("&")),
        is_in_header: parts.headers.contains_key(&PROBE_HEADER),
        is_in_query: query.and_then(query_token).is_some(),
        body_bytes_n: body.len() as u64,
        body_digest: hex::encode(Sha256::digest(body)),
        headers: parts.headers.keys().take(HEADERS_N_MAX).map(header).collect(),
    };
    let arrived = serde_json::to_string(&arrived).unwrap_or_default();
    ProbeAnswer { proof: key.proof(&arrived), arrived }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::probe::ProbeKey;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> http::request::Parts {
        let mut request = http::Request::builder().method("POST").uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_token_is_found_in_the_header_or_in_the_query() {
        for (uri, headers, want) in [
            ("/webhooks/x", &[("hooklatch-probe", "a")][..], Some("a")),
            ("/webhooks/x?hooklatch-probe=b", &[], Some("b")),
            ("/webhooks/x?y=1&hooklatch-probe=b", &[("hooklatch-probe", "a")], Some("a")),
            ("/webhooks/x?hooklatch-probes=b", &[], None),
            ("/webhooks/x", &[], None),
        ] {
            let parts = parts(uri, headers);
            assert_eq!(probe_token(&parts.headers, &parts.uri), want, "{uri}");
        }
    }

    #[test]
    fn an_answer_holds_no_value_of_a_header_and_no_token() {
        let made = ProbeKey::new(&uuid::Uuid::nil()).make(0);
        let uri = format!("/webhooks/x?a=1&hooklatch-probe={}", made.token);
        let parts = parts(&uri, &[("x-inner-password", "of the proxy"), ("stripe-signature", "t=1")]);
        let answer = probe_answer(&made.answer_key, &parts, &Bytes::from_static(b"{}"));
        assert!(made.answer_key.proves(&answer.arrived, &answer.proof));
        assert!(!answer.arrived.contains("of the proxy") && !answer.arrived.contains(&made.token));
        let arrived: ArrivedView = serde_json::from_str(&answer.arrived).expect("a view");
        assert_eq!((arrived.path.as_str(), arrived.body_bytes_n), ("/webhooks/x?a=1", 2));
        assert_eq!((arrived.is_in_header, arrived.is_in_query), (false, true));
        assert_eq!(arrived.headers.len(), 2);
    }
}
