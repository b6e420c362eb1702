//! XML as JSON, for senders that write it: one object of texts, with the types that Rails gives its elements, and the
//! names of types that SOAP gives. Nothing is fetched and nothing is expanded but the five entities of XML itself.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Map, Value};

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
