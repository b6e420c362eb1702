//! The text at one place of a request.

use super::{Read, Reader};
use crate::json::{Document, Lookup, members, text};
use crate::spec::Source;

impl Reader<'_> {
    /// The text at one place, or why there is none.
    pub(super) fn text(&self, source: &Source, read: Read<'_>) -> Result<String, String> {
        let json = || read.document.ok_or("the body is not JSON");
        match source {
            Source::Json(pointers) => first_text(json()?, pointers),
            Source::Outer(pointers) => first_text(self.outer.ok_or("the body is not JSON")?, pointers),
            Source::Text(text) => Ok(text.clone()),
            Source::Place(_) => Ok(read.event_n.to_string()),
            Source::List(_) => self.list.map(str::to_owned).ok_or_else(|| "it is in no list".to_owned()),
            Source::Member(names) => member(json()?, names),
            Source::OnlyMember(_) => only_member(read.text),
            Source::SignedId(_) => signed(self.believed.signed_id(), "id"),
            Source::SignedTime(_) => signed(self.believed.signed_time(), "time"),
            Source::Header(names) => {
                let present = names.split('|').find_map(|name| self.headers.get(name));
                let value = present.ok_or_else(|| format!("header `{names}` is missing"))?;
                let text = value.to_str().map_err(|_| format!("header `{names}` is not ASCII text"))?;
                if text.is_empty() { Err(format!("header `{names}` is empty")) } else { Ok(text.to_owned()) }
            }
        }
    }
}

fn signed(text: Option<&str>, what: &str) -> Result<String, String> {
    text.map(str::to_owned).ok_or_else(|| format!("the signature covers no {what}"))
}

/// The text at the first of the pointers, separated by `|`, that leads anywhere.
fn first_text(json: &Document<'_>, pointers: &str) -> Result<String, String> {
    let all = pointers.split('|').map(|pointer| (json.find(pointer), pointer));
    let mut first = None;
    for (found, pointer) in all {
        if !matches!(found, Lookup::Missing | Lookup::One(b"null")) {
            return text(&found, pointer);
        }
        first = first.or(Some((found, pointer)));
    }
    first.map_or_else(|| json.text(""), |(found, pointer)| text(&found, pointer))
}

/// Which of the members, separated by `|`, is there: a name, or a pointer whose last step counts.
fn member(json: &Document<'_>, names: &str) -> Result<String, String> {
    let is_there = |name: &&str| {
        let pointer = if name.starts_with('/') { (*name).to_owned() } else { format!("/{name}") };
        matches!(json.find(&pointer), Lookup::One(_))
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
