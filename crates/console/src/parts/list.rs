//! A list and its parts: the filter, which is a part of the URL, so that the same URL shows every user the same page;
//! tables of rows with the way to the next page; and facts, one under the other.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use maud::{Markup, html};

use super::text::foreign_or_none;
use crate::page::PageError;
use crate::visit::{Visit, with_query};
use hooklatch_contract::{DamagedRow, Page, PolicyView};
use hooklatch_core::mistakes::nearest;
use hooklatch_core::times;
use hooklatch_core::types::{Name, Reach, UnixMs};

/// Times as an address may have them, and as the contract has them.
const TIMES: [(&str, &str); 3] =
    [("created_before", "created_before_ms"), ("from", "received_from_ms"), ("to", "received_to_ms")];

/// A filter in the words of the contract, which refuses names that it does not have.
pub(crate) type Asked = BTreeMap<String, String>;

/// The values of a query, without those that were left empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Values(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Values {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Values {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        Self(pairs.filter(|(_, value)| !value.trim().is_empty()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    /// The values as an address takes them.
    pub(crate) fn pairs(&self) -> Vec<(&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))).collect()
    }
}

/// The values in the words of the contract: a time may be written as a date, or as how long ago.
pub(crate) fn asked(values: &Values, now_ms: UnixMs) -> Result<Asked, PageError> {
    let mut asked: Asked = values.0.iter().cloned().collect();
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
pub(crate) fn time_field(name: &str, label: &str, at_ms: Option<UnixMs>) -> Markup {
    html! {
        label { span { (label) }
            input type="datetime-local" step="1" name=(name) value=(at_ms.map(times::local).unwrap_or_default());
        }
    }
}

/// A field for text.
pub(crate) fn text_field(name: &str, label: &str, values: &Values) -> Markup {
    html! {
        label { span { (label) }
            input type="text" name=(name) value=(values.get(name).unwrap_or_default()) maxlength="255" autocomplete="off" spellcheck="false";
        }
    }
}

/// A field for the name of a provider: those that are configured and in reach are offered.
pub(crate) fn provider_field(visit: &Visit, values: &Values) -> Markup {
    name_field(("provider", "Provider"), values, in_reach(&visit.state.providers, &visit.principal.providers))
}

/// A field for the name of a destination: those that are configured and in reach are offered.
pub(crate) fn destination_field(visit: &Visit, values: &Values) -> Markup {
    let offered = in_reach(&visit.state.destinations, &visit.principal.destinations);
    name_field(("destination", "Destination"), values, offered)
}

fn in_reach<'a>(names: &'a [Name], reach: &Reach) -> Vec<&'a str> {
    names.iter().map(Name::as_str).filter(|name| reach.has(name)).collect()
}

/// A field for a name, and what was probably meant by one that is not offered.
fn name_field((field, label): (&str, &str), values: &Values, offered: Vec<&str>) -> Markup {
    let list = format!("{field}-names");
    let value = values.get(field).unwrap_or_default();
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
    values: &Values,
    words: impl IntoIterator<Item = &'a str>,
) -> Markup {
    labelled(name, label, values, words.into_iter().map(|word| (word, word)))
}

/// A field with a few values to choose from, each with its label.
pub(crate) fn labelled<'a>(
    name: &str,
    label: &str,
    values: &Values,
    choices: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Markup {
    let chosen = values.get(name);
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

/// On a narrow window, a card for each row, in which each cell has its heading beside it.
const CARDS: &str = "cards";
/// On a narrow window, a few lines for each row without headings: the cell `what` first; a `long` one is cut after two
/// lines.
pub(crate) const LINES: &str = "lines";
/// On a narrow window, one cell under the other, without headings.
pub(crate) const STACKED: &str = "stacked";

/// A table: what it is of (for those who do not see it), its headings, its rows.
pub(crate) fn table(caption: &str, headings: &[&str], rows: &[Markup]) -> Markup {
    table_as(CARDS, caption, headings, rows)
}

/// A table that is drawn in this way on a narrow window.
pub(crate) fn table_as(class: &str, caption: &str, headings: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label=(caption) {
            table class=(class) {
                caption class="unseen" { (caption) }
                thead { tr { @for heading in headings { th scope="col" { (heading) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// A table with a row for each item, of these cells; the sentence `nothing` where there are none.
pub(crate) fn rows<T, const N: usize>(
    caption: &str,
    headings: [&str; N],
    nothing: &str,
    items: impl IntoIterator<Item = T>,
    cells: impl Fn(T) -> [Markup; N],
) -> Markup {
    let rows: Vec<Markup> = items.into_iter().map(|item| row(&cells(item))).collect();
    if rows.is_empty() { self::nothing(nothing) } else { table(caption, &headings, &rows) }
}

/// A row of these cells.
pub(crate) fn row(cells: &[Markup]) -> Markup {
    html! { tr { @for cell in cells { td { (cell) } } } }
}

/// A part of a page under a heading, which `id` names.
pub(crate) fn section(id: &str, heading: &str, body: &Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (heading) } (body) } }
}

/// A sentence where rows would stand.
pub(crate) fn nothing(sentence: &str) -> Markup {
    html! { p class="nothing" { (sentence) } }
}

/// Names and values, one under the other.
pub(crate) fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! { dl class="facts" { @for (name, value) in rows { dt { (name) } dd { (value) } } } }
}

/// Rows that belong here and cannot be read.
pub(crate) fn damaged(rows: &[DamagedRow]) -> Markup {
    html! { @for row in rows { p class="nothing" role="alert" { (row.sentence()) } } }
}

/// The way on from a page of a list: `values` are those of its query besides the cursor.
pub(crate) fn onwards(visit: &Visit, path: &str, values: &Values, page: &Page<impl Sized>) -> Markup {
    let (next, looked_back_to_ms) = (page.next.as_deref(), page.looked_back_to_ms);
    let mut kept = values.pairs();
    kept.retain(|(name, _)| *name != "cursor");
    let is_later = kept.len() < values.0.len();
    let mut later = kept.clone();
    later.push(("cursor", next));
    html! {
        (damaged(&page.damaged))
        nav class="onwards" aria-label="Pages of this list" {
            @if is_later { a href=(visit.link(&with_query(path, &kept))) { "Back to the newest" } }
            @if next.is_some() { a rel="next" href=(visit.link(&with_query(path, &later))) { "Older" } }
            @if let Some(at_ms) = looked_back_to_ms {
                span class="hint" {
                    "Looked back to " (times::format_moment(at_ms, visit.now_ms)) "; “Older” goes on from there."
                }
            }
        }
    }
}

/// The rows; of a destination that the node which answers does not have, one that says so.
pub(crate) fn policy(policy: Option<&PolicyView>) -> Vec<(&'static str, Markup)> {
    let Some(policy) = policy else {
        return vec![("Unclear answers", html! { "not known: this node does not have the destination" })];
    };
    vec![
        ("Address", foreign_or_none(policy.host.as_deref())),
        (
            "Unclear answers",
            html! { code { "unknown = \"" (policy.unknown) "\"" } ": " (policy.unknown_in_words()) },
        ),
        ("Remembers a key for", html! { (policy.key_valid_for_in_words()) }),
        ("Timeout", html! { (times::length_in_words(policy.timeout_ms)) }),
        ("Retries", html! { (policy.retry.in_words()) }),
    ]
}
