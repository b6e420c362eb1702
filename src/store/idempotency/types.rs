//! A request that asks for its key, and what it is told.

use crate::types::UnixMs;

/// A request that is to be carried out once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    /// Whose key it is: two principals may use the same one.
    pub principal: String,
    /// The key that came with it.
    pub key: String,
    /// Digest of the whole request.
    pub fingerprint: [u8; 32],
    /// Time of the request.
    pub now_ms: UnixMs,
    /// Time for which nobody else may carry it out. Milliseconds.
    pub lock_ms: i64,
    /// Time for which its answer is kept. Milliseconds.
    pub kept_ms: i64,
}

/// Answer to a request that asked for its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyReply {
    /// It is to be carried out, now and by whoever asked.
    Claimed(KeyClaim),
    /// Somebody else carries it out.
    InProgress {
        /// Time at which that may be taken over.
        locked_until_ms: UnixMs,
        /// Time by the clock that counts.
        now_ms: UnixMs,
    },
    /// The key was used for another request.
    Reused {
        /// Time from which on it may be used again.
        expires_at_ms: UnixMs,
    },
    /// It was carried out, and this was the answer.
    Answered(KeptAnswer),
}

/// The right to carry a request out and to write its answer, until somebody else has a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    /// Whose key it is.
    pub principal: String,
    /// The key that is held.
    pub key: String,
    /// Number of the claim among those of its key, from 1.
    pub fence: i64,
    /// Time until which the answer is kept.
    pub expires_at_ms: UnixMs,
}

/// States of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It is being carried out, or its owner died.
    Processing,
    /// Carried out, with an answer that says so.
    Succeeded,
    /// Refused for good: the same request would be refused again.
    Failed,
    /// It came to nothing that lasts, and may be tried again.
    Released,
}

impl KeyState {
    /// The word in `idempotency_keys.state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        [Self::Processing, Self::Succeeded, Self::Failed, Self::Released]
            .into_iter()
            .find(|one| one.as_str() == word)
    }
}

/// An answer that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnswer {
    /// State that it leaves its key in: `Succeeded` or `Failed`.
    pub state: KeyState,
    /// HTTP status of the answer.
    pub status: u16,
    /// Headers that are given again, as JSON.
    pub headers: String,
    /// Its body; `None` where it is not kept.
    pub body: Option<Vec<u8>>,
}

/// An answer that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The answer as it was given.
    pub answer: NewAnswer,
    /// Time until which it is kept.
    pub expires_at_ms: UnixMs,
}
