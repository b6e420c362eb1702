//! Tokens of the operators' API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hooklatch_core::types::Role;

/// A token, without itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// Id of the token; `null` for one of the configuration.
    pub token_id: Option<String>,
    /// Name of its holder.
    pub name: String,
    /// Role of its holder.
    pub role: Role,
    /// Providers that it reaches; `null` for all.
    pub providers: Option<Vec<String>>,
    /// Destinations that it reaches; `null` for all.
    pub destinations: Option<Vec<String>>,
    /// True when it is good at the time of the answer.
    pub is_good: bool,
    /// Time when it was made.
    pub created_at_ms: Option<i64>,
    /// Name of the token that made it.
    pub created_by: Option<String>,
    /// Time until which it is good; `null` for one of the configuration.
    pub expires_at_ms: Option<i64>,
    /// Time when it was revoked.
    pub revoked_at_ms: Option<i64>,
    /// Time when it was last used, to a minute or so.
    pub last_used_at_ms: Option<i64>,
}

/// A token that was made: the only time that it is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenMade {
    /// Facts about the token, without itself.
    pub facts: TokenView,
    /// The token itself. It is not stored: a repeated request gets 409.
    pub token: String,
}

/// The caller, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeView {
    /// Name of the token's holder.
    pub name: String,
    /// Role of the token's holder.
    pub role: Role,
    /// Providers that the token reaches; `null` for all.
    pub providers: Option<Vec<String>>,
    /// Destinations that the token reaches; `null` for all.
    pub destinations: Option<Vec<String>>,
    /// Name of the installation (`server.name`); `null` when it has none.
    #[serde(default)]
    pub server_name: Option<String>,
    /// True when it is a test server, which may have fake events.
    #[serde(default)]
    pub is_test: bool,
    /// Version of the server.
    pub version: String,
    /// True when bodies and captured answers are stored under a key.
    pub is_encrypting: bool,
    /// Time of the answer.
    pub now_ms: i64,
}
