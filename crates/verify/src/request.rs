//! A request as received, the headers of it that decide, and patterns filled with texts of it.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};

use super::encoding::{Hash, digest, encoded};
use super::error::VerifyError;
use super::keys::Keys;
use crate::spec::{Pattern, Piece};
use hooklatch_core::json::text_of;
use hooklatch_core::types::UnixMs;

/// Most signatures of one header that are tried; a sender in rotation sends two or three.
pub(crate) const SIGNATURES_N_MAX: usize = 16;

/// Longest value of a header that decides. Bytes; the longest of a sender is a token of some two thousand.
pub const HEADER_BYTES_MAX: usize = 8_192;

/// A request as received, before verification.
#[derive(Debug, Clone)]
pub struct RawRequest {
    /// HTTP method, usually POST.
    pub method: Method,
    /// The URL as the sender called it: the public URL with path and query.
    pub url: String,
    /// All headers, repeated ones included.
    pub headers: HeaderMap,
    /// Body as received, byte for byte.
    pub body: Bytes,
    /// Time when the last byte arrived. Unix milliseconds.
    pub received_at_ms: UnixMs,
}

/// The request with its query as its body, of a kind whose events come by GET; what was sent as a body counts for
/// nothing.
#[must_use]
pub fn with_query_as_body(request: RawRequest) -> RawRequest {
    let query = path_and_query(&request.url).1.unwrap_or_default();
    RawRequest { body: Bytes::copy_from_slice(query.as_bytes()), ..request }
}

/// The value of a header that decides: present once.
pub(crate) fn deciding_value<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a HeaderValue, VerifyError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| VerifyError::HeaderMissing(name.to_owned()))?;
    if values.next().is_some() {
        return Err(VerifyError::HeaderRepeated(name.to_owned()));
    }
    Ok(value)
}

/// The value of a header that decides: present once, and text.
pub fn deciding_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    let value = deciding_value(headers, name)?;
    if value.len() > HEADER_BYTES_MAX {
        return Err(VerifyError::malformed(name, "it is longer than 8192 bytes"));
    }
    value.to_str().map_err(|_| VerifyError::malformed(name, "it is not ASCII text"))
}

/// The first header of `names` that the request carries.
pub(crate) fn first_present<'a>(headers: &HeaderMap, names: &'a [String]) -> Result<&'a str, VerifyError> {
    let present = names.iter().find(|name| headers.contains_key(name.as_str()));
    present
        .map(String::as_str)
        .ok_or_else(|| VerifyError::HeaderMissing(names.first().cloned().unwrap_or_default()))
}

/// Most headers that a signature may name.
const HEADERS_N_MAX: usize = 64;

/// The values that fill a pattern besides the request.
#[derive(Default)]
pub(crate) struct SignedValues<'a> {
    pub timestamp: &'a str,
    /// Names of headers, separated by blanks.
    pub headers: &'a str,
    pub mac: &'a str,
}

/// The pattern's text piece by piece, so that a body is not copied.
pub(crate) fn parts<'a>(
    pattern: &'a Pattern,
    request: &'a RawRequest,
    keys: &'a Keys,
    values: &SignedValues<'a>,
) -> Result<Vec<Cow<'a, [u8]>>, VerifyError> {
    pattern.pieces().iter().map(|piece| part(piece, request, keys, values)).collect()
}

fn part<'a>(
    piece: &'a Piece,
    request: &'a RawRequest,
    keys: &'a Keys,
    values: &SignedValues<'a>,
) -> Result<Cow<'a, [u8]>, VerifyError> {
    Ok(match piece {
        Piece::Literal(text) => Cow::Borrowed(text.as_bytes()),
        Piece::Timestamp => Cow::Borrowed(values.timestamp.as_bytes()),
        Piece::Headers => Cow::Borrowed(values.headers.as_bytes()),
        Piece::Mac => Cow::Borrowed(values.mac.as_bytes()),
        Piece::Url => Cow::Borrowed(request.url.as_bytes()),
        Piece::Host => Cow::Borrowed(host(&request.url).as_bytes()),
        Piece::Path => Cow::Borrowed(path_and_query(&request.url).0.as_bytes()),
        Piece::PathAndQuery => match path_and_query(&request.url) {
            (path, None) => Cow::Borrowed(path.as_bytes()),
            (path, Some(query)) => Cow::Owned(format!("{path}?{query}").into_bytes()),
        },
        Piece::Method => Cow::Borrowed(request.method.as_str().as_bytes()),
        Piece::Body => Cow::Borrowed(&request.body),
        Piece::BodySha256(encoding) => {
            Cow::Owned(encoded(*encoding, &digest(Hash::Sha256, &[&request.body])).into_bytes())
        }
        // The key puts it where it belongs, so that what is kept of the signed text has no secret in it.
        Piece::Secret => Cow::Borrowed(b""),
        Piece::Header(name) => Cow::Borrowed(deciding_header(&request.headers, name)?.as_bytes()),
        Piece::HeaderValues => {
            let names: Vec<&str> = values.headers.split(' ').filter(|name| !name.is_empty()).collect();
            // Each is copied before verification: a repeated placeholder would copy a header's length each time.
            let is_again = |(n, name): (usize, &&str)| names.iter().take(n).any(|other| other == name);
            if names.len() > HEADERS_N_MAX || names.iter().enumerate().any(is_again) {
                return Err(VerifyError::malformed("headers", "it names more than are sent, or one twice"));
            }
            let found = names.into_iter().map(|name| deciding_header(&request.headers, name));
            Cow::Owned(found.collect::<Result<Vec<_>, _>>()?.join(".").into_bytes())
        }
        Piece::Json(pointer) => {
            let text = text_of(&request.body, pointer);
            Cow::Owned(
                text.map_err(|_| VerifyError::malformed(pointer, "the body has no text there"))?.into_bytes(),
            )
        }
        Piece::Query(name) => {
            let missing = || VerifyError::malformed(name, "the query has no such value, or two");
            Cow::Owned(query_value(&request.url, name).ok_or_else(missing)?.into_bytes())
        }
        Piece::Setting(name) => Cow::Borrowed(keys.setting(name)?.as_bytes()),
    })
}

