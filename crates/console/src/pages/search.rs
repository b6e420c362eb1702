//! Whatever an id leads to: what was found, and each step at which it was looked for.

use super::prelude::*;
use hooklatch_contract::{EventView, MessageView, RejectedView, SearchHit, SearchView};
use hooklatch_core::types::EventState;

pub(crate) async fn show(visit: Visit, values: Values) -> Result<Response, PageError> {
    // As it is copied from a page or a log: with space around it.
    let Some(id) = values.get("id").map(str::trim) else {
        return Ok(PageBody::new("Search", asked_for(&visit, "")).into_response());
    };
    let found: SearchView = visit.get(&with_query("/search", &[("id", Some(id))])).await?;
    if let Some(path) = only_event(&found) {
        return Ok(form::go(&visit.link(&path)));
    }
    let title = match (found.found.is_empty(), found.skips_ids_inside) {
        (true, false) => "Not found",
        (true, true) => "Not found in what you may search",
        (false, _) => "Search",
    };
    Ok(PageBody::new(title, draw(&visit, id, &found)).into_response())
}

/// The page of the event that is all there is to find, unless something is to be said first.
fn only_event(found: &SearchView) -> Option<String> {
    let [SearchHit::EventId { event } | SearchHit::SearchId { event }] = &found.found[..] else {
        return None;
    };
    found.notes.is_empty().then(|| link::event_path(&event.provider, &event.event_id))
}

fn draw(visit: &Visit, id: &str, found: &SearchView) -> Markup {
    html! {
        (asked_for(visit, id))
        p { "Looked for " code { (text::foreign(&found.query)) } "." }
        (ladder(found))
        @if !found.notes.is_empty() {
            section aria-labelledby="why" {
                h2 id="why" { @if found.found.is_empty() { "What was not looked at" } @else { "Notes" } }
                ul class="notes" { @for note in &found.notes { li { (text::coded(note)) } } }
            }
        }
        (draw_found(visit, &found.found))
    }
}

/// The field, and what can be looked for.
fn asked_for(visit: &Visit, id: &str) -> Markup {
    html! {
        form class="filter" method="get" action=(visit.link("/search")) {
            label class="wide" { span { "Any id" }
                input type="search" name="id" value=(id) required maxlength="1000" autocomplete="off" spellcheck="false";
            }
            button type="submit" class="main" { "Search" }
        }
        @if id.is_empty() {
            p { "Paste the id that you have. It is compared with:" }
            ul {
                li { "ids of events, whole or from the first six characters on;" }
                li { "ids inside events: a payment, an order, an invoice, where the kind of the sender names them; also by the first six characters;" }
                li { "the last part of an address, such as a page of your sender's dashboard;" }
                li { "objects of events, such as an invoice or an order;" }
                li { "ids of messages, which calls carry as " code { "Hooklatch-Message-Id" } ";" }
                li { "idempotency keys of messages, and names of effects;" }
                li { "ids, digests and headers of requests that were refused." }
            }
            p { "If nothing is found, the page lists what was not looked at." }
        }
    }
}

const OF_EVENTS: [&str; 7] = ["Received", "Provider", "Event", "Type", "State", "Calls", "Error"];
const OF_MESSAGES: [&str; 5] = ["Written", "Message", "Effect", "Destination", "State"];
const OF_REJECTED: [&str; 4] = ["Received", "Provider", "Step", "Why"];

fn draw_found(visit: &Visit, hits: &[SearchHit]) -> Markup {
    // Of each sort: what the text is to them, the headings, and their rows.
    let mut groups: Vec<(&str, &[&str], Vec<Markup>)> = Vec::new();
    for hit in hits {
        let (title, headings, row) = drawn(visit, hit);
        match groups.iter_mut().find(|(one, ..)| *one == title) {
            Some((_, _, rows)) => rows.push(row),
            None => groups.push((title, headings, vec![row])),
        }
    }
    html! {
        @for (title, headings, rows) in &groups { section { h2 { (title) } (list::table(title, headings, rows)) } }
    }
}

