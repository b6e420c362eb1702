//! The answer of admission: an outcome for each event, or the reason why nothing was admitted.

use hooklatch_core::types::Outcome;
use hooklatch_outbox::traces::AdmissionTimes;

/// The outcome of a request that was admitted, event by event, in the order of the request.
#[derive(Debug, Clone, Default)]
pub struct AdmittedEvents {
    /// Id of the event, as the sender or we gave it, and what was found.
    pub events: Vec<(String, Outcome)>,
    /// How they were admitted; empty when tracing is off.
    pub times: AdmissionTimes,
}

/// The reason why nothing was admitted. The sender may send all of it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// The queue is full, or the provider has taken up its share of it.
    #[error("queue of requests waiting for a commit is full")]
    Saturated,
    /// The database did not confirm in time.
    #[error("database did not confirm: {0}")]
    Unavailable(String),
    /// A handler failed and its provider asks for a rejection then.
    #[error("handler failed and the provider is set to reject: {0}")]
    Rejected(String),
}
