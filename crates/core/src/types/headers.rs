//! Values of headers that programs exchange: `Idempotency-Key`, which a line of a batch may have as well, and
//! `traceparent`.

use std::fmt;

use http::HeaderMap;

use super::text::TEXT_BYTES_MAX;
use super::words::ProblemCode;

/// Name of the header.
const HEADER: &str = "idempotency-key";

/// The key under which a request takes effect once: 1 to 255 visible ASCII characters, without the quotes that its
/// header may have around it. `"k"` and `k` are the same key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

/// Reason why a request has no usable key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyMistake {
    /// The request has no such header.
    #[error("send an `Idempotency-Key`, the same one whenever you repeat the request")]
    Missing,
    /// The request has several of them.
    #[error("send one `Idempotency-Key`, not several")]
    Repeated,
    /// The text is not a key.
    #[error("an `Idempotency-Key` is 1 to 255 visible ASCII characters, bare or in quotes; this one {0}")]
    Malformed(&'static str),
}

impl KeyMistake {
    /// The stable word for programs.
    pub fn code(self) -> ProblemCode {
        match self {
            Self::Missing => ProblemCode::IdempotencyKeyMissing,
            Self::Repeated | Self::Malformed(_) => ProblemCode::IdempotencyKeyMalformed,
        }
    }
}

impl IdempotencyKey {
    /// The key in the header of a request: a quoted string of RFC 8941 (`"k"`), or bare. Lists, parameters and several
    /// headers are refused: who reads them otherwise would see another key.
    pub fn of_headers(headers: &HeaderMap) -> Result<Self, KeyMistake> {
        let mut values = headers.get_all(HEADER).iter();
        let value = values.next().ok_or(KeyMistake::Missing)?;
        if values.next().is_some() {
            return Err(KeyMistake::Repeated);
        }
        Self::of_header(value.as_bytes())
    }

    /// The key that one header value writes.
    pub fn of_header(value: &[u8]) -> Result<Self, KeyMistake> {
        let text = std::str::from_utf8(value).map_err(|_| KeyMistake::Malformed(ODD))?;
        let text = text.trim_matches([' ', '\t']);
        match text.strip_prefix('"') {
            Some(inside) => Self::of_text(&unquoted(inside)?),
            None if text.contains('"') => Err(KeyMistake::Malformed("has a quote that does not begin it")),
            None if text.contains(',') => Err(KeyMistake::Malformed("is a list: put it in quotes")),
            None if text.contains(';') => Err(KeyMistake::Malformed("has a parameter: put it in quotes")),
            None => Self::of_text(text),
        }
    }

