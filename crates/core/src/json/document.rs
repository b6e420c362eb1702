//! A JSON text, scanned once, and what pointers name in it; and whether two texts are one event that its sender wrote
//! twice.

use std::borrow::Cow;
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::by_value;
use super::scan::{Scan, unescaped};
use super::tree::{Tree, VALUES_N_MAX};
use crate::types::{BodyDigest, Renderings};

/// A value's text, and its position in the tree.
type Found<'a> = (&'a str, Option<usize>);

/// Result of following a pointer.
#[derive(Debug, PartialEq, Eq)]
pub enum PointerTarget<'a> {
    /// The raw text of one value.
    One(&'a [u8]),
    /// No such key or index.
    Missing,
    /// A key of the path is in its object more than once.
    Doubled,
    /// The text is not JSON.
    NotJson,
}

/// A JSON text, scanned once: its values are at hand for every pointer.
pub struct Document<'a> {
    tree: Tree<'a>,
}

impl<'a> Document<'a> {
    /// `None` when `json` is not JSON.
    pub fn parse(json: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(json.trim_ascii()).ok()?;
        Some(Self { tree: Tree::parse(text, VALUES_N_MAX)? })
    }

    /// Finds what `pointer` (RFC 6901) names.
    pub fn find(&self, pointer: &str) -> PointerTarget<'a> {
        let has_escapes = pointer.contains('~');
        let mut found = (self.tree.get(0).map_or("", |whole| whole.raw), Some(0));
        let mut rest = pointer.split_once('/').map(|(_, rest)| rest);
        while let Some(steps) = rest {
            // Byte by byte: steps are short.
            let end = steps.bytes().position(|byte| byte == b'/');
            let step = steps.get(..end.unwrap_or(steps.len())).unwrap_or_default();
            let step = if has_escapes { unescaped(step) } else { Cow::Borrowed(step) };
            found = match self.child(found, &step) {
                Named::One(child) => child,
                Named::Missing => return PointerTarget::Missing,
                Named::Doubled => return PointerTarget::Doubled,
            };
            rest = end.and_then(|end| steps.get(end + 1..));
        }
        PointerTarget::One(found.0.as_bytes())
    }

    /// The value that one step of a pointer names: its text, and its position where it is in the tree.
    fn child(&self, (raw, node): Found<'a>, step: &str) -> Named<Found<'a>> {
        let open = node.filter(|node| self.tree.get(*node).is_some_and(|node| node.is_open));
        let Some(node) = open else { return child(raw, step).map(|raw| (raw, None)) };
        let mut inside = self.tree.inside(node);
        let child = if raw.starts_with('{') {
            // Most names differ in length or in the first byte, and comparing those calls nothing.
            let first = step.as_bytes().first();
            only(inside.filter(|(_, it)| it.name().as_bytes().first() == first && it.name() == step))
        } else {
            step.parse().ok().and_then(|n| inside.nth(n)).map_or(Named::Missing, Named::One)
        };
        child.map(|(node, value)| (value.raw, Some(node)))
    }

    /// The id-like text that `pointer` names: a string unescaped, or a whole number as it is written. Says
    /// why there is none.
    pub fn text(&self, pointer: &str) -> Result<String, String> {
        text(&self.find(pointer), pointer)
    }

    /// Digest of the `json` this was parsed from by its value, without the values at `volatile`: see `by_value.rs`.
    pub fn digest_without(&self, json: &[u8], volatile: &[String]) -> BodyDigest {
        let found = |pointer: &String| match self.find(pointer) {
            PointerTarget::One(raw) => Some(raw),
            _ => None,
        };
        let cuts: Vec<&[u8]> = volatile.iter().filter_map(found).collect();
        by_value::digest(&self.tree, &cuts).unwrap_or_else(|| digest_by_bytes(json, &cuts))
    }
}

/// SHA-256 of `json` without these parts of it.
fn digest_by_bytes(json: &[u8], cuts: &[&[u8]]) -> BodyDigest {
    let start = json.as_ptr().addr();
    let range = |raw: &&[u8]| {
        let from = raw.as_ptr().addr().checked_sub(start)?;
        Some(from..from + raw.len())
    };
    let mut cuts: Vec<Range<usize>> = cuts.iter().filter_map(range).collect();
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

/// [`Document::find`] for a single look.
pub fn find<'a>(json: &'a [u8], pointer: &str) -> PointerTarget<'a> {
    Document::parse(json).map_or(PointerTarget::NotJson, |document| document.find(pointer))
}

/// [`Document::text`] for a single look.
pub fn text_of(json: &[u8], pointer: &str) -> Result<String, String> {
    Document::parse(json).ok_or("the body is not JSON")?.text(pointer)
}

/// The id-like text of what `pointer` led to, or why it has none.
pub fn text(found: &PointerTarget<'_>, pointer: &str) -> Result<String, String> {
    id_text(found).map_err(|why| format!("{pointer} {why}"))
}

