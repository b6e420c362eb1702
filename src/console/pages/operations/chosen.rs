//! The rows that an operation is to act on: chosen by a filter that an address or a form has.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::words;
use crate::api::{BulkFigures, OperationChoice, OperationSubject, bulk_acts};
use crate::console::contract::{path, with_query};
use crate::console::parts::field;
use crate::console::trouble::Trouble;
use crate::times;
use crate::types::UnixMs;

/// Fields of the contract's filters.
const OF_MESSAGES: [&str; 5] = ["state", "destination", "provider", "lane", "created_before_ms"];
const OF_EVENTS: [&str; 7] =
    ["state", "provider", "type", "object", "delivery", "received_from_ms", "received_to_ms"];

/// A choice of rows, whose state is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen(pub(super) OperationChoice);

impl Chosen {
    /// Reads a choice; `value` gives what was sent under a name. A time is there as the contract has it, or as a person
    /// writes it: `received_to_ms`, `received_to`.
    pub(super) fn read<'a>(now_ms: UnixMs, value: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Trouble> {
        if value("state").is_none() {
            let why = "an operation acts on what stands in one state: choose one on the list first";
            return Err(Trouble::bad_form(why));
        }
        match value("subject") {
            Some("messages") => Ok(Self(OperationChoice::Messages(read(&OF_MESSAGES, now_ms, value)?))),
            Some("events") => Ok(Self(OperationChoice::Events(read(&OF_EVENTS, now_ms, value)?))),
            _ => Err(Trouble::bad_form("say as `subject` whether it is about `messages` or `events`")),
        }
    }

    /// Reads a choice from an address, in which nothing else may stand: with a name left out that is not understood, it
    /// would act on more than was meant.
    pub(super) fn asked(now_ms: UnixMs, values: &[(String, String)]) -> Result<Self, Trouble> {
        let chosen = Self::read(now_ms, |name| field::value(values, name))?;
        let names = match chosen.0 {
            OperationChoice::Messages(_) => &OF_MESSAGES[..],
            OperationChoice::Events(_) => &OF_EVENTS[..],
        };
        let is_of_it = |given: &str| {
            given == "subject"
                || names.iter().any(|name| *name == given || name.strip_suffix("_ms") == Some(given))
        };
        if values.iter().all(|(name, _)| is_of_it(name)) {
            return Ok(chosen);
        }
        let why = "the address has a name that no filter of this list has: filter the list anew, and go on from there";
        Err(Trouble::bad_form(why))
    }

    /// The list of it, in the contract and among the pages alike.
    pub(super) fn list(&self) -> &'static str {
        match &self.0 {
            OperationChoice::Messages(_) => "messages",
            OperationChoice::Events(_) => "events",
        }
    }

    /// The filter, as names and values of a query.
    pub(super) fn fields(&self) -> Vec<(String, String)> {
        match &self.0 {
            OperationChoice::Messages(filter) => fields(filter),
            OperationChoice::Events(filter) => fields(filter),
        }
    }

    /// A path with the filter as its query.
    pub(super) fn target(&self, path: &str) -> String {
        let fields = self.fields();
        let values: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))).collect();
        with_query(path, &values)
    }

    /// The choice in words, with its number.
    pub(super) fn words(&self, counted_n: u64) -> String {
        words::choice(&self.0, counted_n)
    }

    /// The page of an act on it; without an act, the one where it is chosen.
    pub(super) fn page(&self, act: Option<&str>) -> String {
        let fields = self.fields();
        let mut values = vec![("subject", Some(self.list()))];
        values.extend(fields.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))));
        let parts: Vec<&str> = ["operations", "new"].into_iter().chain(act).collect();
        with_query(&path(&parts), &values)
    }

    /// True when there is an act for rows in its state.
    pub(super) fn has_acts(&self) -> bool {
        let some = BulkFigures { counted_n: 1, ..BulkFigures::default() };
        !bulk_acts(&self.0, &some).is_empty()
    }

    /// What the contract is asked to do to them; `act` is a word of its.
    pub(super) fn subject(&self, act: &str) -> Result<OperationSubject, Trouble> {
        let subject = self.0.clone().with_act(act);
        subject.ok_or_else(|| Trouble::bad_form("the form has an act that there is not"))
    }
}

