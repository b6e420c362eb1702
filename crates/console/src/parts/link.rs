//! Names that lead to their pages.

use maud::{Markup, html};

use super::text::{Mood, chip, copy_whole, foreign, short_id};
use crate::visit::{Visit, path};
use hooklatch_core::types::TEST_EVENT;

/// The page of an event.
pub(crate) fn event_path(provider: &str, event_id: &str) -> String {
    path(&["events", provider, event_id])
}

/// An event's id, which leads to its ledger.
pub(crate) fn event(visit: &Visit, provider: &str, event_id: &str) -> Markup {
    let short = short_id(event_id);
    html! {
        a class="id" href=(visit.link(&event_path(provider, event_id)))
            title=[short.is_some().then(|| hooklatch_core::plain::line(event_id))] {
            (foreign(short.as_deref().unwrap_or(event_id)))
        }
        @if short.is_some() { " " (copy_whole(event_id)) }
        @if event_id.starts_with(TEST_EVENT) { " " (chip(Mood::Needed, "test event")) }
    }
}

/// A message's id, which leads to its page.
pub(crate) fn message(visit: &Visit, message_id: &str) -> Markup {
    html! { a class="id" href=(visit.link(&path(&["messages", message_id]))) { (message_id) } }
}

/// A provider's name, which leads to its page among the senders.
pub(crate) fn provider(visit: &Visit, name: &str) -> Markup {
    html! { a href=(visit.link(&path(&["senders", name]))) { (foreign(name)) } }
}

/// A destination's name, which leads to its page.
pub(crate) fn destination(visit: &Visit, name: &str) -> Markup {
    html! { a href=(visit.link(&path(&["destinations", name]))) { (foreign(name)) } }
}

/// An operation's id, which leads to its page.
pub(crate) fn operation(visit: &Visit, operation_id: &str) -> Markup {
    html! { a class="id" href=(visit.link(&path(&["operations", operation_id]))) { (foreign(operation_id)) } }
}
