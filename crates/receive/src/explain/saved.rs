//! A request as people save it: `POST /webhooks/NAME`, headers, an empty line and the body; or in parts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use hooklatch_contract::ExplainParts;
use hooklatch_core::types::UnixMs;

/// A saved request, taken apart.
#[derive(Debug, Clone)]
pub struct SavedRequest {
    /// The name behind `/webhooks/` in its path.
    pub provider: Option<String>,
    pub query: Option<String>,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Time to judge it at, where its first line says one.
    pub now_ms: Option<UnixMs>,
}

/// Takes a saved request apart. Lines end in LF or CRLF; the body is what follows the empty line, byte for
/// byte. The error says what is not as it must be.
pub fn parse(saved: &[u8]) -> Result<SavedRequest, String> {
    let mut rest = saved;
    let (mut now_ms, mut target, mut method) = (None, None, Method::POST);
    let mut headers = HeaderMap::new();
    loop {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return Err("the request has no empty line between headers and body".to_owned());
        };
        let (line, tail) = rest.split_at(end);
        rest = tail.get(1..).unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| "a header line is not text")?;
        let line = line.trim_end_matches('\r');
        if let Some(comment) = line.strip_prefix('#') {
            now_ms = said_time(comment)?.or(now_ms);
        } else if target.is_none() {
            method = line.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(method);
            let named = line.split(' ').nth(1).ok_or("the first line is not `POST /webhooks/NAME`")?;
            target = Some(named.to_owned());
        } else if line.is_empty() {
            break;
        } else {
            let pair = line.split_once(':');
            let (name, value) = pair.ok_or("a line before the empty line is not `NAME: VALUE`")?;
            append(&mut headers, name, value)?;
        }
    }
    let (provider, query) = named(&target.unwrap_or_default());
    Ok(SavedRequest { provider, query, method, headers, body: Bytes::copy_from_slice(rest), now_ms })
}

/// The same of a request in parts.
pub(super) fn of_parts(parts: &ExplainParts) -> Result<SavedRequest, String> {
    let method = parts.method.as_deref().unwrap_or("POST");
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "`method` is not a method")?;
    let mut headers = HeaderMap::new();
    for header in &parts.headers {
        append(&mut headers, &header.name, &header.value)?;
    }
    let body = match &parts.body_base64 {
        Some(text) => STANDARD.decode(text.trim()).map_err(|_| "`body_base64` is not Base64")?,
        None => parts.body.clone().into_bytes(),
    };
    let (provider, query) = named(&parts.path);
    Ok(SavedRequest { provider, query, method, headers, body: body.into(), now_ms: None })
}

/// The time in a comment: `now=` and unix seconds.
fn said_time(comment: &str) -> Result<Option<UnixMs>, String> {
    let now = comment.split_whitespace().find_map(|word| word.strip_prefix("now="));
    let seconds = now.map(str::parse::<i64>).transpose();
    let seconds = seconds.map_err(|_| "now= is not a number of seconds")?;
    Ok(seconds.map(|seconds| seconds.saturating_mul(1_000)))
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|error| error.to_string())?;
    let value = HeaderValue::from_str(value.trim()).map_err(|error| error.to_string())?;
    let added = headers.try_append(name, value);
    added.map(drop).map_err(|_| "there are too many headers".to_owned())
}

/// The provider that a path names, and its query.
fn named(target: &str) -> (Option<String>, Option<String>) {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    (path.rsplit_once("/webhooks/").map(|(_, name)| name.to_owned()), query.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::ExplainHeader;

    #[test]
    fn a_saved_request_is_taken_apart_byte_for_byte() {
        #[track_caller]
        fn check(saved: &[u8], why: &str) {
            let error = parse(saved).expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
        let saved =
            b"# now=1700000000\r\nPOST /in/webhooks/acme?x=1 HTTP/1.1\r\nX-A: 1\r\nx-a:2\r\n\r\n{ \n}\r\n";
        let found = parse(saved).expect("a request");
        assert_eq!((found.provider.as_deref(), found.query.as_deref()), (Some("acme"), Some("x=1")));
        assert_eq!(found.now_ms, Some(1_700_000_000_000));
        assert_eq!(found.body.as_ref(), b"{ \n}\r\n", "its line ends belong to what was signed");
        let values: Vec<&HeaderValue> = found.headers.get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        let found = parse(b"GET /webhooks/acme\n\n").expect("a request");
        assert_eq!((found.method, found.body.len(), found.now_ms), (Method::GET, 0, None));
        check(b"POST /webhooks/acme\nx: 1\n", "no empty line");
        check(b"POST\n\n", "the first line is not");
        check(b"POST /webhooks/acme\nx\n\n", "is not `NAME: VALUE`");
        check(b"# now=soon\nPOST /webhooks/acme\n\n", "now= is not a number");
        check(b"POST /webhooks/acme\nx: \xff\n\n", "not text");
    }

    #[test]
    fn parts_of_a_request_are_read_or_refused() {
        let header = |name: &str| vec![ExplainHeader { name: name.to_owned(), value: "1".to_owned() }];
        let parts = |body: &str, base64: Option<&str>| ExplainParts {
            path: "/webhooks/acme?x".to_owned(),
            headers: header("X-A"),
            body: body.to_owned(),
            body_base64: base64.map(str::to_owned),
            ..ExplainParts::default()
        };
        let found = of_parts(&parts("{}", None)).expect("a request");
        assert_eq!((found.provider.as_deref(), found.body.as_ref()), (Some("acme"), b"{}".as_slice()));
        let found = of_parts(&parts("", Some("/wA="))).expect("a request");
        assert_eq!((found.body.as_ref(), found.method), (b"\xff\0".as_slice(), Method::POST));
        assert_eq!(of_parts(&parts("", Some("?"))).err().as_deref(), Some("`body_base64` is not Base64"));
        let odd = ExplainParts { headers: header("a b"), ..ExplainParts::default() };
        assert!(of_parts(&odd).is_err());
        let odd = ExplainParts { method: Some("a b".to_owned()), ..ExplainParts::default() };
        assert!(of_parts(&odd).is_err());
    }
}
