//! The query of a request for a list.

use std::collections::BTreeMap;

use super::super::error::Problem;
use crate::types::Name;

/// Rows of a list, unless `limit` says otherwise.
const LIMIT_DEFAULT: u32 = 50;
/// Most rows that `limit` may ask for.
const LIMIT_MAX: u32 = 500;
/// Latest time that is read.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

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

/// The text of a value; one that is empty, or longer than 255 characters, is an error.
pub(super) fn text(values: &BTreeMap<String, String>, name: &str) -> Result<Option<String>, Problem> {
    match values.get(name) {
        Some(text) if text.is_empty() || text.chars().count() > 255 => {
            Err(Problem::bad_request("a text to look for has 1 to 255 characters"))
        }
        found => Ok(found.cloned()),
    }
}

/// The name of something that is configured.
pub(super) fn name(values: &BTreeMap<String, String>, name: &str) -> Result<Option<String>, Problem> {
    let parsed = values.get(name).map(|text| Name::parse(text)).transpose();
    let parsed = parsed.map_err(|_| Problem::bad_request("that is not a name"))?;
    Ok(parsed.map(|name| name.to_string()))
}

/// A time; the last one that is read is the end of the year 9999. Unix milliseconds.
pub(super) fn time(values: &BTreeMap<String, String>, name: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = values.get(name) else { return Ok(None) };
    let time = text.parse().ok().filter(|time| (0..=TIME_MS_MAX).contains(time));
    time.map(Some).ok_or(Problem::bad_request("a time is a number of milliseconds since 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_known_or_there_twice_is_an_error() {
        #[track_caller]
        fn check(raw: Option<&str>, want: Option<&[(&str, &str)]>) {
            let found = query(raw, ["state", "limit"]).ok();
            let found = found.as_ref().map(|values| {
                values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>()
            });
            assert_eq!(found.as_deref(), want, "{raw:?}");
        }
        check(None, Some(&[]));
        check(Some(""), Some(&[]));
        check(Some("state=held&limit=5"), Some(&[("limit", "5"), ("state", "held")]));
        check(Some("state=a%26b+c"), Some(&[("state", "a&b c")]));
        check(Some("state=held&state=dead"), None);
        check(Some("stat=held"), None);
        check(Some("state=held&&limit"), Some(&[("limit", ""), ("state", "held")]));
    }

    #[test]
    fn a_list_has_50_rows_unless_it_is_asked_for_1_to_500() {
        #[track_caller]
        fn check(text: Option<&str>, want: Option<u32>) {
            let values = text.map(|text| ("limit".to_owned(), text.to_owned())).into_iter().collect();
            assert_eq!(limit(&values).ok(), want, "{text:?}");
        }
        check(None, Some(50));
        check(Some("1"), Some(1));
        check(Some("500"), Some(500));
        for wrong in ["0", "501", "-1", "", "5.0", "99999999999"] {
            check(Some(wrong), None);
        }
    }
}
