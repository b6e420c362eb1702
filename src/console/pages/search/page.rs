//! The page of a search.

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use super::{found, ladder};
use crate::api::{SearchHit, SearchView};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::{field, form, link, moment};
use crate::console::visit::Visit;

pub(super) async fn show(visit: Visit, raw: RawQuery) -> Response {
    let values = field::values(&raw);
    // As it is copied from a page or a log: with space around it.
    let Some(id) = field::value(&values, "id").map(str::trim) else {
        return visit.page(Place::Elsewhere, "Search", &asked_for(&visit, ""));
    };
    let found: SearchView = match visit.ask(&with_query("/search", &[("id", Some(id))])).await {
        Ok(found) => found,
        Err(trouble) => return visit.trouble(Place::Elsewhere, &trouble),
    };
    if let Some(path) = only_event(&found) {
        return form::go(&visit.link(&path));
    }
    let title = match (found.found.is_empty(), found.skips_ids_inside) {
        (true, false) => "Not found",
        (true, true) => "Not found in what you may search",
        (false, _) => "Search",
    };
    visit.page(Place::Elsewhere, title, &draw(&visit, id, &found))
}

/// The page of the event that is all there is to find, unless something is to be said first.
fn only_event(found: &SearchView) -> Option<String> {
    let [SearchHit::EventId { event } | SearchHit::SearchId { event }] = &found.found[..] else {
        return None;
    };
    found.notes.is_empty().then(|| link::event_path(&event.provider, &event.event_id))
}

fn draw(visit: &Visit, id: &str, found: &SearchView) -> Markup {
    html! {
        (asked_for(visit, id))
        p { "Looked for " code { (moment::foreign(&found.query)) } "." }
        (ladder::ladder(found))
        @if !found.notes.is_empty() {
            section aria-labelledby="why" {
                h2 id="why" { @if found.found.is_empty() { "What was not looked at" } @else { "Notes" } }
                ul class="notes" { @for note in &found.notes { li { (moment::coded(note)) } } }
            }
        }
        (found::found(visit, &found.found))
    }
}

/// The field, and what can be looked for.
fn asked_for(visit: &Visit, id: &str) -> Markup {
    html! {
        form class="filter" method="get" action=(visit.link("/search")) {
            label class="wide" { span { "Any id" }
                input type="search" name="id" value=(id) required maxlength="1000" autocomplete="off" spellcheck="false";
            }
            button type="submit" class="main" { "Search" }
        }
        @if id.is_empty() {
            p { "Paste the id that you have. It is compared with:" }
            ul {
                li { "ids of events, whole or from the first six characters on;" }
                li { "ids inside events: a payment, an order, an invoice, where the kind of the sender names them; also by the first six characters;" }
                li { "the last part of an address, such as a page of your sender's dashboard;" }
                li { "objects of events, such as an invoice or an order;" }
                li { "ids of messages, which calls carry as " code { "Hooklatch-Message-Id" } ";" }
                li { "idempotency keys of messages, and names of effects;" }
                li { "ids, digests and headers of requests that were refused." }
            }
            p { "If nothing is found, the page lists what was not looked at." }
        }
    }
}
