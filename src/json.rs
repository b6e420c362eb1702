//! JSON by raw text: finds what a pointer names without turning numbers into floats, and notices keys that
//! are there twice.
//!
//! `serde_json::Value` keeps the last of two equal keys and rounds numbers beyond 2^64; an id read through
//! it could be another one than the sender signed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::types::BodyDigest;

/// What a pointer led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The raw text of one value.
    One(&'a [u8]),
    /// No such key or index.
    Missing,
    /// A key of the path is in its object more than once.
    Doubled,
    /// The text is not JSON.
    NotJson,
}

/// A JSON text, scanned once: the members of its outermost object are at hand for every pointer.
pub(crate) struct Document<'a> {
    whole: &'a [u8],
    /// Empty when the text is no object.
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Document<'a> {
    /// `None` when `json` is not JSON.
    pub(crate) fn parse(json: &'a [u8]) -> Option<Self> {
        let whole = json.trim_ascii();
        let members = if whole.starts_with(b"{") {
            let mut parser = serde_json::Deserializer::from_slice(whole);
            let members = parser.deserialize_map(Members).ok()?;
            parser.end().ok()?;
            members
        } else {
            serde_json::from_slice::<&RawValue>(whole).ok()?;
            Vec::new()
        };
        Some(Self { whole, members })
    }

    /// Finds what `pointer` (RFC 6901) names.
    pub(crate) fn find(&self, pointer: &str) -> Found<'a> {
        let mut tokens = pointer.split('/').skip(1).map(unescaped);
        let Some(first) = tokens.next() else { return Found::One(self.whole) };
        let outermost = if self.whole.starts_with(b"[") {
            element(self.whole, &first)
        } else {
            let mut named = self.members.iter().filter(|(name, _)| *name == first);
            match (named.next(), named.next()) {
                (Some((_, value)), None) => Step::One(value),
                (None, _) => Step::Missing,
                (Some(_), Some(_)) => Step::Doubled,
            }
        };
        let found = tokens.fold(outermost, |step, token| match step {
            Step::One(raw) => child(raw, &token),
            other => other,
        });
        match found {
            Step::One(raw) => Found::One(raw.get().as_bytes()),
            Step::Missing => Found::Missing,
            Step::Doubled => Found::Doubled,
        }
    }

    /// The id-like text that `pointer` names: a string unescaped, or a whole number as it is written. Says
    /// why there is none.
    pub(crate) fn text(&self, pointer: &str) -> Result<String, String> {
        let raw = match self.find(pointer) {
            Found::One(raw) => raw,
            Found::Doubled => return Err(format!("{pointer} is there twice")),
            Found::Missing | Found::NotJson => return Err(format!("{pointer} is missing")),
        };
        match raw.first() {
            Some(b'"') => match serde_json::from_slice::<String>(raw) {
                Ok(text) if text.is_empty() => Err(format!("{pointer} is empty")),
                Ok(text) => Ok(text),
                Err(_) => Err(format!("{pointer} is not valid text")),
            },
            Some(b'-' | b'0'..=b'9') if raw.iter().skip(1).all(u8::is_ascii_digit) => {
                Ok(String::from_utf8_lossy(raw).into_owned())
            }
            Some(b't' | b'f') => Ok(String::from_utf8_lossy(raw).into_owned()),
            _ => Err(format!("{pointer} is neither a text nor a whole number")),
        }
    }

    /// SHA-256 of the `json` this was parsed from, without the values at `volatile`.
    pub(crate) fn digest_without(&self, json: &[u8], volatile: &[String]) -> BodyDigest {
        let start = json.as_ptr() as usize;
        let mut cuts: Vec<Range<usize>> = volatile
            .iter()
            .filter_map(|pointer| match self.find(pointer) {
                Found::One(raw) => {
                    let from = (raw.as_ptr() as usize).checked_sub(start)?;
                    Some(from..from + raw.len())
                }
                _ => None,
            })
            .collect();
        cuts.sort_by_key(|cut| cut.start);
        let mut digest = Sha256::new();
        let mut from = 0;
        for cut in cuts {
            digest.update(json.get(from..cut.start).unwrap_or_default());
            from = from.max(cut.end);
        }
        digest.update(json.get(from..).unwrap_or_default());
        digest.finalize().into()
    }
}

/// [`Document::find`] for a single look.
pub(crate) fn find<'a>(json: &'a [u8], pointer: &str) -> Found<'a> {
    Document::parse(json).map_or(Found::NotJson, |document| document.find(pointer))
}

/// [`Document::text`] for a single look.
pub(crate) fn text_of(json: &[u8], pointer: &str) -> Result<String, String> {
    Document::parse(json).ok_or("the body is not JSON")?.text(pointer)
}

fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}

/// What `token` names in an object or array below the outermost one.
fn child<'a>(raw: &'a RawValue, token: &str) -> Step<'a> {
    match raw.get().as_bytes().first() {
        Some(b'{') => serde_json::Deserializer::from_str(raw.get())
            .deserialize_map(Member(token))
            .unwrap_or(Step::Missing),
        Some(b'[') => element(raw.get().as_bytes(), token),
        _ => Step::Missing,
    }
}

fn element<'a>(array: &'a [u8], token: &str) -> Step<'a> {
    let Ok(index) = token.parse() else { return Step::Missing };
    serde_json::Deserializer::from_slice(array).deserialize_seq(Element(index)).unwrap_or(Step::Missing)
}

/// Where the elements of the array `list` are in it; `None` when it is no array.
pub(crate) fn elements(list: &[u8]) -> Option<Vec<Range<usize>>> {
    first_elements(list, usize::MAX)
}

