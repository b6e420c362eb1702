//! Providers with the requests of theirs that were refused, destinations, and what waits at both.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message_judgement::RepeatPolicy;
use super::operation::OperationView;
use hooklatch_core::times;
use hooklatch_core::types::{EventState, MessageState, UnknownWord, key_used_for_ms};

/// A destination: where messages go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DestinationView {
    /// Name of the destination.
    pub name: String,
    /// Kind of the destination: `http`, `nats`, ….
    pub kind: String,
    /// False when messages wait for it that no node has in its configuration.
    pub is_configured: bool,
    /// The pause, if a person has paused it.
    pub pause: Option<PauseView>,
    /// Circuit breaker of the node that answers: `closed`, `open` or `half_open`.
    pub breaker: Option<String>,
    /// How it is called and when calls are repeated, by the configuration of the node that answers.
    #[serde(default)]
    pub policy: Option<PolicyView>,
    /// Most calls at once of this node.
    pub concurrency_n: Option<u32>,
    /// Most calls a second of this node; `null` for any number.
    pub rate_per_s: Option<f64>,
    /// How long the newest calls of this node took; `null` before the first.
    #[serde(default)]
    pub call_times: Option<CallTimesView>,
    /// Open messages by state, of all providers.
    pub backlog: Vec<BacklogCount>,
    /// Time when its oldest due message became due.
    pub oldest_due_at_ms: Option<i64>,
}

/// How a destination is called, and when calls are repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyView {
    /// What Hooklatch does when it is unknown whether a call took effect.
    pub unknown: UnknownWord,
    /// Time for which it remembers an idempotency key, from the first call on. Milliseconds.
    pub key_valid_for_ms: u64,
    /// Host and port that it is called at; `null` where each event has another, or it is not called over HTTP.
    pub host: Option<String>,
    /// Time that a call may take, from connecting to the last byte. Milliseconds.
    pub timeout_ms: u64,
    /// When failed calls are tried again.
    pub retry: RetryView,
}

impl PolicyView {
    /// The part of it by which judgements are made.
    pub fn repeat(&self) -> RepeatPolicy {
        RepeatPolicy { unknown: self.unknown, key_valid_for_ms: key_used_for_ms(self.key_valid_for_ms) }
    }

    /// What Hooklatch does when it is unknown whether a call took effect, for people.
    pub fn unknown_in_words(&self) -> &'static str {
        match self.unknown {
            UnknownWord::Retry => {
                "it honours idempotency keys, so a call is sent again under its key for as long as it remembers that"
            }
            UnknownWord::Query => {
                "it is asked whether a call happened, and the call is sent again only if it did not"
            }
            UnknownWord::Hold => {
                "it neither honours keys nor can be asked, so a call is held until an operator decides"
            }
        }
    }

    /// Time for which it remembers a key, for people.
    pub fn key_valid_for_in_words(&self) -> String {
        let time = times::length_in_words(self.key_valid_for_ms);
        match self.unknown {
            UnknownWord::Retry => format!("{time} from the first call on"),
            UnknownWord::Query | UnknownWord::Hold => {
                format!(
                    "it does not recognise keys; {time} after the first call nothing is sent by itself any more"
                )
            }
        }
    }
}

impl RetryView {
    /// When failed calls are tried again, for people.
    pub fn in_words(&self) -> String {
        let [first, most, age] = [self.first_ms, self.max_ms, self.age_max_ms].map(times::length_in_words);
        format!("at most {} attempts within {age}, {first} to {most} apart", self.attempts_n)
    }
}

/// When failed calls are tried again, and when they are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryView {
    /// Upper bound of the first delay. Milliseconds.
    pub first_ms: u64,
    /// Upper bound of any delay. Milliseconds.
    pub max_ms: u64,
    /// Most attempts, the first included.
    pub attempts_n: u32,
    /// Oldest age at which another attempt is made, from the first. Milliseconds.
    pub age_max_ms: u64,
}

/// How long the newest calls of one node to a destination took, whatever their result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTimesView {
    /// Number of calls that this is about, at most 256; those of a node that was started again begin anew.
    pub calls_n: u32,
    /// Time within which half of them were over. Milliseconds.
    pub p50_ms: u32,
    /// Time within which 19 of 20 were over. Milliseconds.
    pub p95_ms: u32,
}

/// A pause of a destination or a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseView {
    /// Name of the token that paused it.
    pub actor: String,
    /// Reason that was given.
    pub reason: String,
    /// Time of the pause.
    pub paused_at_ms: i64,
    /// Time when the pause ends by itself; `null` when only an operator resumes it.
    #[serde(default)]
    pub until_ms: Option<i64>,
}

impl PauseView {
    /// `paused by ann until 2026-11-22T14:02:11.000Z: a bad deploy`.
    pub fn in_words(&self) -> String {
        let until = self.until_ms.and_then(times::rfc3339);
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        format!("paused by {}{until}: {}", self.actor, self.reason)
    }
}

/// Number of open messages in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BacklogCount {
    /// State in which they stand.
    pub state: MessageState,
    /// Number of them, of at most 10,000 that were looked at.
    pub messages_n: u64,
    /// True when there are more than were looked at.
    #[serde(default)]
    pub is_more: bool,
    /// The earliest time of them: due time, end of the lease, or since when it is held or dead.
    pub oldest_visible_at_ms: i64,
}

/// A provider: a configured sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderView {
    /// Name of the provider.
    pub name: String,
    /// Kind of the provider.
    pub kind: String,
    /// The pause, if an operator has paused it: its events are admitted and not dispatched.
    #[serde(default)]
    pub pause: Option<PauseView>,
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
    pub paired_at_ms: Option<i64>,
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

/// A secret that a sender sent for pairing: shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairingView {
    /// Name of the provider whose secret it is.
    pub provider: String,
    /// The secret as the sender gave it.
    pub secret: String,
    /// Time when it was received.
    pub paired_at_ms: i64,
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
    pub pause: Option<PauseView>,
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
    pub count: BacklogCount,
}
