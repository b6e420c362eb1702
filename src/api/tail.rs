//! The live tail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::EventView;

/// Data of one server-sent event of `/v1/tail`; the name of the server-sent event is `what`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TailView {
    /// An event came in. The `id` of the server-sent event resumes behind it.
    Event {
        /// The event as it stood then.
        event: Box<EventView>,
    },
    /// The viewer was too slow: so many events were left out.
    Skipped {
        /// Number of events that were left out.
        skipped_n: u64,
    },
}
