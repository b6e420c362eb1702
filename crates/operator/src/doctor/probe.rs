//! A request that takes the path of a sender's and makes no event: the receiver answers with what arrived of it.
//!
//! The client that sends the requests of [`plan`] is in `src/cli/doctor.rs`; `probe_findings.rs` judges the answers.
//!
//! A token is a random number and an expiry time, with a MAC; the key of the MAC is derived from the installation's id,
//! which is secret to its database. So every node, also behind a balancer, can check every token without storing any. A
//! token gives no access: for two minutes, its holder can see what arrived of its own request, without any value in it.
//! That it can be used more than once therefore costs what any refused request costs.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Uri};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use hooklatch_contract::{ArrivedHeader, ArrivedView, ProbeAnswer, ProbePath, ProbeView};
use hooklatch_core::types::UnixMs;
use hooklatch_verify::{Hash, hmac, same};

/// Time for which a token is good. Milliseconds.
const GOOD_FOR_MS: i64 = 120_000;
/// Longest token that is looked at. Bytes.
const TOKEN_BYTES_MAX: usize = 160;

/// The header that has a probe's token.
pub(crate) static PROBE_HEADER: HeaderName = HeaderName::from_static("hooklatch-probe");
/// The name of the same in the query: on the way, one of the two may be lost.
pub(crate) const PROBE_QUERY: &str = "hooklatch-probe";
/// Most headers that are listed.
const HEADERS_N_MAX: usize = 200;

/// A body that writers of JSON write otherwise, in every way of [`ASPECTS`].
const PLAIN: &str = "{ \"z\" : 1.0,\"a\":\"\\u00e9\\/\",\r\n\t\"a\" : 100000000000000000001, \"m\":[ ] }\n";

pub(super) const ASPECTS: [Aspect; 7] = [
    Aspect { name: "white space in JSON", content_type: "application/json", body: "{ \"a\" : [ 1 ] }" },
    Aspect { name: "the order of keys", content_type: "application/json", body: "{\"z\":1,\"a\":2}" },
    Aspect { name: "escapes in JSON", content_type: "application/json", body: "{\"a\":\"\\u00e9\\/\"}" },
    Aspect {
        name: "numbers in JSON",
        content_type: "application/json",
        body: "{\"a\":1.0,\"b\":100000000000000000001}",
    },
    Aspect { name: "a key that is there twice", content_type: "application/json", body: "{\"a\":1,\"a\":2}" },
    Aspect { name: "line ends", content_type: "text/plain", body: "one\r\ntwo\nthree\r\n" },
    Aspect { name: "forms", content_type: "application/x-www-form-urlencoded", body: "b=%7e~+%20&a=%2B&b=" },
];

/// The size that every sender may be expected to reach. Bytes.
pub(super) const USUAL_BYTES: u32 = 256 << 10;
/// Most further providers whose paths are tried.
const PATHS_N_MAX: usize = 32;

/// Names of headers that are not a sender's to choose.
const NOT_SENT: [&str; 7] =
    ["host", "content-length", "content-type", "connection", "transfer-encoding", "user-agent", "expect"];

/// The key of an installation's probes.
#[derive(Clone)]
pub struct ProbeKey(Vec<u8>);

/// The key of the answers to one probe.
#[derive(Clone)]
pub(crate) struct AnswerKey(Vec<u8>);

/// A token with what belongs to it.
pub(crate) struct MadeToken {
    pub(crate) token: String,
    pub(crate) answer_key: AnswerKey,
    pub(crate) good_until_ms: UnixMs,
}

impl ProbeKey {
    /// The key of this installation.
    pub fn new(installation_id: &Uuid) -> Self {
        Self(hmac(Hash::Sha256, installation_id.as_bytes(), &[b"hooklatch probe 1"]))
    }

    /// A new token, good from now on.
    pub(crate) fn make(&self, now_ms: UnixMs) -> MadeToken {
        let (good_until_ms, nonce) =
            (now_ms.saturating_add(GOOD_FOR_MS), Uuid::new_v4().simple().to_string());
        let token = format!("{good_until_ms}.{nonce}.{}", hex::encode(self.mac(good_until_ms, &nonce)));
        MadeToken { token, answer_key: self.answer_key(&nonce), good_until_ms }
    }