/// The path of a URL, and its query without the question mark. A fragment is part of neither.
pub fn path_and_query(url: &str) -> (&str, Option<&str>) {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (before, query) = rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
    let path = before.find('/').and_then(|from| before.get(from..)).unwrap_or("/");
    (path, query)
}

/// The host of a URL, with its port where it names one, as a sender writes it into its `Host` header.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// The one value of this name in the query, decoded; `None` when there is none, or several.
pub fn query_value(url: &str, name: &str) -> Option<String> {
    let query = path_and_query(url).1?;
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(known, _)| known == name);
    let value = values.next()?.1.into_owned();
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &[u8])]) -> HeaderMap {
        let value = |bytes: &[u8]| http::HeaderValue::from_bytes(bytes).expect("a value");
        given.iter().map(|(name, bytes)| (http::HeaderName::from_static(name), value(bytes))).collect()
    }

    #[test]
    fn a_header_that_decides_is_there_once_short_and_text() {
        let longest = [b'x'; HEADER_BYTES_MAX];
        let longer = [b'x'; HEADER_BYTES_MAX + 1];
        let given = headers(&[("one", b"1"), ("long", &longest), ("longer", &longer), ("odd", b"\xff")]);
        assert_eq!(deciding_header(&given, "ONE"), Ok("1"));
        assert_eq!(deciding_header(&given, "long").map(str::len), Ok(HEADER_BYTES_MAX));
        assert!(matches!(deciding_header(&given, "longer"), Err(VerifyError::Malformed { .. })));
        assert!(matches!(deciding_header(&given, "odd"), Err(VerifyError::Malformed { .. })));
        assert_eq!(deciding_header(&given, "two"), Err(VerifyError::HeaderMissing("two".to_owned())));
        let mut twice = given.clone();
        twice.append("one", http::HeaderValue::from_static("1"));
        assert_eq!(deciding_header(&twice, "one"), Err(VerifyError::HeaderRepeated("one".to_owned())));
    }

    #[test]
    fn of_several_names_the_first_present_counts_and_the_first_known_is_reported_missing() {
        let given = headers(&[("b", b"1"), ("c", b"2")]);
        let (some, none) = (["a", "c", "b"].map(str::to_owned), ["x", "y", "z"].map(str::to_owned));
        assert_eq!(first_present(&given, &some), Ok("c"));
        assert_eq!(first_present(&given, &none), Err(VerifyError::HeaderMissing("x".to_owned())));
    }

    #[test]
    fn a_url_is_taken_apart_at_its_path_its_query_and_its_fragment() {
        #[track_caller]
        fn check(url: &str, path: &str, query: Option<&str>) {
            assert_eq!(path_and_query(url), (path, query), "{url}");
        }
        check("https://a.test/x/y?b=1", "/x/y", Some("b=1"));
        check("https://a.test", "/", None);
        check("https://a.test?b=/c", "/", Some("b=/c"));
        check("https://a.test/x?b=https://c/d?e", "/x", Some("b=https://c/d?e"));
        check("https://a.test/x?b#c?d=1", "/x", Some("b"));
        check("https://a.test/x#y?b=1", "/x", None);
        check("/x?", "/x", Some(""));
    }

    #[test]
    fn a_host_ends_where_the_path_begins_and_keeps_its_port() {
        for (url, want) in [
            ("https://a.test/x?b=c/d", "a.test"),
            ("https://a.test:8443/x", "a.test:8443"),
            ("https://a.test?x", "a.test"),
            ("https://a.test#x", "a.test"),
            ("/x", ""),
        ] {
            assert_eq!(host(url), want, "{url}");
        }
    }

    #[test]
    fn a_value_of_the_query_is_decoded_and_there_once() {
        for (url, want) in [
            ("/x?a=1+%2B&b=2", Some("1 +")),
            ("/x?b=2&a=", Some("")),
            ("/x?a=1&a=1", None),
            ("/x?a=1&%61=2", None),
            ("/x?b=a=1", None),
            ("/x", None),
        ] {
            assert_eq!(query_value(url, "a").as_deref(), want, "{url}");
        }
    }
}
