//! The query of a request for a list.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::super::error::Problem;
use hooklatch_contract::{PAGE_N_DEFAULT, PAGE_N_MAX, RouteFacts, RouteParameter, TIME_MS_MAX};
use hooklatch_core::plain;
use hooklatch_core::types::{Name, TEXT_BYTES_MAX, UnixMs};

/// Longest value, in bytes; of what is searched, which may be the address of a page.
const VALUE_BYTES_MAX: usize = 1_024;
const ID_BYTES_MAX: usize = 4_096;
/// Longest piece of a wrong name or value that an answer repeats. Characters.
const NAME_SHOWN_CHARS: usize = 64;
const BAD_QUERY: Problem = Problem::bad_request("the query has a name or a value that is not valid");

/// The values of a request's query, by the names that the contract gives its route.
pub(super) struct Query(BTreeMap<String, String>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let facts = parts.extensions.get::<&'static RouteFacts>().ok_or(Problem::NOT_FOUND)?;
        Self::parse(parts.uri.query(), facts.query)
    }
}

impl Query {
    /// A name that is there twice, or is not one of `names`, is an error.
    fn parse(raw: Option<&str>, names: &[RouteParameter]) -> Result<Self, Problem> {
        let mut values = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            let bytes_max = if name == "id" { ID_BYTES_MAX } else { VALUE_BYTES_MAX };
            let flaw = if !names.iter().any(|one| one.name == name) {
                format!("does not exist; the names here are {}", quoted(names.iter().map(|one| one.name)))
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
        Ok(Self(values))
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value under `key` as `parse` reads it; `wrong` says what it may be.
    fn parsed<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        wrong: impl FnOnce(&str) -> String,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(key) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| BAD_QUERY.with_detail(format!("`{key}` {}", wrong(text))))
    }

    /// The value under `key`, as one of the words that `parse` reads.
    pub(super) fn word<T>(
        &self,
        key: &str,
        words: impl Iterator<Item = &'static str>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.parsed(key, parse, |text| format!("cannot be `{}`; it is one of {}", shown(text), quoted(words)))
    }

    pub(super) fn name(&self, key: &str) -> Result<Option<Name>, Problem> {
        let wrong = |_: &str| "must be a name: 1 to 64 characters of a-z, 0-9, `_` and `-`".to_owned();
        self.parsed(key, |text| Name::parse(text).ok(), wrong)
    }

    /// The text under `key`: 1 to 255 bytes.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Problem> {
        let parse = |text: &str| is_text(text).then(|| text.to_owned());
        self.parsed(key, parse, |_| "must be a text of 1 to 255 bytes without NUL".to_owned())
    }

    pub(super) fn time(&self, key: &str) -> Result<Option<UnixMs>, Problem> {
        let parse = |text: &str| whole(text).filter(|at_ms| (0..=TIME_MS_MAX).contains(at_ms));
        self.parsed(key, parse, |_| {
            "must be a time: milliseconds since 1970, to the end of the year 9999".to_owned()
        })
    }

    pub(super) fn limit(&self) -> Result<u32, Problem> {
        self.up_to(("limit", PAGE_N_DEFAULT, PAGE_N_MAX), "`limit` must be a number from 1 to 500")
    }

    /// The number from 1 to `n_max` under `key`, else `n_default`; `wrong` says what it may be.
    pub(super) fn up_to(
        &self,
        (key, n_default, n_max): (&str, u32, u32),
        wrong: &'static str,
    ) -> Result<u32, Problem> {
        let Some(text) = self.get(key) else { return Ok(n_default) };
        whole(text).filter(|n| (1..=n_max).contains(n)).ok_or(Problem::bad_request(wrong))
    }

    /// The place of a list that `cursor` stands for; `read` parses it.
    pub(super) fn cursor<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        self.get("cursor").map(|text| read(text).ok_or(Problem::NO_SUCH_CURSOR)).transpose()
    }
}

fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The beginning of a client's text, as one line.
fn shown(text: &str) -> String {
    let beginning: String = text.chars().take(NAME_SHOWN_CHARS).collect();
    plain::line(&beginning).into_owned()
}

/// A whole number: `50`, or `50.0` as JSON Schema has it.
fn whole<T: FromStr>(text: &str) -> Option<T> {
    let is_zero = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte == b'0');
    text.split_once('.').filter(|(_, rest)| is_zero(rest)).map_or(text, |(number, _)| number).parse().ok()
}

/// True for a text that something may be looked for by.
pub(super) fn is_text(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.contains('\0')
}

/// A cursor that is an id: of the row where a page ended.
pub(super) fn uuid_text(text: &str) -> Option<String> {
    uuid::Uuid::parse_str(text).is_ok().then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(raw: Option<&str>, names: &[&'static str]) -> Result<Query, Problem> {
        let one = |name: &&'static str| RouteParameter { name, schema: "", about: "", is_required: false };
        Query::parse(raw, &names.iter().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn a_name_that_is_not_known_or_there_twice_is_an_error() {
        #[track_caller]
        fn check(raw: Option<&str>, want: Option<&[(&str, &str)]>) {
            let found = query(raw, &["state", "limit"]).ok();
            let found = found.as_ref().map(|query| {
                query.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>()
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
            let found = query(Some(raw), &["state", "limit"])
                .and_then(|query| query.word("state", ["held", "dead"].into_iter(), |_| None::<()>));
            assert_eq!(found.unwrap_err().detail.as_deref(), Some(want));
        }
        check("stat=held", "query parameter `stat` does not exist; the names here are `state`, `limit`");
        check("state=a&state=b", "query parameter `state` is given more than once");
        check("state=heldd", "`state` cannot be `heldd`; it is one of `held`, `dead`");
        check("%1b%5b=1", "query parameter `\\u001b[` does not exist; the names here are `state`, `limit`");
        let long = format!("{}=1", "x".repeat(5_000));
        assert!(query(Some(&long), &["state"]).err().unwrap().detail.unwrap().len() < 200);
    }

    #[test]
    fn values_are_read_or_refused_and_never_overlooked() {
        let names = ["p", "t", "at", "long", "cursor"];
        let mut values = query(Some("p=stripe&t=a%00b&at=5&long=x&cursor=7"), &names).expect("a query");
        values.0.insert("long".to_owned(), "x".repeat(256));
        assert_eq!(values.name("p").expect("a name").map(|name| name.to_string()), Some("stripe".to_owned()));
        assert_eq!((values.name("no"), values.text("no"), values.time("no")), (Ok(None), Ok(None), Ok(None)));
        assert!(values.name("t").is_err() && values.text("t").is_err() && values.text("long").is_err());
        assert_eq!((values.time("at"), values.text("at")), (Ok(Some(5)), Ok(Some("5".to_owned()))));
        assert!(values.time("p").is_err());
        assert_eq!(values.cursor(|text| text.parse::<u8>().ok()), Ok(Some(7)));
        assert!(values.cursor(|_| None::<u8>).is_err());
    }

    #[test]
    fn a_list_has_50_rows_unless_it_is_asked_for_1_to_500() {
        #[track_caller]
        fn check(text: Option<&str>, want: Option<u32>) {
            let values = text.map(|text| ("limit".to_owned(), text.to_owned())).into_iter().collect();
            assert_eq!(Query(values).limit().ok(), want, "{text:?}");
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
