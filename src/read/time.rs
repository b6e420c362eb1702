//! RFC 3339 times as senders write them, to unix milliseconds.

/// `2026-01-31T10:00:00.123Z`, or with an offset; `None` for anything else.
pub(super) fn rfc3339_ms(text: &str) -> Option<i64> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_senders_are_read() {
        #[track_caller]
        fn check(text: &str, want: Option<i64>) {
            assert_eq!(rfc3339_ms(text), want, "{text}");
        }
        check("1970-01-01T00:00:01Z", Some(1_000));
        check("2025-12-31T23:59:58.123456789Z", Some(1_767_225_598_123));
        check("2025-12-31T18:59:58-05:00", Some(1_767_225_598_000));
        check("2025-12-31", None);
        check("yesterday", None);
    }
}
