//! The reasons why something could not be sealed or opened.

/// Reason why a value could not be sealed or opened. No variant quotes anything of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The ring does not have the key that sealed it: it opens once the configuration has that key again.
    #[error(
        "it is sealed with the key `{key_id}`, which is not in [encryption] keys: add that key again, with this id"
    )]
    NoKey {
        /// Id of the key that is missing.
        key_id: String,
    },
    /// The key is there and does not open it: another key under this id, or bytes that were changed or moved.
    #[error(
        "it does not open with the key `{key_id}`: either the key under this id is another one now, or the value was changed or belongs to another row"
    )]
    NotOpened {
        /// Id of the key that it says it was sealed with.
        key_id: String,
    },
    /// The system gave no random bytes, or the value is too long.
    #[error("it could not be sealed with the key `{key_id}`")]
    NotSealed {
        /// Id of the key that was to seal it.
        key_id: String,
    },
}

impl SealError {
    /// True when the same will open once its key is in the ring: it may be tried again later.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Self::NoKey { .. })
    }
}