/// [`text`] for callers who do not tell why there is none, which takes longer than to find out.
pub fn id_text(found: &PointerTarget<'_>) -> Result<String, &'static str> {
    let raw = match found {
        PointerTarget::One(raw) => *raw,
        PointerTarget::Doubled => return Err("is there twice"),
        PointerTarget::Missing | PointerTarget::NotJson => return Err("is missing"),
    };
    match raw {
        b"\"\"" => Err("is empty"),
        [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => Ok(owned(plain)),
        [b'"', ..] => serde_json::from_slice(raw).map_err(|_| "is not valid text"),
        [b'-' | b'0'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => Ok(owned(raw)),
        [b't' | b'f', ..] => Ok(owned(raw)),
        _ => Err("is neither a text nor a whole number"),
    }
}

/// A text in memory of its own. It is one, which is found out faster than what of it is not.
fn owned(text: &[u8]) -> String {
    std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text).into_owned(), str::to_owned)
}

/// The value that one step of a pointer names in an object or array.
fn child<'a>(raw: &'a str, step: &str) -> Named<&'a str> {
    let mut found = Named::Missing;
    let mut scan = Scan::new(raw);
    let is_whole = match raw.as_bytes().first() {
        Some(b'{') => scan.members(|scan, name| {
            let (name, value) = (name.decoded()?, scan.value()?);
            if name == step {
                found = if matches!(found, Named::Missing) { Named::One(value) } else { Named::Doubled };
            }
            Some(())
        }),
        Some(b'[') => {
            let Ok(wanted_n) = step.parse::<usize>() else { return Named::Missing };
            let mut n = 0;
            scan.elements(|scan| {
                let value = scan.value()?;
                if n == wanted_n {
                    found = Named::One(value);
                }
                n += 1;
                Some(())
            })
        }
        _ => None,
    };
    is_whole.map_or(Named::Missing, |()| found)
}

/// Ranges of the elements of the array `list`; `None` when it is not an array.
pub fn elements(list: &[u8]) -> Option<Vec<Range<usize>>> {
    first_elements(list, usize::MAX)
}

/// Finds elements as [`elements`] does: the first `n_max` and one more, so that the caller sees that there are more.
pub fn first_elements(list: &[u8], n_max: usize) -> Option<Vec<Range<usize>>> {
    let list = std::str::from_utf8(list).ok()?;
    let mut ranges = Vec::new();
    let mut scan = Scan::new(list);
    scan.elements(|scan| {
        let range = scan.range_of(|scan| scan.value().map(drop))?;
        if ranges.len() <= n_max {
            ranges.push(range);
        }
        Some(())
    })?;
    scan.next().is_none().then_some(ranges)
}

/// The members of the object `json` with their raw values, in its order; `None` when it is not an object.
pub fn members(json: &[u8]) -> Option<Vec<(Cow<'_, str>, &[u8])>> {
    let mut scan = Scan::new(std::str::from_utf8(json.trim_ascii()).ok()?);
    let mut members = Vec::new();
    scan.members(|scan, name| {
        members.push((name.decoded()?, scan.value()?.as_bytes()));
        Some(())
    })?;
    scan.next().is_none().then_some(members)
}

/// The members that go by one name: one, none, or more.
enum Named<T> {
    One(T),
    Missing,
    Doubled,
}

impl<T> Named<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Named<U> {
        match self {
            Self::One(one) => Named::One(change(one)),
            Self::Missing => Named::Missing,
            Self::Doubled => Named::Doubled,
        }
    }
}

/// The only one of those that fit a name.
fn only<T>(mut named: impl Iterator<Item = T>) -> Named<T> {
    match (named.next(), named.next()) {
        (Some(one), None) => Named::One(one),
        (None, _) => Named::Missing,
        (Some(_), Some(_)) => Named::Doubled,
    }
}

/// True when `first` and `second` are JSON texts of one event, as far as these fields show.
pub fn is_rendering(by: &Renderings, first: &[u8], second: &[u8]) -> bool {
    let (Some(first), Some(second)) = (Document::parse(first), Document::parse(second)) else { return false };
    let both = |pointer: &str| Ok::<_, Ambiguous>((at(&first, pointer)?, at(&second, pointer)?));
    let is_same = |pointer: &String| match both(pointer) {
        Ok((Some(one), Some(other))) => is_equal(one, other),
        Ok((None, None)) => true,
        Ok(_) | Err(Ambiguous) => false,
    };
    let differs = matches!(both(&by.differs), Ok((Some(one), Some(other))) if !is_equal(one, other));
    differs && by.same.iter().all(is_same)
}

/// Two readers may see two values at one pointer.
struct Ambiguous;

/// The value at a pointer, if there is one.
fn at<'a>(json: &Document<'a>, pointer: &str) -> Result<Option<&'a str>, Ambiguous> {
    match json.find(pointer) {
        PointerTarget::One(b"null") | PointerTarget::Missing => Ok(None),
        PointerTarget::One(raw) => std::str::from_utf8(raw).map(Some).map_err(|_| Ambiguous),
        PointerTarget::Doubled | PointerTarget::NotJson => Err(Ambiguous),
    }
}

