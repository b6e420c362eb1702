//! The answer of a handler: effects, or why there are none.

use super::effects::Effects;

/// The answer of a handler.
pub type Handled = Result<Effects, HandlerError>;

/// The reason why a handler did not answer with effects. The variant is the decision.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// Failed for now: the event is kept as `retry` and dispatched again with back-off.
    #[error("{0:#}")]
    Retry(#[from] anyhow::Error),
    /// The payload is not what the handler expects: kept as `failed`.
    #[error("payload does not fit the handler: {0}")]
    Payload(#[from] serde_json::Error),
    /// Refused for good: kept as `failed`.
    #[error("{0}")]
    Refused(String),
    /// Nothing to do: kept as `ignored`.
    #[error("{0}")]
    Ignore(&'static str),
}

/// Ends a handler with nothing to do; `why` is shown with the event.
pub fn ignore(why: &'static str) -> Handled {
    Err(HandlerError::Ignore(why))
}

/// Ends a handler for good: the event is kept as `failed` with `why` and not tried again by itself.
pub fn refuse(why: impl Into<String>) -> Handled {
    Err(HandlerError::Refused(why.into()))
}
