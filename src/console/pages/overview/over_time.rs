//! The last hour as this node counted it: all of it as a chart, and a row for each provider and destination.

use std::cmp::Reverse;

use maud::{Markup, html};

use crate::api::ActivityView;
use crate::console::parts::activity::{Hour, counted_by, in_words};
use crate::console::parts::chart::{Series, spark};
use crate::console::parts::{link, list, moment};
use crate::console::visit::Visit;

/// Most providers or destinations that are shown, the busiest ones.
const ROWS_N_MAX: usize = 10;

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
            (table("Provider", of_providers.collect(), |name| link::provider(visit, name)))
        }
        section aria-labelledby="attempts" {
            h2 id="attempts" { "Calls in the last hour" }
            (hour.chart("calls", &attempts))
            (table("Destination", of_destinations.collect(), |name| link::destination(visit, name)))
        }
        (counted_by(view))
    }
}

/// A row for each name that something was counted of, the busiest first; a column for each thing that was.
fn table(heading: &str, mut rows: Vec<(&String, Vec<Series>)>, linked: impl Fn(&str) -> Markup) -> Markup {
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
        [heading, "Last hour"].into_iter().chain(words.iter().map(|(_, word)| *word)).collect();
    let drawn: Vec<Markup> = rows.iter().map(|(name, series)| row(name, series, &words, &linked)).collect();
    html! {
        (list::table(&format!("{heading}s in the last hour"), &headings, &drawn))
        @if left_out_n > 0 { p class="hint" { "And " (left_out_n) " more with fewer." } }
    }
}

fn row(name: &str, series: &[Series], words: &[(usize, &str)], linked: &impl Fn(&str) -> Markup) -> Markup {
    html! {
        tr {
            th scope="row" { (linked(name)) }
            td { (spark(&in_words(name, series), series)) }
            @for (place, _) in words {
                td { (moment::figure(series.get(*place).map_or(0, Series::total), false)) }
            }
        }
    }
}
