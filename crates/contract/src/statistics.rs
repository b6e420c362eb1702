//! Statistics, from the log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Events per minute and provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatisticsView {
    /// Beginning of the first minute. Always a whole minute.
    pub from_ms: i64,
    /// End of the last minute.
    pub to_ms: i64,
    /// The counted minutes, the oldest first; minutes without events are left out.
    pub minutes: Vec<MinuteView>,
    /// Time from which on every minute was counted whole, when the bound on rows was reached; `null` when all was counted.
    pub counted_from_ms: Option<i64>,
}

/// One minute of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MinuteView {
    /// Beginning of the minute.
    pub at_ms: i64,
    /// Name of the provider.
    pub provider: String,
    /// Events whose first copy was received in this minute.
    pub events_n: u64,
    /// Those of them that stand in `retry`, `failed`, `unreadable` or `conflict` now.
    pub waiting_n: u64,
    /// True when the bound on rows ended within this minute: it had more events.
    #[serde(default)]
    pub is_cut: bool,
}
