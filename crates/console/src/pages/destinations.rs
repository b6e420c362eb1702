//! Destinations: how each is called, its state, its backlog; the form that pauses and resumes one; and the lanes whose
//! messages wait in order.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};

use crate::contract::{ContractAnswer, path, with_query};
use crate::parts::chip::Mood;
use crate::parts::form::SentForm;
use crate::parts::frame::Place;
use crate::parts::{chip, field, form, link, list, moment};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{BacklogCount, CallTimesView, DestinationView, LaneView, Page};
use hooklatch_core::figures::grouped;
use hooklatch_core::types::{MessageState, Role};

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/lanes", get(show_lanes))
        .route("/destinations", get(show_all))
        .route("/destinations/{name}", get(show_one))
        .route("/destinations/{name}/decide", post(decide))
}

const HEADINGS: [&str; 7] =
    ["Destination", "Kind", "Use", "Breaker", "Median call", "Open messages", "Oldest due"];

async fn show_all(visit: Visit) -> Response {
    let made = draw_all(&visit).await.map(|body| ("Destinations".to_owned(), body));
    visit.answer(Place::Destinations, made)
}

async fn draw_all(visit: &Visit) -> Result<Markup, PageError> {
    let page: Page<DestinationView> = visit.get("/destinations").await?;
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
            td { (usage(destination)) }
            td { (breaker(destination)) }
            td {
                @match destination.call_times {
                    Some(times) => { (grouped(times.p50_ms.into())) " ms" },
                    None => (moment::none()),
                }
            }
            td {
                @if destination.backlog.is_empty() { (moment::none()) }
                @for count in &destination.backlog { div { (open_n(visit, &destination.name, count)) " " (chip::message(count.state)) } }
            }
            td { (moment::moment_or_none(destination.oldest_due_at_ms, visit.now_ms)) }
        }
    }
}

async fn show_one(visit: Visit, Path(name): Path<String>) -> Response {
    let made = draw_one(&visit, &name).await.map(|body| (format!("Destination {name}"), body));
    visit.answer(Place::Destinations, made)
}

async fn draw_one(visit: &Visit, name: &str) -> Result<Markup, PageError> {
    let answer: ContractAnswer<DestinationView> = visit.get_tagged(&path(&["destinations", name])).await?;
    let destination = &answer.view;
    Ok(html! {
        p { (usage(destination)) }
        @if !destination.is_configured {
            p class="note" {
                "The node that answers has no destination of this name in its configuration. What waits for it stays until one has."
            }
        }
        (form::pause_note(visit, destination.pause.as_ref()))
        @if visit.may(Role::Operator) {
            (form::pause_section(
                visit,
                &path(&["destinations", &destination.name]),
                (destination.pause.as_ref(), answer.etag.as_deref()),
                [
                    "No node sends to it until you resume it. Calls that are already running finish.",
                    "All nodes send to it again.",
                ],
            ))
        }
        section aria-labelledby="facts" {
            h2 id="facts" { "How it stands" }
            (facts(visit, destination))
        }
        section aria-labelledby="policy" {
            h2 id="policy" { "How it is called" }
            (list::facts(&list::policy(destination.policy.as_ref())))
        }
        section aria-labelledby="backlog" {
            h2 id="backlog" { "Open messages" }
            (backlog(visit, destination))
        }
    })
}

fn facts(visit: &Visit, destination: &DestinationView) -> Markup {
    let of_node = |value: Option<Markup>| value.unwrap_or_else(moment::none);
    let rate = match destination.rate_per_s {
        Some(per_s) => html! { "at most " (per_s) " calls a second" },
        None if destination.is_configured => html! { "no limit" },
        None => moment::none(),
    };
    list::facts(&[
        ("Kind", html! { (destination.kind) }),
        ("Breaker of this node", breaker_facts(destination)),
        (
            "Calls at once",
            of_node(
                destination.concurrency_n.map(|n| html! { "at most " (grouped(n.into())) " of this node" }),
            ),
        ),
        ("Rate", rate),
        ("Calls of this node took", of_node(destination.call_times.map(call_times))),
        ("Oldest due", moment::moment_or_none(destination.oldest_due_at_ms, visit.now_ms)),
    ])
}

fn breaker_facts(destination: &DestinationView) -> Markup {
    let meaning = match destination.breaker.as_deref() {
        Some("open") => {
            " It failed too often in a row: nothing is sent for a while, and then one call probes."
        }
        Some("half_open") => " The next call probes whether it is back.",
        _ => "",
    };
    html! { (breaker(destination)) (meaning) }
}

fn call_times(times: CallTimesView) -> Markup {
    let [p50, p95, calls] = [times.p50_ms, times.p95_ms, times.calls_n].map(|n| grouped(n.into()));
    html! { (p50) " ms at the median, " (p95) " ms at 95 %" span class="hint" { " of the newest " (calls) } }
}

