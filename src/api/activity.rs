//! What one node counted over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the node that answers counted, minute by minute. It counts in memory: a node that was started again begins at
/// nothing, and each counts what came to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityView {
    /// Name of the node, as attempts have it.
    pub node: String,
    /// Time since which it counts.
    pub since_ms: i64,
    /// Beginning of the first minute. Always a whole minute.
    pub from_ms: i64,
    /// Time of the answer, in the last minute, which is not over.
    pub now_ms: i64,
    /// Providers of the configuration, by name.
    pub providers: Vec<ProviderActivity>,
    /// Destinations of the configuration, by name.
    pub destinations: Vec<DestinationActivity>,
}

/// Requests of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderActivity {
    /// Name of the provider.
    pub provider: String,
    /// Minutes in which a request of it came, the oldest first.
    pub minutes: Vec<RequestMinute>,
}

/// Requests of one minute, by when they came; one with several events counts once, by the strongest of their outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestMinute {
    /// Beginning of the minute.
    pub at_ms: i64,
    /// Requests with an event that was new.
    pub accepted_n: u64,
    /// The part of those with an event that was new, and none that a route or a handler takes.
    pub untaken_n: u64,
    /// Requests whose events were all known already.
    pub duplicate_n: u64,
    /// Requests with other content under an event's key.
    pub conflict_n: u64,
    /// Requests with known signed bytes under another id.
    pub replayed_n: u64,
    /// Requests about an older state of their object than was seen.
    pub superseded_n: u64,
    /// Requests with an event that could not be read.
    pub unreadable_n: u64,
    /// Requests that were answered and had no event: handshakes, and empty ones.
    pub none_n: u64,
    /// Requests that were not believed.
    pub rejected_n: u64,
    /// Requests that nobody can say anything of: their senders were asked to send them again.
    pub unavailable_n: u64,
    /// Refused before they were verified: too large, too slow, another method.
    pub refused_n: u64,
}

/// Attempts for one destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DestinationActivity {
    /// Name of the destination.
    pub destination: String,
    /// Minutes in which an attempt ended, the oldest first.
    pub minutes: Vec<AttemptMinute>,
}

/// Attempts that ended in one minute; each counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptMinute {
    /// Beginning of the minute.
    pub at_ms: i64,
    /// Attempts after which their message was done.
    pub done_n: u64,
    /// Attempts that surely did nothing, and are made again.
    pub retry_n: u64,
    /// Attempts that were sent, and of which nobody knows whether they took effect.
    pub unknown_n: u64,
    /// Attempts after which a person decides, of those that are not `unknown`.
    pub held_n: u64,
    /// Attempts after which their message was given up.
    pub dead_n: u64,
    /// Attempts that were not sent, because the server stops or it was too early.
    pub released_n: u64,
}
