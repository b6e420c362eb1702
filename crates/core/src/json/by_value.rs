//! Writes a JSON text again in one way: for its digest by value, which all writings of one value share, and as
//! [`rewritten`] for senders that sign such a text instead of the bytes that they send.
//!
//! In the digest, white space does not count. Members are sorted by name, those of one name stay in their order, so
//! that what a reader of the first and a reader of the last of them sees is in it. Names and texts count as they are
//! meant, escaped or not, and numbers as they are written: a reader may see `1.0` as another amount than `1`, and no
//! two numbers beyond 2^53 are one. What has no such value (a text that is half a surrogate pair), or is larger than
//! the bounds, is compared by its bytes. The bounds are of the value, not of its writing, so that both writings are on
//! one side of them.

use std::borrow::Cow;
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::scan::{Scan, push_text};
use crate::types::BodyDigest;

/// Most values of a text that is compared by value: their places take memory.
const VALUES_N_MAX: usize = 65_536;
/// Most arrays and objects inside of one another: `serde_json` reads no more than 128.
const DEPTH_MAX: usize = 128;
/// Bytes that are written before they are passed on.
const CHUNK_BYTES: usize = 16 << 10;

/// SHA-256 of the value that `text` writes, without the values that begin at the addresses `cuts`; `None` where it is
/// to be compared by its bytes.
pub(super) fn digest(text: &str, cuts: &[usize]) -> Option<BodyDigest> {
    let mut digest = Sha256::new();
    let by = Rewrite {
        is_sorted: true,
        values_n_max: VALUES_N_MAX,
        depth_max: DEPTH_MAX,
        number: |text| Cow::Borrowed(text),
    };
    write(text, cuts, &by, |part| digest.update(part))?;
    Some(digest.finalize().into())
}

/// How a text is written again: without white space, and texts as JSON has them.
pub struct Rewrite {
    /// True when the members of objects are sorted by their names; those of one name stay in their order.
    pub is_sorted: bool,
    /// Most values of a text: what is kept of each takes memory.
    pub values_n_max: usize,
    /// Most arrays and objects inside of one another: each takes stack.
    pub depth_max: usize,
    /// Writes a number, of which it gets the text.
    pub number: fn(&str) -> Cow<'_, str>,
}

/// The value of `json` in one writing; `None` when `json` is not JSON, or beyond the bounds.
pub fn rewritten(json: &[u8], by: &Rewrite) -> Option<Vec<u8>> {
    let mut written = Vec::with_capacity(json.len());
    write(str::from_utf8(json).ok()?, &[], by, |part| written.extend_from_slice(part.as_bytes()))?;
    Some(written)
}

fn write(text: &str, cuts: &[usize], by: &Rewrite, flush: impl FnMut(&str)) -> Option<()> {
    let mut values = Values { cuts, by, left_n: by.values_n_max, open: Vec::new(), closed: Vec::new() };
    let mut scan = Scan::new(text);
    let whole = values.value(&mut scan, by.depth_max)?;
    let capacity = text.len().min(2 * CHUNK_BYTES);
    let mut writer = Writer { number: by.number, flush, text: String::with_capacity(capacity) };
    writer.value(&values.closed, &whole)?;
    (writer.flush)(&writer.text);
    scan.next().is_none().then_some(())
}

enum Value<'a> {
    /// A number, a word, or a text that stands for itself: as it is written.
    Plain(&'a str),
    /// A text that was escaped.
    Text(Cow<'a, str>),
    /// Ranges of [`Values::closed`].
    Object(Range<usize>),
    Array(Range<usize>),
    Cut,
}

/// A member of an object, or without a name an element of an array.
struct Member<'a> {
    name: Cow<'a, str>,
    value: Value<'a>,
}

/// The values of a text, without a list of their own for each array and object.
struct Values<'a, 'b> {
    cuts: &'b [usize],
    by: &'b Rewrite,
    left_n: usize,
    /// Members of what is being read.
    open: Vec<Member<'a>>,
    /// Members of what was read, in their order; those of one array or object stand together.
    closed: Vec<Member<'a>>,
}

