//! Destinations: how each is called, its state, its backlog; the form that pauses and resumes one; and the lanes whose
//! messages wait in order.

use super::prelude::*;
use hooklatch_contract::{BacklogCount, DestinationView, LaneView};
use hooklatch_core::types::MessageState;

pub(crate) async fn show_all(visit: Visit) -> PageResult {
    let found: Page<DestinationView> = visit.get("/destinations").await?;
    let headings = ["Destination", "Kind", "Use", "Breaker", "Median call", "Open messages", "Oldest due"];
    let cells = |one: &DestinationView| {
        let backlog = html! {
            @if one.backlog.is_empty() { (text::none()) }
            @for count in &one.backlog { div { (open_n(&visit, &one.name, count)) " " (text::message_chip(count.state)) } }
        };
        [
            link::destination(&visit, &one.name),
            html! { (one.kind) },
            usage(one),
            breaker(one),
            one.call_times.map_or_else(text::none, |times| html! { (grouped(times.p50_ms.into())) " ms" }),
            backlog,
            text::moment_or_none(one.oldest_due_at_ms, visit.now_ms),
        ]
    };
    let body = html! {
        (list::rows("Destinations", headings, "No destination is configured.", &found.items, cells))
        p class="hint" { "Breaker and calls are those of the node that answers; each node has its own." }
    };
    Ok(PageBody::new("Destinations", body))
}

pub(crate) async fn show_one(visit: Visit, Path(name): Path<String>) -> PageResult {
    let (view, etag) = visit.get_tagged::<DestinationView>(&path(&["destinations", &name])).await?;
    let destination = &view;
    let hints = [
        "No node sends to it until you resume it. Calls that are already running finish.",
        "All nodes send to it again.",
    ];
    let (own_page, pause) = (path(&["destinations", &destination.name]), destination.pause.as_ref());
    let body = html! {
        p { (usage(destination)) }
        @if !destination.is_configured {
            p class="note" {
                "The node that answers has no destination of this name in its configuration. What waits for it stays until one has."
            }
        }
        (form::pause_section(&visit, &own_page, pause, etag.as_deref(), hints))
        (list::section("facts", "How it stands", &facts(&visit, destination)))
        (list::section("policy", "How it is called", &list::facts(&list::policy(destination.policy.as_ref()))))
        (list::section("backlog", "Open messages", &backlog(&visit, destination)))
    };
    Ok(PageBody::new(format!("Destination {name}"), body))
}

fn facts(visit: &Visit, destination: &DestinationView) -> Markup {
    let rate = match destination.rate_per_s {
        Some(per_s) => html! { "at most " (per_s) " calls a second" },
        None if destination.is_configured => html! { "no limit" },
        None => text::none(),
    };
    let at_once = destination.concurrency_n.map(|n| html! { "at most " (grouped(n.into())) " of this node" });
    let took = destination.call_times.map(|times| {
        let [p50, p95, calls] = [times.p50_ms, times.p95_ms, times.calls_n].map(|n| grouped(n.into()));
        html! { (p50) " ms at the median, " (p95) " ms at 95 %" span class="hint" { " of the newest " (calls) } }
    });
    let meaning = match destination.breaker.as_deref() {
        Some("open") => {
            " It failed too often in a row: nothing is sent for a while, and then one call probes."
        }
        Some("half_open") => " The next call probes whether it is back.",
        _ => "",
    };
    list::facts(&[
        ("Kind", html! { (destination.kind) }),
        ("Breaker of this node", html! { (breaker(destination)) (meaning) }),
        ("Calls at once", at_once.unwrap_or_else(text::none)),
        ("Rate", rate),
        ("Calls of this node took", took.unwrap_or_else(text::none)),
        ("Oldest due", text::moment_or_none(destination.oldest_due_at_ms, visit.now_ms)),
    ])
}

fn backlog(visit: &Visit, destination: &DestinationView) -> Markup {
    let cells = |count: &BacklogCount| {
        [
            text::message_chip(count.state),
            open_n(visit, &destination.name, count),
            text::moment(count.oldest_visible_at_ms, visit.now_ms),
        ]
    };
    let headings = ["State", "Messages", "Since, or due"];
    let name = [("destination", Some(destination.name.as_str()))];
    html! {
        (list::rows("Open messages by state", headings, "Nothing waits for it.", &destination.backlog, cells))
        p class="links" {
            a href=(visit.link(&with_query("/messages", &name))) { "All of its messages" } " · "
            a href=(visit.link(&with_query("/lanes", &name))) { "Its lanes" }
        }
    }
}

