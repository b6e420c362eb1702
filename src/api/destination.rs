//! Destinations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::times::rfc3339;
use crate::types::MessageState;

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
    /// Most calls at once of this node.
    pub concurrency_n: Option<u32>,
    /// Most calls a second of this node; `null` for any number.
    pub rate_per_s: Option<f64>,
    /// How long the newest calls of this node took; `null` before the first.
    #[serde(default)]
    pub call_times: Option<CallTimesView>,
    /// Open messages by state, whatever provider their events came from.
    pub backlog: Vec<BacklogCount>,
    /// Time when its oldest due message became due.
    pub oldest_due_at_ms: Option<i64>,
}

/// How long the newest calls of one node to a destination took, whatever came of them.
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
    pub(crate) fn in_words(&self) -> String {
        let until = self.until_ms.and_then(rfc3339);
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
    /// The earliest time of them: due time, or end of the lease.
    pub oldest_visible_at_ms: i64,
}
