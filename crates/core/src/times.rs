//! Times: for people in UTC with how long ago that was, for programs as RFC 3339.
//!
//! UTC, because an operator holds them against logs and against what a sender's dashboard and a colleague elsewhere
//! say; how long ago it was is the same everywhere.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `14:02:11, 3 min ago`; with the date when it is not today's. UTC.
pub fn format_moment(at_ms: i64, now_ms: i64) -> String {
    let Some(time) = in_utc(at_ms, "%H:%M:%S") else { return at_ms.to_string() };
    let date = day(at_ms);
    let time = if date == day(now_ms) { time } else { format!("{date} {time}") };
    if at_ms > now_ms {
        format!("{time}, in {}", ago(at_ms.saturating_sub(now_ms)))
    } else {
        format!("{time}, {} ago", ago(now_ms.saturating_sub(at_ms)))
    }
}

/// `2026-11-22 14:02:11 UTC`, for sentences.
pub fn utc(at_ms: i64) -> String {
    or_number(at_ms, "%Y-%m-%d %H:%M:%S UTC")
}

/// Date of a time, `2026-11-22`. UTC.
pub fn day(at_ms: i64) -> String {
    or_number(at_ms, "%Y-%m-%d")
}

/// Time within its day, to the millisecond: `14:02:11.123`. UTC.
pub fn in_day(at_ms: i64) -> String {
    or_number(at_ms, "%H:%M:%S.%3f")
}

/// `2026-11-22T14:02:11`, as a field for times has it. UTC.
pub fn local(at_ms: i64) -> String {
    in_utc(at_ms, "%Y-%m-%dT%H:%M:%S").unwrap_or_default()
}

/// `2026-11-22T14:02:11.123Z`, always with milliseconds; `None` past what a date can say.
pub fn rfc3339(at_ms: i64) -> Option<String> {
    Timestamp::from_millisecond(at_ms).ok().map(|at| format!("{at:.3}"))
}

