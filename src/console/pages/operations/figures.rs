//! The set of an operation before it begins: its figures, and some of its rows.

use maud::{Markup, html};

use super::chosen::Chosen;
use crate::api::{BulkFigures, EventView, MessageView, NamedCount, OperationPreview};
use crate::console::parts::{brief, chip, link, list, moment};
use crate::console::visit::Visit;
use crate::figures::{grouped, plural};
use crate::types::UnixMs;

/// Most names that are shown with their numbers.
const NAMES_N_MAX: usize = 12;
/// Characters of an error that a row shows.
const ERROR_CHARS_MAX: usize = 160;

/// What operators did to these rows a moment ago.
pub(super) fn recent(preview: &OperationPreview) -> Markup {
    html! {
        @if let Some(recent) = &preview.recent {
            p class="trouble" role="alert" { (moment::foreign(&recent.in_words())) }
        }
    }
}

/// What was found, in words and in figures, with the way to look at it.
pub(super) fn found(visit: &Visit, chosen: &Chosen, figures: &BulkFigures) -> Markup {
    let target = chosen.target(&format!("/{}", chosen.list()));
    let calls = format!(
        "{}; {} open, {} of these never tried",
        plural(figures.calls_n, "call"),
        grouped(figures.open_n),
        grouped(figures.untried_n)
    );
    let mut facts = vec![("Providers", named(&figures.providers))];
    if !figures.destinations.is_empty() {
        facts.push(("Destinations", named(&figures.destinations)));
    }
    facts.extend([
        ("First", moment::moment_or_none(figures.first_at_ms, visit.now_ms)),
        ("Last", moment::moment_or_none(figures.last_at_ms, visit.now_ms)),
        ("Calls", html! { (calls) }),
    ]);
    html! {
        p class="found" {
            @if figures.is_more { "More than " }
            strong { (moment::foreign(&chosen.words(figures.counted_n))) } ". "
            a href=(visit.link(&target)) { "Look at all of them" }
        }
        @if figures.counted_n > 0 { (list::facts(&facts)) }
    }
}

fn named(counts: &[NamedCount]) -> Markup {
    html! {
        @for (n, count) in counts.iter().take(NAMES_N_MAX).enumerate() {
            @if n > 0 { ", " }
            (moment::foreign(&count.name)) " " (grouped(count.counted_n))
        }
        @if counts.len() > NAMES_N_MAX { ", and " (counts.len() - NAMES_N_MAX) " more" }
    }
}

/// The newest rows of it.
pub(super) fn samples(visit: &Visit, preview: &OperationPreview) -> Markup {
    let messages = preview.messages.iter().map(|one| message(visit, one));
    let rows: Vec<Markup> = preview.events.iter().map(|one| event(visit, one)).chain(messages).collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Some of them" }
            (list::table("The newest of them", &["Which", "Type", "State", "When", "Error"], &rows))
        }
    }
}

fn event(visit: &Visit, one: &EventView) -> Markup {
    let which = link::event(visit, &one.provider, &one.event_id);
    row(
        visit,
        &[
            which,
            moment::foreign(&one.event_type),
            html! { (chip::event(one.state)) " " (chip::delivery(&one.delivery)) },
        ],
        one.received_at_ms,
        one.error.as_deref().or(one.delivery.error.as_deref()),
    )
}

fn message(visit: &Visit, one: &MessageView) -> Markup {
    let which = html! { (link::message(visit, &one.message_id.to_string())) " to " (moment::foreign(&one.destination)) };
    let cells = [which, moment::foreign(&one.event_type), chip::message(one.state)];
    row(visit, &cells, one.created_at_ms, one.last_error.as_deref())
}

fn row(visit: &Visit, cells: &[Markup], at_ms: UnixMs, error: Option<&str>) -> Markup {
    html! {
        tr {
            @for cell in cells { td { (cell) } }
            td { (moment::moment(at_ms, visit.now_ms)) }
            td { (error.map_or_else(moment::none, |error| brief::line(error, ERROR_CHARS_MAX))) }
        }
    }
}