fn backlog(visit: &Visit, destination: &DestinationView) -> Markup {
    let row = |count: &BacklogCount| {
        html! {
            tr {
                td { (chip::message(count.state)) }
                td { (open_n(visit, &destination.name, count)) }
                td { (moment::moment(count.oldest_visible_at_ms, visit.now_ms)) }
            }
        }
    };
    let rows: Vec<Markup> = destination.backlog.iter().map(row).collect();
    let name = [("destination", Some(destination.name.as_str()))];
    html! {
        @if rows.is_empty() { (list::nothing("Nothing waits for it.")) }
        @else { (list::table("Open messages by state", &["State", "Messages", "Since, or due"], &rows)) }
        p class="links" {
            a href=(visit.link(&with_query("/messages", &name))) { "All of its messages" } " · "
            a href=(visit.link(&with_query("/lanes", &name))) { "Its lanes" }
        }
    }
}

/// The circuit breaker of the node that answers; none where it calls no such destination.
fn breaker(destination: &DestinationView) -> Markup {
    match destination.breaker.as_deref() {
        None => moment::none(),
        Some("closed") => chip::chip(Mood::Good, "closed"),
        Some("open") => chip::chip(Mood::Bad, "open"),
        Some("half_open") => chip::chip(Mood::Needed, "half open"),
        Some(other) => chip::chip(Mood::Quiet, other),
    }
}

/// Whether it is used: paused by a person, or known to no configuration.
fn usage(destination: &DestinationView) -> Markup {
    html! {
        @if destination.pause.is_some() { (chip::chip(Mood::Needed, "paused")) }
        @else if destination.is_configured { (chip::chip(Mood::Good, "in use")) }
        @if !destination.is_configured { " " (chip::chip(Mood::Bad, "not configured")) }
    }
}

/// The number of open messages in a state, which leads to them.
fn open_n(visit: &Visit, destination: &str, count: &BacklogCount) -> Markup {
    let values = [("state", Some(count.state.as_str())), ("destination", Some(destination))];
    let label = format!("{} {}", count.messages_n, count.state);
    html! {
        a href=(visit.link(&with_query("/messages", &values))) aria-label=(label) {
            (moment::figure(count.messages_n, count.is_more))
        }
    }
}

async fn decide(visit: Visit, Path(name): Path<String>, form: SentForm) -> Response {
    let page = path(&["destinations", &name]);
    match form::pause_order(&visit, &page, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Destinations, &trouble.about(&page)),
    }
}

/// Messages of a lane that are counted.
const DEPTH_N_MAX: u64 = 1_000;
/// Characters of a lane's key that a row shows.
const LANE_CHARS_MAX: usize = 120;
const LANE_HEADINGS: [&str; 6] = ["Lane", "Destination", "Messages", "Head", "State", "What it waits for"];

async fn show_lanes(visit: Visit, raw: RawQuery) -> Response {
    let made = draw_lanes(&visit, &field::values(&raw)).await.map(|body| ("Lanes".to_owned(), body));
    visit.answer(Place::Lanes, made)
}

async fn draw_lanes(visit: &Visit, values: &[(String, String)]) -> Result<Markup, PageError> {
    let (destination, cursor) = (field::value(values, "destination"), field::value(values, "cursor"));
    let asked = [("destination", destination), ("cursor", cursor)];
    let page: Page<LaneView> = visit.get(&with_query("/lanes", &asked)).await?;
    let rows: Vec<Markup> = page.items.iter().map(|lane| lane_row(visit, lane)).collect();
    Ok(html! {
        p class="hint" { "The messages of a lane go one after the other: all wait for the one at the head. Messages without a lane wait for no other, and are not here." }
        (field::filter(&visit.link("/lanes"), &field::destination(visit, values), destination.is_some()))
        @if rows.is_empty() { (list::nothing("No lane has open messages.")) }
        @else { (list::table("Lanes", &LANE_HEADINGS, &rows)) }
        (lanes_onwards(visit, destination, cursor.is_some(), page.next.as_deref()))
    })
}

fn lane_row(visit: &Visit, lane: &LaneView) -> Markup {
    let values = [("destination", Some(lane.destination.as_str())), ("lane", Some(lane.lane.as_str()))];
    html! {
        tr {
            td { a href=(visit.link(&with_query("/messages", &values))) { (moment::brief(&lane.lane, LANE_CHARS_MAX)) } }
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

/// Whether a lane moves, and the state of its head.
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
fn lanes_onwards(visit: &Visit, destination: Option<&str>, is_later: bool, next: Option<&str>) -> Markup {
    let first = with_query("/lanes", &[("destination", destination)]);
    let later = with_query("/lanes", &[("destination", destination), ("cursor", next)]);
    html! {
        nav class="onwards" aria-label="Pages of this list" {
            @if is_later { a href=(visit.link(&first)) { "Back to the first" } }
            @if next.is_some() { a rel="next" href=(visit.link(&later)) { "Next" } }
        }
    }
}
