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
    /// The key is there and does not open it: its bytes were changed or moved, or those of its event's id or provider.
    #[error(
        "it does not open with the key `{key_id}`: it was damaged, or the row, the provider or the id of its event was changed"
    )]
    NotOpened {
        /// Id of the key that it says it was sealed with.
        key_id: String,
    },
    /// It was written without a key, and the configuration wants none of those.
    #[error(
        "it is in clear, and encryption.clear = \"refuse\": if it is genuine, encrypt it with `hooklatch keys reseal --clear` under encryption.clear = \"accept\""
    )]
    Clear,
    /// The system gave no random bytes, or the value is too long.
    #[error("it could not be sealed with the key `{key_id}`")]
    NotSealed {
        /// Id of the key that was to seal it.
        key_id: String,
    },
}
