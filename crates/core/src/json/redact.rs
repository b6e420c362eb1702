//! Replaces values of a JSON text and leaves every other byte as it was sent.

use std::borrow::Cow;
use std::ops::Range;

use super::scan::{Scan, unescaped};

/// Most steps of one pointer: so deep, and no deeper, a walk calls itself.
const STEPS_N_MAX: usize = 32;
/// Stands in place of a value.
const MARK: &str = "\"[redacted]\"";
/// Stands in place of all that cannot be looked into.
const MARK_OF_ALL: &str = "[redacted: not JSON]";

/// The values that are not to be stored: JSON pointers (RFC 6901) whose step `*` names every element of an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedactedPaths(Vec<Vec<String>>);

/// A text without the values that are not to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedText {
    pub text: Vec<u8>,
    /// Number of values that were replaced; 0: all of it was, because it is not JSON.
    pub values_n: u32,
}

impl RedactedPaths {
    /// Reads pointers; the first invalid one is returned with what is wrong with it.
    pub fn parse<'p>(pointers: impl IntoIterator<Item = &'p str>) -> Result<Self, (&'p str, &'static str)> {
        let mut paths = Vec::new();
        for pointer in pointers {
            let Some(steps) = pointer.strip_prefix('/') else {
                return Err((pointer, "is not a JSON pointer to a value within the body"));
            };
            let steps: Vec<String> = steps.split('/').map(|step| unescaped(step).into_owned()).collect();
            if steps.len() > STEPS_N_MAX {
                return Err((pointer, "has more than 32 steps"));
            }
            paths.push(steps);
        }
        Ok(Self(paths))
    }

    /// True when there is nothing to replace.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when the value at this pointer, or one that it is in, is replaced.
    pub fn covers(&self, pointer: &str) -> bool {
        let steps: Vec<Cow<'_, str>> = pointer.split('/').skip(1).map(unescaped).collect();
        let fits = |(path, step): (&String, &Cow<'_, str>)| path == "*" || path == step;
        self.0.iter().any(|path| path.len() <= steps.len() && path.iter().zip(&steps).all(fits))
    }

    /// The text as it may be stored; `None` when that is as it is. Every value is removed that a name leads to, also
    /// where a name is there twice or written with escapes. What is not JSON is removed as a whole, because its content
    /// is unknown.
    pub fn redacted(&self, text: &[u8]) -> Option<RedactedText> {
        if self.is_empty() || text.is_empty() {
            return None;
        }
        let Some(places) = self.places(text) else {
            return Some(RedactedText { text: MARK_OF_ALL.into(), values_n: 0 });
        };
        let values_n = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let mut made = Vec::with_capacity(text.len());
        let mut from = 0;
        for place in places {
            made.extend_from_slice(text.get(from..place.start)?);
            made.extend_from_slice(MARK.as_bytes());
            from = place.end;
        }
        made.extend_from_slice(text.get(from..)?);
        (values_n > 0).then_some(RedactedText { text: made, values_n })
    }

    /// The places of all values, in order; `None` when it is not JSON.
    fn places(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        let mut places = Vec::new();
        let mut scan = Scan::new(std::str::from_utf8(text).ok()?);
        let paths: Vec<&[String]> = self.0.iter().map(Vec::as_slice).collect();
        walk(&mut scan, &paths, &mut places)?;
        scan.next().is_none().then_some(places)
    }
}

/// Steps over one value, in which `paths` are looked for.
fn walk(scan: &mut Scan<'_>, paths: &[&[String]], places: &mut Vec<Range<usize>>) -> Option<()> {
    if paths.iter().any(|path| path.is_empty()) {
        places.push(scan.range_of(|scan| scan.value().map(drop))?);
        return Some(());
    }
    if paths.is_empty() {
        return scan.value().map(drop);
    }
    match scan.next()? {
        b'{' => scan.members(|scan, name| {
            let name = name.decoded()?;
            walk(scan, &below(paths, |step| step == name), places)
        }),
        b'[' => {
            let mut n = 0_usize;
            scan.elements(|scan| {
                let place: Cow<'_, str> = n.to_string().into();
                n += 1;
                walk(scan, &below(paths, |step| step == "*" || step == place), places)
            })
        }
        _ => scan.value().map(drop),
    }
}

