//! Rows: tables with their next page, and facts.

use maud::{Markup, html};

use super::field;
use super::moment::{foreign, none};
use crate::contract::with_query;
use crate::visit::Visit;
use hooklatch_contract::{DamagedRow, Page, PolicyView};
use hooklatch_core::times;

/// How a table is drawn on a narrow window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrow {
    /// A card of a row, in which each cell has its heading beside it.
    Cards,
    /// A row of a list: a few lines without headings, the cell `what` first; one that is `long` is cut after two lines.
    Lines,
    /// One cell under the other, without headings.
    Stacked,
}

/// A table: what it is of (for those who do not see it), its headings, its rows.
pub(crate) fn table(caption: &str, headings: &[&str], rows: &[Markup]) -> Markup {
    table_as(Narrow::Cards, caption, headings, rows)
}

/// The same, drawn in this way on a narrow window.
pub(crate) fn table_as(narrow: Narrow, caption: &str, headings: &[&str], rows: &[Markup]) -> Markup {
    let class = match narrow {
        Narrow::Cards => "cards",
        Narrow::Lines => "lines",
        Narrow::Stacked => "stacked",
    };
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
pub(crate) fn onwards(
    visit: &Visit,
    path: &str,
    values: &[(String, String)],
    page: &Page<impl Sized>,
) -> Markup {
    let (next, looked_back_to_ms) = (page.next.as_deref(), page.looked_back_to_ms);
    let mut kept = field::pairs(values);
    kept.retain(|(name, _)| *name != "cursor");
    let is_later = kept.len() < values.len();
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
        ("Address", policy.host.as_deref().map_or_else(none, foreign)),
        (
            "Unclear answers",
            html! { code { "unknown = \"" (policy.unknown) "\"" } ": " (policy.unknown_in_words()) },
        ),
        ("Remembers a key for", html! { (policy.key_valid_for_in_words()) }),
        ("Timeout", html! { (times::length_in_words(policy.timeout_ms)) }),
        ("Retries", html! { (policy.retry.in_words()) }),
    ]
}
