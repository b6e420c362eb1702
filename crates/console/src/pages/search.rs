//! Whatever an id leads to: what was found, and each step at which it was looked for.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::contract::with_query;
use crate::parts::chip::{Mood, chip};
use crate::parts::frame::Place;
use crate::parts::{chip, field, form, link, list, moment};
use crate::state::ConsoleState;
use crate::visit::Visit;
use hooklatch_contract::{EventView, MessageView, RejectedView, SearchHit, SearchView};
use hooklatch_core::types::EventState;

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/search", get(show))
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
    let values = field::values(&raw);
    // As it is copied from a page or a log: with space around it.
    let Some(id) = field::value(&values, "id").map(str::trim) else {
        return visit.page(Place::Elsewhere, "Search", &asked_for(&visit, ""));
    };
    let found: SearchView = match visit.get(&with_query("/search", &[("id", Some(id))])).await {
        Ok(found) => found,
        Err(trouble) => return visit.trouble(Place::Elsewhere, &trouble),
    };
    if let Some(path) = only_event(&found) {
        return form::go(&visit.link(&path));
    }
    let title = match (found.found.is_empty(), found.skips_ids_inside) {
        (true, false) => "Not found",
        (true, true) => "Not found in what you may search",
        (false, _) => "Search",
    };
    visit.page(Place::Elsewhere, title, &draw(&visit, id, &found))
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
        p { "Looked for " code { (moment::foreign(&found.query)) } "." }
        (ladder(found))
        @if !found.notes.is_empty() {
            section aria-labelledby="why" {
                h2 id="why" { @if found.found.is_empty() { "What was not looked at" } @else { "Notes" } }
                ul class="notes" { @for note in &found.notes { li { (moment::coded(note)) } } }
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

/// Finds of one sort: what the text is to them, and their rows.
struct FoundGroup {
    title: &'static str,
    headings: &'static [&'static str],
    rows: Vec<Markup>,
}

const OF_EVENTS: [&str; 7] = ["Received", "Provider", "Event", "Type", "State", "Calls", "Error"];
const OF_MESSAGES: [&str; 5] = ["Written", "Message", "Effect", "Destination", "State"];
const OF_REJECTED: [&str; 4] = ["Received", "Provider", "Step", "Why"];

fn draw_found(visit: &Visit, hits: &[SearchHit]) -> Markup {
    let mut groups: Vec<FoundGroup> = Vec::new();
    for hit in hits {
        let (title, headings, row) = drawn(visit, hit);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(FoundGroup { title, headings, rows: vec![row] }),
        }
    }
    html! {
        @for group in &groups {
            section {
                h2 { (group.title) }
                (list::table(group.title, group.headings, &group.rows))
            }
        }
    }
}

