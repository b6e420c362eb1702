//! Names and values of headers that a destination may choose.

use std::collections::BTreeMap;

use crate::config::{Checker, Field, Secret, Table};

/// Headers that the outbox sets itself.
const OUR_HEADERS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding"];

/// `headers`: those that every call carries.
pub(super) fn headers(checker: &mut Checker<'_>, table: &mut Table) -> BTreeMap<String, Secret> {
    let Some(field) = table.take(checker, "headers") else { return BTreeMap::new() };
    let Some(table) = field.table(checker) else { return BTreeMap::new() };
    let mut headers = BTreeMap::new();
    for (name, field) in table.entries(checker) {
        let lower = name.to_ascii_lowercase();
        if ::http::HeaderName::from_bytes(lower.as_bytes()).is_err() {
            checker.problem(&field, "is not a header name", "use letters, digits and `-`");
        } else if OUR_HEADERS.contains(&lower.as_str()) || lower.starts_with("hooklatch-") {
            checker.problem(&field, "is a header that Hooklatch sets itself", "leave it out");
        }
        let place = field.clone();
        let Some(value) = field.secret(checker) else { continue };
        if ::http::HeaderValue::from_str(value.reveal()).is_err() {
            checker.problem(
                &place,
                "has characters that a header cannot carry",
                "remove line breaks and the like",
            );
        }
        if headers.insert(lower, value).is_some() {
            checker.problem(&place, "is there twice, in another case", "keep one of the two");
        }
    }
    headers
}

/// The name of a header that is not one of ours, in lower case.
pub(super) fn header_name(checker: &mut Checker<'_>, field: &Field) -> Option<String> {
    let text = field.text(checker)?.to_ascii_lowercase();
    if ::http::HeaderName::from_bytes(text.as_bytes()).is_err() {
        checker.problem_shown(field, "is not a header name", "use letters, digits and `-`");
        return None;
    }
    if OUR_HEADERS.contains(&text.as_str()) || text.starts_with("hooklatch-") {
        checker.problem_shown(field, "is a header that Hooklatch sets itself", "choose another");
        return None;
    }
    Some(text)
}
