//! `[destinations.NAME]`: where messages go, and what an unclear answer means.

use std::collections::BTreeMap;

use super::http::HttpConfig;
use super::retry::RetryConfig;
use super::secret::Secret;
use super::status::StatusMeaning;
use super::target::{Format, Target};
use crate::types::UnknownWord;

/// `[destinations.NAME]`: one destination and how it is called.
#[derive(Debug, Clone)]
pub struct DestinationConfig {
    /// The address that calls go to, or a template of one. With `serve --dev`, the built-in echo. Empty for what is
    /// not HTTP.
    pub url: String,
    /// The kind of destination, with the settings of that kind.
    pub target: Target,
    /// The form in which messages reach it.
    pub format: Format,
    /// Extra headers, such as `Authorization`; values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// The rule for calls with an unknown outcome.
    pub unknown: UnknownPolicy,
    /// Connect to last byte. Milliseconds; below the lease unless `heartbeat`.
    pub timeout_ms: u64,
    /// Most calls under way at once.
    pub concurrency_n: u32,
    /// True when the destination's answers decide how many calls may be under way, up to `concurrency_n`.
    pub adaptive: bool,
    /// The delays and the number of attempts after failures.
    pub retry: RetryConfig,
    /// Longest `Retry-After` that is honoured. Milliseconds.
    pub retry_after_max_ms: u64,
    /// Time for which the destination remembers a key. Milliseconds.
    pub key_valid_for_ms: u64,
    /// Most calls a second, on each node; 0 for no limit.
    pub rate_per_s: u32,
    /// Failures in a row after which nothing is sent for a while; 0 for never.
    pub breaker_failures_n: u32,
    /// Length of that while; then one call probes. Milliseconds.
    pub breaker_open_ms: u64,
    /// Statuses that mean something else here than they usually do.
    pub statuses: BTreeMap<u16, StatusMeaning>,
    /// Sign each call by Standard Webhooks (v1), so that the destination can believe it: none, one, or two while the
    /// destination changes from one to the other.
    pub sign_secrets: Vec<Secret>,
    /// True when a call may take longer than the lease, which is then prolonged while it is under way.
    pub heartbeat: bool,
    /// Settings that only calls over HTTP have.
    pub http: HttpConfig,
}

/// The rule for a call that was sent when nobody knows whether it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownPolicy {
    /// Send again under the same key: the destination honours it.
    Retry,
    /// Ask first, and send again only when the effect did not happen.
    Query(QueryConfig),
    /// Nothing is sent again until a person decides.
    Hold,
}

impl UnknownPolicy {
    /// The word of the configuration.
    pub fn word(&self) -> UnknownWord {
        match self {
            Self::Retry => UnknownWord::Retry,
            Self::Query(_) => UnknownWord::Query,
            Self::Hold => UnknownWord::Hold,
        }
    }
}

/// `query = { url, pointer, equals, pending, absent, after_ms }` beside `unknown = "query"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// GET this; `{idempotency_key}`, `{event_id}` and `{message_id}` are filled in, percent-encoded.
    pub url: String,
    /// JSON pointer into the answer; 404 or a missing value means "did not happen".
    pub pointer: String,
    /// The value that means "happened"; without it any that is neither pending nor absent. Another value settles nothing.
    pub equals: Option<String>,
    /// Values that mean "still under way: ask again".
    pub pending: Vec<String>,
    /// Values that mean "did not happen", as no value does.
    pub absent: Vec<String>,
    /// Time after an attempt's end during which its call may still be running at the destination. No question is asked
    /// before it is over. Milliseconds.
    pub after_ms: u64,
}
