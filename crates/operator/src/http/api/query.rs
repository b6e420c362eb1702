//! The query of a request for a list.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::super::error::Problem;
use hooklatch_contract::{PAGE_N_DEFAULT, PAGE_N_MAX, TIME_MS_MAX};
use hooklatch_core::plain;
use hooklatch_core::types::{Name, TEXT_BYTES_MAX, UnixMs};

/// Longest value, in bytes.
const VALUE_BYTES_MAX: usize = 1_024;
/// Longest piece of a wrong name or value that an answer repeats. Characters.
const NAME_SHOWN_CHARS: usize = 64;
const BAD_QUERY: Problem = Problem::bad_request("the query has a name or a value that is not valid");

/// The query's values; a name that is there twice or is not known is an error.
pub(crate) fn query<const N: usize>(
    raw: Option<&str>,
    known: [&str; N],
) -> Result<BTreeMap<String, String>, Problem> {
    query_within(raw, known, VALUE_BYTES_MAX)
}

/// The same with values of at most `bytes_max` bytes.
pub(super) fn query_within<const N: usize>(
    raw: Option<&str>,
    known: [&str; N],
    bytes_max: usize,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut values = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
        let flaw = if !known.contains(&name.as_ref()) {
            format!("does not exist; the names here are {}", quoted(known.into_iter()))
        } else if value.len() > bytes_max {
            "has a value that is too long".to_owned()
        } else if values.insert(name.clone().into_owned(), value.into_owned()).is_some() {
            "is given more than once".to_owned()
        } else {
            continue;
        };
        let name = shown(&name);
        return Err(BAD_QUERY.with_detail(format!("query parameter `{name}` {flaw}")));
    }
    Ok(values)
}

/// The value that the query gives under `key`, as one of the words that `parse` reads.
pub(crate) fn word<T>(
    values: &BTreeMap<String, String>,
    key: &str,
    words: impl Iterator<Item = &'static str>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(text) = values.get(key) else { return Ok(None) };
    let found = parse(text).ok_or_else(|| {
        let text = shown(text);
        BAD_QUERY.with_detail(format!("`{key}` cannot be `{text}`; it is one of {}", quoted(words)))
    });
    found.map(Some)
}

/// What a count without a state is answered.
pub(super) fn no_state(words: impl Iterator<Item = &'static str>) -> Problem {
    let detail = format!("`state` is missing; it is one of {}", quoted(words));
    Problem::bad_request("say which `state` to count").with_detail(detail)
}

fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The beginning of a client's text, as one line.
fn shown(text: &str) -> String {
    let beginning: String = text.chars().take(NAME_SHOWN_CHARS).collect();
    plain::line(&beginning).into_owned()
}

pub(crate) fn limit(values: &BTreeMap<String, String>) -> Result<u32, Problem> {
    up_to(values, ("limit", PAGE_N_DEFAULT, PAGE_N_MAX), "`limit` must be a number from 1 to 500")
}

/// The name that the query gives under `key`.
pub(crate) fn name(values: &BTreeMap<String, String>, key: &str) -> Result<Option<Name>, Problem> {
    let name = values.get(key).map(|text| Name::parse(text)).transpose();
    name.map_err(|_| {
        BAD_QUERY.with_detail(format!("`{key}` must be a name: 1 to 64 characters of a-z, 0-9, `_` and `-`"))
    })
}

/// The text that the query gives under `key`: 1 to 255 bytes.
pub(crate) fn text(values: &BTreeMap<String, String>, key: &str) -> Result<Option<String>, Problem> {
    let Some(text) = values.get(key) else { return Ok(None) };
    if is_text(text) {
        return Ok(Some(text.clone()));
    }
    Err(BAD_QUERY.with_detail(format!("`{key}` must be a text of 1 to 255 bytes without NUL")))
}

/// A whole number: `50`, or `50.0` as JSON Schema has it.
fn whole<T: FromStr>(text: &str) -> Option<T> {
    let is_zero = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte == b'0');
    text.split_once('.').filter(|(_, rest)| is_zero(rest)).map_or(text, |(number, _)| number).parse().ok()
}

