//! All providers: who was silent for how long, and whose secrets want a look.

use maud::{Markup, html};

use super::secrets;
use crate::api::ProviderView;
use crate::console::contract::with_query;
use crate::console::parts::{field, link, list, moment};
use crate::console::visit::Visit;
use crate::types::EventState;

/// Most providers that are shown; a filter finds the others.
const ROWS_N_MAX: usize = 100;
const HEADINGS: [&str; 5] = ["Provider", "Kind", "Last event", "Secrets", "Waiting"];

/// The list, those first of which something came last.
pub(super) fn draw(visit: &Visit, providers: &[ProviderView], values: &[(String, String)]) -> Markup {
    let wanted = field::value(values, "name").unwrap_or_default().to_lowercase();
    let is_wanted = |one: &&ProviderView| {
        [&one.name, &one.kind, &one.sender.title].iter().any(|text| text.to_lowercase().contains(&wanted))
    };
    let mut found: Vec<&ProviderView> = providers.iter().filter(is_wanted).collect();
    let last_ms = |one: &ProviderView| one.last_event.as_ref().map(|event| event.received_at_ms);
    found.sort_by_key(|one| (std::cmp::Reverse(last_ms(one)), one.name.as_str()));
    let rows: Vec<Markup> = found.iter().take(ROWS_N_MAX).map(|one| row(visit, one)).collect();
    let name = field::text("name", "Name, kind or sender", values);
    html! {
        @if providers.is_empty() {
            (list::nothing("No provider is configured: write a table [providers.NAME] for each sender."))
        } @else {
            (field::filter(&visit.link("/senders"), &name, !values.is_empty()))
            @if rows.is_empty() { (list::nothing("No provider is found by this filter.")) }
            @else { (list::table("Senders", &HEADINGS, &rows)) }
            @if found.len() > ROWS_N_MAX {
                p class="hint" { "And " (found.len() - ROWS_N_MAX) " more: filter by a part of the name." }
            }
        }
    }
}

fn row(visit: &Visit, one: &ProviderView) -> Markup {
    html! {
        tr {
            th scope="row" { (link::provider(visit, &one.name)) }
            td { (moment::foreign(&one.kind)) }
            td {
                @match &one.last_event {
                    Some(event) => (moment::moment(event.received_at_ms, visit.now_ms)),
                    None => span class="none" { "none so far" },
                }
            }
            td { (secrets::state(one)) }
            td { (waiting(visit, one)) }
        }
    }
}

/// The events of a provider that wait, by state; each leads to them.
pub(super) fn waiting(visit: &Visit, one: &ProviderView) -> Markup {
    if one.waiting.is_empty() {
        return moment::none();
    }
    html! {
        @for count in &one.waiting {
            @let values = [("state", Some(count.state.as_str())), ("provider", Some(one.name.as_str()))];
            a href=(visit.link(&with_query("/events", &values))) {
                (moment::figure(count.events_n, count.is_more)) " " (count.state)
            }
            @if let Some(pause) = one.pause.as_ref().filter(|_| count.state == EventState::Retry) {
                " (paused until "
                @match pause.until_ms {
                    Some(until_ms) => (moment::moment(until_ms, visit.now_ms)),
                    None => "someone resumes it",
                }
                ")"
            }
            " "
        }
    }
}