    /// The key that a text is, with nothing around it.
    pub fn of_text(text: &str) -> Result<Self, KeyMistake> {
        if text.is_empty() {
            return Err(KeyMistake::Malformed("is empty"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyMistake::Malformed(ODD));
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(KeyMistake::Malformed("is longer"));
        }
        Ok(Self(text.into()))
    }

    /// The text that is kept and compared.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const ODD: &str = "has a blank or another character that is none of those";

/// What stands between the quotes of a string of RFC 8941, whose opening quote is taken off.
fn unquoted(inside: &str) -> Result<String, KeyMistake> {
    let mut text = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    loop {
        match chars.next() {
            None => return Err(KeyMistake::Malformed("has no closing quote")),
            Some('"') => break,
            Some('\\') => match chars.next() {
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                _ => return Err(KeyMistake::Malformed("has a backslash that escapes nothing")),
            },
            Some(plain) => text.push(plain),
        }
    }
    match chars.as_str().trim_start().chars().next() {
        None => Ok(text),
        Some(',') => Err(KeyMistake::Malformed("is a list")),
        Some(';') => Err(KeyMistake::Malformed("has a parameter")),
        Some(_) => Err(KeyMistake::Malformed("goes on behind its closing quote")),
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The place of a span: its trace, itself, and whether it is recorded. It prints as the value of a `traceparent`
/// header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// Id of the trace.
    pub trace_id: [u8; 16],
    /// Id of the span in it.
    pub span_id: [u8; 8],
    /// True when the service that has the span records it.
    pub is_sampled: bool,
}

/// Length of a value of version 00, which later versions begin with. Bytes.
const BYTES_N: usize = 55;

impl SpanContext {
    /// Reads the value of a `traceparent` header; `None` for everything that the standard does not allow.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, more) = value.split_at_checked(BYTES_N)?;
        let known = std::str::from_utf8(known).ok()?;
        let mut parts = known.split('-');
        let version: [u8; 1] = lower_hex(parts.next()?)?;
        let (trace_id, span_id) = (lower_hex(parts.next()?)?, lower_hex(parts.next()?)?);
        let [flags] = lower_hex(parts.next()?)?;
        let is_whole = if version == [0] { more.is_empty() } else { more.first().is_none_or(|b| *b == b'-') };
        let is_valid = version != [0xff] && trace_id != [0; 16] && span_id != [0; 8];
        (is_whole && is_valid && parts.next().is_none()).then_some(Self {
            trace_id,
            span_id,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Bytes from exactly as many lower-case digits as they need.
fn lower_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    hex::decode_to_slice(text, &mut bytes).ok().filter(|()| is_lower)?;
    Some(bytes)
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{}-{}-{flags:02x}", hex::encode(self.trace_id), hex::encode(self.span_id))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_key_is_bare_or_quoted_and_the_quotes_are_not_part_of_it() {
        #[track_caller]
        fn check(value: &[u8], want: Result<&str, &str>) {
            let found = IdempotencyKey::of_header(value);
            match (&found, want) {
                (Ok(key), Ok(want)) => assert_eq!(key.as_str(), want),
                (Err(mistake), Err(why)) => assert!(mistake.to_string().ends_with(why), "{mistake}"),
                _ => panic!("{:?}: {found:?}, not {want:?}", String::from_utf8_lossy(value)),
            }
        }
        check(b"k", Ok("k"));
        check(b"\"k\"", Ok("k"));
        check(b"  \"k\" \t", Ok("k"));
        check(b"8e03978e-40d5-43dd-bc93-6894a57f9324", Ok("8e03978e-40d5-43dd-bc93-6894a57f9324"));
        check(b"a/b:c=d%20~!'()*+-._|{}", Ok("a/b:c=d%20~!'()*+-._|{}"));
        check(b"a\\b", Ok("a\\b"));
        check(br#""a\\b""#, Ok("a\\b"));
        check(br#""a\"b""#, Ok("a\"b"));
        check(b"\"a,b;c\"", Ok("a,b;c"));
        check(&[b'x'; 255], Ok(&"x".repeat(255)));
        check(format!("\"{}\"", "x".repeat(255)).as_bytes(), Ok(&"x".repeat(255)));
        check(&[b'x'; 256], Err("is longer"));
        for empty in [&b""[..], b" ", b"\"\""] {
            check(empty, Err("is empty"));
        }
        check(b"a, b", Err("is a list: put it in quotes"));
        check(b"a;v=1", Err("has a parameter: put it in quotes"));
        check(b"\"a\", \"b\"", Err("is a list"));
        check(b"\"a\";v=1", Err("has a parameter"));
        check(b"\"a\" ; v=1", Err("has a parameter"));
        check(b"\"a\"b", Err("goes on behind its closing quote"));
        check(b"\"a", Err("has no closing quote"));
        check(br#""a\""#, Err("has no closing quote"));
        check(br#""a\n""#, Err("has a backslash that escapes nothing"));
        check(b"a\"b\"", Err("has a quote that does not begin it"));
        for odd in [&b"a b"[..], b"\"a b\"", b"a\tb", "caf\u{e9}".as_bytes(), b"\xff", b"a\x7f", b"\"a\0\""] {
            check(odd, Err(ODD));
        }
    }

    #[test]
    fn a_request_has_one_key_in_one_header() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HEADER, HeaderValue::from_static(value));
            }
            headers
        };
        assert_eq!(IdempotencyKey::of_headers(&headers(&[])), Err(KeyMistake::Missing));
        assert_eq!(IdempotencyKey::of_headers(&headers(&["a", "a"])), Err(KeyMistake::Repeated));
        assert_eq!(
            IdempotencyKey::of_headers(&headers(&["a"])).map(|key| key.to_string()),
            Ok("a".to_owned())
        );
        let codes =
            [KeyMistake::Missing, KeyMistake::Repeated, KeyMistake::Malformed("")].map(KeyMistake::code);
        let malformed = ProblemCode::IdempotencyKeyMalformed;
        assert_eq!(codes, [ProblemCode::IdempotencyKeyMissing, malformed, malformed]);
    }

    const VALUE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_as_it_is_written() {
        let context = SpanContext::parse(VALUE.as_bytes()).expect("the standard's own example");
        assert_eq!(context.to_string(), VALUE);
        assert_eq!((context.trace_id[0], context.span_id[7], context.is_sampled), (0x4b, 0xb7, true));
        let unsampled = VALUE.replace("-01", "-00");
        assert_eq!(SpanContext::parse(unsampled.as_bytes()).map(|one| one.is_sampled), Some(false));
        for later in [
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes",
        ] {
            assert_eq!(SpanContext::parse(later.as_bytes()), Some(context), "{later}");
        }
    }

    #[test]
    fn an_invalid_traceparent_is_none() {
        for bad in [
            "",
            "00",
            "-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47-3600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7--1",
            "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
            "00-4bf92f3577b34da6a3ce929d0e0e47é6-00f067aa0ba902b7-01",
        ] {
            assert_eq!(SpanContext::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(SpanContext::parse(&[0xff; 55]), None);
        assert_eq!(SpanContext::parse("é".repeat(40).as_bytes()), None, "cut in the middle of a letter");
    }
}
