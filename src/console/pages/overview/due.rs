//! What waits for each destination, the oldest first.

use maud::{Markup, html};

use super::needed::is_waiting;
use crate::api::DestinationView;
use crate::console::contract::with_query;
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::{link, list, moment};
use crate::console::visit::Visit;
use crate::types::MessageState;

/// Most destinations that are shown.
const ROWS_N_MAX: usize = 20;

/// The table of destinations that have something to do; a sentence where none has.
pub(super) fn draw(visit: &Visit, destinations: &[DestinationView]) -> Markup {
    let mut busy: Vec<&DestinationView> =
        destinations.iter().filter(|one| one.backlog.iter().any(|count| is_waiting(count.state))).collect();
    busy.sort_by_key(|one| (one.oldest_due_at_ms.is_none(), one.oldest_due_at_ms, one.name.as_str()));
    if busy.is_empty() {
        return list::nothing("Nothing is due.");
    }
    let rows: Vec<Markup> = busy.iter().take(ROWS_N_MAX).map(|one| row(visit, one)).collect();
    html! {
        (list::table("What is due", &["Destination", "Ready", "Waiting", "Under way", "Oldest due"], &rows))
        @if busy.len() > ROWS_N_MAX {
            p { a href=(visit.link("/destinations")) { "All destinations" } }
        }
    }
}

fn row(visit: &Visit, one: &DestinationView) -> Markup {
    let number = |state: MessageState| {
        let Some(count) = one.backlog.iter().find(|count| count.state == state) else {
            return moment::none();
        };
        let values = [("state", Some(state.as_str())), ("destination", Some(one.name.as_str()))];
        html! {
            a href=(visit.link(&with_query("/messages", &values))) {
                (moment::figure(count.messages_n, count.is_more))
            }
        }
    };
    html! {
        tr {
            td {
                (link::destination(visit, &one.name))
                @if one.pause.is_some() { " " (chip(Mood::Needed, "paused")) }
                // It is tried again without a person.
                @match one.breaker.as_deref() {
                    Some("open") => { " " (chip(Mood::Bad, "breaker open")) },
                    Some("half_open") => { " " (chip(Mood::Busy, "breaker half open")) },
                    _ => {},
                }
            }
            td { (number(MessageState::Ready)) }
            td { (number(MessageState::Waiting)) }
            td { (number(MessageState::Leased)) }
            td { (moment::moment_or_none(one.oldest_due_at_ms, visit.now_ms)) }
        }
    }
}
