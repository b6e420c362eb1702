//! What tracing is made of.

use uuid::Uuid;

use crate::config::TracingConfig;
use crate::types::Clock;

/// What tracing is made of, when the program starts.
pub(crate) struct TraceOptions<'a> {
    /// `[tracing]`, as it was read.
    pub(crate) config: &'a TracingConfig,
    /// Part of every trace's id.
    pub(crate) installation_id: &'a Uuid,
    /// Name of this node, as attempts have it.
    pub(crate) node: &'a str,
    /// The clock that spans' times are told by.
    pub(crate) clock: &'a Clock,
}
