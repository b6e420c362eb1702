//! The reasons why a key could not be had, and the name of a key.

/// Said of a key that the sender's host would list if it existed, but does not.
pub(super) const NOT_LISTED: &str = "the sender's host does not list it";

/// The reason why a key could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The sender's host says that there is no such key, or it may not be asked: the request that named it is not
    /// believed.
    #[error("the sender has no such key: {0}")]
    NoSuchKey(String),
    /// It is unknown: the sender tries again.
    #[error("the sender's keys are out of reach: {0}")]
    Away(String),
}

/// A key that was asked for by its setting and id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WantedKey {
    /// Name of the setting that would hold it.
    pub setting: String,
    /// Id of the key, or its URL.
    pub id: String,
}
