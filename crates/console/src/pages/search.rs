//! Whatever an id leads to: what was found, and what was not looked at.

use super::prelude::*;
use hooklatch_contract::{RejectedView, SearchHit, SearchView};

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
        @if found.is_cut || found.found.is_empty() { p class="headline" { (text::coded(&found.headline)) } }
        @if !found.notes.is_empty() {
            section aria-labelledby="why" {
                h2 id="why" { @if found.found.is_empty() { "What was not looked at" } @else { "Notes" } }
                ul class="notes" { @for note in &found.notes { li { (text::coded(note)) } } }
            }
        }
        @for group in found.found.chunk_by(|one, two| title(one) == title(two)) {
            @let title = group.first().map_or("", title);
            section { h2 { (title) } (table(visit, title, group)) }
        }
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

/// What the text is to a hit.
fn title(hit: &SearchHit) -> &'static str {
    match hit {
        SearchHit::EventId { .. } => "Events of this id, or whose id begins so",
        SearchHit::SearchId { .. } => "Events with this id inside, or one that begins so",
        SearchHit::Object { .. } => "It is an object of events",
        SearchHit::MessageId { .. } => "It is the id of a message",
        SearchHit::IdempotencyKey { .. } => "It is the idempotency key of a message",
        SearchHit::EffectName { .. } => "It is the name of an effect of open messages",
        SearchHit::Rejected { .. } => "It stands in requests that were refused",
    }
}

/// Hits of one sort, as the list of them shows them.
fn table(visit: &Visit, title: &str, group: &[SearchHit]) -> Markup {
    let (mut events, mut messages, mut rejected) = (Vec::new(), Vec::new(), Vec::new());
    for hit in group {
        match hit {
            SearchHit::EventId { event } | SearchHit::SearchId { event } | SearchHit::Object { event } => {
                events.push(event.clone());
            }
            SearchHit::MessageId { message }
            | SearchHit::IdempotencyKey { message }
            | SearchHit::EffectName { message } => messages.push(message.clone()),
            SearchHit::Rejected { rejected: one } => rejected.push(one),
        }
    }
    let headings = ["Received", "Provider", "Step", "Why"];
    html! {
        @if !events.is_empty() { (super::events::table(visit, &events)) }
        @if !messages.is_empty() { (super::messages::table(visit, title, &messages)) }
        @if !rejected.is_empty() { (list::rows(title, headings, "", rejected, |one| cells(visit, one))) }
    }
}

fn cells(visit: &Visit, rejected: &RejectedView) -> [Markup; 4] {
    let all = with_query("/rejected", &[("provider", Some(rejected.provider.as_str()))]);
    let why = html! {
        (text::coded(&rejected.detail)) ". "
        a href=(visit.link(&all)) { "All that was refused of this provider" }
        div class="hint" { "SHA-256 of its body " code { (text::foreign(&rejected.body_digest)) } }
    };
    [
        text::moment(rejected.received_at_ms, visit.now_ms),
        link::provider(visit, &rejected.provider),
        text::foreign(&rejected.step),
        why,
    ]
}
