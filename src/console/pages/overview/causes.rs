//! What failed, by its cause: one row for all that have the same error.

use maud::{Markup, html};

use crate::api::{CauseView, StuckSubject};
use crate::console::contract::with_query;
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::{link, list, moment};
use crate::console::visit::Visit;

/// The table of causes, each with the way to the list of what it concerns; nothing where there is none.
pub(super) fn draw(visit: &Visit, causes: &[CauseView]) -> Option<Markup> {
    let rows: Vec<Markup> = causes.iter().map(|one| row(visit, one)).collect();
    let headings = ["What", "State", "Where", "Cause", "Number", "Newest"];
    (!rows.is_empty()).then(|| {
        html! {
            section aria-labelledby="causes" {
                h2 id="causes" { "Failures by cause" }
                (list::table("Failures by cause", &headings, &rows))
                p class="hint" { "Counted among the newest 2,000 failed events and the newest 2,000 held and dead messages." }
            }
        }
    })
}

fn row(visit: &Visit, one: &CauseView) -> Markup {
    let (path, what, key, place) = match one.subject {
        StuckSubject::Events => ("/events", "Events", "provider", link::provider(visit, &one.name)),
        StuckSubject::Messages => {
            ("/messages", "Messages", "destination", link::destination(visit, &one.name))
        }
    };
    let values = [("state", Some(one.state.as_str())), (key, Some(one.name.as_str()))];
    html! {
        tr {
            td { a href=(visit.link(&with_query(path, &values))) { (what) } }
            td { (chip(if one.state == "held" { Mood::Needed } else { Mood::Bad }, &one.state)) }
            td { (place) }
            td { @match &one.error { Some(error) => (moment::foreign(error)), None => (moment::none()) } }
            td { (moment::figure(one.counted_n, false)) }
            td { (moment::moment(one.newest_at_ms, visit.now_ms)) }
        }
    }
}
