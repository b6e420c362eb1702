//! Signed times as senders write them, and whether they are within the tolerance.

use std::time::{Duration, UNIX_EPOCH};

use super::error::VerifyError;
use super::keys::Keys;
use crate::spec::{SignatureSpec, TimeUnit};
use hooklatch_core::types::UnixMs;

/// Number of digits from which a number is milliseconds, where a sender writes either unit.
const MS_DIGITS: usize = 13;

/// A signed time; how finely it was written decides how finely its age is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignedAt {
    /// A time in whole Unix seconds.
    S(i64),
    /// A time in Unix milliseconds.
    Ms(i64),
}

/// Reads a signed time. Digits only: signs, blanks and fractions are other texts than the sender signed.
pub(crate) fn signed_at(unit: TimeUnit, place: &str, text: &str) -> Result<SignedAt, VerifyError> {
    let is_plain = !text.is_empty() && text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
    let number = || if is_plain { text.parse().ok() } else { None };
    let read = match unit {
        TimeUnit::S => number().map(SignedAt::S),
        TimeUnit::SOrMs if text.len() < MS_DIGITS => number().map(SignedAt::S),
        TimeUnit::Ms | TimeUnit::SOrMs => number().map(SignedAt::Ms),
        TimeUnit::Rfc3339 => rfc3339_ms(text).map(SignedAt::Ms),
        TimeUnit::HttpDate => http_date_s(text).map(SignedAt::S),
    };
    let why = match unit {
        TimeUnit::S => "the timestamp is not a number of seconds",
        TimeUnit::Ms => "the timestamp is not a number of milliseconds",
        TimeUnit::SOrMs => "the timestamp is not a number of seconds or milliseconds",
        TimeUnit::Rfc3339 => "the timestamp is not an RFC 3339 time",
        TimeUnit::HttpDate => "the timestamp is not a date as HTTP headers have it",
    };
    read.ok_or_else(|| VerifyError::malformed(place, why))
}

/// Checks that `at` is near enough to the request's arrival; both ends belong to the tolerance.
pub(super) fn check_time(
    spec: &SignatureSpec,
    at: SignedAt,
    received_at_ms: UnixMs,
) -> Result<(), VerifyError> {
    let at_ms = match at {
        SignedAt::S(at_s) => at_s.saturating_mul(1_000),
        SignedAt::Ms(at_ms) => at_ms,
    };
    if spec.timestamp_min_s.is_some_and(|min_s| at_ms < min_s.saturating_mul(1_000)) {
        return Err(VerifyError::malformed("timestamp", "it is from before the sender existed"));
    }
    let Some(tolerance_s) = spec.tolerance_s else { return Ok(()) };
    check_age(at, received_at_ms, tolerance_s, spec.tolerance_future_s.unwrap_or(tolerance_s))
}

/// Checks a time as [`check_time`] does, for kinds that verify with code.
pub(super) fn check_age(
    at: SignedAt,
    received_at_ms: UnixMs,
    past_s: u32,
    future_s: u32,
) -> Result<(), VerifyError> {
    // A time in whole seconds is compared with the second of arrival.
    let age_ms = match at {
        SignedAt::S(at_s) => received_at_ms.div_euclid(1_000).saturating_sub(at_s).saturating_mul(1_000),
        SignedAt::Ms(at_ms) => received_at_ms.saturating_sub(at_ms),
    };
    if age_ms > i64::from(past_s) * 1_000 {
        let age_s = age_ms.saturating_add(999).div_euclid(1_000);
        return Err(VerifyError::Stale { age_s, tolerance_s: past_s });
    }
    let ahead_ms = age_ms.saturating_neg();
    if ahead_ms > i64::from(future_s) * 1_000 {
        let ahead_s = ahead_ms.saturating_add(999).div_euclid(1_000);
        return Err(VerifyError::Future { ahead_s, tolerance_s: future_s });
    }
    Ok(())
}

/// Parses a time of this unit, found at `place`, and checks that it is near enough to the arrival of the request;
/// for kinds that verify with code. The bounds are those of [`Keys::tolerance_s`], which an operator can change.
pub fn check_timestamp(
    keys: &Keys,
    unit: TimeUnit,
    place: &str,
    text: &str,
    received_at_ms: UnixMs,
) -> Result<(), VerifyError> {
    let (past_s, future_s) = keys.tolerance_s();
    check_age(signed_at(unit, place, text)?, received_at_ms, past_s, future_s)
}

/// Unix seconds as RFC 3339, in UTC.
pub fn rfc3339_text(at_s: i64) -> String {
    jiff::Timestamp::from_second(at_s).map(|at| at.to_string()).unwrap_or_default()
}

/// Unix seconds as `Thu, 30 Mar 2023 08:38:32 GMT`.
pub(super) fn http_date_text(at_s: i64) -> String {
    let since = Duration::from_secs(u64::try_from(at_s).unwrap_or_default());
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

/// The date of an HTTP header in unix seconds; `None` for anything else.
fn http_date_s(text: &str) -> Option<i64> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// `2026-01-31T10:00:00.123Z`, or with an offset, in unix milliseconds; `None` for anything else.
pub fn rfc3339_ms(text: &str) -> Option<i64> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_millisecond())
}

