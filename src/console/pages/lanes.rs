//! Messages that go one after the other, and what each lane waits for.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::api::{LaneView, Page};
use crate::console::contract::with_query;
use crate::console::parts::chip::{self, Mood};
use crate::console::parts::frame::Place;
use crate::console::parts::{brief, field, link, list, moment};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::MessageState;

/// Messages of a lane that are counted.
const DEPTH_N_MAX: u64 = 1_000;
/// Characters of a lane's key that a row shows.
const LANE_CHARS_MAX: usize = 120;
const HEADINGS: [&str; 6] = ["Lane", "Destination", "Messages", "Head", "State", "What it waits for"];

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/lanes", get(show))
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await.map(|body| ("Lanes".to_owned(), body));
    visit.answer(Place::Lanes, made)
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let (destination, cursor) = (field::value(values, "destination"), field::value(values, "cursor"));
    let asked = [("destination", destination), ("cursor", cursor)];
    let page: Page<LaneView> = visit.ask(&with_query("/lanes", &asked)).await?;
    let rows: Vec<Markup> = page.items.iter().map(|lane| row(visit, lane)).collect();
    Ok(html! {
        p class="hint" { "The messages of a lane go one after the other: all wait for the one at the head. Messages without a lane wait for no other, and are not here." }
        (field::filter(&visit.link("/lanes"), &field::destination(visit, values), destination.is_some()))
        @if rows.is_empty() { (list::nothing("No lane has open messages.")) }
        @else { (list::table("Lanes", &HEADINGS, &rows)) }
        (onwards(visit, destination, cursor.is_some(), page.next.as_deref()))
    })
}

fn row(visit: &Visit, lane: &LaneView) -> Markup {
    let values = [("destination", Some(lane.destination.as_str())), ("lane", Some(lane.lane.as_str()))];
    html! {
        tr {
            td { a href=(visit.link(&with_query("/messages", &values))) { (brief::line(&lane.lane, LANE_CHARS_MAX)) } }
            td { (link::destination(visit, &lane.destination)) }
            td { (moment::figure(lane.depth_n, lane.depth_n >= DEPTH_N_MAX)) }
            td {
                (link::message(visit, &lane.head.message_id.to_string()))
                div class="hint" { (moment::moment(lane.since_ms, visit.now_ms)) }
            }
            td { (chip::message(lane.head.state)) }
            td { (blocked(lane)) }
        }
    }
}

/// Whether a lane moves, and what is said of its head.
fn blocked(lane: &LaneView) -> Markup {
    html! {
        @match lane.blocked_by.as_deref() {
            None if lane.head.state == MessageState::Leased => { (chip::chip(Mood::Good, "it moves")) " " },
            None => { (chip::chip(Mood::Busy, "due")) " " },
            Some(word) => { (chip::chip(Mood::Needed, &word.replace('_', " "))) " " },
        }
        @if let Some(judgement) = &lane.head.judgement { (judgement.headline) }
    }
}

/// The way on: lanes go by name, not by time.
fn onwards(visit: &Visit, destination: Option<&str>, is_later: bool, next: Option<&str>) -> Markup {
    let first = with_query("/lanes", &[("destination", destination)]);
    let later = with_query("/lanes", &[("destination", destination), ("cursor", next)]);
    html! {
        nav class="onwards" aria-label="Pages of this list" {
            @if is_later { a href=(visit.link(&first)) { "Back to the first" } }
            @if next.is_some() { a rel="next" href=(visit.link(&later)) { "Next" } }
        }
    }
}
