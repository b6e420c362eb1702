//! The reasons why a request was not admitted.

use crate::admit::AdmitError;
use crate::fetch::FetchError;
use crate::verify::Unbelieved;

/// The reason why a request was not admitted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The request is not believed.
    #[error("not believed: {0}")]
    Verify(#[from] Box<Unbelieved>),
    /// Nobody can say: the sender's own keys are out of reach, and it may send it again.
    #[error(transparent)]
    Keys(#[from] FetchError),
    /// Believed, but not admitted; the sender may send it again.
    #[error(transparent)]
    Admit(#[from] AdmitError),
}