fn read<'a, T: DeserializeOwned>(
    names: &[&str],
    now_ms: UnixMs,
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<T, Trouble> {
    let odd = || Trouble::bad_form("this filter cannot be read: filter the list anew, and go on from there");
    let mut filter = Map::new();
    for name in names {
        let given = match (value(name), name.strip_suffix("_ms")) {
            (None, None) => None,
            (Some(text), None) => Some(Value::from(text)),
            (Some(text), Some(_)) => Some(text.parse::<i64>().map_err(|_| odd())?.into()),
            (None, Some(name)) => value(name).map(|text| time(text, now_ms)).transpose()?,
        };
        filter.extend(given.map(|given| ((*name).to_owned(), given)));
    }
    serde_json::from_value(filter.into()).map_err(|_| odd())
}

fn time(text: &str, now_ms: UnixMs) -> Result<Value, Trouble> {
    times::parse_time(text.trim(), now_ms).map(Value::from).map_err(|why| Trouble::bad_form(&why))
}

fn fields(filter: &impl Serialize) -> Vec<(String, String)> {
    let value = serde_json::to_value(filter).unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.clone(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(given: &[(&str, &'static str)]) -> Result<Chosen, Trouble> {
        Chosen::read(7_200_000, |name| given.iter().find(|(one, _)| *one == name).map(|(_, value)| *value))
    }

    #[test]
    fn a_choice_is_read_from_what_was_sent_and_written_as_it_came() {
        #[track_caller]
        fn check(given: &[(&str, &'static str)], want: &str) {
            let chosen = chosen(given).expect("a choice");
            assert_eq!(chosen.target(&format!("/{}", chosen.list())), want);
            let again: Vec<_> = chosen
                .fields()
                .into_iter()
                .chain([("subject".to_owned(), chosen.list().to_owned())])
                .collect();
            let read = Chosen::read(0, |name| {
                again.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
            });
            assert_eq!(read, Ok(chosen));
        }
        check(&[("subject", "messages"), ("state", "dead"), ("odd", "x")], "/messages?state=dead");
        let all = [
            ("subject", "messages"),
            ("state", "held"),
            ("destination", "billing"),
            ("provider", "stripe"),
            ("lane", "a&b=\u{202e}<"),
            ("created_before_ms", "5"),
        ];
        check(
            &all,
            "/messages?created_before_ms=5&destination=billing&lane=a%26b%3D%E2%80%AE%3C&provider=stripe&state=held",
        );
        let typed = [("subject", "messages"), ("state", "dead"), ("created_before", "1h")];
        check(&typed, "/messages?created_before_ms=3600000&state=dead");
        let all = [
            ("subject", "events"),
            ("state", "failed"),
            ("type", "paid"),
            ("object", "in_1"),
            ("received_from_ms", "0"),
            ("received_to_ms", "9"),
        ];
        check(&all, "/events?object=in_1&received_from_ms=0&received_to_ms=9&state=failed&type=paid");
        let stuck = [("subject", "events"), ("state", "handled"), ("delivery", "stuck")];
        check(&stuck, "/events?delivery=stuck&state=handled");
    }

    #[test]
    fn an_address_with_a_name_that_is_not_understood_chooses_nothing() {
        let asked = |query: &str| {
            let values: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
            Chosen::asked(7_200_000, &values).map(|chosen| chosen.target("")).ok()
        };
        let held = |more: &str| asked(&format!("subject=messages&state=held{more}"));
        assert_eq!(held("&destination=mail").as_deref(), Some("?destination=mail&state=held"));
        assert_eq!(held("&created_before=1h").as_deref(), Some("?created_before_ms=3600000&state=held"));
        for odd in ["&destinaton=mail", "&type=invoice.paid", "&from=1h", "&cursor=x", "&=x"] {
            assert_eq!(held(odd), None, "{odd}");
        }
        assert_eq!(asked("subject=events&state=failed&type=a").as_deref(), Some("?state=failed&type=a"));
        assert_eq!(asked("subject=events&state=failed&from=1h"), None);
    }

    #[test]
    fn what_is_no_choice_is_refused() {
        for given in [
            &[("state", "dead")][..],
            &[("subject", "lanes"), ("state", "dead")],
            &[("subject", "messages")],
            &[("subject", "messages"), ("state", "failed")],
            &[("subject", "events"), ("state", "dead")],
            &[("subject", "events"), ("state", "handled"), ("delivery", "lost")],
            &[("subject", "messages"), ("state", "dead"), ("created_before_ms", "soon")],
            &[("subject", "messages"), ("state", "dead"), ("created_before", "soon")],
        ] {
            assert!(chosen(given).is_err(), "{given:?}");
        }
    }

    #[test]
    fn an_act_of_the_other_list_is_none() {
        let messages = || chosen(&[("subject", "messages"), ("state", "dead")]).expect("a choice");
        assert!(messages().subject("send").is_ok());
        assert!(messages().subject("rerun").is_err() && messages().subject("").is_err());
    }
}
