//! Whole numbers as JSON Schema has them: `3` and `3.0` are the same number.

use serde::{Deserialize, Deserializer};

/// Latest time: the end of the year 9999. Unix milliseconds.
pub const TIME_MS_MAX: i64 = 253_402_300_799_999;
/// Largest whole number that every program reads the same: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(i64),
    Point(f64),
}

/// Reads a whole number, however it is written.
pub(crate) fn number<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let odd = || serde::de::Error::custom("a whole number is wanted");
    let number = match Written::deserialize(deserializer)? {
        Written::Whole(number) => number,
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        Written::Point(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => number as i64,
        Written::Point(_) => return Err(odd()),
    };
    T::try_from(number).map_err(|_| odd())
}

/// Reads a list of whole numbers.
pub(crate) fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "number")] u64);
    Ok(Vec::<Number>::deserialize(deserializer)?.into_iter().map(|number| number.0).collect())
}

/// Reads a whole number or `null`.
pub(super) fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "number")] i64);
    Ok(Option::<Number>::deserialize(deserializer)?.map(|number| number.0))
}

/// Reads a time or `null`: milliseconds since 1970, to the end of the year 9999.
pub(super) fn time_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let time = number_or_null(deserializer)?;
    if time.is_some_and(|at_ms| !(0..=TIME_MS_MAX).contains(&at_ms)) {
        return Err(serde::de::Error::custom("a time is wanted: milliseconds since 1970, to the year 9999"));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Order {
            #[serde(deserialize_with = "number")]
            counted_n: u64,
            #[serde(default, deserialize_with = "time_or_null")]
            at_ms: Option<i64>,
        }
        for (text, want) in [
            (r#"{"counted_n":3}"#, Some((3, None))),
            (r#"{"counted_n":3.0,"at_ms":1e3}"#, Some((3, Some(1_000)))),
            (r#"{"counted_n":0,"at_ms":null}"#, Some((0, None))),
            (r#"{"counted_n":0,"at_ms":-1}"#, None),
            (r#"{"counted_n":0,"at_ms":253402300800000}"#, None),
            (r#"{"counted_n":3.5}"#, None),
            (r#"{"counted_n":-1}"#, None),
            (r#"{"counted_n":1e300}"#, None),
            (r#"{"counted_n":"3"}"#, None),
        ] {
            let found = serde_json::from_str::<Order>(text).ok().map(|order| (order.counted_n, order.at_ms));
            assert_eq!(found, want, "{text}");
        }
    }
}
