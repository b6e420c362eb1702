//! What came in, the newest first, by filters that stand in the address.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::api::{EventView, Page};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::{chip, field, link, list, moment};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::EventState;

/// Values of the query that are those of the contract.
const SAME: [&str; 5] = ["provider", "type", "state", "object", "cursor"];

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/events", get(show))
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await.map(|body| ("Events".to_owned(), body));
    visit.answer(Place::Events, made)
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let asked: Vec<(&str, Option<&str>)> =
        SAME.iter().map(|name| (*name, field::value(values, name))).collect();
    let page: Page<EventView> = visit.ask(&with_query("/events", &asked)).await?;
    let rows: Vec<Markup> = page.items.iter().map(|event| row(visit, event)).collect();
    Ok(html! {
        (filter(visit, values))
        @if rows.is_empty() { (list::nothing("No event is found by this filter.")) }
        @else { (list::table("Events", &HEADINGS, &rows)) }
        (list::onwards(visit, "/events", values, page.next.as_deref(), page.looked_back_to_ms))
    })
}

const HEADINGS: [&str; 6] = ["Received", "Provider", "Event", "Type", "State", "Object"];

fn filter(visit: &Visit, values: &[(String, String)]) -> Markup {
    let fields = html! {
        (field::text("provider", "Provider", values))
        (field::text("type", "Type", values))
        (field::choice("state", "State", values, EventState::ALL.iter().map(|state| state.as_str())))
        (field::text("object", "Object", values))
    };
    field::filter(&visit.link("/events"), &fields, !values.is_empty())
}

fn row(visit: &Visit, event: &EventView) -> Markup {
    html! {
        tr {
            td { (moment::moment(event.received_at_ms, visit.now_ms)) }
            td { (link::provider(visit, &event.provider)) }
            td { (link::event(visit, &event.provider, &event.event_id)) }
            td { (moment::foreign(&event.event_type)) }
            td { (chip::event(event.state)) }
            td { @match &event.object { Some(object) => (moment::foreign(object)), None => (moment::none()) } }
        }
    }
}