/// A length of time in its largest unit below two days, with the next smaller one where there is one alone.
/// Milliseconds.
pub fn ago(ms: i64) -> String {
    match ms.max(0) / 1_000 {
        s @ 0..=59 => format!("{s} s"),
        60 => "1 min".to_owned(),
        s @ 61..=119 => format!("1 min {} s", s - 60),
        s @ 120..=3_599 => format!("{} min", s / 60),
        s @ 3_660..=7_199 => format!("1 h {} min", s / 60 - 60),
        s @ 3_600..=172_799 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

/// A length of time, exactly: `1500 ms`, `30 s`, `90 min`, `24 h`.
pub fn length_in_words(ms: u64) -> String {
    let (of, unit) = match ms {
        0 => (1, "ms"),
        _ if ms.is_multiple_of(7_200_000) || ms == 3_600_000 => (3_600_000, "h"),
        _ if ms.is_multiple_of(60_000) => (60_000, "min"),
        _ if ms.is_multiple_of(1_000) => (1_000, "s"),
        _ => (1, "ms"),
    };
    format!("{} {unit}", ms / of)
}

/// Reads a time that a person writes: RFC 3339 (in UTC where it names no zone), a date (its midnight in UTC), or how
/// long ago: `30s`, `15m`, `2h`, `3d`.
pub fn parse_time(text: &str, now_ms: i64) -> Result<i64, String> {
    if let Some(ms) = length(text) {
        return Ok(now_ms.saturating_sub(ms));
    }
    let ends = ["", "Z", ":00Z", "T00:00:00Z"];
    let at = ends.iter().find_map(|end| format!("{text}{end}").parse::<Timestamp>().ok());
    at.map(Timestamp::as_millisecond).ok_or_else(|| {
        format!("`{text}` is no time: write 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d for so long ago")
    })
}

/// Parses a time in the future: as [`parse_time`] does, but a length of time is from now on.
pub fn parse_end(text: &str, now_ms: i64) -> Result<i64, String> {
    let found = length(text).map(|ms| now_ms.saturating_add(ms)).or_else(|| parse_time(text, now_ms).ok());
    found.ok_or_else(|| {
        format!("`{text}` is not a time: write 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d from now")
    })
}

fn length(text: &str) -> Option<i64> {
    let (n, unit_ms) = [("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
        .into_iter()
        .find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, ms)))?;
    n.parse::<u32>().ok().map(|n| i64::from(n).saturating_mul(unit_ms))
}

fn or_number(at_ms: i64, format: &str) -> String {
    in_utc(at_ms, format).unwrap_or_else(|| at_ms.to_string())
}

fn in_utc(at_ms: i64, format: &str) -> Option<String> {
    let at = Timestamp::from_millisecond(at_ms).ok()?;
    Some(at.to_zoned(TimeZone::UTC).strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_formatted_in_the_largest_exact_unit() {
        let lengths = [0, 1_500, 30_000, 60_000, 3_600_000, 5_400_000, 86_400_000].map(length_in_words);
        assert_eq!(lengths, ["0 ms", "1500 ms", "30 s", "1 min", "1 h", "90 min", "24 h"]);
    }

    /// 2026-11-22T14:05:11.500Z: the moment from which the tests look.
    const NOW_MS: i64 = 1_795_356_311_500;

    #[test]
    fn a_time_is_formatted_with_its_age_and_with_its_date_on_another_day() {
        #[track_caller]
        fn check(from_now_ms: i64, want: &str) {
            assert_eq!(format_moment(NOW_MS + from_now_ms, NOW_MS), want);
        }
        check(0, "14:05:11, 0 s ago");
        check(-180_000, "14:02:11, 3 min ago");
        check(90_000, "14:06:41, in 1 min 30 s");
        check(-50_711_500, "00:00:00, 14 h ago");
        check(-50_711_501, "2026-11-21 23:59:59, 14 h ago");
        check(-864_000_000, "2026-11-12 14:05:11, 10 days ago");
        check(86_400_000, "2026-11-23 14:05:11, in 24 h");
        assert_eq!(format_moment(i64::MAX, NOW_MS), i64::MAX.to_string());
        assert_eq!((day(NOW_MS), in_day(NOW_MS)), ("2026-11-22".to_owned(), "14:05:11.500".to_owned()));
        assert_eq!(local(NOW_MS), "2026-11-22T14:05:11");
        assert_eq!(local(i64::MAX), "", "a field takes no other text");
    }

    #[test]
    fn programs_get_rfc_3339_with_milliseconds() {
        #[track_caller]
        fn check(at_ms: i64, want: Option<&str>) {
            assert_eq!(rfc3339(at_ms).as_deref(), want);
        }
        check(NOW_MS, Some("2026-11-22T14:05:11.500Z"));
        check(0, Some("1970-01-01T00:00:00.000Z"));
        check(-1, Some("1969-12-31T23:59:59.999Z"));
        check(253_402_300_799_999, None);
    }

    #[test]
    fn a_duration_is_formatted_in_the_largest_unit_that_is_precise_enough() {
        #[track_caller]
        fn check(s: i64, want: &str) {
            assert_eq!(ago(s * 1_000), want);
        }
        check(-5, "0 s");
        check(59, "59 s");
        check(115, "1 min 55 s");
        check(120, "2 min");
        check(3_599, "59 min");
        check(7_199, "1 h 59 min");
        check(7_200, "2 h");
        check(172_799, "47 h");
        check(172_800, "2 days");
        check(10_000_000, "115 days");
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        #[track_caller]
        fn check(text: &str, want: Option<i64>) {
            assert_eq!(parse_time(text, NOW_MS).ok(), want, "{text}");
        }
        check("15m", Some(NOW_MS - 900_000));
        check("30s", Some(NOW_MS - 30_000));
        check("2h", Some(NOW_MS - 7_200_000));
        check("3d", Some(NOW_MS - 259_200_000));
        check("2026-11-22T14:05:11.5Z", Some(NOW_MS));
        check("2026-11-22T15:05:11.5+01:00", Some(NOW_MS));
        check("1970-01-02", Some(86_400_000));
        check("2026-11-22T14:05:11", Some(NOW_MS - 500));
        check("2026-11-22T14:05", Some(NOW_MS - 11_500));
        for odd in ["", "m", "-1h", "1.5h", "yesterday", "14:02", "2026-13-01", "99999999999d"] {
            check(odd, None);
        }
        assert_eq!(parse_end("2h", NOW_MS), Ok(NOW_MS + 7_200_000));
        assert_eq!(parse_end("2026-11-22T14:05:11.5Z", NOW_MS), Ok(NOW_MS));
        assert!(parse_end("soon", NOW_MS).expect_err("no time").contains("2h"));
        assert!(parse_time("soon", NOW_MS).expect_err("no time").contains("2026-11-22"));
    }
}
