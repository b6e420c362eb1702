//! The page of events.

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use super::filter::EventSieve;
use super::rows;
use crate::api::{EventView, Page};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::{field, list};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

pub(super) async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, field::values(&raw)).await.map(|body| ("Events".to_owned(), body));
    visit.answer(Place::Events, made)
}

async fn draw(visit: &Visit, values: Vec<(String, String)>) -> Result<Markup, Trouble> {
    let sieve = EventSieve::read(values, visit.now_ms)?;
    let page: Page<EventView> = visit.ask(&sieve.asked()).await?;
    Ok(html! {
        (sieve.fields(visit))
        div class="above" {
            @if sieve.is_open() { (follower(visit, &sieve)) }
            @if let Some((path, words)) = sieve.acted_on().filter(|_| visit.may(Role::Operator)) {
                a class="button" href=(visit.link(&path)) { (words) }
            }
        }
        div id="rows" {
            @if page.items.is_empty() { (list::nothing("No event is found by this filter.")) }
            @else { (rows::table(visit, &page.items)) }
        }
        (list::onwards(visit, "/events", sieve.values(), &page))
    })
}

/// What the script makes of a list that is followed; without it, the way to look again.
fn follower(visit: &Visit, sieve: &EventSieve) -> Markup {
    html! {
        div class="follow" data-follow {
            span class="state" role="status" {}
            button type="button" hidden { "Pause" }
            a href=(visit.link(&with_query("/events", &field::pairs(sieve.values())))) { "Look again" }
        }
    }
}
