//! The query of a request for a list.

use std::collections::BTreeMap;

use super::super::error::Problem;

/// Rows of a list, unless `limit` says otherwise.
const LIMIT_DEFAULT: u32 = 50;
/// Most rows that `limit` may ask for.
const LIMIT_MAX: u32 = 500;

/// The query's values; a name that is there twice or is not known is an error.
pub(super) fn query<const N: usize>(
    raw: Option<&str>,
    known: [&str; N],
) -> Result<BTreeMap<String, String>, Problem> {
    let mut values = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
        if !known.contains(&name.as_ref()) || values.insert(name.into_owned(), value.into_owned()).is_some() {
            return Err(Problem::bad_request("the query has a name that is not known, or one twice"));
        }
    }
    Ok(values)
}

pub(super) fn limit(values: &BTreeMap<String, String>) -> Result<u32, Problem> {
    let Some(text) = values.get("limit") else { return Ok(LIMIT_DEFAULT) };
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| Problem::bad_request("`limit` is a number from 1 to 500"))
}
