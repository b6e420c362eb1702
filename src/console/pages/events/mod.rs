//! What came in, the newest first, by filters that stand in the address; what comes in meanwhile is told on top of it.
//!
//! `filter.rs` is what is asked for, `rows.rs` draws what was found, `tail.rs` follows what comes in.

mod filter;
mod rows;
mod tail;

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use self::filter::EventSieve;
use crate::api::{EventView, Page};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::{field, list};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/events", get(show)).route("/events/tail", get(tail::follow))
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
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
            @if let Some(path) = sieve.acted_on().filter(|_| visit.may(Role::Operator)) {
                a class="button" href=(visit.link(&path)) { "Act on all of these" }
            }
        }
        div id="rows" {
            @if page.items.is_empty() { (list::nothing("No event is found by this filter.")) }
            @else { (rows::table(visit, &page.items)) }
        }
        (list::onwards(visit, "/events", sieve.values(), page.next.as_deref(), page.looked_back_to_ms))
    })
}

/// What the script makes of a list that is followed; without it, the way to look again.
fn follower(visit: &Visit, sieve: &EventSieve) -> Markup {
    html! {
        div class="follow" data-tail=(visit.link(&sieve.followed())) {
            span class="state" role="status" {}
            button type="button" hidden { "Pause" }
            a href=(visit.link(&with_query("/events", &field::pairs(sieve.values())))) { "Look again" }
        }
    }
}
