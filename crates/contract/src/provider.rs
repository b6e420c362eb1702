//! Providers, and requests of theirs that were refused.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operation::OperationView;
use hooklatch_core::types::EventState;

/// A provider: a configured sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderView {
    /// Name of the provider.
    pub name: String,
    /// Kind of the provider.
    pub kind: String,
    /// The pause, if an operator has paused it: its events are admitted and not dispatched.
    #[serde(default)]
    pub pause: Option<super::destination::PauseView>,
    /// URL to register with the sender.
    pub url: String,
    /// Rule that identifies its events.
    pub identity: String,
    /// Time that its sender goes on sending an event by itself. Hours.
    pub horizon_h: u32,
    /// True when Hooklatch accepts its requests without a signature.
    pub is_unverified: bool,
    /// True while it takes a secret that its sender posts to the URL (`pairing = "open"`).
    pub is_pairing: bool,
    /// Time when its sender posted a secret (`pairing`) that no operator has read yet.
    pub taught_at_ms: Option<i64>,
    /// Time for which the ids of its events are remembered. Days.
    pub ids_days: u32,
    /// Types of which its kind has sample events, for test events.
    #[serde(default)]
    pub samples: Vec<String>,
    /// What is known of its sender.
    pub sender: SenderView,
    /// Its secrets, the newest first.
    pub secrets: Vec<SecretView>,
    /// Its newest event, if it is among the newest 40,000 of all providers.
    pub last_event: Option<LastEventView>,
    /// Its events that wait for an operator, by state.
    pub waiting: Vec<WaitingCount>,
}

/// What is known of a sender, from its own pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SenderView {
    /// The sender's name for people.
    pub title: String,
    /// Page where the facts were read.
    pub docs: String,
    /// Confidence in the facts: `official`, `secondary` or `unsure`.
    pub confidence: String,
    /// Place in the sender's dashboard that shows the secret.
    pub secret_hint: String,
    /// The way in which its requests are signed, for people.
    pub signed_by: String,
    /// The weakness of that way, for people, if it has one.
    pub weakness: Option<String>,
    /// Rules that tell its events from each other, for people: a text for each shape of its requests.
    pub identities: Vec<String>,
    /// Time within which it wants its answer. Milliseconds.
    pub answer_within_ms: u32,
}

/// What is known of a secret, without the secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretView {
    /// Place in the configuration, 1 for the newest.
    pub position: u32,
    /// Its public name, from which the secret cannot be derived.
    pub fingerprint: String,
    /// Number of requests that it matched.
    pub matched_n: u64,
    /// Time of the last one.
    pub last_matched_at_ms: Option<i64>,
    /// True when it is not the newest one and its sender no longer sends what was signed with it.
    pub is_safe_to_remove: bool,
}

/// The newest event of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastEventView {
    /// Id of the event.
    pub event_id: String,
    /// Type of the event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Time when it was received.
    pub received_at_ms: i64,
}

/// Number of events that wait for an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingCount {
    /// State in which they stand.
    pub state: EventState,
    /// Number of them, of at most 10,000 of that state that were looked at.
    pub events_n: u64,
    /// True when there are more than were looked at.
    #[serde(default)]
    pub is_more: bool,
    /// Time when the oldest of them was received.
    pub oldest_received_at_ms: i64,
}

/// A secret that a sender taught us: shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaughtView {
    /// Name of the provider whose secret it is.
    pub provider: String,
    /// The secret as the sender gave it.
    pub secret: String,
    /// Time when it was received.
    pub taught_at_ms: i64,
}

/// A rejected request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectedView {
    /// Id of the rejection.
    pub rejection_id: String,
    /// Name of the provider that it was for.
    pub provider: String,
    /// Time when its last byte was received.
    pub received_at_ms: i64,
    /// Step that failed: `request` (refused unread), `address`, `header`, `timestamp`, `secret` or `signature`.
    pub step: String,
    /// Reason, as one word of a closed set.
    pub reason: String,
    /// Reason, for people, with its numbers.
    pub detail: String,
    /// Its headers, secrets and signatures blanked; empty for tokens that may not see contents.
    pub headers: BTreeMap<String, Vec<String>>,
    /// SHA-256 of its body, in hexadecimal; empty where the body was not read.
    pub body_digest: String,
    /// Length of its body, as announced where it was not read. Bytes.
    pub body_bytes_n: u64,
    /// Address of the client; absent where it is not known, and for tokens that may not see contents.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_address: Option<String>,
}

/// Refused requests of one provider, for one reason, from one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectedGroup {
    /// Name of the provider that they were for.
    pub provider: String,
    /// Reason, as one word of a closed set.
    pub reason: String,
    /// Address of the client; absent where it is not known, and for tokens that may not see contents.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_address: Option<String>,
    /// Number of the requests that are kept.
    pub requests_n: u64,
    /// Time when the newest of them was received.
    pub last_at_ms: i64,
}

/// A path of the receiver that no provider has, and that was posted to. Kept in memory by each node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownPathView {
    /// The path without its query, at most 80 characters; `…` stands for parts with other than plain characters.
    pub path: String,
    /// Name of the configured provider that was probably meant.
    pub nearest_provider: Option<String>,
    /// Kind of a configured provider that looks for its signature in a header which the requests have.
    pub signature_of_kind: Option<String>,
    /// Address of the newest client; absent where it is not known, and for tokens that may not see contents.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_address: Option<String>,
    /// Number of requests since `first_at_ms`.
    pub requests_n: u64,
    /// Time of the first of them.
    pub first_at_ms: i64,
    /// Time of the newest.
    pub last_at_ms: i64,
}

/// Everything that waits for an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BacklogView {
    /// Time of the answer.
    pub now_ms: i64,
    /// Events by provider and state.
    pub events: Vec<BacklogEvents>,
    /// Messages by destination and state.
    pub messages: Vec<BacklogMessages>,
    /// Paths that no provider has and that were posted to on this node since its start, at most 32; empty for tokens
    /// with a scope.
    pub unknown_paths: Vec<UnknownPathView>,
    /// Causes for which events failed or messages need a decision, the commonest first; at most 10 of each, counted
    /// among the newest 2,000 failed events and the newest 2,000 such messages.
    #[serde(default)]
    pub causes: Vec<CauseView>,
    /// Operations that wait for a person: to be approved, or stopped by themselves. The newest, at most 40.
    pub operations: Vec<OperationView>,
}

/// The subject of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StuckSubject {
    /// Events whose handler failed for good.
    Events,
    /// Messages that are held or dead.
    Messages,
}

/// Failures with the same error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseView {
    /// Whether these are events or messages.
    pub subject: StuckSubject,
    /// Name of the provider of the events, or of the destination of the messages.
    pub name: String,
    /// State in which they stand.
    pub state: String,
    /// Their error.
    pub error: Option<String>,
    /// Number that was counted.
    pub counted_n: u64,
    /// Time of the oldest.
    pub oldest_at_ms: i64,
    /// Time of the newest.
    pub newest_at_ms: i64,
}

/// Events of one provider in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BacklogEvents {
    /// Name of the provider.
    pub provider: String,
    /// False when no provider of that name is configured.
    pub is_configured: bool,
    /// The pause of the provider, with events in `retry` alone: they wait until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<super::destination::PauseView>,
    /// State, number and age.
    #[serde(flatten)]
    pub count: WaitingCount,
}

/// Messages of one destination in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BacklogMessages {
    /// Name of the destination.
    pub destination: String,
    /// False when no destination of that name is configured.
    pub is_configured: bool,
    /// State, number and age.
    #[serde(flatten)]
    pub count: super::destination::BacklogCount,
}
