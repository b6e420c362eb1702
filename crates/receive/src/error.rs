//! The reasons why a request was not admitted.

use crate::admit::AdmitError;
use crate::fetch::FetchError;
use hooklatch_verify::Unbelieved;

/// The reason why a request was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The request is not believed.
    #[error("not believed: {0}")]
    Verify(#[from] Box<Unbelieved>),
    /// It cannot be decided: the sender's own keys are out of reach, and it may send it again.
    #[error(transparent)]
    Keys(#[from] FetchError),
    /// Believed, but not admitted; the sender may send it again.
    #[error(transparent)]
    Admit(#[from] AdmitError),
}

impl ReceiveError {
    /// The reason as one word for metrics and log lines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Verify(_) => "rejected",
            Self::Keys(_) => "keys_unavailable",
            Self::Admit(AdmitError::Saturated) => "saturated",
            Self::Admit(AdmitError::Unavailable(_)) => "unavailable",
            Self::Admit(AdmitError::Rejected(_)) => "handler_failed",
        }
    }
}
