//! What is about the server as a whole: its settings, its tokens, its audit log, and what its nodes counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hooklatch_core::config::SettingLayer;
use hooklatch_core::types::Role;

/// A key of the configuration with its value, as the node that answers has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingView {
    /// The key as a dotted path; lists of tables have `[0]`, `[1]`, ….
    pub key: String,
    /// The value as TOML writes it; `null` for a secret. Of a URL that may hold one, scheme and host.
    pub value: Option<String>,
    /// True when it is a secret, whose value is never returned.
    pub is_secret: bool,
    /// The variable or the file that a secret stands in, where it is not written in the configuration itself.
    pub secret_in: Option<String>,
    /// The layer that sets it; each overrides those named before it.
    pub layer: SettingLayer,
    /// The file or variable that sets it.
    pub source: String,
    /// True when the value is the default, in whichever layer it is set.
    pub is_default: bool,
}

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

/// One row of the audit log: a decision, or a look at a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditView {
    /// Number of the row; later rows have higher numbers.
    pub audit_seq: i64,
    /// Time of the decision.
    pub at_ms: i64,
    /// Name of the token that decided; behind it, in parentheses, who typed, where their command line said so.
    pub actor: String,
    /// Word for what was done, such as `message_send` or `body_read`.
    pub action: String,
    /// Provider of the event that it is about.
    pub provider: Option<String>,
    /// Id of the event that it is about.
    pub event_id: Option<String>,
    /// Id of the message that it is about.
    pub message_id: Option<String>,
    /// Id of the operation that it was part of.
    pub operation_id: Option<String>,
    /// Reason that was given, and what else there is to say.
    pub detail: String,
}

/// What all nodes counted, hour by hour; day by day for more than 168 hours. A node adds its counts once a minute, and
/// loses those of its last minute when it crashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityView {
    /// Beginning of the first hour or day, in UTC.
    pub from_ms: i64,
    /// Time of the answer, in the last hour or day, which is not over.
    pub now_ms: i64,
    /// Length of the times that are counted: an hour, or a day.
    pub step_ms: i64,
    /// Requests by provider, the oldest first; one with several events counts once, by the strongest of their outcomes.
    pub requests: Vec<ActivityCount>,
    /// Attempts by destination, the oldest first.
    pub attempts: Vec<ActivityCount>,
}

/// Number of requests or attempts that ended in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityCount {
    /// Beginning of the hour or the day.
    pub at_ms: i64,
    /// Name of the provider or the destination.
    pub name: String,
    /// Outcome of the requests as `hooklatch_requests_total` has it, or result of the attempts. `untaken` is the part of
    /// the `accepted` requests whose new events neither a route nor a handler takes.
    pub outcome: String,
    /// Number of them.
    pub counted_n: u64,
}
