//! Bodies as bytes: `application/x-www-form-urlencoded`, where what a sender signed may be in any character set, and
//! bodies rewritten the way a sender writes them before it signs: JSON as JavaScript's `JSON.stringify` would, PHP's
//! `serialize`. JSON is rewritten from its raw text, so a number keeps the digits it was sent with.

use std::borrow::Cow;

use hooklatch_core::json::{Rewrite, rewritten};

/// Most fields of a form. Senders have a few dozen; a stranger's body of half a million empty ones would be sorted and
/// copied before verification.
pub const FIELDS_N_MAX: usize = 1_000;

/// A form, parsed once: names and values in their order, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form(Vec<(Vec<u8>, Vec<u8>)>);

impl Form {
    /// The reason to report when [`Form::parse`] returns `None`.
    pub const TOO_MANY: &'static str = "it has more than 1000 fields";

    /// `None` when it has more than [`FIELDS_N_MAX`] fields, which is checked before anything is decoded.
    pub fn parse(body: &[u8]) -> Option<Self> {
        if raw_pairs(body).nth(FIELDS_N_MAX).is_some() {
            return None;
        }
        Some(Self(raw_pairs(body).map(pair).collect()))
    }

    /// The one value of this name; `None` when there is none, or several.
    pub fn one(&self, name: &str) -> Option<&[u8]> {
        let mut values = self.0.iter().filter(|(known, _)| known == name.as_bytes());
        let value = &values.next()?.1;
        values.next().is_none().then_some(value)
    }

    /// Returns the value of [`Form::one`] when it is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.one(name)?).ok()
    }

    /// All fields: names and values, decoded, in their order.
    pub fn pairs(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.0
    }

    /// All fields, for kinds that sort or drop some.
    pub fn into_pairs(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0
    }
}

fn raw_pairs(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty())
}

fn pair(raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let at = raw.iter().position(|byte| *byte == b'=').unwrap_or(raw.len());
    (decoded(raw.get(..at).unwrap_or_default()), decoded(raw.get(at + 1..).unwrap_or_default()))
}

/// A form with one value put in or replaced, for kinds whose signature is a field.
pub fn form_with(body: &[u8], name: &str, value: &str) -> Vec<u8> {
    let added = form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish();
    let others = form_without(body, name);
    let pairs: Vec<&[u8]> =
        [others.as_slice(), added.as_bytes()].into_iter().filter(|part| !part.is_empty()).collect();
    pairs.join(&b'&')
}

/// A form without the fields of this name, the others as they were written.
pub(crate) fn form_without(body: &[u8], name: &str) -> Vec<u8> {
    let others: Vec<&[u8]> = raw_pairs(body).filter(|raw| pair(raw).0 != name.as_bytes()).collect();
    others.join(&b'&')
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_encoding::percent_decode(&spaced).collect()
}

/// Deepest nesting that is followed. These bodies are rewritten before verification, so a stranger
/// must not choose how deep we go: each level takes stack.
const DEPTH_MAX: usize = 64;
/// Most values in a text that is written again: what is kept of each while the whole is sorted must not grow to many
/// times the body.
const VALUES_N_MAX: usize = 100_000;

/// The JSON without white space between its parts; everything else as it is. `None` when it is not JSON, or
/// nested deeper or of more values than any sender does it.
pub fn compact_json(json: &[u8]) -> Option<Vec<u8>> {
    written(json, false)
}

/// Writes JSON as [`compact_json`] does, with the members of every object sorted by their names.
pub fn sorted_json(json: &[u8]) -> Option<Vec<u8>> {
    written(json, true)
}

fn written(json: &[u8], is_sorted: bool) -> Option<Vec<u8>> {
    rewritten(json, &Rewrite { is_sorted, values_n_max: VALUES_N_MAX, depth_max: DEPTH_MAX, number })
}

/// A number as JavaScript writes it back where that is another text: `2.00` is `2`, `1.50` is `1.5`. Integers
/// and exponents keep the digits that they were sent with.
fn number(raw: &str) -> Cow<'_, str> {
    let is_plain = raw.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'.');
    match raw.split_once('.') {
        Some((whole, fraction)) if is_plain => {
            let fraction = fraction.trim_end_matches('0');
            let whole = if fraction.is_empty() && whole == "-0" { "0" } else { whole };
            if fraction.is_empty() { whole.into() } else { format!("{whole}.{fraction}").into() }
        }
        _ => raw.into(),
    }
}

