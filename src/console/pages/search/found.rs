//! The finds of a search, grouped by what the text is an id of.

use maud::{Markup, html};

use crate::api::{EventView, MessageView, RejectedView, SearchHit};
use crate::console::contract::with_query;
use crate::console::parts::{chip, link, list, moment};
use crate::console::visit::Visit;

/// Finds of one sort: what the text is to them, and their rows.
struct FoundGroup {
    title: &'static str,
    headings: &'static [&'static str],
    rows: Vec<Markup>,
}

const OF_EVENTS: [&str; 7] = ["Received", "Provider", "Event", "Type", "State", "Calls", "Error"];
const OF_MESSAGES: [&str; 5] = ["Written", "Message", "Effect", "Destination", "State"];
const OF_REJECTED: [&str; 4] = ["Received", "Provider", "Step", "Why"];

pub(super) fn found(visit: &Visit, hits: &[SearchHit]) -> Markup {
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
