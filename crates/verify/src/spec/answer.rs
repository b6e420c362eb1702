//! `[answer]`: the response that the sender expects instead of our JSON.

use serde::Deserialize;

/// The response that the sender expects instead of our JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSpec {
    /// Status of the answer, 200 to 299.
    #[serde(default = "ok")]
    pub status: u16,
    /// Body of the answer, as it is.
    pub body: String,
    /// Content type of that body.
    pub content_type: String,
    /// Name of a member of the request's body that the sender wants back: where it is there, the answer is an object with
    /// that member alone, as received, instead of `body`.
    pub echo: Option<String>,
}

fn ok() -> u16 {
    200
}