fn drawn(visit: &Visit, hit: &SearchHit) -> (&'static str, &'static [&'static str], Markup) {
    match hit {
        SearchHit::EventId { event: one } => {
            ("Events of this id, or whose id begins so", &OF_EVENTS, event(visit, one))
        }
        SearchHit::SearchId { event: one } => {
            ("Events with this id inside, or one that begins so", &OF_EVENTS, event(visit, one))
        }
        SearchHit::Object { event: one } => ("It is an object of events", &OF_EVENTS, event(visit, one)),
        SearchHit::MessageId { message: one } => {
            ("It is the id of a message", &OF_MESSAGES, message(visit, one))
        }
        SearchHit::IdempotencyKey { message: one } => {
            ("It is the idempotency key of a message", &OF_MESSAGES, message(visit, one))
        }
        SearchHit::EffectName { message: one } => {
            ("It is the name of an effect of open messages", &OF_MESSAGES, message(visit, one))
        }
        SearchHit::Rejected { rejected: one } => {
            ("It stands in requests that were refused", &OF_REJECTED, rejected(visit, one))
        }
    }
}

fn event(visit: &Visit, event: &EventView) -> Markup {
    html! {
        tr {
            td { (moment::moment(event.received_at_ms, visit.now_ms)) }
            td { (link::provider(visit, &event.provider)) }
            td { (link::event(visit, &event.provider, &event.event_id)) }
            td { (moment::foreign(&event.event_type)) }
            td { (chip::event(event.state)) }
            td { (chip::delivery(&event.delivery)) }
            td { (chip::why(event)) }
        }
    }
}

fn message(visit: &Visit, message: &MessageView) -> Markup {
    html! {
        tr {
            td { (moment::moment(message.created_at_ms, visit.now_ms)) }
            td { (link::message(visit, &message.message_id.to_string())) }
            td { (moment::foreign(&message.effect_name)) " of " (link::event(visit, &message.provider, &message.event_id)) }
            td { (link::destination(visit, &message.destination)) }
            td { (chip::message(message.state)) }
        }
    }
}

fn rejected(visit: &Visit, rejected: &RejectedView) -> Markup {
    let all = with_query("/rejected", &[("provider", Some(rejected.provider.as_str()))]);
    html! {
        tr {
            td { (moment::moment(rejected.received_at_ms, visit.now_ms)) }
            td { (link::provider(visit, &rejected.provider)) }
            td { (moment::foreign(&rejected.step)) }
            td {
                (moment::coded(&rejected.detail)) ". "
                a href=(visit.link(&all)) { "All that was refused of this provider" }
                div class="hint" { "SHA-256 of its body " code { (moment::foreign(&rejected.body_digest)) } }
            }
        }
    }
}

/// What becomes of an id, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    Found,
    Superseded,
    Replayed,
    Rejected,
    NotFound,
}

impl Rung {
    const ALL: [Self; 5] = [Self::Found, Self::Superseded, Self::Replayed, Self::Rejected, Self::NotFound];

    fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Superseded => "superseded",
            Self::Replayed => "replayed",
            Self::Rejected => "rejected",
            Self::NotFound => "not found",
        }
    }

    fn mood(self) -> Mood {
        match self {
            Self::Found | Self::Superseded | Self::Replayed => Mood::Quiet,
            Self::Rejected => Mood::Bad,
            Self::NotFound => Mood::Needed,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Found => "What matches is stored here.",
            Self::Superseded => {
                "A newer event of its object had been received before it: stored, and not dispatched."
            }
            Self::Replayed => {
                "The same signed bytes had been received under another id: recorded, and not dispatched."
            }
            Self::Rejected => "A request that was rejected has it, so nothing of that request was stored.",
            // The contract says it.
            Self::NotFound => "",
        }
    }
}

fn ladder(found: &SearchView) -> Markup {
    let reached = reached(&found.found);
    html! {
        ol class="ladder" aria-label="How far it got" {
            @for rung in Rung::ALL {
                @let word = if rung == Rung::NotFound && found.skips_ids_inside { "not found in what you may search" } else { rung.word() };
                @if reached.contains(&rung) { li aria-current="true" { (chip(rung.mood(), word)) } }
                @else { li class="none" { (rung.word()) } }
            }
        }
        @for rung in Rung::ALL {
            @if reached.contains(&rung) && rung != Rung::NotFound { p { (rung.sentence()) } }
        }
        @if found.is_cut || found.found.is_empty() { p class="headline" { (moment::coded(&found.headline)) } }
    }
}

fn reached(found: &[SearchHit]) -> Vec<Rung> {
    let mut reached: Vec<Rung> = found.iter().map(rung).collect();
    if reached.is_empty() {
        reached.push(Rung::NotFound);
    }
    reached
}

fn rung(hit: &SearchHit) -> Rung {
    match hit {
        SearchHit::EventId { event } | SearchHit::SearchId { event } => of_event(event),
        SearchHit::Rejected { .. } => Rung::Rejected,
        _ => Rung::Found,
    }
}

fn of_event(event: &EventView) -> Rung {
    match event.state {
        EventState::Superseded => Rung::Superseded,
        EventState::Replayed => Rung::Replayed,
        _ => Rung::Found,
    }
}