/// PHP's `serialize` of an associative array of texts. Lengths are bytes.
pub fn php_serialized(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let text = |bytes: &[u8]| [format!("s:{}:\"", bytes.len()).as_bytes(), bytes, b"\";"].concat();
    let inner: Vec<u8> = pairs.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
    [format!("a:{}:{{", pairs.len()).as_bytes(), &inner, b"}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded_as_bytes() {
        let form = |body: &[u8]| Form::parse(body).expect("a form");
        let pairs = form(b"a=1+2%2B&&b&c=%ff%zz=").into_pairs();
        let want: [(&[u8], &[u8]); 3] = [(b"a", b"1 2+"), (b"b", b""), (b"c", b"\xff%zz=")];
        assert_eq!(pairs.iter().map(|(n, v)| (n.as_slice(), v.as_slice())).collect::<Vec<_>>(), want);
        assert_eq!(form(b"a=1&b=2").one("b"), Some(b"2".as_slice()));
        assert_eq!(form(b"a=1&a=1").one("a"), None);
        assert_eq!(form(b"a=%ff").text("a"), None);
        assert!(Form::parse("a&".repeat(FIELDS_N_MAX).as_bytes()).is_some());
        assert_eq!(Form::parse("a&".repeat(FIELDS_N_MAX + 1).as_bytes()), None);
        assert_eq!(form_without(b"a=+1&%73=x&b", "s"), b"a=+1&b");
        assert_eq!(form_with(b"", "s", "x"), b"s=x");
        assert_eq!(form_with(b"a=1&s=&b=2", "s", "x+/="), b"a=1&b=2&s=x%2B%2F%3D");
    }

    #[test]
    fn json_is_written_as_javascript_would() {
        #[track_caller]
        fn check(json: &str, compact: &str, sorted: &str) {
            let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.expect("JSON")).expect("text");
            assert_eq!(text(compact_json(json.as_bytes())), compact);
            assert_eq!(text(sorted_json(json.as_bytes())), sorted);
        }
        check(
            r#" { "b" : [ 1 , { "d":"\/x" , "c":null } ] , "a" : "é\u00e9" } "#,
            r#"{"b":[1,{"d":"/x","c":null}],"a":"éé"}"#,
            r#"{"a":"éé","b":[1,{"c":null,"d":"/x"}]}"#,
        );
        check("[2.00, 1.50, 10, -0.0, 1e3]", "[2,1.5,10,0,1e3]", "[2,1.5,10,0,1e3]");
        for bad in ["", "{", "[1,]", "nul", "{\"a\":}"] {
            assert_eq!(compact_json(bad.as_bytes()), None, "{bad}");
        }
        let list = |n: usize| format!("[{}]", vec!["1"; n].join(","));
        assert!(sorted_json(list(VALUES_N_MAX - 1).as_bytes()).is_some());
        assert_eq!(sorted_json(list(VALUES_N_MAX + 1).as_bytes()), None);
        assert_eq!(
            compact_json(br#"{"\u0061\"":[ ],"b":{ }, "c" : true }"#).as_deref(),
            Some(br#"{"a\"":[],"b":{},"c":true}"#.as_slice())
        );
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(sorted_json(nested(DEPTH_MAX).as_bytes()).is_some());
        assert!(
            compact_json(format!("[\"\\\"{}\"]", "[".repeat(100)).as_bytes()).is_some(),
            "a text is not nested"
        );
        assert_eq!(sorted_json(nested(DEPTH_MAX + 1).as_bytes()), None);
        assert_eq!(sorted_json(nested(100_000).as_bytes()), None, "and not a stack that overflows");
    }

    #[test]
    fn php_counts_bytes() {
        let pairs = [(b"a".to_vec(), "é".as_bytes().to_vec())];
        assert_eq!(php_serialized(&pairs), "a:1:{s:1:\"a\";s:2:\"é\";}".as_bytes());
    }
}
