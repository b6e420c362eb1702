//! Every destination, by name.

use axum::response::Response;
use maud::{Markup, html};

use super::standing;
use crate::api::{DestinationView, Page};
use crate::console::parts::frame::Place;
use crate::console::parts::{chip, link, list, moment};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::figures::grouped;

const HEADINGS: [&str; 7] =
    ["Destination", "Kind", "Use", "Breaker", "Median call", "Open messages", "Oldest due"];

pub(super) async fn show(visit: Visit) -> Response {
    let made = draw(&visit).await.map(|body| ("Destinations".to_owned(), body));
    visit.answer(Place::Destinations, made)
}

async fn draw(visit: &Visit) -> Result<Markup, Trouble> {
    let page: Page<DestinationView> = visit.ask("/destinations").await?;
    let rows: Vec<Markup> = page.items.iter().map(|destination| row(visit, destination)).collect();
    Ok(html! {
        @if rows.is_empty() { (list::nothing("No destination is configured.")) }
        @else { (list::table("Destinations", &HEADINGS, &rows)) }
        p class="hint" { "Breaker and calls are those of the node that answers; each node has its own." }
    })
}

fn row(visit: &Visit, destination: &DestinationView) -> Markup {
    html! {
        tr {
            td { (link::destination(visit, &destination.name)) }
            td { (destination.kind) }
            td { (standing::usage(destination)) }
            td { (standing::breaker(destination)) }
            td {
                @match destination.call_times {
                    Some(times) => { (grouped(times.p50_ms.into())) " ms" },
                    None => (moment::none()),
                }
            }
            td {
                @if destination.backlog.is_empty() { (moment::none()) }
                @for count in &destination.backlog { div { (standing::count(visit, &destination.name, count)) " " (chip::message(count.state)) } }
            }
            td { (moment::moment_or_none(destination.oldest_due_at_ms, visit.now_ms)) }
        }
    }
}
