//! JSON as values that say exactly what its text says. `serde_json::Value` by itself keeps the last of two equal members
//! and rounds numbers: an amount or an id that is read through it could be another one than the sender signed.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::scan::numbers;

/// What `json` says, as values. The error says, without any value, what cannot be said so: a member that is there twice,
/// a number that would be rounded, or what `serde_json` refuses (half a surrogate pair, more than 128 levels).
pub fn exact_value(json: &[u8]) -> Result<Value, String> {
    let Exact(value) = serde_json::from_slice(json).map_err(|why| why.to_string())?;
    if numbers(json).any(|number| !survives(number)) {
        return Err("a number that neither 64 bits of an integer nor a double hold exactly".to_owned());
    }
    Ok(value)
}

/// True for a number that is the same after it was read and written again.
fn survives(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        return number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    // As it will be read, which is not always as `str::parse` does.
    let Ok(read) = serde_json::from_str::<f64>(number) else { return false };
    decimal(number).is_some_and(|written| decimal(&format!("{read:e}")).as_ref() == Some(&written))
}

/// Digits of a number without zeros around them, and the power of ten of the last one.
fn decimal(number: &str) -> Option<(String, i64)> {
    let unsigned = number.trim_start_matches('-');
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    if significant.trim_start_matches('0').is_empty() {
        return Some((String::new(), 0));
    }
    let exponent: i64 = exponent.parse().ok()?;
    let behind_n =
        i64::try_from(fraction.len()).ok()? - i64::try_from(digits.len() - significant.len()).ok()?;
    Some((significant.trim_start_matches('0').to_owned(), exponent.checked_sub(behind_n)?))
}

struct Exact(Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(ExactVisitor).map(Self)
    }
}

struct ExactVisitor;

impl<'de> Visitor<'de> for ExactVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Exact(value)) = all.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, Exact(value))) = all.next_entry::<String, Exact>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member that is there twice in its object"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_values_would_change_is_an_error() {
        for (json, want) in [
            ("18446744073709551615", true),
            ("18446744073709551616", false),
            ("[-9223372036854775808]", true),
            ("[-9223372036854775809]", false),
            (r#"{"a":1,"b":{"wei":12345678901234567890123}}"#, false),
            (r#"{"a":"12345678901234567890123","b":"\\"}"#, true),
            (r#"{"a":"\"","12345678901234567890123":1}"#, true),
            ("[1.5e300,1e2,-0.10,10.50,0.0,0e5,100.00,1E+2]", true),
            ("0.30000000000000004", true),
            ("[0.123456789012345678]", false),
            ("90071992547409931.25", false),
            ("[1e400]", false),
            ("[1e-400]", false),
            (r#"{"a":1,"a":2}"#, false),
            (r#"[{"b":{"a":1,"\u0061":1}}]"#, false),
            (r#"{"a":{"b":1},"b":1}"#, true),
            (r#""\ud83d""#, false),
            (r#""\ud83d\ude00""#, true),
            ("", false),
        ] {
            let exact = exact_value(json.as_bytes());
            assert_eq!(exact.is_ok(), want, "{json}: {exact:?}");
            if want {
                assert_eq!(exact.ok(), serde_json::from_str(json).ok(), "{json}");
            }
        }
        assert!(exact_value("[".repeat(200).as_bytes()).is_err());
    }
}
