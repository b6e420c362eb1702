//! The answer to a call, and the time at which a destination asks for the next one.

use hooklatch_core::config::StatusMeaning;
use hooklatch_core::types::UnixMs;

/// Answer of a destination to one call, or what is known without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallAnswer {
    /// An HTTP status, by which the answer is judged.
    Status {
        /// The HTTP status of the answer.
        code: u16,
        /// The `Retry-After` header, as received.
        retry_after: Option<String>,
    },
    /// A good status whose body says that the effect did not happen.
    Body {
        /// The HTTP status of the answer.
        code: u16,
        /// Meaning of the body: `Retry`, `Dead` or `Unknown`.
        meaning: StatusMeaning,
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
    /// The destination has it, now or from an earlier attempt.
    Done,
    /// The destination answered: not now. Surely not executed.
    NotNow {
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
    /// The destination answered: never. Surely not executed.
    Refused {
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
    /// We do not send this, now or later: its address is not one that may be called, or it cannot be written as a
    /// call. The destination was not asked.
    Forbidden {
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
    /// Surely not executed: refused connection, no such host, no TLS.
    NotSent {
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
    /// Sent, and it is unknown whether it took effect.
    Unknown {
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
}

/// Returns how far in the future a `Retry-After` lies: whole seconds, or one of the three forms of an HTTP
/// date. `None` for what is past or neither.
pub(crate) fn retry_after_ms(text: &str, now_ms: UnixMs) -> Option<i64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let seconds = text.parse::<i64>().unwrap_or(i64::MAX);
        return Some(seconds.saturating_mul(1_000));
    }
    let at_ms = http_date_ms(text)?;
    (at_ms > now_ms).then(|| at_ms.saturating_sub(now_ms))
}

fn http_date_ms(text: &str) -> Option<UnixMs> {
    // RFC 9110, 5.6.7: the form in use, and the two that a recipient still has to read.
    let forms = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let read = |form: &&str| jiff::civil::DateTime::strptime(form, text).ok();
    let utc = forms.iter().find_map(read)?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(utc.timestamp().as_millisecond())
}