fn drawn(visit: &Visit, hit: &SearchHit) -> (&'static str, &'static [&'static str], Markup) {
    let title = match hit {
        SearchHit::EventId { .. } => "Events of this id, or whose id begins so",
        SearchHit::SearchId { .. } => "Events with this id inside, or one that begins so",
        SearchHit::Object { .. } => "It is an object of events",
        SearchHit::MessageId { .. } => "It is the id of a message",
        SearchHit::IdempotencyKey { .. } => "It is the idempotency key of a message",
        SearchHit::EffectName { .. } => "It is the name of an effect of open messages",
        SearchHit::Rejected { .. } => "It stands in requests that were refused",
    };
    match hit {
        SearchHit::EventId { event: one }
        | SearchHit::SearchId { event: one }
        | SearchHit::Object { event: one } => (title, &OF_EVENTS, event(visit, one)),
        SearchHit::MessageId { message: one }
        | SearchHit::IdempotencyKey { message: one }
        | SearchHit::EffectName { message: one } => (title, &OF_MESSAGES, message(visit, one)),
        SearchHit::Rejected { rejected: one } => (title, &OF_REJECTED, rejected(visit, one)),
    }
}

fn event(visit: &Visit, event: &EventView) -> Markup {
    list::row(&[
        text::moment(event.received_at_ms, visit.now_ms),
        link::provider(visit, &event.provider),
        link::event(visit, &event.provider, &event.event_id),
        text::foreign(&event.event_type),
        text::event_chip(event.state),
        text::delivery_chip(&event.delivery),
        text::event_error(event),
    ])
}

fn message(visit: &Visit, message: &MessageView) -> Markup {
    let event = link::event(visit, &message.provider, &message.event_id);
    list::row(&[
        text::moment(message.created_at_ms, visit.now_ms),
        link::message(visit, &message.message_id.to_string()),
        html! { (text::foreign(&message.effect_name)) " of " (event) },
        link::destination(visit, &message.destination),
        text::message_chip(message.state),
    ])
}

fn rejected(visit: &Visit, rejected: &RejectedView) -> Markup {
    let all = with_query("/rejected", &[("provider", Some(rejected.provider.as_str()))]);
    let why = html! {
        (text::coded(&rejected.detail)) ". "
        a href=(visit.link(&all)) { "All that was refused of this provider" }
        div class="hint" { "SHA-256 of its body " code { (text::foreign(&rejected.body_digest)) } }
    };
    list::row(&[
        text::moment(rejected.received_at_ms, visit.now_ms),
        link::provider(visit, &rejected.provider),
        text::foreign(&rejected.step),
        why,
    ])
}

/// What becomes of an id, from the best to the worst: the word, its colour, and what it means.
const RUNGS: [(&str, Mood, &str); 5] = [
    (FOUND, Mood::Quiet, "What matches is stored here."),
    (
        SUPERSEDED,
        Mood::Quiet,
        "A newer event of its object had been received before it: stored, and not dispatched.",
    ),
    (
        REPLAYED,
        Mood::Quiet,
        "The same signed bytes had been received under another id: recorded, and not dispatched.",
    ),
    (REJECTED, Mood::Bad, "A request that was rejected has it, so nothing of that request was stored."),
    // The contract says it.
    (NOT_FOUND, Mood::Needed, ""),
];
const FOUND: &str = "found";
const SUPERSEDED: &str = "superseded";
const REPLAYED: &str = "replayed";
const REJECTED: &str = "rejected";
const NOT_FOUND: &str = "not found";

fn ladder(found: &SearchView) -> Markup {
    let mut reached: Vec<&str> = found.found.iter().map(rung).collect();
    if reached.is_empty() {
        reached.push(NOT_FOUND);
    }
    html! {
        ol class="ladder" aria-label="How far it got" {
            @for (word, mood, _) in RUNGS {
                @let shown = if word == NOT_FOUND && found.skips_ids_inside { "not found in what you may search" } else { word };
                @if reached.contains(&word) { li aria-current="true" { (chip(mood, shown)) } }
                @else { li class="none" { (word) } }
            }
        }
        @for (word, _, sentence) in RUNGS {
            @if reached.contains(&word) && !sentence.is_empty() { p { (sentence) } }
        }
        @if found.is_cut || found.found.is_empty() { p class="headline" { (text::coded(&found.headline)) } }
    }
}

fn rung(hit: &SearchHit) -> &'static str {
    match hit {
        SearchHit::EventId { event } | SearchHit::SearchId { event } => match event.state {
            EventState::Superseded => SUPERSEDED,
            EventState::Replayed => REPLAYED,
            _ => FOUND,
        },
        SearchHit::Rejected { .. } => REJECTED,
        _ => FOUND,
    }
}
