//! Which probes are sent: one like a sender's, the same again, one for each thing that proxies rewrite, and large ones.

use std::collections::BTreeSet;

use super::arrival::{PROBE_HEADER, PROBE_QUERY};
use hooklatch_contract::{ProbePath, ProbeView};

/// The aim of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeWhat {
    /// A request like a sender's.
    Plain,
    /// The same again, on a connection that stands.
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
    pub what: ProbeWhat,
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

/// The value of a header that signs: long, with all that such headers hold.
fn header_value(n: usize) -> String {
    format!("t=1795356311,v{n}={}, key=\"a;b\"; x==", "5f1d".repeat(32))
}

/// Names of headers that are not a sender's to choose.
const NOT_SENT: [&str; 7] =
    ["host", "content-length", "content-type", "connection", "transfer-encoding", "user-agent", "expect"];

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
