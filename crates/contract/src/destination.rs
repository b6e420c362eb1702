//! Destinations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message_judgement::RepeatPolicy;
use hooklatch_core::times;
use hooklatch_core::types::{MessageState, UnknownWord, key_used_for_ms};

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