impl<'a> Values<'a, '_> {
    fn value(&mut self, scan: &mut Scan<'a>, depth_left: usize) -> Option<Value<'a>> {
        self.left_n = self.left_n.checked_sub(1)?;
        let first = scan.next()?;
        if self.cuts.contains(&scan.address()) {
            return scan.value().map(|_| Value::Cut);
        }
        let from = self.open.len();
        match first {
            b'{' => {
                let inside = depth_left.checked_sub(1)?;
                scan.members(|scan, name| {
                    let (name, value) = (name.decoded()?, self.value(scan, inside)?);
                    self.open.push(Member { name, value });
                    Some(())
                })?;
                if self.by.is_sorted {
                    // Stable: those of one name stay in their order.
                    self.open.get_mut(from..)?.sort_by(|a, b| a.name.cmp(&b.name));
                }
                Some(Value::Object(self.close(from)))
            }
            b'[' => {
                let inside = depth_left.checked_sub(1)?;
                scan.elements(|scan| {
                    let value = self.value(scan, inside)?;
                    self.open.push(Member { name: Cow::Borrowed(""), value });
                    Some(())
                })?;
                Some(Value::Array(self.close(from)))
            }
            b'"' => {
                let (text, whole) = scan.text()?;
                Some(if text.is_escaped { Value::Text(text.decoded()?) } else { Value::Plain(whole) })
            }
            _ => scan.value().map(Value::Plain),
        }
    }

    fn close(&mut self, from: usize) -> Range<usize> {
        let at = self.closed.len();
        self.closed.extend(self.open.drain(from..));
        at..self.closed.len()
    }
}

/// Writes values in one way, and passes on what it has written.
struct Writer<F> {
    number: fn(&str) -> Cow<'_, str>,
    flush: F,
    text: String,
}