/// As [`elements`], the first `n_max` of them and one more, so that whoever asks can
/// tell that there are more.
pub(crate) fn first_elements(list: &[u8], n_max: usize) -> Option<Vec<Range<usize>>> {
    let mut parser = serde_json::Deserializer::from_slice(list);
    let raw = parser.deserialize_seq(Elements { n_max: n_max.saturating_add(1) }).ok()?;
    parser.end().ok()?;
    let start = list.as_ptr() as usize;
    let range = |one: &RawValue| {
        let from = (one.get().as_ptr() as usize).checked_sub(start)?;
        Some(from..from + one.get().len())
    };
    raw.into_iter().map(range).collect()
}

/// The members of the object `json` with their raw values, in its order; `None` when it is no object.
pub(crate) fn members(json: &[u8]) -> Option<Vec<(Cow<'_, str>, &[u8])>> {
    let document = Document::parse(json).filter(|document| document.whole.starts_with(b"{"))?;
    Some(document.members.into_iter().map(|(name, raw)| (name, raw.get().as_bytes())).collect())
}

enum Step<'a> {
    One(&'a RawValue),
    Missing,
    Doubled,
}

/// Every member of an object, in its order.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(16);
        while let Some(Key(key)) = map.next_key()? {
            members.push((key, map.next_value()?));
        }
        Ok(members)
    }
}

/// A key that is copied only when it is escaped.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Looks for one key of an object and sees to it that it is there once.
struct Member<'t>(&'t str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Step<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Step<'de>, A::Error> {
        let mut found = Step::Missing;
        while let Some(Key(key)) = map.next_key()? {
            if key != self.0 {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&RawValue>()?;
            found = match found {
                Step::Missing => Step::One(value),
                _ => Step::Doubled,
            };
        }
        Ok(found)
    }
}

/// The first `n_max` elements of an array; the others are looked over and not kept.
struct Elements {
    n_max: usize,
}

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut first = Vec::new();
        while first.len() < self.n_max {
            let Some(value) = seq.next_element::<&RawValue>()? else { return Ok(first) };
            first.push(value);
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }
}

struct Element(usize);

impl<'de> Visitor<'de> for Element {
    type Value = Step<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Step<'de>, A::Error> {
        let mut index = 0;
        let mut found = Step::Missing;
        while let Some(value) = seq.next_element::<&RawValue>()? {
            if index == self.0 {
                found = Step::One(value);
            }
            index += 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_raw_text_of_the_signed_bytes() {
        #[track_caller]
        fn check(json: &str, pointer: &str, want: Result<&str, &str>) {
            let got = text_of(json.as_bytes(), pointer);
            assert_eq!(got.as_deref().map_err(String::as_str), want);
        }
        check(r#"{"id":"evt_1"}"#, "/id", Ok("evt_1"));
        check(r#"{"id":"\u0065vt"}"#, "/id", Ok("evt"));
        check(r#"{"id":9007199254740993}"#, "/id", Ok("9007199254740993"));
        check(r#"{"id":18446744073709551617}"#, "/id", Ok("18446744073709551617"));
        check(r#"{"a":{"b":[{"c":"x"},{"c":"y"}]}}"#, "/a/b/1/c", Ok("y"));
        check(r#"{"a/b":{"~":"x"}}"#, "/a~1b/~0", Ok("x"));
        check(r#"{"id":"a","id":"b"}"#, "/id", Err("/id is there twice"));
        check(r#"{"a":{"id":1},"a":{}}"#, "/a/id", Err("/a/id is there twice"));
        check(r#"{"id":""}"#, "/id", Err("/id is empty"));
        check(r#"{"x":1}"#, "/id", Err("/id is missing"));
        check(r#"{"id":1.5}"#, "/id", Err("/id is neither a text nor a whole number"));
        check(r#"{"id":1e3}"#, "/id", Err("/id is neither a text nor a whole number"));
        check(r#"{"id":null}"#, "/id", Err("/id is neither a text nor a whole number"));
        check(r#"{"id":"\ud800"}"#, "/id", Err("/id is not valid text"));
        check("nonsense", "/id", Err("the body is not JSON"));
        check(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), "/id", Err("/id is missing"));
    }

    #[test]
    fn digest_leaves_out_what_the_kind_names_volatile() {
        let volatile = ["/pending_webhooks".to_owned(), "/missing".to_owned()];
        let digest = |json: &str| {
            Document::parse(json.as_bytes()).expect("JSON").digest_without(json.as_bytes(), &volatile)
        };
        assert_eq!(digest(r#"{"id":1,"pending_webhooks":1}"#), digest(r#"{"id":1,"pending_webhooks":22}"#));
        assert_ne!(digest(r#"{"id":1,"pending_webhooks":1}"#), digest(r#"{"id":2,"pending_webhooks":1}"#));
    }

    #[test]
    fn elements_are_found_where_they_stand() {
        let list = br#"[ {"a":1}, "b" ]"#;
        let texts: Vec<&[u8]> =
            elements(list).expect("an array").into_iter().map(|range| &list[range]).collect();
        assert_eq!(texts, [br#"{"a":1}"#.as_slice(), br#""b""#]);
        assert_eq!(elements(b"{}"), None);
        assert_eq!(
            first_elements(b"[1,2,3,4,5]", 2).map(|first| first.len()),
            Some(3),
            "one more than was asked for"
        );
        assert_eq!(first_elements(b"[1,2,3,4,5", 2), None, "the rest is looked at, too");
    }
}
