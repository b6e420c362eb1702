//! What came of many events: a line for each, and what no rollback takes back.

use maud::{Markup, html};

use crate::api::{WhatIfChange, WhatIfEvent, WhatIfSaid, WhatIfTaken, WhatIfVerdict, WhatIfView};
use crate::console::contract::path;
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::{brief, chip as states, link, list, moment};
use crate::console::visit::Visit;
use crate::figures::plural;

const HEADINGS: [&str; 7] = ["Result", "Provider", "Event", "Type", "Stands as", "Handlers said", "Effects"];
/// Most characters of a reason in a line.
const WHY_CHARS_MAX: usize = 120;

pub(super) fn shown(visit: &Visit, view: &WhatIfView) -> Markup {
    let rows: Vec<Markup> = view.items.iter().map(|event| row(visit, event)).collect();
    html! {
        p {
            (plural(view.items.len() as u64, "event")) ": "
            (view.changed_n) " changed, " (view.unchanged_n) " unchanged, " (view.not_run_n) " not run."
            @if view.is_out_of_time { " The time was up before all were asked about." }
        }
        @if rows.is_empty() { (list::nothing("No event is found by this filter.")) }
        @else { (list::table("Events and what would follow", &HEADINGS, &rows)) }
        (not_undone(view))
    }
}

/// What handlers may have done all the same.
pub(super) fn not_undone(view: &WhatIfView) -> Markup {
    html! {
        @if !view.not_undone.is_empty() {
            section aria-labelledby="not-undone" {
                h2 id="not-undone" { "What this does not undo" }
                ul class="note" { @for sentence in &view.not_undone { li { (sentence) } } }
            }
        }
    }
}

fn row(visit: &Visit, event: &WhatIfEvent) -> Markup {
    let again = visit.link(&path(&["events", &event.provider, &event.event_id, "what-if"]));
    html! {
        tr {
            td { (verdict(event.verdict)) }
            td { (link::provider(visit, &event.provider)) }
            td { (link::event(visit, &event.provider, &event.event_id)) }
            td { (moment::foreign(&event.event_type)) }
            td { (states::event(event.state)) }
            td { (said(event)) }
            td {
                (summary(event))
                @if event.verdict == WhatIfVerdict::Changed {
                    form method="post" action=(again) { button type="submit" { "Show the difference" } }
                }
            }
        }
    }
}

pub(super) fn verdict(verdict: WhatIfVerdict) -> Markup {
    match verdict {
        WhatIfVerdict::Unchanged => chip(Mood::Good, "unchanged"),
        WhatIfVerdict::Changed => chip(Mood::Needed, "changed"),
        WhatIfVerdict::NotRun => chip(Mood::Quiet, "not run"),
    }
}

pub(super) fn change(change: WhatIfChange) -> Markup {
    let mood = match change {
        WhatIfChange::New => Mood::Good,
        WhatIfChange::Gone => Mood::Bad,
        WhatIfChange::Other => Mood::Needed,
        WhatIfChange::Unknown | WhatIfChange::Same => Mood::Quiet,
    };
    chip(mood, change.as_str())
}

/// What the handlers said, with their reason.
pub(super) fn said(event: &WhatIfEvent) -> Markup {
    let (mood, word) = match event.said {
        WhatIfSaid::Handled => (Mood::Good, "handled"),
        WhatIfSaid::Ignored => (Mood::Quiet, "ignored"),
        WhatIfSaid::Refused => (Mood::Bad, "refused"),
        WhatIfSaid::Retry => (Mood::Busy, "failed for now"),
        WhatIfSaid::Panicked => (Mood::Bad, "panicked"),
        WhatIfSaid::TookTooLong => (Mood::Bad, "took too long"),
        WhatIfSaid::Superseded => (Mood::Quiet, "superseded"),
        WhatIfSaid::NotRun => (Mood::Quiet, "not asked"),
    };
    let taken = match event.taken_as {
        None => "",
        Some(WhatIfTaken::Newest) => "Taken as the newest version of its object, as it was when it came.",
        Some(WhatIfTaken::Stale) => "Taken as outdated: a newer version of its object had come before it.",
    };
    html! {
        (chip(mood, word))
        @if let Some(why) = &event.why { " " (brief::line(why, WHY_CHARS_MAX)) }
        @if !taken.is_empty() { " " span class="hint" { (taken) } }
    }
}

/// How many effects are new, gone, other, the same.
fn summary(event: &WhatIfEvent) -> Markup {
    let all = [
        WhatIfChange::New,
        WhatIfChange::Gone,
        WhatIfChange::Other,
        WhatIfChange::Unknown,
        WhatIfChange::Same,
    ];
    let counts = all.map(|kind| (kind, event.effects.iter().filter(|effect| effect.change == kind).count()));
    html! {
        @if event.effects.is_empty() { (moment::none()) }
        @for (kind, n) in counts.into_iter().filter(|(_, n)| *n > 0) { (n) " " (change(kind)) " " }
        @if event.more_effects_n > 0 { span class="hint" { "and " (event.more_effects_n) " more" } }
        @if event.hidden_effects_n > 0 { span class="hint" { "and " (event.hidden_effects_n) " out of your reach" } }
    }
}
