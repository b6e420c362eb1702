//! The text at one place of a request.

use super::reader::{EventReader, EventText};
use crate::Evidence;
use crate::spec::Source;
use hooklatch_core::json::{Document, PointerTarget, members, text};

/// The text at one place, or why there is none.
pub(super) fn text_at(
    reader: &EventReader<'_>,
    source: &Source,
    event: EventText<'_>,
) -> Result<String, String> {
    let json = || event.document.ok_or("the body is not JSON");
    match source {
        Source::Json(pointers) => first_text(json()?, pointers),
        Source::Outer(pointers) => first_text(reader.outer.ok_or("the body is not JSON")?, pointers),
        Source::Text(text) => Ok(text.clone()),
        Source::Place(_) => Ok(event.event_n.to_string()),
        Source::List(_) => reader.list.map(str::to_owned).ok_or_else(|| "it is in no list".to_owned()),
        Source::Member(names) => member(json()?, names),
        Source::OnlyMember(_) => only_member(event.text),
        Source::SignedId(_) => signed(reader.believed.signed_id(), "id"),
        Source::SignedTime(_) => signed(reader.believed.signed_time(), "time"),
        Source::Header(names) => {
            let present = names.split('|').find_map(|name| reader.headers.get(name));
            let value = present.ok_or_else(|| format!("header `{names}` is missing"))?;
            let text = value.to_str().map_err(|_| format!("header `{names}` is not ASCII text"))?;
            if text.is_empty() { Err(format!("header `{names}` is empty")) } else { Ok(text.to_owned()) }
        }
    }
}

/// Several texts as one, with their lengths, so that no two lists of parts make the same.
pub(crate) fn joined(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|text| format!("{}:{text}", text.len())).collect();
    parts.join(",")
}

fn signed(text: Option<&str>, what: &str) -> Result<String, String> {
    text.map(str::to_owned).ok_or_else(|| format!("the signature covers no {what}"))
}

/// The text at the first of the pointers, separated by `|`, that leads anywhere.
fn first_text(json: &Document<'_>, pointers: &str) -> Result<String, String> {
    let all = pointers.split('|').map(|pointer| (json.find(pointer), pointer));
    let mut first = None;
    for (found, pointer) in all {
        if !matches!(found, PointerTarget::Missing | PointerTarget::One(b"null")) {
            return text(&found, pointer);
        }
        first = first.or(Some((found, pointer)));
    }
    first.map_or_else(|| json.text(""), |(found, pointer)| text(&found, pointer))
}

/// The one of the members, separated by `|`, that is there: a name, or a pointer whose last step counts.
fn member(json: &Document<'_>, names: &str) -> Result<String, String> {
    let is_there = |name: &&str| {
        let pointer = if name.starts_with('/') { (*name).to_owned() } else { format!("/{name}") };
        matches!(json.find(&pointer), PointerTarget::One(_))
    };
    let found = names.split('|').find(is_there).ok_or_else(|| format!("none of {names} is there"))?;
    Ok(found.rsplit('/').next().unwrap_or(found).to_owned())
}

fn only_member(json: &[u8]) -> Result<String, String> {
    match members(json).as_deref() {
        Some([(name, _)]) if !name.is_empty() => Ok(name.clone().into_owned()),
        Some(_) => Err("it has not one member alone".to_owned()),
        None => Err("the body is not a JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(json: &str) -> Document<'_> {
        Document::parse(json.as_bytes()).expect("JSON")
    }

    #[test]
    fn the_first_pointer_that_leads_anywhere_counts() {
        #[track_caller]
        fn check(json: &str, pointers: &str, want: Result<&str, &str>) {
            let got = first_text(&document(json), pointers);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{json} {pointers}");
        }
        check(r#"{"a":"1","b":"2"}"#, "/a|/b", Ok("1"));
        check(r#"{"b":"2"}"#, "/a|/b", Ok("2"));
        check(r#"{"a":null,"b":"2"}"#, "/a|/b", Ok("2"));
        // What is there decides, even if it is no text: another pointer would be another event.
        check(r#"{"a":{},"b":"2"}"#, "/a|/b", Err("/a is neither a text nor a whole number"));
        check(r#"{"a":"1","a":"1","b":"2"}"#, "/a|/b", Err("/a is there twice"));
        check(r#"{"a":"","b":"2"}"#, "/a|/b", Err("/a is empty"));
        check("{}", "/a|/b", Err("/a is missing"));
        check(r#"{"a":null}"#, "/a|/b", Err("/a is neither a text nor a whole number"));
    }

    #[test]
    fn a_member_is_known_by_its_name_or_by_the_last_step_to_it() {
        #[track_caller]
        fn check(json: &str, names: &str, want: Result<&str, &str>) {
            let got = member(&document(json), names);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{json} {names}");
        }
        check(r#"{"paid":{}}"#, "created|paid", Ok("paid"));
        check(r#"{"x":{"paid":1}}"#, "/x/created|/x/paid", Ok("paid"));
        check(r#"{"paid":1,"paid":2}"#, "paid", Err("none of paid is there"));
        check("[]", "paid", Err("none of paid is there"));
    }

    #[test]
    fn only_one_member_names_a_type() {
        assert_eq!(only_member(br#"{"a":[1]}"#).as_deref(), Ok("a"));
        for bad in [r#"{"a":1,"b":2}"#, r#"{"a":1,"a":2}"#, "{}", r#"{"":1}"#, "[1]", "x"] {
            assert!(only_member(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_two_lists_of_parts_make_one_text() {
        let list = |parts: &[&str]| joined(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&["a", "", "bc"]), "1:a,0:,2:bc");
        assert_ne!(list(&["a,1:b"]), list(&["a", "b"]));
        assert_ne!(list(&["", "a"]), list(&["a", ""]));
    }
}
