//! Other content under an id that is taken, beside the content that stands.

use maud::{Markup, html};

use super::content::is_cut;
use crate::api::{ContentView, LedgerView};
use crate::console::parts::diff::{DiffRow, LINES_N_MAX, side_by_side};
use crate::console::parts::{body, link, list, sides};
use crate::console::visit::Visit;
use crate::figures::grouped;

/// The two contents side by side, where this event is kept beside another one.
pub(super) async fn beside(visit: &Visit, view: &LedgerView) -> Option<Markup> {
    let first = view.beside_event_id.as_deref()?;
    let provider = &view.event.provider;
    let differs = match &view.content {
        Some(content) => {
            let stands = visit.ask::<LedgerView>(&link::event_path(provider, first)).await;
            match stands.ok().and_then(|stands| stands.content) {
                Some(stands) => compared(&stands, content),
                None => list::nothing(
                    "The content that came first is no longer kept, so there is nothing to compare with.",
                ),
            }
        }
        None => list::nothing(
            "The two contents are compared for those who may see contents, as long as both are kept.",
        ),
    };
    Some(html! {
        section aria-labelledby="differs" {
            h2 id="differs" { "What differs" }
            p {
                "This came under the id of " (link::event(visit, provider, first))
                ", with other content."
            }
            (differs)
        }
    })
}

fn compared(first: &ContentView, other: &ContentView) -> Markup {
    if first.unopened.is_some() || other.unopened.is_some() {
        return list::nothing("One of the two is kept and does not open.");
    }
    let is_part = is_cut(first) || is_cut(other);
    let texts = (body::lines(&first.body, is_cut(first)), body::lines(&other.body, is_cut(other)));
    let Some(rows) = side_by_side(&texts.0, &texts.1) else {
        let lines_n = grouped(LINES_N_MAX as u64);
        return list::nothing(&format!("They are too large to compare: one has more than {lines_n} lines."));
    };
    let is_equal = rows.iter().all(|row| !matches!(row, DiffRow::Other(..)));
    html! {
        @if is_part { p class="hint" { "The first 64 KiB of each are compared." } }
        @if is_equal {
            p class="note" { "What is shown of them is equal, line by line: they differ in space between tokens, in what was left out before they were stored, or in what is not shown." }
        }
        p class="hint" { "− stands in what came first alone, + in what came later." }
        (sides::table("What differs", ["Came first", "Came later, with the same id"], &rows))
    }
}
