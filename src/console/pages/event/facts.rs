//! What stands on top of a ledger: the event as it is now.

use maud::{Markup, html};

use crate::api::{LedgerView, LedgerWhat};
use crate::console::parts::{chip, copy, link, list, moment};
use crate::console::visit::Visit;
use crate::figures::{grouped, plural, reruns};
use crate::types::MessageState;

pub(super) fn facts(visit: &Visit, view: &LedgerView) -> Markup {
    let event = &view.event;
    let id = if event.parts.is_empty() { "Event id" } else { "Raw id" };
    let mut rows = vec![
        (id, copy::line("event-id", &event.event_id)),
        ("State", html! { (chip::event(event.state)) }),
        ("Calls", html! { (chip::delivery(&event.delivery)) }),
        ("Provider", link::provider(visit, &event.provider)),
        ("Type", moment::foreign(&event.event_type)),
    ];
    match view.beside_event_id.as_deref() {
        Some(first) => rows.push(("Kept beside", link::event(visit, &event.provider, first))),
        None => rows.extend(event.error.as_deref().map(|error| ("Why", moment::foreign(error)))),
    }
    rows.extend(event.delivery.error.as_deref().map(|error| ("Error of a call", moment::foreign(error))));
    rows.extend(effects(view).map(|effects| ("Effects", effects)));
    rows.extend(event.object.as_deref().map(|object| {
        let version = event.version.map(|version| html! { ", version " (version) });
        ("Object", html! { (moment::id(object)) @if let Some(version) = version { (version) } })
    }));
    rows.push(("Identified by", identity(&event.identity)));
    rows.push(("Received", moment::moment(event.received_at_ms, visit.now_ms)));
    let at = |at_ms: i64| moment::moment(at_ms, visit.now_ms);
    rows.extend(event.created_at_ms.map(|at_ms| ("Happened at the sender", at(at_ms))));
    let due = if event.attempts_n == 0 { "To be dispatched" } else { "Dispatched again" };
    rows.extend(event.due_at_ms.map(|at_ms| (due, at(at_ms))));
    let dispatched = if event.generation == 0 { "Dispatched" } else { "Dispatched in this run" };
    rows.push((dispatched, html! { (plural(event.attempts_n.into(), "time")) }));
    if event.generation > 0 {
        rows.push(("Runs ordered by people", html! { (reruns(event.generation)) }));
    }
    rows.extend(view.trace_id.as_deref().map(|trace_id| {
        let is_recorded = view.is_trace_recorded != Some(false);
        ("Trace", html! { code { (trace_id) } @if !is_recorded { ", not recorded" } })
    }));
    html! { section aria-label="The event" { (list::facts(&rows)) } }
}

/// How many effects stand in which state, since a handler may be done while what it asked for is not.
fn effects(view: &LedgerView) -> Option<Markup> {
    let mut counts: Vec<(MessageState, u64)> = Vec::new();
    for entry in &view.entries {
        let LedgerWhat::Effect { message } = &entry.what else { continue };
        match counts.iter_mut().find(|(state, _)| *state == message.state) {
            Some((_, messages_n)) => *messages_n += 1,
            None => counts.push((message.state, 1)),
        }
    }
    let shown = html! { @for (state, messages_n) in &counts { (grouped(*messages_n)) " " (chip::message(*state)) " " } };
    (!counts.is_empty()).then_some(shown)
}

/// The rule that told it from others, in words.
pub(super) fn identity(rule: &str) -> Markup {
    let words = match rule.split('/').next() {
        Some("sender") => "the id that its sender gave it",
        Some("content") => "its content: other content is another event",
        Some("signal") => "when it came: a signal repeats by nature",
        Some("unreadable") => "its bytes: nothing else of it could be read",
        _ => "a rule of its kind",
    };
    html! { (words) " " code { (moment::foreign(rule)) } }
}
