//! The meaning of an answer for the effect of a call.

/// Meanings of a status for the effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusMeaning {
    /// The effect of the call happened.
    Done,
    /// The effect did not happen; the call is made again later.
    Retry,
    /// The call is refused for good.
    Dead,
    /// Nobody knows whether it happened: `unknown` decides.
    Unknown,
}
