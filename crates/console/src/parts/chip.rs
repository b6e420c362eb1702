//! States as words in a chip, with a colour that means the same.

use maud::{Markup, html};

use crate::parts::moment::foreign;
use hooklatch_contract::{DeliveryView, EventView};
pub(crate) use hooklatch_core::types::Mood;
use hooklatch_core::types::{AttemptResult, DeliveryState, EventState, MessageState};

/// The class that gives a mood its colour.
pub(crate) fn colour(mood: Mood) -> &'static str {
    match mood {
        Mood::Good => "good",
        Mood::Busy => "busy",
        Mood::Needed => "needed",
        Mood::Bad => "bad",
        Mood::Quiet => "quiet",
    }
}

/// A word in a chip.
pub(crate) fn chip(mood: Mood, word: &str) -> Markup {
    html! { span class={ "chip " (colour(mood)) } { (word) } }
}

/// State of an event: what its handler did. That all is well only its calls can say, so it is never green.
pub(crate) fn event(state: EventState) -> Markup {
    chip(state.mood(), state.as_str())
}

/// State of the calls of an event, with how many of them were delivered.
pub(crate) fn delivery(delivery: &DeliveryView) -> Markup {
    let word = match delivery.state {
        DeliveryState::Settled => "settled by an operator",
        DeliveryState::None => "no calls",
        DeliveryState::NotSent => "not sent",
        DeliveryState::NoLongerKnown => "no longer known",
        state => state.as_str(),
    };
    let is_part = delivery.delivered_n < delivery.messages_n;
    html! {
        (chip(delivery.state.mood(), word))
        @if is_part { " " span class="hint" { (delivery.delivered_n) " of " (delivery.messages_n) " delivered" } }
    }
}

/// The reason why an event, or the worst of its calls, stands where it does.
pub(crate) fn why(event: &EventView) -> Markup {
    match event.error.as_deref().or(event.delivery.error.as_deref()) {
        Some(error) => foreign(error),
        None => super::moment::none(),
    }
}

/// State of a message.
pub(crate) fn message(state: MessageState) -> Markup {
    chip(state.mood(), state.as_str())
}

/// Result of an attempt; one under way has none.
pub(crate) fn attempt(result: Option<AttemptResult>) -> Markup {
    match result {
        None => chip(Mood::Busy, "under way"),
        Some(result) => chip(result.mood(), result.as_str()),
    }
}
