//! The fields of a filter. The filter is a part of the URL, so that the same URL shows every user the same page.

use std::collections::BTreeMap;

use axum::extract::RawQuery;
use maud::{Markup, html};

use crate::contract::with_query;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_core::mistakes::nearest;
use hooklatch_core::times;
use hooklatch_core::types::{Name, Reach, UnixMs};

/// Times as an address may have them, and as the contract has them.
const TIMES: [(&str, &str); 3] =
    [("created_before", "created_before_ms"), ("from", "received_from_ms"), ("to", "received_to_ms")];

/// A filter in the words of the contract, which refuses names that it does not have.
pub(crate) type Asked = BTreeMap<String, String>;

/// The values of a query, without those that were left empty.
pub(crate) fn values(raw: &RawQuery) -> Vec<(String, String)> {
    let raw = raw.0.as_deref().unwrap_or_default();
    let pairs = form_urlencoded::parse(raw.as_bytes()).into_owned();
    pairs.filter(|(_, value)| !value.trim().is_empty()).collect()
}

/// The value of this name.
pub(crate) fn value<'a>(values: &'a [(String, String)], name: &str) -> Option<&'a str> {
    values.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
}

/// The same values as an address takes them.
pub(crate) fn pairs(values: &[(String, String)]) -> Vec<(&str, Option<&str>)> {
    values.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))).collect()
}

/// The values in the words of the contract: a time may be written as a date, or as how long ago.
pub(crate) fn asked(values: &[(String, String)], now_ms: UnixMs) -> Result<Asked, PageError> {
    let mut asked: Asked = values.iter().cloned().collect();
    for (written, name) in TIMES {
        if let Some(text) = asked.remove(written) {
            let at_ms = times::parse_time(text.trim(), now_ms).map_err(|why| PageError::bad_form(&why))?;
            asked.insert(name.to_owned(), at_ms.to_string());
        }
    }
    Ok(asked)
}

/// A path with this filter and a value more as its query.
pub(crate) fn target(path: &str, asked: &Asked, more: (&str, Option<&str>)) -> String {
    let values = asked.iter().map(|(name, value)| (name.as_str(), Some(value.as_str())));
    with_query(path, &values.chain([more]).collect::<Vec<_>>())
}

/// A field for a time in UTC.
pub(crate) fn time(name: &str, label: &str, at_ms: Option<UnixMs>) -> Markup {
    html! {
        label { span { (label) }
            input type="datetime-local" step="1" name=(name) value=(at_ms.map(times::local).unwrap_or_default());
        }
    }
}

/// A field for text.
pub(crate) fn text(name: &str, label: &str, values: &[(String, String)]) -> Markup {
    html! {
        label { span { (label) }
            input type="text" name=(name) value=(value(values, name).unwrap_or_default()) maxlength="255" autocomplete="off" spellcheck="false";
        }
    }
}

/// A field for the name of a provider: those that are configured and in reach are offered.
pub(crate) fn provider(visit: &Visit, values: &[(String, String)]) -> Markup {
    name(("provider", "Provider"), values, in_reach(&visit.state.providers, &visit.principal.providers))
}

/// A field for the name of a destination: those that are configured and in reach are offered.
pub(crate) fn destination(visit: &Visit, values: &[(String, String)]) -> Markup {
    let offered = in_reach(&visit.state.destinations, &visit.principal.destinations);
    name(("destination", "Destination"), values, offered)
}

fn in_reach<'a>(names: &'a [Name], reach: &Reach) -> Vec<&'a str> {
    names.iter().map(Name::as_str).filter(|name| reach.has(name)).collect()
}

/// A field for a name, and what was probably meant by one that is not offered.
fn name((field, label): (&str, &str), values: &[(String, String)], offered: Vec<&str>) -> Markup {
    let list = format!("{field}-names");
    let value = value(values, field).unwrap_or_default();
    let is_unknown = !value.is_empty() && !offered.contains(&value);
    html! {
        label { span { (label) }
            input type="text" name=(field) value=(value) list=(list) maxlength="255" autocomplete="off" spellcheck="false";
            @if is_unknown {
                small class="hint" {
                    "Not configured."
                    @if let Some(near) = nearest(value, offered.iter().copied()) { " Did you mean " code { (near) } "?" }
                }
            }
        }
        datalist id=(list) { @for name in offered { option value=(name) {} } }
    }
}

/// A field with a few words to choose from; the first choice is none of them.
pub(crate) fn choice<'a>(
    name: &str,
    label: &str,
    values: &[(String, String)],
    words: impl IntoIterator<Item = &'a str>,
) -> Markup {
    labelled(name, label, values, words.into_iter().map(|word| (word, word)))
}

/// The same with a label for each value.
pub(crate) fn labelled<'a>(
    name: &str,
    label: &str,
    values: &[(String, String)],
    choices: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Markup {
    let chosen = value(values, name);
    html! {
        label { span { (label) }
            select name=(name) {
                option value="" { "any" }
                @for (one, label) in choices { option value=(one) selected[chosen == Some(one)] { (label) } }
            }
        }
    }
}

/// A form that filters: its fields, a button and the way back to no filter.
pub(crate) fn filter(action: &str, fields: &Markup, is_set: bool) -> Markup {
    html! {
        form class="filter" method="get" action=(action) {
            (fields)
            button type="submit" { "Filter" }
            @if is_set { a class="clear" href=(action) { "Clear" } }
        }
    }
}
