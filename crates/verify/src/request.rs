//! A request as received, and the headers of it that decide.

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::error::VerifyError;
use super::filled::path_and_query;
use hooklatch_core::types::UnixMs;

/// Most signatures of one header that are tried; a sender in rotation sends two or three.
pub(super) const SIGNATURES_N_MAX: usize = 16;

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

impl RawRequest {
    /// The same with its query as its body, of a kind whose events come by GET; what was sent as a body counts for
    /// nothing.
    #[must_use]
    #[doc(hidden)]
    pub fn with_query_as_body(self) -> Self {
        let query = path_and_query(&self.url).1.unwrap_or_default();
        Self { body: Bytes::copy_from_slice(query.as_bytes()), ..self }
    }
}

/// The value of a header that decides: present once, and text.
pub fn deciding_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| VerifyError::HeaderMissing(name.to_owned()))?;
    if values.next().is_some() {
        return Err(VerifyError::HeaderRepeated(name.to_owned()));
    }
    if value.len() > HEADER_BYTES_MAX {
        return Err(VerifyError::malformed(name, "it is longer than 8192 bytes"));
    }
    value.to_str().map_err(|_| VerifyError::malformed(name, "it is not ASCII text"))
}

/// The first header of `names` that the request carries.
pub(super) fn first_present<'a>(headers: &HeaderMap, names: &'a [String]) -> Result<&'a str, VerifyError> {
    let present = names.iter().find(|name| headers.contains_key(name.as_str()));
    present
        .map(String::as_str)
        .ok_or_else(|| VerifyError::HeaderMissing(names.first().cloned().unwrap_or_default()))
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
}
