//! The first page: what needs a person, then how it goes.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::api::{BacklogEvents, BacklogMessages, BacklogView};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::{chip, link, list, moment};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::{EventState, MessageState};

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/", get(show))
}

async fn show(visit: Visit) -> Response {
    let made = draw(&visit).await.map(|body| ("Overview".to_owned(), body));
    visit.answer(Place::Overview, made)
}

async fn draw(visit: &Visit) -> Result<Markup, Trouble> {
    let backlog: BacklogView = visit.ask("/backlog").await?;
    Ok(html! {
        section aria-labelledby="needs" {
            h2 id="needs" { "Needs a person" }
            (needed(visit, &backlog))
        }
    })
}

/// Whatever goes on only when somebody decides.
fn needed(visit: &Visit, backlog: &BacklogView) -> Markup {
    let is_needed = |state: EventState| {
        matches!(state, EventState::Conflict | EventState::Unreadable | EventState::Failed)
    };
    let events = backlog.events.iter().filter(|one| is_needed(one.count.state));
    let messages = backlog
        .messages
        .iter()
        .filter(|one| matches!(one.count.state, MessageState::Held | MessageState::Dead));
    let rows: Vec<Markup> =
        messages.map(|one| of_messages(visit, one)).chain(events.map(|one| of_events(visit, one))).collect();
    if rows.is_empty() {
        return list::nothing("Nothing does. Events come in and go out by themselves.");
    }
    list::table("What needs a person", &["What", "State", "Where", "Number", "Oldest"], &rows)
}

fn of_events(visit: &Visit, one: &BacklogEvents) -> Markup {
    let values = [("state", Some(one.count.state.as_str())), ("provider", Some(one.provider.as_str()))];
    html! {
        tr {
            td { a href=(visit.link(&with_query("/events", &values))) { "Events" } }
            td { (chip::event(one.count.state)) }
            td { (link::provider(visit, &one.provider)) }
            td { (moment::figure(one.count.events_n, one.count.is_more)) }
            td { (moment::moment(one.count.oldest_received_at_ms, visit.now_ms)) }
        }
    }
}

fn of_messages(visit: &Visit, one: &BacklogMessages) -> Markup {
    let values = [("state", Some(one.count.state.as_str())), ("destination", Some(one.destination.as_str()))];
    html! {
        tr {
            td { a href=(visit.link(&with_query("/messages", &values))) { "Messages" } }
            td { (chip::message(one.count.state)) }
            td { (link::destination(visit, &one.destination)) }
            td { (moment::figure(one.count.messages_n, one.count.is_more)) }
            td { (moment::moment(one.count.oldest_visible_at_ms, visit.now_ms)) }
        }
    }
}
