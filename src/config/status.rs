//! What an answer says about the effect of a call.

/// What a status says about the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusMeaning {
    /// It happened.
    Done,
    /// Not now; again later.
    Retry,
    /// Refused for good.
    Dead,
    /// Nobody knows whether it happened: `unknown` decides.
    Unknown,
}