/// True when two values are equal, however they are written.
fn is_equal(one: &str, other: &str) -> bool {
    let digest = |text| by_value::digest(&Tree::parse(text, VALUES_N_MAX)?, &[]);
    one == other || digest(one).is_some_and(|digest_of_one| digest(other) == Some(digest_of_one))
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
    fn pointers_lead_into_objects_and_arrays() {
        let many: Vec<String> = (0..128).map(|n| format!("\"m{n}\":{n}")).collect();
        let json = format!(
            r#"{{"a":{{"b":{{"x":1,"y":2,"y":3,"z":{{"x":4}}}},"c":{{"\u0078":5,"w":6}},"d":{{{}}},"e":[7,{{"x":8}}],"f":9}}}}"#,
            many.join(",")
        );
        let document = Document::parse(json.as_bytes()).expect("JSON");
        let pointers = "/a/b/x /a/b/y /a/b/v /a/b/z/x /a/b/x /a/c/x /a/c/w /a/b/x /a/d/m100 /a/d/v /a/e/0 /a/e/1/x \
            /a/e/2 /a/f/x /a/b/z/x/y /a/b/x";
        let pointers: Vec<&str> = pointers.split(' ').collect();
        let found = pointers.iter().map(|pointer| document.text(pointer).unwrap_or_default());
        assert_eq!(found.collect::<Vec<_>>().join(","), "1,,,4,1,5,6,1,100,,7,8,,,,1");
        assert_eq!(document.find("/a/b/y"), PointerTarget::Doubled);
    }

    #[test]
    fn digest_leaves_out_what_the_kind_names_volatile() {
        let volatile = ["/pending_webhooks".to_owned(), "/missing".to_owned()];
        let digest = |json: &str| {
            Document::parse(json.as_bytes()).expect("JSON").digest_without(json.as_bytes(), &volatile)
        };
        assert_eq!(digest(r#"{"id":1,"pending_webhooks":1}"#), digest(r#"{"id":1,"pending_webhooks":22}"#));
        assert_eq!(
            digest(r#"{"id":1,"pending_webhooks":1}"#),
            digest(r#"{ "pending_webhooks":{"n":2}, "id":1}"#)
        );
        assert_ne!(digest(r#"{"id":1,"pending_webhooks":1}"#), digest(r#"{"id":2,"pending_webhooks":1}"#));
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let by_bytes = |n: u8| digest(&format!(r#"{{"id":{deep},"pending_webhooks":{n}}}"#));
        assert_eq!(by_bytes(1), by_bytes(2), "what is compared by its bytes, too");
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

    #[test]
    fn two_texts_are_one_event_when_all_that_is_named_is_equal_and_they_differ_where_they_may() {
        let by = Renderings {
            same: vec!["/id".to_owned(), "/account".to_owned(), "/data/object/id".to_owned()],
            differs: "/api_version".to_owned(),
        };
        let first = r#"{"id":"evt_1","api_version":"2024-06-20","data":{"object":{"id":"pi_1","amount":1}}}"#;
        for (second, want) in [
            (
                r#"{"api_version":"2025-03-31.basil","data":{"object":{"id":"pi_1","sum":1}},"id":"\u0065vt_1"}"#,
                true,
            ),
            (r#"{"id":"evt_1","api_version":"2025","account":null,"data":{"object":{"id":"pi_1"}}}"#, true),
            // The same version says another thing: that is not a rendering.
            (
                r#"{"id":"evt_1","api_version":"2024-06-20","data":{"object":{"id":"pi_1","amount":2}}}"#,
                false,
            ),
            (r#"{"id":"evt_1","data":{"object":{"id":"pi_1","amount":1}}}"#, false),
            (r#"{"id":"evt_1","api_version":null,"data":{"object":{"id":"pi_1"}}}"#, false),
            (r#"{"id":"evt_2","api_version":"2025","data":{"object":{"id":"pi_1"}}}"#, false),
            (
                r#"{"id":"evt_1","api_version":"2025","account":"acct_1","data":{"object":{"id":"pi_1"}}}"#,
                false,
            ),
            (r#"{"id":"evt_1","api_version":"2025","data":{"object":{"id":"pi_2"}}}"#, false),
            (r#"{"id":"evt_1","api_version":"2025","data":{"object":{}}}"#, false),
            (r#"{"id":"evt_1","id":"evt_1","api_version":"2025","data":{"object":{"id":"pi_1"}}}"#, false),
            (
                r#"{"id":"evt_1","api_version":"2025","api_version":"2024","data":{"object":{"id":"pi_1"}}}"#,
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_rendering(&by, first.as_bytes(), second.as_bytes()), want, "{second}");
            assert_eq!(is_rendering(&by, second.as_bytes(), first.as_bytes()), want, "{second}");
        }
    }
}
