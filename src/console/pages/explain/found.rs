//! What was found in a pasted request.

use maud::{Markup, html};

use crate::api::{ExplainEvent, ExplainLines, ExplainVerdict, ExplainView};
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::{brief, chip as states, link, list, moment};
use crate::console::visit::Visit;
use crate::figures::grouped;

/// Most characters of one step.
const STEP_CHARS_MAX: usize = 1_000;

pub(super) fn shown(visit: &Visit, view: &ExplainView) -> Markup {
    let steps: Vec<Markup> = view
        .steps
        .iter()
        .map(|step| html! { tr { th scope="row" { (step.word) } td { (brief::line(&step.text, STEP_CHARS_MAX)) } } })
        .collect();
    html! {
        (list::facts(&facts(visit, view)))
        @if view.verdict == ExplainVerdict::NotRead {
            p class="note" {
                "A request begins with a line such as " code { "POST /webhooks/stripe" } "; then come its headers, an empty line and
                 its body. A curl command is not read."
            }
        }
        @if let Some(sentence) = lines(view.lines) { p class="note" { (sentence) } }
        section aria-labelledby="steps" {
            h2 id="steps" { "Steps" }
            (list::table("Steps", &["Step", "What was found"], &steps))
        }
        @if let Some(provider) = view.provider.as_deref().filter(|_| !view.events.is_empty()) {
            (events(visit, provider, view))
        }
    }
}

fn facts(visit: &Visit, view: &ExplainView) -> Vec<(&'static str, Markup)> {
    let (mood, word) = match view.verdict {
        ExplainVerdict::Believed => (Mood::Good, "believed"),
        ExplainVerdict::Handshake => (Mood::Good, "a handshake"),
        ExplainVerdict::NotBelieved => (Mood::Bad, "not believed"),
        ExplainVerdict::NotRead => (Mood::Needed, "not a request"),
    };
    let mut facts = vec![("Verdict", chip(mood, word))];
    if let Some(provider) = &view.provider {
        facts.push(("Provider", link::provider(visit, provider)));
    }
    if let Some(step) = &view.failed_at {
        let reason = view.reason.as_deref().unwrap_or_default();
        facts.push(("Failed at", html! { (step) @if !reason.is_empty() { " (" (reason) ")" } }));
    }
    facts.push(("Judged at", moment::moment(view.judged_at_ms, visit.now_ms)));
    if let Some(age_s) = view.age_s {
        let way = if age_s < 0 { "ahead of" } else { "behind" };
        facts.push(("Its own time", html! { (grouped(age_s.unsigned_abs())) " s " (way) " that" }));
    }
    facts
}

/// What was done about line ends, where it matters.
fn lines(lines: ExplainLines) -> Option<&'static str> {
    match lines {
        ExplainLines::AsGiven => None,
        ExplainLines::Lf => Some("The body was believed with LF at the ends of its lines, not with CRLF."),
        ExplainLines::Crlf => Some("The body was believed with CRLF at the ends of its lines, not with LF."),
    }
}

fn events(visit: &Visit, provider: &str, view: &ExplainView) -> Markup {
    let rows: Vec<Markup> = view.events.iter().map(|event| row(visit, provider, event)).collect();
    html! {
        section aria-labelledby="events" {
            h2 id="events" { "Events that it would be read as" }
            (list::table("Events", &["Event", "Type", "Identity", "Known"], &rows))
            @if view.more_events_n > 0 { p class="hint" { (grouped(view.more_events_n)) " more are not shown." } }
        }
    }
}

fn row(visit: &Visit, provider: &str, event: &ExplainEvent) -> Markup {
    html! {
        tr {
            td {
                @if event.known_state.is_some() { (link::event(visit, provider, &event.event_id)) }
                @else { (moment::foreign(&event.event_id)) }
            }
            td { (moment::foreign(&event.event_type)) @if let Some(why) = &event.unreadable { " " span class="hint" { "unreadable: " (moment::foreign(why)) } } }
            td { (moment::foreign(&event.identity)) }
            td { @match event.known_state { Some(state) => (states::event(state)), None => "not known: it would be new" } }
        }
    }
}
