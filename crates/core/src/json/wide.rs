//! Whole numbers that `serde_json::Value` rounds.

/// True when a whole number in `json` fits neither 64 bits with a sign nor 64 bits without one.
pub fn has_wide_integer(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some((first, after)) = rest.split_first() {
        rest = match first {
            b'"' => after_string(after),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| !matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let end = rest.iter().position(is_part).unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                let text = str::from_utf8(number).unwrap_or_default();
                let is_whole = !text.contains(['.', 'e', 'E']);
                if is_whole && text.parse::<i64>().is_err() && text.parse::<u64>().is_err() {
                    return true;
                }
                after
            }
            _ => after,
        };
    }
    false
}

/// The text after a string whose first quote was passed.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'"' => return after,
            b'\\' => rest = after.get(1..).unwrap_or_default(),
            _ => rest = after,
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_are_found_and_texts_are_not_numbers() {
        for (json, want) in [
            ("18446744073709551615", false),
            ("18446744073709551616", true),
            ("[-9223372036854775808]", false),
            ("[-9223372036854775809]", true),
            (r#"{"a":1,"b":{"wei":12345678901234567890123}}"#, true),
            (r#"{"a":"12345678901234567890123","b":"\\"}"#, false),
            (r#"{"a":"\"","12345678901234567890123":1}"#, false),
            ("[1.5e300,0.12345678901234567890123,1e2]", false),
            ("", false),
        ] {
            assert_eq!(has_wide_integer(json.as_bytes()), want, "{json}");
        }
    }
}
