//! `[answer]`: what the sender wants to hear instead of our JSON.

use serde::Deserialize;

/// What the sender wants to hear instead of our JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSpec {
    /// The status.
    #[serde(default = "ok")]
    pub status: u16,
    /// The body, as it is.
    pub body: String,
    /// Its content type.
    pub content_type: String,
}

fn ok() -> u16 {
    200
}
