//! The last hour as this node counted it: all of it as a chart, and a row for each provider and destination.

use std::cmp::Reverse;

use maud::{Markup, html};

use crate::api::ActivityView;
use crate::console::contract::with_query;
use crate::console::parts::activity::{Hour, counted_by, in_words};
use crate::console::parts::chart::{Series, spark};
use crate::console::parts::{link, list, moment};
use crate::console::visit::Visit;

/// Most providers or destinations that are shown, the busiest ones.
const ROWS_N_MAX: usize = 10;

/// What a table has rows of, and where its names and figures lead.
struct Counting {
    heading: &'static str,
    linked: fn(&Visit, &str) -> Markup,
    list: fn(&str, &str) -> String,
}

const PROVIDERS: Counting = Counting { heading: "Provider", linked: link::provider, list: of_provider };
const DESTINATIONS: Counting =
    Counting { heading: "Destination", linked: link::destination, list: of_destination };

/// Both charts, each with its table.
pub(super) fn draw(visit: &Visit, view: &ActivityView) -> Markup {
    let hour = Hour::of(view);
    let requests = hour.requests(view.providers.iter().flat_map(|one| &one.minutes));
    let attempts = hour.attempts(view.destinations.iter().flat_map(|one| &one.minutes));
    let of_providers = view.providers.iter().map(|one| (&one.provider, hour.requests(one.minutes.iter())));
    let of_destinations =
        view.destinations.iter().map(|one| (&one.destination, hour.attempts(one.minutes.iter())));
    html! {
        section aria-labelledby="requests" {
            h2 id="requests" { "Requests in the last hour" }
            (hour.chart("requests", &requests))
            (table(visit, &PROVIDERS, of_providers.collect()))
        }
        section aria-labelledby="attempts" {
            h2 id="attempts" { "Calls in the last hour" }
            (hour.chart("calls", &attempts))
            (table(visit, &DESTINATIONS, of_destinations.collect()))
        }
        (counted_by(view))
    }
}

/// A row for each name that something was counted of, the busiest first; a column for each thing that was.
fn table(visit: &Visit, of: &Counting, mut rows: Vec<(&String, Vec<Series>)>) -> Markup {
    let total = |series: &[Series]| series.iter().map(Series::total).sum::<u64>();
    rows.retain(|(_, series)| total(series) > 0);
    rows.sort_by_key(|(name, series)| (Reverse(total(series)), name.as_str()));
    if rows.is_empty() {
        return html! {};
    }
    let left_out_n = rows.len().saturating_sub(ROWS_N_MAX);
    rows.truncate(ROWS_N_MAX);
    let is_counted =
        |place: usize| rows.iter().any(|(_, series)| series.get(place).is_some_and(|one| one.total() > 0));
    let words: Vec<(usize, &str)> = rows.first().map_or_else(Vec::new, |(_, series)| {
        series
            .iter()
            .enumerate()
            .filter(|(place, _)| is_counted(*place))
            .map(|(place, one)| (place, one.word))
            .collect()
    });
    let headings: Vec<&str> =
        [of.heading, "Last hour"].into_iter().chain(words.iter().map(|(_, word)| *word)).collect();
    let drawn: Vec<Markup> =
        rows.iter().map(|(name, series)| row(visit, of, (name, series), &words)).collect();
    html! {
        (list::table(&format!("{}s in the last hour", of.heading), &headings, &drawn))
        @if left_out_n > 0 { p class="hint" { "And " (left_out_n) " more with fewer." } }
    }
}

fn row(visit: &Visit, of: &Counting, (name, series): (&str, &[Series]), words: &[(usize, &str)]) -> Markup {
    html! {
        tr {
            th scope="row" { ((of.linked)(visit, name)) }
            td { (spark(&in_words(name, series), series)) }
            @for (place, word) in words {
                td { (number(series.get(*place).map_or(0, Series::total), visit, &(of.list)(name, word))) }
            }
        }
    }
}

/// A figure that leads to the list of what it counts.
fn number(number: u64, visit: &Visit, list: &str) -> Markup {
    html! {
        @if number == 0 { (moment::figure(0, false)) }
        @else { a href=(visit.link(list)) { (moment::figure(number, false)) } }
    }
}

/// Where the requests of a provider are that ended so.
fn of_provider(name: &str, word: &str) -> String {
    with_query(if word == "rejected" { "/rejected" } else { "/events" }, &[("provider", Some(name))])
}

/// Where the messages of a destination are whose calls ended so.
fn of_destination(name: &str, word: &str) -> String {
    let state = matches!(word, "done" | "held" | "dead").then_some(word);
    with_query("/messages", &[("state", state), ("destination", Some(name))])
}
