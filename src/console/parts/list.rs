//! Tables of rows, and the way to the next page.

use maud::{Markup, html};

use super::field;
use crate::console::contract::with_query;
use crate::console::visit::Visit;
use crate::times;

/// A table: what it is of (for those who do not see it), its headings, its rows.
pub(in crate::console) fn table(caption: &str, headings: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label=(caption) {
            table {
                caption class="unseen" { (caption) }
                thead { tr { @for heading in headings { th scope="col" { (heading) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// A sentence where rows would stand.
pub(in crate::console) fn nothing(sentence: &str) -> Markup {
    html! { p class="nothing" { (sentence) } }
}

/// Names and values, one under the other.
pub(in crate::console) fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! { dl class="facts" { @for (name, value) in rows { dt { (name) } dd { (value) } } } }
}

/// The way on from a page of a list: `values` are those of its query besides the cursor.
pub(in crate::console) fn onwards(
    visit: &Visit,
    path: &str,
    values: &[(String, String)],
    next: Option<&str>,
    looked_back_to_ms: Option<i64>,
) -> Markup {
    let mut kept = field::pairs(values);
    kept.retain(|(name, _)| *name != "cursor");
    let is_later = kept.len() < values.len();
    let mut later = kept.clone();
    later.push(("cursor", next));
    html! {
        nav class="onwards" aria-label="Pages of this list" {
            @if is_later { a href=(visit.link(&with_query(path, &kept))) { "Back to the newest" } }
            @if next.is_some() { a rel="next" href=(visit.link(&with_query(path, &later))) { "Older" } }
            @if let Some(at_ms) = looked_back_to_ms {
                span class="hint" {
                    "Looked back to " (times::told(at_ms, visit.now_ms)) "; “Older” goes on from there."
                }
            }
        }
    }
}
