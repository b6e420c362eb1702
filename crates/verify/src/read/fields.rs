//! Bodies for kinds that verify with code: JSON, parsed once, however many fields are read; and XML as JSON, for
//! senders that write it: one object of texts, with the types that Rails gives its elements, and the names of types
//! that SOAP gives. Nothing is fetched and nothing is expanded but the five entities of XML itself.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Map, Value};

use super::headers::{place, spliced};
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

/// The JSON with another text in the place of the value at `pointer`; `None` when there is no such value, or it
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

/// The members of a JSON object: names and raw texts, in their order; one that is there twice stays so. `None` when it
/// is no object.
pub fn json_members(json: &[u8]) -> Option<Vec<(Cow<'_, str>, &[u8])>> {
    members(json)
}

/// The raw text of each element of the array at `pointer`.
pub fn json_elements<'a>(json: &'a [u8], pointer: &str) -> Option<Vec<&'a [u8]>> {
    let list = json_raw(json, pointer)?;
    elements(list)?.into_iter().map(|range| list.get(range)).collect()
}

/// Most elements within each other.
const DEPTH_MAX: usize = 64;
/// Name that XML Schema gives to the type of an element, where SOAP writes it.
const SCHEMA_TYPE: &str = "xsi:type";
/// Name that XML Schema gives to the mark of an element without a value.
const SCHEMA_NIL: &str = "xsi:nil";

/// An element that is not closed yet.
#[derive(Default)]
struct OpenElement {
    name: String,
    form: String,
    is_nil: bool,
    /// Name of the type that `xsi:type` gives it.
    schema_type: String,
    text: String,
    children: Map<String, Value>,
    /// The children again, in their order, where the element says that it is an array.
    list: Vec<Value>,
}

/// The members of the outermost element, which has to be called `root`. `type="array"` makes an array, `integer` a
/// number, `boolean` a boolean, `nil="true"` a null; a name that is there several times is an array as well. Of an
/// element with others in it `xsi:type` is a member of that name.
pub fn xml_as_json(xml: &str, root: &str) -> Result<Value, String> {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<OpenElement> = Vec::new();
    let mut whole = None;
    loop {
        match reader.read_event().map_err(|error| format!("it is not XML: {error}"))? {
            Event::Start(_) if whole.is_some() => return Err("it has two outermost elements".to_owned()),
            Event::Start(_) if open.len() >= DEPTH_MAX => return Err("it is too deep".to_owned()),
            Event::Start(start) => open.push(opened(&start)?),
            Event::End(_) => {
                let Some(element) = open.pop() else { return Err("it is not XML".to_owned()) };
                let (name, value) = closed(element);
                match open.last_mut() {
                    Some(parent) => put(parent, name, value),
                    None if name == root => whole = Some(value),
                    None => return Err(format!("its outermost element is not `{root}`")),
                }
            }
            Event::Text(text) => push(&mut open, &text),
            Event::CData(text) => push(&mut open, &text),
            Event::GeneralRef(name) => {
                let number = name.resolve_char_ref().map_err(|error| format!("it is not XML: {error}"))?;
                match (number, resolve_xml_entity(&name)) {
                    (Some(character), _) => push(&mut open, character.encode_utf8(&mut [0; 4])),
                    (None, Some(text)) => push(&mut open, text),
                    (None, None) => return Err("it has entities of its own".to_owned()),
                }
            }
            Event::DocType(_) => return Err("it has a document type".to_owned()),
            Event::Eof => break,
            _ => {}
        }
    }
    whole.filter(|_| open.is_empty()).ok_or_else(|| "it ends too early".to_owned())
}

fn opened(start: &BytesStart<'_>) -> Result<OpenElement, String> {
    let attribute = |name: &str| {
        let found = start.try_get_attribute(name).map_err(|error| format!("it is not XML: {error}"))?;
        Ok::<_, String>(found.map(|found| found.value.to_string()).unwrap_or_default())
    };
    Ok(OpenElement {
        name: start.name().as_ref().to_owned(),
        form: attribute("type")?,
        is_nil: attribute("nil")? == "true" || attribute(SCHEMA_NIL)? == "true",
        schema_type: attribute(SCHEMA_TYPE)?,
        ..OpenElement::default()
    })
}

fn push(open: &mut [OpenElement], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn put(parent: &mut OpenElement, name: String, value: Value) {
    if parent.form == "array" {
        parent.list.push(value);
        return;
    }
    match parent.children.get_mut(&name) {
        Some(Value::Array(several)) => several.push(value),
        Some(one) => *one = Value::Array(vec![one.take(), value]),
        None => drop(parent.children.insert(name, value)),
    }
}

fn closed(mut element: OpenElement) -> (String, Value) {
    if !element.schema_type.is_empty() && !element.children.is_empty() {
        element.children.insert(SCHEMA_TYPE.to_owned(), element.schema_type.into());
    }
    let text = element.text.trim();
    let value = match element.form.as_str() {
        _ if element.is_nil => Value::Null,
        "array" => Value::Array(element.list),
        "integer" => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        "boolean" => text.parse::<bool>().map_or_else(|_| text.into(), Value::from),
        _ if element.children.is_empty() => text.into(),
        _ => Value::Object(element.children),
    };
    (element.name, value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn elements_become_members_with_their_types() {
        let xml = "<?xml version=\"1.0\"?>\n<n>\n <kind>a &amp; b&#33;</kind><no nil=\"true\"/><x/>\n\
            <ids type=\"array\"><id>1</id><id type=\"integer\">2</id></ids><c><![CDATA[<]]></c>\
            <is type=\"boolean\">true</is><r><s>1</s><s>2</s><s>3</s></r></n>\n";
        let want = json!({ "kind": "a & b!", "no": null, "x": "", "ids": ["1", 2], "c": "<", "is": true,
            "r": { "s": ["1", "2", "3"] } });
        assert_eq!(xml_as_json(xml, "n"), Ok(want));
    }

    #[test]
    fn soap_says_what_sort_of_thing_an_element_is() {
        let xml = "<s:n xmlns:s=\"u\"><o xsi:type=\"sf:Lead\"><sf:Id>1</sf:Id><sf:At xsi:nil=\"true\"/></o>\
            <p xsi:type=\"xsd:string\">x</p></s:n>";
        let want = json!({ "o": { "xsi:type": "sf:Lead", "sf:Id": "1", "sf:At": null }, "p": "x" });
        assert_eq!(xml_as_json(xml, "s:n"), Ok(want));
    }

    #[test]
    fn what_is_not_plain_xml_is_refused() {
        let deep = "<n>".repeat(DEPTH_MAX + 1);
        let bombs = "<!DOCTYPE n [<!ENTITY a \"aa\">]><n>&a;</n>";
        for bad in
            ["", "text", "<n>", "<n></m>", "<m></m>", "<n/><n/>", "<n>&a;</n>", "<n a=></n>", bombs, &deep]
        {
            assert!(xml_as_json(bad, "n").is_err(), "{bad}");
        }
    }
}
