//! Compares what is read here as JSON with what `serde_json` reads, member by member.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::document::{Document, PointerTarget, elements, members};
use super::tree::VALUES_N_MAX;

/// An object as `serde_json` has it: names and raw values in their order.
#[derive(Debug, PartialEq)]
struct Object(Vec<(String, String)>);

impl<'de> serde::Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some((name, raw)) = map.next_entry::<String, &RawValue>()? {
                    members.push((name, raw.get().to_owned()));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

fn object_of(json: &[u8]) -> Option<Object> {
    serde_json::from_slice(json).ok()
}

fn is_json(json: &[u8]) -> bool {
    let json = json.trim_ascii();
    if json.starts_with(b"{") {
        object_of(json).is_some()
    } else {
        serde_json::from_slice::<&RawValue>(json).is_ok()
    }
}

/// The text that `serde_json` finds at `/outer/inner`, when both names are there exactly once.
fn found(json: &[u8], outer: &str, inner: &str) -> Option<String> {
    let once = |object: Object, name: &str| {
        let mut named = object.0.into_iter().filter(|(known, _)| known == name);
        let first = named.next()?.1;
        named.next().is_none().then_some(first)
    };
    once(object_of(once(object_of(json.trim_ascii())?, outer)?.as_bytes())?, inner)
}

fn check(json: &[u8]) {
    let shown = String::from_utf8_lossy(json);
    let document = Document::parse(json);
    assert_eq!(document.is_some(), is_json(json), "{shown}");
    let own = members(json).map(|members| {
        let text = |(name, raw): (Cow<'_, str>, &[u8])| {
            (name.into_owned(), String::from_utf8_lossy(raw).into_owned())
        };
        Object(members.into_iter().map(text).collect())
    });
    assert_eq!(own, object_of(json.trim_ascii()), "{shown}");
    let elements = elements(json).map(|ranges| {
        ranges.into_iter().map(|range| String::from_utf8_lossy(&json[range]).into_owned()).collect::<Vec<_>>()
    });
    let theirs: Option<Vec<&RawValue>> = serde_json::from_slice(json).ok();
    let theirs = theirs.map(|raw| raw.into_iter().map(|one| one.get().to_owned()).collect());
    assert_eq!(elements, theirs, "{shown}");
    let Some(document) = document else { return };
    for outer in ["a", "b"] {
        for inner in ["a", "b"] {
            let own = match document.find(&format!("/{outer}/{inner}")) {
                PointerTarget::One(raw) => Some(String::from_utf8_lossy(raw).into_owned()),
                _ => None,
            };
            assert_eq!(own, found(json, outer, inner), "{shown}");
        }
    }
}

/// Pieces that JSON is made of, and some that spoil it.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        "\"\\u0061\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"\\x\"",
        "\"\u{1}\"",
        "\"é\"",
        " ",
        "\n",
        "\u{c}",
        "0",
        "01",
        "-",
        "-1",
        "1.5",
        "1.",
        "1e5",
        "1E+",
        "true",
        "tru",
        "null",
        "false",
        "\"a\":",
        "\"b\":",
        "\"a\":1",
        "\"b\":{",
        "\"a\":[",
        "\"",
        "\\",
        "a text that is longer than one block of bytes",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// JSON of members `a` and `b`, nested.
fn nested() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "\\u0061", "\\ud800", "c\\\"d"]);
    let text = "[a-zé\"\\\\ ]{0,70}".prop_map(|text| serde_json::Value::from(text).to_string());
    let plain = prop::sample::select(vec!["0", "-1.5e+3", "true", "null", "[]", "{}", " [ 1 , 2 ] "]);
    let leaf = prop_oneof![text, plain.prop_map(str::to_owned)];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let member = (name.clone(), inner.clone()).prop_map(|(name, value)| format!("\"{name}\" : {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(|list| format!("[{}]", list.join(","))),
            prop::collection::vec(member, 0..6).prop_map(|list| format!("{{{} }}", list.join("\n,"))),
        ]
    })
}

proptest! {
    #[test]
    fn any_pieces_are_json_or_not_as_serde_json_says(text in pieces()) {
        check(text.as_bytes());
    }

    #[test]
    fn members_are_those_that_serde_json_finds(text in nested(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        check(text.as_bytes());
        let mut spoilt = text.into_bytes();
        let at = cut.index(spoilt.len());
        spoilt[at] = byte;
        check(&spoilt);
    }
}

#[test]
fn what_has_more_values_than_are_kept_is_searched() {
    let many: Vec<String> = (0..VALUES_N_MAX).map(|n| format!("\"m{n}\":{n}")).collect();
    let many = many.join(",");
    let json = format!(
        r#"{{"w":[1,{{"m1":0}}],"x":{{{many}}},"y":{{{many},"m1":2}},"z":[{{{many}}},{{"m1":[3,4]}}],"\u0076":{{"\ud800":1,"m1":5}}}}"#
    );
    let (document, last) = (Document::parse(json.as_bytes()).expect("JSON"), VALUES_N_MAX - 1);
    let find = |pointer: &str| document.find(pointer);
    assert_eq!(find(&format!("/x/m{last}")), PointerTarget::One(last.to_string().as_bytes()));
    assert_eq!(find(&format!("/x/m{VALUES_N_MAX}")), PointerTarget::Missing);
    assert_eq!(find("/w/1/m1"), PointerTarget::One(b"0"));
    assert_eq!(find("/y/m1"), PointerTarget::Doubled);
    assert_eq!(find("/z/0/m7"), PointerTarget::One(b"7"));
    assert_eq!(find("/z/1/m1/1"), PointerTarget::One(b"4"));
    assert_eq!(find("/z/1/m1/x"), PointerTarget::Missing);
    assert_eq!(find("/v/m1"), PointerTarget::Missing, "beside a name that is no text");
    let flat = format!("{{{many}}}");
    let document = Document::parse(flat.as_bytes()).expect("JSON");
    assert_eq!(document.find("/m65535"), PointerTarget::One(b"65535"));
    assert_eq!(document.find("/m1/x"), PointerTarget::Missing);
}
