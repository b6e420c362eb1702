//! `[tracing]`: where spans are sent, and which.

use std::collections::BTreeMap;

use super::secret::Secret;

/// `[tracing]`: spans of what became of events.
#[derive(Debug, Clone)]
pub struct TracingConfig {
    /// Where spans are posted, path included; `None`: nobody traces.
    pub endpoint: Option<String>,
    /// Part of all traces that is recorded, 0 to 1.
    pub ratio: f64,
    /// Headers of each post, by name.
    pub headers: BTreeMap<String, Secret>,
    /// Authorities to believe besides the system's, in PEM form.
    pub ca: Option<Secret>,
    /// Name of the service that the spans are of.
    pub service_name: String,
    /// Longest time that one post may take. Milliseconds.
    pub timeout_ms: u64,
    /// Most spans that wait to be posted.
    pub queue_n_max: u32,
    /// True when calls say which span they are of.
    pub propagate: bool,
    /// The rule for what senders say of spans of their own.
    pub inbound: InboundTraces,
}

/// The rule for what senders say of spans of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboundTraces {
    /// It is not looked at.
    Ignore,
    /// The admission's span has a link to it.
    Link,
}
