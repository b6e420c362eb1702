//! A body's JSON for kinds that verify with code: parsed once, however many fields are read.

use std::borrow::Cow;

use super::redact::{place, spliced};
use hooklatch_core::json::{Document, PointerTarget, elements, find, members, text_of};

/// A JSON text, scanned once.
pub struct Json<'a>(Document<'a>);

impl<'a> Json<'a> {
    /// `None` when it is not JSON.
    pub fn parse(json: &'a [u8]) -> Option<Self> {
        Document::parse(json).map(Self)
    }

    /// The raw text that `pointer` names; `None` when it is missing or there twice.
    pub fn raw(&self, pointer: &str) -> Option<&'a [u8]> {
        match self.0.find(pointer) {
            PointerTarget::One(raw) => Some(raw),
            _ => None,
        }
    }

    /// The text, or whole number as text, that `pointer` names; or why there is none.
    pub fn text(&self, pointer: &str) -> Result<String, String> {
        self.0.text(pointer)
    }

    /// True when nothing is at `pointer`.
    pub fn is_missing(&self, pointer: &str) -> bool {
        self.0.find(pointer) == PointerTarget::Missing
    }

    /// Returns a text as [`Json::text`] does, and an empty one for a field that is missing, `null` or empty; `None`
    /// when the field is there twice or is no text.
    pub fn text_or_empty(&self, pointer: &str) -> Option<String> {
        match self.0.find(pointer) {
            PointerTarget::One(b"null" | b"\"\"") | PointerTarget::Missing => Some(String::new()),
            PointerTarget::One(_) => self.text(pointer).ok(),
            PointerTarget::Doubled | PointerTarget::NotJson => None,
        }
    }
}

/// The raw text that `pointer` names in `json`; `None` when it is missing, there twice, or `json` is not
/// JSON. For kinds that verify with code.
pub fn json_raw<'a>(json: &'a [u8], pointer: &str) -> Option<&'a [u8]> {
    match find(json, pointer) {
        PointerTarget::One(raw) => Some(raw),
        _ => None,
    }
}

/// The text, or whole number as text, that `pointer` names; or why there is none.
pub fn json_text(json: &[u8], pointer: &str) -> Result<String, String> {
    text_of(json, pointer)
}

/// The same JSON with another text in the place of the value at `pointer`; `None` when there is no such value, or it
/// is no JSON with the other text in it.
pub fn json_with(json: &[u8], pointer: &str, text: &[u8]) -> Option<Vec<u8>> {
    let place = place(json, json, pointer)?;
    let made = spliced(json, &[(place, text)]);
    Document::parse(&made)?;
    Some(made)
}

/// True when `json` is JSON and nothing is at `pointer`.
pub fn json_is_missing(json: &[u8], pointer: &str) -> bool {
    find(json, pointer) == PointerTarget::Missing
}

/// The members of a JSON object: names and raw texts, in their order; one that is there twice stays so. `None` when it is
/// no object.
pub fn json_members(json: &[u8]) -> Option<Vec<(Cow<'_, str>, &[u8])>> {
    members(json)
}

/// The raw text of each element of the array at `pointer`.
pub fn json_elements<'a>(json: &'a [u8], pointer: &str) -> Option<Vec<&'a [u8]>> {
    let list = json_raw(json, pointer)?;
    elements(list)?.into_iter().map(|range| list.get(range)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_may_be_left_out_is_empty_but_never_of_another_form() {
        let json = Json::parse(br#"{"a":"x","n":7,"null":null,"e":"","d":1,"d":1,"o":{}}"#).expect("JSON");
        for (pointer, want) in [
            ("/a", Some("x")),
            ("/n", Some("7")),
            ("/null", Some("")),
            ("/e", Some("")),
            ("/no", Some("")),
            ("/d", None),
            ("/o", None),
        ] {
            assert_eq!(json.text_or_empty(pointer).as_deref(), want, "{pointer}");
        }
        assert_eq!((json.raw("/o"), json.raw("/d")), (Some(b"{}".as_slice()), None));
        assert!(json.is_missing("/no") && !json.is_missing("/d") && !json.is_missing("/null"));
    }

    #[test]
    fn a_value_is_replaced_where_it_stands_and_the_rest_stays_as_it_is() {
        let json = br#"{ "a": {"b" : 1.50}, "c":2 }"#;
        assert_eq!(
            json_with(json, "/a/b", b"\"x\"").as_deref(),
            Some(br#"{ "a": {"b" : "x"}, "c":2 }"#.as_slice())
        );
        assert_eq!(json_with(json, "/a/x", b"1"), None, "no such value");
        assert_eq!(json_with(json, "/c", b"}"), None, "no JSON with it");
        assert_eq!(json_elements(br#"{"l":[1, {"x":2}]}"#, "/l"), Some(vec![b"1".as_slice(), br#"{"x":2}"#]));
        assert_eq!(json_elements(br#"{"l":{}}"#, "/l"), None);
    }
}
