//! Numbers by their text: exact at any size, never through a float.

use std::cmp::Ordering;

/// Longest number that is compared. Bytes.
pub(super) const NUMBER_BYTES_MAX: usize = 400;

/// A number: `0.DIGITS` times ten to the power of `point`. Equal values have one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    is_negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: String,
    point: i64,
}

impl Decimal {
    /// Parses a number as JSON writes it; `None` when it is not one, or longer than [`NUMBER_BYTES_MAX`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (is_negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                (mantissa, exponent.parse::<i64>().ok().filter(|_| is_digits(digits))?)
            }
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let is_whole = is_digits(whole) && (whole == "0" || !whole.starts_with('0'));
        if text.len() > NUMBER_BYTES_MAX || !is_whole || !is_digits(fraction) {
            return None;
        }
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits, point: 0 });
        }
        let shift = i64::try_from(whole.len()).ok()? - i64::try_from(all.len() - significant.len()).ok()?;
        Some(Self { is_negative, digits, point: exponent.checked_add(shift)? })
    }

    /// -1, 0 or 1.
    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_size = || self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
        self.sign()
            .cmp(&other.sign())
            .then_with(|| if self.is_negative { by_size().reverse() } else { by_size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_by_their_value_whatever_their_size_and_form() {
        let ordered = [
            "-1e400",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-0.1",
            "0",
            "1e-400",
            "0.1",
            "0.11",
            "0.2",
            "1",
            "9.99",
            "10",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551616",
            "1e9223372036854775000",
        ];
        let parsed: Vec<Decimal> = ordered.iter().map(|text| Decimal::parse(text).expect(text)).collect();
        for (n, one) in parsed.iter().enumerate() {
            for (m, other) in parsed.iter().enumerate() {
                assert_eq!(one.cmp(other), n.cmp(&m), "{} {}", ordered[n], ordered[m]);
            }
        }
        for (one, other) in [
            ("0.10", "0.1"),
            ("1e2", "100"),
            ("100.0", "1E+2"),
            ("-0", "0.00"),
            ("0e5", "0"),
            ("0.0012", "12e-4"),
        ] {
            assert_eq!(Decimal::parse(one), Decimal::parse(other), "{one} {other}");
        }
    }

    #[test]
    fn what_json_does_not_call_a_number_is_none_and_nothing_is_expanded() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1e++1",
            "0x1",
            "NaN",
            "1 ",
            "1e9223372036854775808",
            "١",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert!(Decimal::parse(&"9".repeat(NUMBER_BYTES_MAX)).is_some());
        assert!(Decimal::parse(&"9".repeat(NUMBER_BYTES_MAX + 1)).is_none());
        assert_eq!(Decimal::parse("1e9223372036854775807"), None, "its place would overflow");
    }
}
