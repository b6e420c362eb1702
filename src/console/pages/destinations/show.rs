//! One destination: how it stands, what waits for it, and the form that pauses and resumes it.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};

use super::standing;
use crate::api::{BacklogCount, CallTimesView, DestinationView};
use crate::console::contract::{ContractAnswer, path, with_query};
use crate::console::parts::frame::Place;
use crate::console::parts::{chip, list, moment, pause, policy};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::figures::grouped;
use crate::types::Role;

pub(super) async fn show(visit: Visit, Path(name): Path<String>) -> Response {
    let made = draw(&visit, &name).await.map(|body| (format!("Destination {name}"), body));
    visit.answer(Place::Destinations, made)
}

async fn draw(visit: &Visit, name: &str) -> Result<Markup, Trouble> {
    let told: ContractAnswer<DestinationView> = visit.ask_tagged(&path(&["destinations", name])).await?;
    let destination = &told.view;
    Ok(html! {
        p { (standing::usage(destination)) }
        @if !destination.is_configured {
            p class="note" {
                "The node that answers has no destination of this name in its configuration. What waits for it stays until one has."
            }
        }
        (pause::note(visit, destination.pause.as_ref()))
        @if visit.may(Role::Operator) {
            (pause::section(
                visit,
                &path(&["destinations", &destination.name]),
                (destination.pause.as_ref(), told.etag.as_deref()),
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
            (list::facts(&policy::rows(destination.policy.as_ref())))
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
        ("Breaker of this node", breaker(destination)),
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

fn breaker(destination: &DestinationView) -> Markup {
    let meaning = match destination.breaker.as_deref() {
        Some("open") => {
            " It failed too often in a row: nothing is sent for a while, and then one call probes."
        }
        Some("half_open") => " The next call probes whether it is back.",
        _ => "",
    };
    html! { (standing::breaker(destination)) (meaning) }
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
                td { (standing::count(visit, &destination.name, count)) }
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
