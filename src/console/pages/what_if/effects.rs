//! What came of one event: each effect as it was committed beside the one that would follow.

use maud::{Markup, html};

use super::events::{change, not_undone, said, verdict};
use crate::api::{WhatIfCall, WhatIfChange, WhatIfEffect, WhatIfEvent, WhatIfView};
use crate::console::contract::path;
use crate::console::parts::diff::side_by_side;
use crate::console::parts::{body, chip as states, link, list, moment, sides};
use crate::console::visit::Visit;
use crate::figures::grouped;

/// Most bytes of bodies on one page, and most effects whose bodies are shown.
const SHOWN_BYTES_MAX: usize = 128 * 1024;
const SHOWN_EFFECTS_N_MAX: usize = 10;

pub(super) fn shown(visit: &Visit, view: &WhatIfView) -> Markup {
    html! {
        @match view.items.first() {
            Some(event) => (one(visit, event)),
            None => (list::nothing("There is no such event.")),
        }
        (not_undone(view))
    }
}

fn one(visit: &Visit, event: &WhatIfEvent) -> Markup {
    let again = visit.link(&path(&["events", &event.provider, &event.event_id, "what-if"]));
    let facts = [
        ("Event", link::event(visit, &event.provider, &event.event_id)),
        ("Provider", link::provider(visit, &event.provider)),
        ("Type", moment::foreign(&event.event_type)),
        ("Received", moment::moment(event.received_at_ms, visit.now_ms)),
        ("Result", verdict(event.verdict)),
        ("Stands as", states::event(event.state)),
        ("Handlers said", said(event)),
        ("Took", html! { (grouped(event.took_ms)) " ms" }),
    ];
    let differing: Vec<&WhatIfEffect> =
        event.effects.iter().filter(|effect| effect.change != WhatIfChange::Same).collect();
    let mut left = SHOWN_BYTES_MAX;
    html! {
        (list::facts(&facts))
        form method="post" action=(again) { button type="submit" { "Run the handlers again" } }
        section aria-labelledby="effects" {
            h2 id="effects" { "Effects" }
            @if event.effects.is_empty() { (list::nothing("None was committed, and none would follow.")) }
            @else { (table(visit, event)) }
            @if event.more_effects_n > 0 { p class="hint" { (grouped(event.more_effects_n)) " more are not shown." } }
            @if event.hidden_effects_n > 0 {
                p class="hint" { (grouped(event.hidden_effects_n)) " go to destinations out of your reach." }
            }
        }
        @for effect in differing.iter().take(SHOWN_EFFECTS_N_MAX) { (differs(effect, &mut left)) }
        @if differing.len() > SHOWN_EFFECTS_N_MAX {
            p class="hint" { "The contents of the first " (SHOWN_EFFECTS_N_MAX) " are shown." }
        }
    }
}

fn table(visit: &Visit, event: &WhatIfEvent) -> Markup {
    let rows: Vec<Markup> = event
        .effects
        .iter()
        .map(|effect| {
            html! {
                tr {
                    td { (change(effect.change)) }
                    td { (moment::foreign(&effect.effect_name)) }
                    td { (link::destination(visit, &effect.destination)) }
                    td { @if effect.fields.is_empty() { (moment::none()) } @else { (effect.fields.join(", ")) } }
                    td { @match effect.message_id { Some(id) => (link::message(visit, &id.to_string())), None => (moment::none()) } }
                    td { @match effect.message_state { Some(state) => (states::message(state)), None => (moment::none()) } }
                    td { code { (effect.idempotency_key) } }
                }
            }
        })
        .collect();
    let headings =
        ["Result", "Effect", "Destination", "Differs in", "Message", "Stands as", "Idempotency key"];
    list::table("Effects", &headings, &rows)
}

/// The two calls of one effect.
fn differs(effect: &WhatIfEffect, left: &mut usize) -> Markup {
    let texts = [&effect.was, &effect.now].map(|call| call.as_ref().map(in_lines).unwrap_or_default());
    let bytes_n: usize = texts.iter().flatten().map(String::len).sum();
    let has_room = left.checked_sub(bytes_n).map(|rest| *left = rest).is_some();
    let rows = if has_room { side_by_side(&texts[0], &texts[1]) } else { None };
    html! {
        section {
            h3 { (change(effect.change)) " " (moment::foreign(&effect.effect_name)) }
            @match rows {
                Some(rows) => (sides::table("What differs", ["Was committed", "Would follow"], &rows)),
                None => (list::nothing("These two are too large to be shown side by side: ask with `hooklatch what-if`.")),
            }
        }
    }
}

/// A call, a line for each of its parts.
fn in_lines(call: &WhatIfCall) -> Vec<String> {
    let line = |text: &str| crate::plain::line(text).into_owned();
    let mut lines = vec![format!("{} {}{}", line(&call.method), call.destination, line(&call.path))];
    lines.extend(call.lane.as_deref().map(|lane| format!("lane: {}", line(lane))));
    lines.extend(call.headers.iter().map(|(name, value)| format!("{}: {}", line(name), line(value))));
    if call.is_event_body {
        lines.push("(the event's own bytes)".to_owned());
        return lines;
    }
    lines.push(String::new());
    match &call.body {
        Some(text) => lines.extend(body::lines(text, call.is_cut)),
        None => lines.push(format!("({} bytes that are not shown)", grouped(call.body_bytes_n))),
    }
    lines
}
