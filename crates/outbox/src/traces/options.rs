//! What tracing is made of.

use uuid::Uuid;

use hooklatch_core::config::TracingConfig;
use hooklatch_core::types::Clock;

/// What tracing is made of, when the program starts.
pub struct TraceOptions<'a> {
    /// `[tracing]`, as it was read.
    pub config: &'a TracingConfig,
    /// Part of every trace's id.
    pub installation_id: &'a Uuid,
    /// Name of this node, as attempts have it.
    pub node: &'a str,
    /// The clock that spans' times are read from.
    pub clock: &'a Clock,
}
