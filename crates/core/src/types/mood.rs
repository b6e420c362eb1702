//! How each state is taken by people who look at it: one place for the colours of the console and of the commands.

use super::{AttemptResult, DeliveryState, EventState, MessageState};

/// How a state is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
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

impl EventState {
    /// Only its calls can say that all is well, so it is never good.
    pub fn mood(self) -> Mood {
        match self {
            Self::Retry => Mood::Busy,
            Self::Conflict | Self::Unreadable => Mood::Needed,
            Self::Failed => Mood::Bad,
            Self::Handled | Self::Ignored | Self::Superseded | Self::Replayed | Self::Dismissed => {
                Mood::Quiet
            }
        }
    }
}

impl DeliveryState {
    /// By the worst of the calls.
    pub fn mood(self) -> Mood {
        match self {
            Self::Held => Mood::Needed,
            Self::Dead => Mood::Bad,
            Self::Open => Mood::Busy,
            Self::Delivered => Mood::Good,
            Self::Discarded | Self::Settled | Self::None | Self::NotSent | Self::NoLongerKnown => Mood::Quiet,
        }
    }
}

impl MessageState {
    /// By what follows without a person.
    pub fn mood(self) -> Mood {
        match self {
            Self::Done => Mood::Good,
            Self::Ready | Self::Waiting | Self::Leased => Mood::Busy,
            Self::Held => Mood::Needed,
            Self::Dead => Mood::Bad,
            Self::Discarded => Mood::Quiet,
        }
    }
}

impl AttemptResult {
    /// By what it says of the call.
    pub fn mood(self) -> Mood {
        match self {
            Self::Done => Mood::Good,
            Self::Retry => Mood::Busy,
            Self::Unknown => Mood::Needed,
            Self::Refused => Mood::Bad,
            Self::Released => Mood::Quiet,
        }
    }
}
