//! States as words in a chip, whose colour says again what the word says.

use maud::{Markup, html};

use crate::api::{DeliveryView, EventView};
use crate::console::parts::moment::foreign;
use crate::types::{AttemptResult, DeliveryState, EventState, MessageState};

/// How a state is taken by somebody who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) enum Mood {
    /// All is well, and done.
    Good,
    /// It goes on by itself.
    Busy,
    /// It waits for a person.
    Needed,
    /// It will not happen, or did not.
    Bad,
    /// Nothing is to be done.
    Quiet,
}

impl Mood {
    /// The class that gives it its colour.
    pub(super) fn colour(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Needed => "needed",
            Self::Bad => "bad",
            Self::Quiet => "quiet",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Good => "chip good",
            Self::Busy => "chip busy",
            Self::Needed => "chip needed",
            Self::Bad => "chip bad",
            Self::Quiet => "chip quiet",
        }
    }
}

/// A word in a chip.
pub(in crate::console) fn chip(mood: Mood, word: &str) -> Markup {
    html! { span class=(mood.class()) { (word) } }
}

/// State of an event: what its handler did. That all is well only its calls can say, so it is never green.
pub(in crate::console) fn event(state: EventState) -> Markup {
    let mood = match state {
        EventState::Retry => Mood::Busy,
        EventState::Conflict | EventState::Unreadable => Mood::Needed,
        EventState::Failed => Mood::Bad,
        EventState::Handled
        | EventState::Ignored
        | EventState::Superseded
        | EventState::Replayed
        | EventState::Dismissed => Mood::Quiet,
    };
    chip(mood, state.as_str())
}

/// What became of the calls of an event, with how many of them were delivered.
pub(in crate::console) fn delivery(delivery: &DeliveryView) -> Markup {
    let (mood, word) = match delivery.state {
        DeliveryState::Held => (Mood::Needed, "held"),
        DeliveryState::Dead => (Mood::Bad, "dead"),
        DeliveryState::Discarded => (Mood::Quiet, "discarded"),
        DeliveryState::Open => (Mood::Busy, "open"),
        DeliveryState::Settled => (Mood::Quiet, "settled by an operator"),
        DeliveryState::Delivered => (Mood::Good, "delivered"),
        DeliveryState::None => (Mood::Quiet, "no calls"),
        DeliveryState::NotSent => (Mood::Quiet, "not sent"),
        DeliveryState::NoLongerKnown => (Mood::Quiet, "no longer known"),
    };
    let is_part = delivery.delivered_n < delivery.messages_n;
    html! {
        (chip(mood, word))
        @if is_part { " " span class="hint" { (delivery.delivered_n) " of " (delivery.messages_n) " delivered" } }
    }
}

/// The reason why an event, or the worst of its calls, stands where it does.
pub(in crate::console) fn why(event: &EventView) -> Markup {
    match event.error.as_deref().or(event.delivery.error.as_deref()) {
        Some(error) => foreign(error),
        None => super::moment::none(),
    }
}

/// State of a message.
pub(in crate::console) fn message(state: MessageState) -> Markup {
    let mood = match state {
        MessageState::Done => Mood::Good,
        MessageState::Ready | MessageState::Waiting | MessageState::Leased => Mood::Busy,
        MessageState::Held => Mood::Needed,
        MessageState::Dead => Mood::Bad,
        MessageState::Discarded => Mood::Quiet,
    };
    chip(mood, state.as_str())
}

/// Result of an attempt; one under way has none.
pub(in crate::console) fn attempt(result: Option<AttemptResult>) -> Markup {
    match result {
        None => chip(Mood::Busy, "under way"),
        Some(result) => {
            let mood = match result {
                AttemptResult::Done => Mood::Good,
                AttemptResult::Retry => Mood::Busy,
                AttemptResult::Unknown => Mood::Needed,
                AttemptResult::Refused => Mood::Bad,
                AttemptResult::Released => Mood::Quiet,
            };
            chip(mood, result.as_str())
        }
    }
}
