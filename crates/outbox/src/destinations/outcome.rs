//! The outcome of a call, and the answer to a question about an earlier attempt.

use crate::policy::CallAnswer;

/// Outcome of one call.
pub struct CallOutcome {
    /// The answer that the policy judges.
    pub answer: CallAnswer,
    /// The piece of the answer that is kept, when the destination keeps any.
    pub response: Option<String>,
}

impl From<CallAnswer> for CallOutcome {
    fn from(answer: CallAnswer) -> Self {
        Self { answer, response: None }
    }
}

/// The destination's word about an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The effect is there.
    Happened,
    /// The effect is not there.
    DidNotHappen,
    /// No answer that can be relied on.
    Unclear {
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
}
