//! The ids inside an event that operators search for: the places that its kind names, and the parts of a composed id.

use super::reader::{EventReader, EventText};
use super::source::text_at;
use crate::rfc3339_ms;
use crate::spec::SEARCH_N_MAX;
use hooklatch_core::types::{SEARCH_CHARS_MIN, folded_id, id_parts, stored_text};

/// The ids, in lower case, each once. A place with no text, a doubled key, and what is too short or too long are
/// skipped: an event is never refused because of its search ids.
pub(crate) fn search_ids(reader: &EventReader<'_>, event: EventText<'_>, event_id: &str) -> Vec<String> {
    if !reader.has_search {
        return Vec::new();
    }
    let named = reader.spec.search.0.iter().filter_map(|source| text_at(reader, source, event).ok());
    let parts = id_parts(event_id).into_iter().filter(|part| is_telling(part)).map(str::to_owned);
    let mut ids: Vec<String> = Vec::new();
    for text in named.chain(parts).filter(|text| stored_text(text).is_ok()) {
        let id = folded_id(text);
        let is_possible = id.chars().nth(SEARCH_CHARS_MIN - 1).is_some() && stored_text(&id).is_ok();
        if is_possible && ids.len() < SEARCH_N_MAX && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// True for a part that may be an id. Types have no digits, and a time finds nothing that the time does not.
fn is_telling(part: &str) -> bool {
    part.bytes().any(|byte| byte.is_ascii_digit()) && rfc3339_ms(part).is_none()
}