/// The time at which something happened at a sender, as senders write it: RFC 3339, or a number of seconds, of which
/// some write fractions, or of milli-, micro- or nanoseconds since 1970. The size of a number implies its unit: seconds
/// have 11 digits from the year 5138 on, milliseconds had fewer than 12 until 1973. Unix milliseconds; `None` for
/// anything else.
pub fn happened_ms(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let Ok(number) = whole.parse::<i64>() else { return rfc3339_ms(text) };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match number.unsigned_abs() {
        0..100_000_000_000 => {
            let ms = fraction.bytes().chain("000".bytes()).take(3);
            let ms = ms.fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'));
            Some(number * 1_000 + if number < 0 { -ms } else { ms })
        }
        100_000_000_000..100_000_000_000_000 => Some(number),
        100_000_000_000_000..100_000_000_000_000_000 => Some(number / 1_000),
        _ => Some(number / 1_000_000),
    }
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

    #[test]
    fn the_size_of_a_number_implies_its_unit() {
        #[track_caller]
        fn check(text: &str, want: Option<i64>) {
            assert_eq!(happened_ms(text), want, "{text}");
        }
        for same in [
            "1795345874",
            "1795345874.0",
            "1795345874000",
            "1795345874000123",
            "1795345874000123456",
            "2026-11-22T11:11:14Z",
            "2026-11-22 11:11:14+00:00",
        ] {
            check(same, Some(1_795_345_874_000));
        }
        check("1355517523.000005", Some(1_355_517_523_000));
        check("1355517523.12", Some(1_355_517_523_120));
        check("0", Some(0));
        check("-86400", Some(-86_400_000));
        check("-1.5", Some(-1_500));
        for odd in ["", "now", "1e9", "1.5.2", "1.x", "22/11/2026", "99999999999999999999"] {
            check(odd, None);
        }
    }

    #[test]
    fn a_unit_decides_what_digits_mean() {
        #[track_caller]
        fn check(unit: TimeUnit, text: &str, want: Option<SignedAt>) {
            assert_eq!(signed_at(unit, "x", text).ok(), want, "{text}");
        }
        check(TimeUnit::S, "1767225600", Some(SignedAt::S(1_767_225_600)));
        check(TimeUnit::Ms, "1767225600123", Some(SignedAt::Ms(1_767_225_600_123)));
        check(TimeUnit::SOrMs, "1767225600", Some(SignedAt::S(1_767_225_600)));
        check(TimeUnit::SOrMs, "1767225600123", Some(SignedAt::Ms(1_767_225_600_123)));
        let date = "Thu, 30 Mar 2023 08:38:32 GMT";
        check(TimeUnit::HttpDate, date, Some(SignedAt::S(1_680_165_512)));
        assert_eq!(http_date_text(1_680_165_512), date);
        for odd in ["1680165512", "2023-03-30T08:38:32Z", "Fri, 30 Mar 2023 08:38:32 +0100", ""] {
            check(TimeUnit::HttpDate, odd, None);
        }
        for odd in ["", " 1", "+1", "-1", "1.5", "1e3", "٣", "9999999999999999"] {
            check(TimeUnit::S, odd, None);
            check(TimeUnit::Ms, odd, None);
        }
    }

    #[test]
    fn both_ends_belong_to_the_tolerance() {
        let age = |at, now_ms| check_age(at, now_ms, 300, 60).is_ok();
        assert!(age(SignedAt::S(1_000), 1_300_999) && !age(SignedAt::S(1_000), 1_301_000));
        assert!(age(SignedAt::S(1_000), 940_000) && !age(SignedAt::S(1_000), 939_999));
        assert!(age(SignedAt::Ms(1_000_123), 1_300_123) && !age(SignedAt::Ms(1_000_123), 1_300_124));
    }

    #[test]
    fn a_time_from_before_the_sender_existed_is_malformed_and_ages_are_rounded_up() {
        let spec = crate::spec::Spec::parse(include_str!("../../../providers/stripe/provider.toml"))
            .expect("a spec");
        let bounded = |tolerance_s, tolerance_future_s, timestamp_min_s| SignatureSpec {
            timestamp_min_s,
            tolerance_s,
            tolerance_future_s,
            ..spec.signature.clone()
        };
        let check = |spec: &SignatureSpec, at_ms, now_ms| check_time(spec, SignedAt::Ms(at_ms), now_ms);
        let (any, both) = (bounded(None, None, None), bounded(Some(10), None, None));
        assert_eq!(check(&any, 0, i64::MAX), Ok(()), "no age is checked");
        assert_eq!(check(&both, 0, 10_001), Err(VerifyError::Stale { age_s: 11, tolerance_s: 10 }));
        assert_eq!(check(&both, 10_001, 0), Err(VerifyError::Future { ahead_s: 11, tolerance_s: 10 }));
        let none_ahead = bounded(Some(10), Some(0), None);
        assert_eq!(check(&none_ahead, 1, 0), Err(VerifyError::Future { ahead_s: 1, tolerance_s: 0 }));
        assert_eq!(
            check(&none_ahead, i64::MAX, 0).map_err(|why| crate::failed_at(&why).reason),
            Err("future"),
            "no overflow"
        );
        let young = bounded(None, None, Some(5));
        assert_eq!(check(&young, 4_999, 0).map_err(|why| crate::failed_at(&why).reason), Err("malformed"));
        assert_eq!(check(&young, 5_000, 0), Ok(()));
    }
}
