//! The place of a span in the traces of the world, as W3C Trace Context writes it.

use std::fmt;

/// The place of a span: its trace, itself, and whether it is recorded. It prints as the value of a `traceparent` header.
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
    use super::*;

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