/// The circuit breaker of the node that answers; none where it calls no such destination.
fn breaker(destination: &DestinationView) -> Markup {
    match destination.breaker.as_deref() {
        None => text::none(),
        Some("closed") => chip(Mood::Good, "closed"),
        Some("open") => chip(Mood::Bad, "open"),
        Some("half_open") => chip(Mood::Needed, "half open"),
        Some(other) => chip(Mood::Quiet, other),
    }
}

/// Whether it is used: paused by a person, or known to no configuration.
fn usage(destination: &DestinationView) -> Markup {
    html! {
        @if destination.pause.is_some() { (chip(Mood::Needed, "paused")) }
        @else if destination.is_configured { (chip(Mood::Good, "in use")) }
        @if !destination.is_configured { " " (chip(Mood::Bad, "not configured")) }
    }
}

/// The number of open messages in a state, which leads to them.
fn open_n(visit: &Visit, destination: &str, count: &BacklogCount) -> Markup {
    let values = [("state", Some(count.state.as_str())), ("destination", Some(destination))];
    let label = format!("{} {}", count.messages_n, count.state);
    html! {
        a href=(visit.link(&with_query("/messages", &values))) aria-label=(label) {
            (text::figure(count.messages_n, count.is_more))
        }
    }
}

pub(crate) async fn decide(
    visit: Visit,
    Path(name): Path<String>,
    form: SentForm,
) -> Result<Response, PageError> {
    let page = path(&["destinations", &name]);
    form::decide_pause(&visit, &page, &page, &form).await
}

/// Messages of a lane that are counted.
const DEPTH_N_MAX: u64 = 1_000;
/// Characters of a lane's key that a row shows.
const LANE_CHARS_MAX: usize = 120;

pub(crate) async fn show_lanes(visit: Visit, values: Values) -> PageResult {
    let (destination, cursor) = (values.get("destination"), values.get("cursor"));
    let target = |cursor| with_query("/lanes", &[("destination", destination), ("cursor", cursor)]);
    let found: Page<LaneView> = visit.get(&target(cursor)).await?;
    let headings = ["Lane", "Destination", "Messages", "Head", "State", "What it waits for"];
    let cells = |one: &LaneView| {
        let of_lane = [("destination", Some(one.destination.as_str())), ("lane", Some(one.lane.as_str()))];
        let messages = visit.link(&with_query("/messages", &of_lane));
        let head = html! {
            (link::message(&visit, &one.head.message_id.to_string()))
            div class="hint" { (text::moment(one.since_ms, visit.now_ms)) }
        };
        [
            html! { a href=(messages) { (text::brief(&one.lane, LANE_CHARS_MAX)) } },
            link::destination(&visit, &one.destination),
            text::figure(one.depth_n, one.depth_n >= DEPTH_N_MAX),
            head,
            text::message_chip(one.head.state),
            blocked(one),
        ]
    };
    let filter = list::destination_field(&visit, &values);
    let body = html! {
        p class="hint" { "The messages of a lane go one after the other: all wait for the one at the head. Messages without a lane wait for no other, and are not here." }
        (list::filter(&visit.link("/lanes"), &filter, destination.is_some()))
        (list::rows("Lanes", headings, "No lane has open messages.", &found.items, cells))
        // Lanes go by name, not by time.
        nav class="onwards" aria-label="Pages of this list" {
            @if cursor.is_some() { a href=(visit.link(&target(None))) { "Back to the first" } }
            @if found.next.is_some() { a rel="next" href=(visit.link(&target(found.next.as_deref()))) { "Next" } }
        }
    };
    Ok(PageBody::new("Lanes", body))
}

/// Whether a lane moves, and the state of its head.
fn blocked(lane: &LaneView) -> Markup {
    html! {
        @match lane.blocked_by.as_deref() {
            None if lane.head.state == MessageState::Leased => { (chip(Mood::Good, "it moves")) " " },
            None => { (chip(Mood::Busy, "due")) " " },
            Some(word) => { (chip(Mood::Needed, &word.replace('_', " "))) " " },
        }
        @if let Some(judgement) = &lane.head.judgement { (judgement.headline) }
    }
}
