//! `[destinations.NAME]`: where messages go, and what an unclear answer means.

use std::collections::BTreeMap;

use super::http::HttpConfig;
use super::retry::RetryConfig;
use super::secret::Secret;
use super::status::StatusMeaning;
use super::target::{Format, Target};

/// `[destinations.NAME]`
#[derive(Debug, Clone)]
pub struct DestinationConfig {
    /// Where calls go: an address, or a template of one. With `serve --dev`, the built-in echo. Empty for what is
    /// not HTTP.
    pub url: String,
    /// What kind of destination it is.
    pub target: Target,
    /// In which form messages reach it.
    pub format: Format,
    /// Extra headers, such as `Authorization`; values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// What an unknown outcome means.
    pub unknown: UnknownPolicy,
    /// Connect to last byte. Milliseconds; below the lease unless `heartbeat`.
    pub timeout_ms: u64,
    /// Most calls under way at once.
    pub concurrency_n: u32,
    /// True when the destination's answers decide how many of those there are.
    pub adaptive: bool,
    /// How failures are tried again.
    pub retry: RetryConfig,
    /// Longest `Retry-After` that is honoured. Milliseconds.
    pub retry_after_max_ms: u64,
    /// How long the destination remembers a key. Milliseconds.
    pub key_valid_for_ms: u64,
    /// Most calls a second, on each node; 0 for no limit.
    pub rate_per_s: u32,
    /// Failures in a row after which nothing is sent for a while; 0 for never.
    pub breaker_failures_n: u32,
    /// How long that while is; then one call probes. Milliseconds.
    pub breaker_open_ms: u64,
    /// Statuses that mean something else here than they usually do.
    pub statuses: BTreeMap<u16, StatusMeaning>,
    /// Signs each call by Standard Webhooks (v1), so that the destination can believe it.
    pub sign_secret: Option<Secret>,
    /// True when a call may take longer than the lease, which is then prolonged while it is under way.
    pub heartbeat: bool,
    /// What only calls over HTTP have.
    pub http: HttpConfig,
}

/// What to do when a call was sent and nobody knows whether it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownPolicy {
    /// Send again under the same key: the destination honours it.
    Retry,
    /// Ask first, and send again only when the effect did not happen.
    Query(QueryConfig),
    /// Nothing is sent again until a person decides.
    Hold,
}

/// `query = { url, pointer, equals, pending, after_ms }` beside `unknown = "query"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// GET this; `{idempotency_key}`, `{event_id}` and `{message_id}` are filled in, percent-encoded.
    pub url: String,
    /// JSON pointer into the answer; 404 or a missing value means "did not happen".
    pub pointer: String,
    /// The value that means "happened"; any that is not pending when absent. Another value settles nothing.
    pub equals: Option<String>,
    /// Values that mean "still under way: ask again".
    pub pending: Vec<String>,
    /// How long after an attempt's end its call may still be running over there. No question is asked before.
    /// Milliseconds.
    pub after_ms: u64,
}
