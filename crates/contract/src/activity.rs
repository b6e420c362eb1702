//! What the nodes counted over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
