//! States as words in a chip, whose colour says again what the word says.

use maud::{Markup, html};

use crate::types::{AttemptResult, EventState, MessageState};

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

/// State of an event.
pub(in crate::console) fn event(state: EventState) -> Markup {
    let mood = match state {
        EventState::Done => Mood::Good,
        EventState::Retry => Mood::Busy,
        EventState::Conflict | EventState::Unreadable => Mood::Needed,
        EventState::Failed => Mood::Bad,
        EventState::Ignored | EventState::Superseded | EventState::Replayed | EventState::Dismissed => {
            Mood::Quiet
        }
    };
    chip(mood, state.as_str())
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
