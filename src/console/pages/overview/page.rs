//! What the first page asks for, at most five things, and the order in which they stand.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use super::{causes, due, first, needed, over_time};
use crate::api::{ActivityView, BacklogView, DestinationView, EventView, Page, ProviderView};
use crate::console::parts::frame::Place;
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;

/// Time between two looks of somebody who stays on the page. Seconds.
const REFRESH_S: u32 = 10;

pub(in crate::console) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/", get(show))
}

async fn show(visit: Visit) -> Response {
    let made = draw(&visit).await.map(|body| ("Overview".to_owned(), body));
    visit.answer(Place::Overview, made)
}

async fn draw(visit: &Visit) -> Result<Markup, Trouble> {
    let backlog: BacklogView = visit.ask("/backlog").await?;
    let destinations: Page<DestinationView> = visit.ask("/destinations").await?;
    let activity: ActivityView = visit.ask("/activity").await?;
    let providers: Page<ProviderView> = visit.ask("/providers").await?;
    let newest: Page<EventView> = visit.ask("/events?limit=1").await?;
    let first = if newest.items.is_empty() && newest.next.is_none() {
        Some(first::draw(visit, &providers.items))
    } else {
        None
    };
    let is_first = first.is_some();
    // What is refused is no event, and counts all the same.
    let is_any = activity.providers.iter().any(|one| !one.minutes.is_empty());
    let answers = needed::OverviewAnswers {
        backlog: &backlog,
        destinations: &destinations.items,
        providers: &providers.items,
        activity: &activity,
    };
    Ok(html! {
        div id="overview" data-refresh=(REFRESH_S) {
            @if let Some(first) = first {
                section aria-labelledby="first" { h2 id="first" { "Nothing has come yet" } (first) }
            }
            section aria-labelledby="needs" { h2 id="needs" { "Needs a person" } (needed::draw(visit, &answers)) }
            @if let Some(causes) = causes::draw(visit, &backlog.causes) { (causes) }
            @if !is_first || is_any {
                section aria-labelledby="due" { h2 id="due" { "Oldest due" } (due::draw(visit, &destinations.items)) }
                (over_time::draw(visit, &activity))
            }
        }
    })
}