    /// The key of the answers to this token; `None` for what is no token of this installation, or not good now.
    pub(crate) fn good(&self, token: &str, now_ms: UnixMs) -> Option<AnswerKey> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (until, rest) = token.split_once('.')?;
        let (nonce, mac) = rest.split_once('.')?;
        let until_ms: UnixMs = until.parse().ok()?;
        // A clock that is ahead makes tokens that are valid for longer, so the lifetime of a token is bounded.
        let is_now = until_ms > now_ms && until_ms.saturating_sub(now_ms) <= 10 * GOOD_FOR_MS;
        let is_ours = same(&self.mac(until_ms, nonce), &hex::decode(mac).ok()?);
        (is_ours && is_now).then(|| self.answer_key(nonce))
    }

    fn mac(&self, good_until_ms: UnixMs, nonce: &str) -> Vec<u8> {
        hmac(Hash::Sha256, &self.0, &[b"token\0", &good_until_ms.to_be_bytes(), nonce.as_bytes()])
    }

    fn answer_key(&self, nonce: &str) -> AnswerKey {
        AnswerKey(hmac(Hash::Sha256, &self.0, &[b"answer\0", nonce.as_bytes()]))
    }
}

impl AnswerKey {
    /// Parses a key as the API returns it.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        hex::decode(text).ok().filter(|bytes| bytes.len() == 32).map(Self)
    }

    /// The key as the API returns it.
    pub(crate) fn text(&self) -> String {
        hex::encode(&self.0)
    }

    /// The proof that an answer is ours.
    pub(crate) fn proof(&self, arrived: &str) -> String {
        hex::encode(hmac(Hash::Sha256, &self.0, &[b"arrived\0", arrived.as_bytes()]))
    }

    /// True when the proof is of this text.
    pub(crate) fn proves(&self, arrived: &str, proof: &str) -> bool {
        same(self.proof(arrived).as_bytes(), proof.as_bytes())
    }

    /// The digest that stands for the values of a header.
    pub(crate) fn digest<'a>(&self, name: &str, values: impl Iterator<Item = &'a [u8]>) -> String {
        let mut text = format!("header\0{name}").into_bytes();
        for value in values {
            text.push(0);
            text.extend_from_slice(value.trim_ascii());
        }
        let mut digest = hex::encode(hmac(Hash::Sha256, &self.0, &[&text]));
        digest.truncate(32);
        digest
    }
}

/// The token that a request has, in its header or in its query; `None` for nearly all requests.
pub(crate) fn probe_token<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let in_header = headers.get(&PROBE_HEADER).and_then(|value| value.to_str().ok());
    in_header.or_else(|| query_token(uri.query()?))
}

fn query_token(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix(PROBE_QUERY)?.strip_prefix('='))
}

/// The response to a request with a valid token: it contains no value of the request.
pub(crate) fn probe_answer(key: &AnswerKey, parts: &http::request::Parts, body: &Bytes) -> ProbeAnswer {
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

/// The aim of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeWhat {
    /// A request like a sender's.
    Plain,
    /// [`ProbeWhat::Plain`] again, on the open connection.
    Again,
    /// A body with one thing that proxies rewrite: its place in [`ASPECTS`].
    Aspect(usize),
    /// A body of so many bytes.
    Size(u32),
    /// One with `Expect: 100-continue`.
    Expect,
    /// To the path of another provider.
    Path,
}

/// A request to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRequest {
    pub(super) what: ProbeWhat,
    /// The path below `server.public_url`, without the token.
    pub path: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// One thing that is rewritten: its name, a media type and a body that shows it.
pub(super) struct Aspect {
    pub name: &'static str,
    content_type: &'static str,
    body: &'static str,
}

/// The value of a header that signs: long, with all that such headers hold.
fn header_value(n: usize) -> String {
    format!("t=1795356311,v{n}={}, key=\"a;b\"; x==", "5f1d".repeat(32))
}

/// All probes, in the order in which they are sent.
pub fn plan(view: &ProbeView) -> Vec<ProbeRequest> {
    let mut paths = view.paths.iter();
    let none = ProbePath { path: "/webhooks/hooklatch-probe".to_owned(), headers: Vec::new() };
    let first = paths.next().unwrap_or(&none);
    let json = |what, body: &[u8]| request(view, what, first, "application/json", body);
    let mut all = vec![json(ProbeWhat::Plain, PLAIN.as_bytes()), json(ProbeWhat::Again, PLAIN.as_bytes())];
    all.extend(ASPECTS.iter().enumerate().map(|(n, aspect)| {
        request(view, ProbeWhat::Aspect(n), first, aspect.content_type, aspect.body.as_bytes())
    }));
    let mut sizes = vec![USUAL_BYTES.min(view.body_bytes_max), view.body_bytes_max];
    sizes.dedup();
    all.extend(sizes.into_iter().map(|bytes| json(ProbeWhat::Size(bytes), &large(bytes))));
    let mut expecting = json(ProbeWhat::Expect, b"{}");
    expecting.headers.push(("expect".to_owned(), "100-continue".to_owned()));
    all.push(expecting);
    all.extend(
        paths.take(PATHS_N_MAX).map(|path| request(view, ProbeWhat::Path, path, "application/json", b"{}")),
    );
    all
}