impl<F: FnMut(&str)> Writer<F> {
    fn value(&mut self, all: &[Member<'_>], value: &Value<'_>) -> Option<()> {
        match value {
            Value::Plain(text) if text.starts_with('"') => self.push(text),
            Value::Plain(text) => self.push(&(self.number)(text)),
            Value::Text(text) => push_text(&mut self.text, text),
            Value::Cut => {}
            Value::Object(range) | Value::Array(range) => {
                let is_object = matches!(value, Value::Object(_));
                let (begin, end) = if is_object { ('{', '}') } else { ('[', ']') };
                self.text.push(begin);
                for (n, member) in all.get(range.clone())?.iter().enumerate() {
                    if n > 0 {
                        self.text.push(',');
                    }
                    if is_object {
                        match &member.name {
                            // Unescaped, so it is written as it stood.
                            Cow::Borrowed(name) => {
                                self.text.push('"');
                                self.text.push_str(name);
                                self.text.push('"');
                            }
                            Cow::Owned(name) => push_text(&mut self.text, name),
                        }
                        self.text.push(':');
                    }
                    self.value(all, &member.value)?;
                }
                self.text.push(end);
            }
        }
        Some(())
    }

    fn push(&mut self, text: &str) {
        if self.text.len() + text.len() > CHUNK_BYTES {
            (self.flush)(&self.text);
            self.text.clear();
        }
        if text.len() > CHUNK_BYTES {
            (self.flush)(text);
        } else {
            self.text.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::*;
    use crate::json::Document;

    fn of(json: &str) -> BodyDigest {
        Document::parse(json.as_bytes()).expect("JSON").digest_without(json.as_bytes(), &[])
    }

    #[test]
    fn two_writings_of_one_value_have_one_digest() {
        for (one, other) in [
            (r#"{"a":1,"b":[true,null]}"#, "\n{ \"b\" : [ true , null ],\t\"a\":1 } \r\n"),
            (r#"{"b":{"d":1,"c":2},"a":{}}"#, r#"{"a":{ },"b":{"c":2,"d":1}}"#),
            (r#"{"id":"evt","é":"/"}"#, r#"{"\u00e9":"\/","\u0069d":"\u0065vt"}"#),
            (r#"["a\nb","\ud83d\ude00"]"#, "[\"a\\u000Ab\",\"\u{1f600}\"]"),
            ("[ ]", "[]"),
            (" 12.50 ", "12.50"),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
    }

    #[test]
    fn another_value_has_another_digest_and_so_has_a_number_that_is_written_another_way() {
        let all = [
            r#"{"a":1}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e0}"#,
            r#"{"a":"1"}"#,
            r#"{"a":-0}"#,
            r#"{"a":0}"#,
            r#"{"a":9007199254740993}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":null}"#,
            r#"{"a":"null"}"#,
            r#"{"A":1}"#,
            "{}",
            r#"{"":1}"#,
            "[]",
            "[[]]",
            "[{}]",
            "[1,2]",
            "[2,1]",
            "[12]",
            r#"["1,2"]"#,
            // Readers of the first and of the last of two see different things in each of these.
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
            r#"{"a":2}"#,
            // Texts that are none: by their bytes.
            r#"["\ud800"]"#,
            r#"["\uD800"]"#,
            r#"["\\ud800"]"#,
        ];
        let digests: std::collections::BTreeSet<BodyDigest> = all.into_iter().map(of).collect();
        assert_eq!(digests.len(), all.len());
        assert_eq!(
            of(r#"{"a":1,"b":0,"a":2}"#),
            of(r#"{"b":0,"\u0061":1,"a":2}"#),
            "of one name, in their order"
        );
    }

    #[test]
    fn what_is_too_large_or_too_deep_is_compared_by_its_bytes() {
        for (least, most) in [("[", "]"), (r#"{"b":0,"a":"#, "}")] {
            let nested = |n: usize| format!("{}1{}", least.repeat(n), most.repeat(n));
            let (fits, deep) = (nested(DEPTH_MAX), nested(DEPTH_MAX + 1));
            assert_eq!(of(&fits), of(&format!("{fits} ")));
            assert_ne!(of(&deep), of(&format!("{deep} ")));
        }
        let list = |n: usize| format!("[{}0]", "0,".repeat(n - 1));
        let (fits, long) = (list(VALUES_N_MAX - 1), list(VALUES_N_MAX));
        assert_eq!(of(&fits), of(&format!("{fits} ")));
        assert_ne!(of(&long), of(&format!("{long} ")));
        let text = format!("[\"{}\",1]", "x".repeat(3 * CHUNK_BYTES));
        assert_eq!(of(&text), of(&text.replace(',', " , ")), "a long text is hashed where it stands");
        assert_ne!(of(&text), of(&text.replace(",1", ",2")));
    }

    /// Values of a few names, so that objects share them.
    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            "[a-c\"\\\\/é\n]{0,3}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map("[a-c\"é]{0,2}", inner, 0..4)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The value in another writing: members the other way round, each character of a text escaped, with blanks.
    fn rewritten(json: &Json) -> String {
        let text = |text: &str| {
            let escaped =
                text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect::<Vec<_>>().concat();
            format!("\"{escaped}\"")
        };
        match json {
            Json::String(one) => text(one),
            Json::Array(list) => {
                format!("[ {} ]", list.iter().map(rewritten).collect::<Vec<_>>().join(" , "))
            }
            Json::Object(members) => {
                let member =
                    |(name, value): (&String, &Json)| format!("{} : {}", text(name), rewritten(value));
                format!("\n{{ {} }}", members.iter().rev().map(member).collect::<Vec<_>>().join(","))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn digests_are_equal_exactly_where_serde_json_reads_equal_values(one in json(), other in json()) {
            prop_assert_eq!(of(&one.to_string()), of(&rewritten(&one)));
            prop_assert_eq!(of(&one.to_string()) == of(&other.to_string()), one == other);
        }
    }
}
