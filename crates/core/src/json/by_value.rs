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

use sha2::{Digest, Sha256};

use super::scan::push_text;
use super::tree::{Node, Tree, VALUES_N_MAX};
use crate::types::BodyDigest;

/// Most arrays and objects inside of one another: `serde_json` reads no more than 128.
const DEPTH_MAX: usize = 128;
/// Bytes that are written before they are passed on.
const CHUNK_BYTES: usize = 16 << 10;

/// SHA-256 of the value that a text writes, without its parts `cuts`; `None` where it is to be compared by its
/// bytes.
pub(super) fn digest(tree: &Tree<'_>, cuts: &[&[u8]]) -> Option<BodyDigest> {
    let mut digest = Sha256::new();
    let by = Rewrite {
        is_sorted: true,
        values_n_max: VALUES_N_MAX,
        depth_max: DEPTH_MAX,
        number: |text| Cow::Borrowed(text),
    };
    write(tree, cuts, &by, |part| digest.update(part))?;
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
    let tree = Tree::parse(str::from_utf8(json).ok()?, by.values_n_max)?;
    write(&tree, &[], by, |part| written.extend_from_slice(part.as_bytes()))?;
    Some(written)
}

fn write(tree: &Tree<'_>, cuts: &[&[u8]], by: &Rewrite, flush: impl FnMut(&str)) -> Option<()> {
    let whole = tree.get(0).filter(|_| tree.is_whole)?;
    let text = String::with_capacity(whole.raw.len().min(2 * CHUNK_BYTES));
    let mut writer = Writer { tree, cuts, by, flush, text, order: Vec::new() };
    writer.value(0, by.depth_max)?;
    (writer.flush)(&writer.text);
    Some(())
}

/// Writes values in one way, and passes on what it has written.
struct Writer<'t, 'a, F> {
    tree: &'t Tree<'a>,
    cuts: &'t [&'t [u8]],
    by: &'t Rewrite,
    flush: F,
    text: String,
    /// Positions of the values of those arrays and objects that are being written, as they are to be written.
    order: Vec<usize>,
}

impl<F: FnMut(&str)> Writer<'_, '_, F> {
    fn value(&mut self, node: usize, depth_left: usize) -> Option<()> {
        let tree = self.tree;
        let value = tree.get(node)?;
        if self.cuts.iter().any(|cut| std::ptr::eq(*cut, value.raw.as_bytes())) {
            return Some(());
        }
        match value.raw.as_bytes().first()? {
            b'{' => return self.list(node, depth_left, ('{', '}')),
            b'[' => return self.list(node, depth_left, ('[', ']')),
            b'"' if value.is_escaped => {
                push_text(&mut self.text, &serde_json::from_str::<String>(value.raw).ok()?);
            }
            b'"' => self.push(value.raw),
            _ => self.push(&(self.by.number)(value.raw)),
        }
        Some(())
    }

    fn list(&mut self, node: usize, depth_left: usize, (begin, end): (char, char)) -> Option<()> {
        let (tree, inside) = (self.tree, depth_left.checked_sub(1)?);
        let from = self.order.len();
        self.order.extend(tree.inside(node).map(|(node, _)| node));
        let to = self.order.len();
        if begin == '{' && self.by.is_sorted {
            let name = |node: &usize| tree.get(*node).map(Node::name);
            // Stable: those of one name stay in their order.
            self.order.get_mut(from..)?.sort_by(|a, b| name(a).cmp(&name(b)));
        }
        self.text.push(begin);
        for n in from..to {
            if n > from {
                self.text.push(',');
            }
            let node = *self.order.get(n)?;
            if begin == '{' {
                match &tree.get(node)?.name {
                    // Unescaped, so it is written as it stood.
                    Cow::Borrowed(name) => {
                        self.text.push('"');
                        self.text.push_str(name);
                        self.text.push_str("\":");
                    }
                    Cow::Owned(name) => {
                        push_text(&mut self.text, name);
                        self.text.push(':');
                    }
                }
            }
            self.value(node, inside)?;
        }
        self.order.truncate(from);
        self.text.push(end);
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