/// The rest of those paths whose first step fits.
fn below<'p>(paths: &[&'p [String]], is_fit: impl Fn(&str) -> bool) -> Vec<&'p [String]> {
    let rest = paths.iter().filter_map(|path| path.split_first().filter(|(step, _)| is_fit(step)));
    rest.map(|(_, rest)| rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(pointers: &[&str]) -> RedactedPaths {
        RedactedPaths::parse(pointers.iter().copied()).expect("pointers")
    }

    #[test]
    fn values_are_replaced_where_they_stand_and_no_other_byte_changes() {
        let pointers =
            ["/customer/email", "/lines/*/name", "/rows/1", "/a~1b", "/deep/*/*/x", "/*", "/whole/0/0"];
        let paths = paths(&pointers);
        for (text, want, values_n) in [
            (
                r#"{ "n":1.00,"customer" : {"email": "a@b", "id":9007199254740993} }"#,
                r#"{ "n":1.00,"customer" : {"email": "[redacted]", "id":9007199254740993} }"#,
                1,
            ),
            (
                r#"{"lines":[{"name":"x"},{"name":{"first":"y"}},{},7]}"#,
                r#"{"lines":[{"name":"[redacted]"},{"name":"[redacted]"},{},7]}"#,
                2,
            ),
            (r#"{"rows":[1,[2,3],4]}"#, r#"{"rows":[1,"[redacted]",4]}"#, 1),
            (r#"{"a/b":null,"a":{"b":1}}"#, r#"{"a/b":"[redacted]","a":{"b":1}}"#, 1),
            (
                r#"{"deep":[[{"x":1}],[{"x":2},3]]}"#,
                r#"{"deep":[[{"x":"[redacted]"}],[{"x":"[redacted]"},3]]}"#,
                2,
            ),
            // Twice, and with escapes: a reader takes either.
            (
                r#"{"customer":{"email":"a","\u0065mail":"b"},"\u0063ustomer":{"email":"c"}}"#,
                r#"{"customer":{"email":"[redacted]","\u0065mail":"[redacted]"},"\u0063ustomer":{"email":"[redacted]"}}"#,
                3,
            ),
            // In an object `*` is a name like any other.
            (r#"{"*":1,"b":2}"#, r#"{"*":"[redacted]","b":2}"#, 1),
            ("[1, \"x\" ]\n", "[\"[redacted]\", \"[redacted]\" ]\n", 2),
        ] {
            let got = paths.redacted(text.as_bytes()).expect("something is replaced");
            assert_eq!(
                (String::from_utf8_lossy(&got.text).as_ref(), got.values_n),
                (want, values_n),
                "{text}"
            );
        }
        for text in ["{}", r#"{"customer":"a@b"}"#, r#"{"customer":{"e-mail":1}}"#, "7", "\"x\"", ""] {
            assert_eq!(paths.redacted(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_body_that_is_not_json_is_removed_completely() {
        let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let paths = paths(&["/a/b"]);
        let of_all = Some(RedactedText { text: MARK_OF_ALL.into(), values_n: 0 });
        for text in [
            b"a=b&email=x".as_slice(),
            b"{\"a\":{\"b\":1}",
            b"{\"a\":{\"b\":1}} {}",
            b"\xef\xbb\xbf{}",
            b"{\"a\":\"\xff\"}",
            br#"{"\ud800":1}"#,
            b"<a/>",
        ] {
            assert_eq!(paths.redacted(text), of_all, "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(paths.redacted(nested.as_bytes()), None, "deep nesting is stepped over");
        assert_eq!(RedactedPaths::default().redacted(b"<a/>"), None, "nothing is wanted");
    }

    #[test]
    fn a_path_is_a_json_pointer_of_a_bounded_depth() {
        for bad in ["", "customer", "customer/email"] {
            assert_eq!(RedactedPaths::parse([bad]).expect_err("no pointer").0, bad);
        }
        let deep = "/a".repeat(33);
        assert!(RedactedPaths::parse([deep.as_str()]).is_err() && RedactedPaths::parse(["/"]).is_ok());
    }
}
