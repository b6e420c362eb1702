//! How a destination stands: its breaker, its pause, what waits for it.

use maud::{Markup, html};

use crate::api::{BacklogCount, DestinationView};
use crate::console::contract::with_query;
use crate::console::parts::chip::{self, Mood};
use crate::console::parts::moment;
use crate::console::visit::Visit;

/// The circuit breaker of the node that answers; none where it calls no such destination.
pub(super) fn breaker(destination: &DestinationView) -> Markup {
    match destination.breaker.as_deref() {
        None => moment::none(),
        Some("closed") => chip::chip(Mood::Good, "closed"),
        Some("open") => chip::chip(Mood::Bad, "open"),
        Some("half_open") => chip::chip(Mood::Needed, "half open"),
        Some(other) => chip::chip(Mood::Quiet, other),
    }
}

/// Whether it is used: paused by a person, or known to no configuration.
pub(super) fn usage(destination: &DestinationView) -> Markup {
    html! {
        @if destination.pause.is_some() { (chip::chip(Mood::Needed, "paused")) }
        @else if destination.is_configured { (chip::chip(Mood::Good, "in use")) }
        @if !destination.is_configured { " " (chip::chip(Mood::Bad, "not configured")) }
    }
}

/// The number of open messages in a state, which leads to them.
pub(super) fn count(visit: &Visit, destination: &str, count: &BacklogCount) -> Markup {
    let values = [("state", Some(count.state.as_str())), ("destination", Some(destination))];
    let label = format!("{} {}", count.messages_n, count.state);
    html! {
        a href=(visit.link(&with_query("/messages", &values))) aria-label=(label) {
            (moment::figure(count.messages_n, count.is_more))
        }
    }
}