/// True for a text that something may be looked for by.
pub(crate) fn is_text(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.contains('\0')
}

/// The number from 1 to `n_max` that the query gives under `key`, else `n_default`; `wrong` says what it may be.
pub(crate) fn up_to(
    values: &BTreeMap<String, String>,
    (key, n_default, n_max): (&str, u32, u32),
    wrong: &'static str,
) -> Result<u32, Problem> {
    let Some(text) = values.get(key) else { return Ok(n_default) };
    let number = whole(text).filter(|n| (1..=n_max).contains(n));
    number.ok_or(Problem::bad_request(wrong))
}

/// The time that the query gives under `key`.
pub(crate) fn time(values: &BTreeMap<String, String>, key: &str) -> Result<Option<UnixMs>, Problem> {
    let time = values.get(key).map(|text| whole(text).filter(|at_ms| (0..=TIME_MS_MAX).contains(at_ms)));
    match time {
        None => Ok(None),
        Some(at_ms) => {
            let wrong =
                || format!("`{key}` must be a time: milliseconds since 1970, to the end of the year 9999");
            at_ms.map(Some).ok_or_else(|| BAD_QUERY.with_detail(wrong()))
        }
    }
}

/// The place of a list that `cursor` stands for; `read` parses it.
pub(crate) fn cursor<T>(
    values: &BTreeMap<String, String>,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(text) = values.get("cursor") else { return Ok(None) };
    read(text).map(Some).ok_or(Problem::NO_SUCH_CURSOR)
}

/// A cursor that is an id: of the row where a page ended.
pub(super) fn uuid_text(text: &str) -> Option<String> {
    uuid::Uuid::parse_str(text).is_ok().then(|| text.to_owned())
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
    fn an_error_names_what_is_wrong_and_what_can_be_written_instead() {
        #[track_caller]
        fn check(raw: &str, want: &str) {
            let found = query(Some(raw), ["state", "limit"])
                .and_then(|values| word(&values, "state", ["held", "dead"].into_iter(), |_| None::<()>));
            assert_eq!(found.unwrap_err().detail.as_deref(), Some(want));
        }
        check("stat=held", "query parameter `stat` does not exist; the names here are `state`, `limit`");
        check("state=a&state=b", "query parameter `state` is given more than once");
        check("state=heldd", "`state` cannot be `heldd`; it is one of `held`, `dead`");
        check("%1b%5b=1", "query parameter `\\u001b[` does not exist; the names here are `state`, `limit`");
        let long = format!("{}=1", "x".repeat(5_000));
        assert!(query(Some(&long), ["state"]).unwrap_err().detail.unwrap().len() < 200);
    }

    #[test]
    fn values_are_read_or_refused_and_never_overlooked() {
        let values = query(Some("p=stripe&t=a%00b&at=5&long=x&cursor=7"), ["p", "t", "at", "long", "cursor"]);
        let mut values = values.expect("a query");
        values.insert("long".to_owned(), "x".repeat(256));
        assert_eq!(
            name(&values, "p").expect("a name").map(|name| name.to_string()),
            Some("stripe".to_owned())
        );
        assert_eq!(
            (name(&values, "no"), text(&values, "no"), time(&values, "no")),
            (Ok(None), Ok(None), Ok(None))
        );
        assert!(name(&values, "t").is_err() && text(&values, "t").is_err() && text(&values, "long").is_err());
        assert_eq!((time(&values, "at"), text(&values, "at")), (Ok(Some(5)), Ok(Some("5".to_owned()))));
        assert!(time(&values, "p").is_err());
        assert_eq!(cursor(&values, |text| text.parse::<u8>().ok()), Ok(Some(7)));
        assert!(cursor(&values, |_| None::<u8>).is_err());
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
        check(Some("5.0"), Some(5));
        for wrong in ["0", "501", "-1", "", "5.5", "5.", ".0", "99999999999"] {
            check(Some(wrong), None);
        }
    }
}
