//! Rows of the list of events.

use maud::{Markup, html};

use crate::api::EventView;
use crate::console::parts::list::{self, Narrow};
use crate::console::parts::{chip, link, moment};
use crate::console::visit::Visit;
use crate::figures::plural;

const HEADINGS: [&str; 8] = ["Received", "Provider", "Event", "Type", "State", "Calls", "Object", "Error"];

/// All that were found.
pub(super) fn table(visit: &Visit, events: &[EventView]) -> Markup {
    let rows: Vec<Markup> = events.iter().map(|event| row(visit, event)).collect();
    list::table_as(Narrow::Lines, "Events", &HEADINGS, &rows)
}

fn row(visit: &Visit, event: &EventView) -> Markup {
    html! {
        tr data-row=(link::event_path(&event.provider, &event.event_id)) {
            td { (moment::moment(event.received_at_ms, visit.now_ms)) }
            td { (link::provider(visit, &event.provider)) }
            td class="what" { (link::event(visit, &event.provider, &event.event_id)) }
            td { (moment::foreign(&event.event_type)) }
            td {
                (chip::event(event.state))
                @if event.copies_n > 0 { p class="hint" { "and " (plural(event.copies_n, "duplicate")) } }
            }
            td { (chip::delivery(&event.delivery)) }
            td class="named" { @match &event.object { Some(object) => (moment::id(object)), None => (moment::none()) } }
            td class="long" { (chip::why(event)) }
        }
    }
}
