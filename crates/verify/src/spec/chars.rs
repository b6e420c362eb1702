//! A set of characters, written as in `A-Za-z0-9_-`: the allowed characters of a text from outside.

use serde::Deserialize;

/// Letters and digits of ASCII and `-_+/=`, or some of them. Never a brace, quote, blank or separator, so that a text
/// of these is no JSON object, and no list of anything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Chars(Vec<(u8, u8)>);

impl Chars {
    /// True when `text` is made of these, of at least one and of `length_max` at most.
    pub fn fit(&self, text: &str, length_max: usize) -> bool {
        let is_known = |byte: u8| self.0.iter().any(|(from, to)| (*from..=*to).contains(&byte));
        (1..=length_max).contains(&text.len()) && text.bytes().all(is_known)
    }
}

impl TryFrom<String> for Chars {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut ranges = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((from, tail)) = rest.split_first() {
            let (range, tail) = match tail {
                [b'-', to, tail @ ..] => ((*from, *to), tail),
                _ => ((*from, *from), tail),
            };
            let is_same_sort =
                |is_of: fn(&u8) -> bool| is_of(&range.0) && is_of(&range.1) && range.0 <= range.1;
            let is_plain = range.0 == range.1 && b"-_+/=".contains(from);
            let sorts = [u8::is_ascii_uppercase, u8::is_ascii_lowercase, u8::is_ascii_digit];
            if !is_plain && !sorts.into_iter().any(is_same_sort) {
                return Err(format!(
                    "`{text}` is no set of characters: write letters, digits, ranges of them, and any of `_+/=-`"
                ));
            }
            ranges.push(range);
            rest = tail;
        }
        if ranges.is_empty() { Err("it names no character".to_owned()) } else { Ok(Self(ranges)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_ranges_and_single_characters_and_never_what_a_body_starts_with() {
        let chars = Chars::try_from("A-Za-f0-9_-".to_owned()).expect("a set");
        for good in ["abcDEF", "0_-9", "-"] {
            assert!(chars.fit(good, 6), "{good}");
        }
        for bad in ["", "g", "a b", "{}", "é", "abcdefa"] {
            assert!(!chars.fit(bad, 6), "{bad}");
        }
        for bad in ["", "{", " -~", "A-z", "9-0", "a-", "\"", "[", ".", "&", "é", "+-/"] {
            let is_refused = Chars::try_from(bad.to_owned()).is_err();
            assert_eq!(is_refused, bad != "a-", "{bad}");
        }
    }
}