fn request(
    view: &ProbeView,
    what: ProbeWhat,
    path: &ProbePath,
    content_type: &str,
    body: &[u8],
) -> ProbeRequest {
    let mut headers = vec![
        ("content-type".to_owned(), content_type.to_owned()),
        (PROBE_HEADER.as_str().to_owned(), view.token.clone()),
    ];
    if matches!(what, ProbeWhat::Plain | ProbeWhat::Path) {
        headers.extend(signing(&path.headers).enumerate().map(|(n, name)| (name, header_value(n))));
    }
    let path = &path.path;
    let url = format!("{}{path}?{PROBE_QUERY}={}", view.public_url, view.token);
    ProbeRequest { what, path: path.to_owned(), url, headers, body: body.to_vec() }
}

/// The headers that a kind reads, each once, as far as a sender may write them.
fn signing(names: &[String]) -> impl Iterator<Item = String> {
    let names: BTreeSet<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    names.into_iter().filter(|name| !NOT_SENT.contains(&name.as_str()))
}

/// A JSON text of this length.
fn large(bytes: u32) -> Vec<u8> {
    let bytes = bytes as usize;
    let mut body = b"{\"hooklatch\":\"".to_vec();
    let letters = (b'a'..=b'z').cycle();
    body.extend(letters.take(bytes.saturating_sub(body.len() + 2)));
    body.extend_from_slice(b"\"}");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_valid_on_every_node_of_one_installation_only() {
        let (id, now_ms) = (Uuid::new_v4(), 1_795_356_311_500);
        let made = ProbeKey::new(&id).make(now_ms);
        let other_node = ProbeKey::new(&id);
        let key = other_node.good(&made.token, now_ms + 1).expect("it is good");
        assert_eq!(key.text(), made.answer_key.text());
        assert!(AnswerKey::of_text(&key.text()).expect("a key").proves("x", &made.answer_key.proof("x")));
        assert!(!key.proves("x", &key.proof("y")) && !key.proves("x", ""));
        assert!(ProbeKey::new(&Uuid::new_v4()).good(&made.token, now_ms).is_none(), "another installation");
        assert!(other_node.good(&made.token, made.good_until_ms).is_none(), "it is over");
        assert!(other_node.good(&made.token, now_ms - 3_600_000).is_none(), "it is good for too long");
        let (_, rest) = made.token.split_once('.').expect("parts");
        let (nonce, mac) = rest.split_once('.').expect("parts");
        for odd in [
            String::new(),
            "..".to_owned(),
            format!("{}.{nonce}.{mac}", made.good_until_ms + 1),
            format!("{}.{nonce}0.{mac}", made.good_until_ms),
            format!("{}.{nonce}.", made.good_until_ms),
            format!("{}.{nonce}.{}", made.good_until_ms, "0".repeat(64)),
            "9".repeat(1_000),
        ] {
            assert!(other_node.good(&odd, now_ms).is_none(), "{odd}");
        }
    }

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

    #[test]
    fn bodies_are_as_long_as_they_say_and_headers_can_be_sent() {
        let path = |path: &str| ProbePath {
            path: path.to_owned(),
            headers: ["x-sig", "Stripe-Signature", "content-type", "stripe-signature"]
                .map(str::to_owned)
                .to_vec(),
        };
        let view = ProbeView {
            token: "1.2.3".to_owned(),
            answer_key: String::new(),
            good_until_ms: 0,
            public_url: "https://hooks.test/in".to_owned(),
            paths: ["/webhooks/a", "/webhooks/b"].map(path).to_vec(),
            body_bytes_max: 1 << 20,
            answer_within_ms: 5_000,
        };
        let all = plan(&view);
        let sizes: Vec<usize> = all
            .iter()
            .filter(|one| matches!(one.what, ProbeWhat::Size(_)))
            .map(|one| one.body.len())
            .collect();
        assert_eq!(sizes, [256 << 10, 1 << 20]);
        let plain = &all[0];
        assert_eq!(plain.url, "https://hooks.test/in/webhooks/a?hooklatch-probe=1.2.3");
        let names: Vec<&str> = plain.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["content-type", "hooklatch-probe", "stripe-signature", "x-sig"]);
        assert!(plain.headers.iter().all(|(_, value)| value.is_ascii()));
        assert_eq!(all.iter().filter(|one| one.what == ProbeWhat::Path).count(), 1);
        let small = plan(&ProbeView { body_bytes_max: 1_024, ..view });
        assert_eq!(small.iter().filter(|one| one.what == ProbeWhat::Size(1_024)).count(), 1, "no larger one");
    }
}
