//! Tracing that is on: the ids, the verdict, and the way to the exporter.

use super::ids::{EventTrace, TraceIds};
use super::queue::SpanQueue;
use super::ratio::SampleRatio;
use hooklatch_core::types::{Name, SpanContext};

/// Tracing that is on.
#[derive(Debug)]
pub struct Tracer {
    pub ids: TraceIds,
    pub ratio: SampleRatio,
    pub queue: SpanQueue,
    /// True when calls say which span they are of.
    pub(super) is_propagated: bool,
    /// True when a sender's word for its own span is believed.
    pub is_linked: bool,
}

impl Tracer {
    /// The trace of an event, if it is recorded.
    pub fn recorded(&self, provider: &Name, event_id: &str, generation: i32) -> Option<EventTrace> {
        let trace = self.ids.of(provider, event_id, generation);
        self.ratio.takes(&trace.trace_id).then_some(trace)
    }

    /// The place of a span in a trace.
    pub fn place(&self, trace: &EventTrace, span_id: [u8; 8]) -> SpanContext {
        SpanContext { trace_id: trace.trace_id, span_id, is_sampled: self.ratio.takes(&trace.trace_id) }
    }
}
