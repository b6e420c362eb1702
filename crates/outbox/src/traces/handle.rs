//! What the parts of the program hold of tracing: off, or the way to the exporter.

use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;

use super::SpanExporter;
use super::ids::EventTrace;
use super::options::TraceOptions;
use super::request::RequestTrace;
use super::span::{AttemptSpan, DispatchSpan, SpanRecord};
use super::tracer::Tracer;
use hooklatch_core::types::{EventKey, MessageId, Name, SpanContext};

/// The header by which a caller says which span it is in.
const TRACEPARENT: &str = "traceparent";

/// Tracing as the parts of the program hold it. The default is off. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<Tracer>>);

/// The place of one attempt.
#[derive(Debug, Clone, Copy)]
pub struct AttemptPlace {
    pub context: SpanContext,
    pub(crate) root_id: [u8; 8],
}

impl Traces {
    /// Tracing as configured, and the task that it needs; off where no endpoint is configured. The error says what is
    /// wrong with the endpoint's client.
    pub fn new(options: &TraceOptions<'_>) -> Result<(Self, Option<SpanExporter>), String> {
        if options.config.endpoint.is_none() {
            return Ok((Self::default(), None));
        }
        let (tracer, exporter) = SpanExporter::new(options)?;
        Ok((Self(Some(Arc::new(tracer))), Some(exporter)))
    }

    /// Now, where times are wanted.
    pub fn now(&self) -> Option<Instant> {
        self.0.as_ref().map(|_| Instant::now())
    }

    /// A request with these headers, where requests are traced. What its sender says of a span of its own is looked at
    /// only if it is believed.
    pub fn request(&self, headers: &HeaderMap) -> Option<RequestTrace> {
        let tracer = self.0.as_ref()?;
        let mut values = headers.get_all(TRACEPARENT).iter().filter(|_| tracer.is_linked);
        // Two of them say nothing.
        let inbound = match (values.next(), values.next()) {
            (Some(one), None) => SpanContext::parse(one.as_bytes()),
            _ => None,
        };
        Some(RequestTrace::begun(Arc::clone(tracer), inbound))
    }

    /// Id of the trace of an event's first generation, where it is recorded.
    pub fn trace_id(&self, provider: &Name, event_id: &str) -> Option<String> {
        let trace = self.0.as_ref()?.recorded(provider, event_id, 0)?;
        Some(hex::encode(trace.trace_id))
    }

    /// Records that an event was dispatched again, or once more at an operator's request.
    pub fn dispatched(&self, event: &DispatchedEvent<'_>, began: Option<Instant>, is_failed: bool) {
        let (Some(tracer), Some(began)) = (&self.0, began) else { return };
        if tracer.recorded(&event.key.provider, &event.key.event_id, event.generation).is_none() {
            return;
        }
        let span = DispatchSpan {
            key: event.key.clone(),
            event_type: event.event_type.to_owned(),
            generation: event.generation,
            dispatch_n: event.dispatch_n,
            began,
            ended: Instant::now(),
            is_failed,
        };
        tracer.queue.push(SpanRecord::Dispatch(span), 1);
    }

    /// The place of an attempt, where attempts are traced; it says by itself whether it is recorded.
    pub fn attempt(&self, of: &AttemptOf<'_>) -> Option<AttemptPlace> {
        let tracer = self.0.as_ref()?;
        let trace = tracer.ids.of(&of.key.provider, &of.key.event_id, of.generation);
        let context = tracer.place(&trace, trace.attempt_id(of.message_id, of.attempt_n));
        Some(AttemptPlace { context, root_id: trace.root_id })
    }

    /// What a call says of its attempt, where calls are to say so.
    pub(crate) fn propagated(&self, of: &AttemptOf<'_>) -> Option<SpanContext> {
        self.0.as_ref().filter(|tracer| tracer.is_propagated)?;
        Some(self.attempt(of)?.context)
    }

    /// Records that an attempt ended, if its trace is recorded.
    pub fn attempted(&self, span: AttemptSpan) {
        if let Some(tracer) = self.0.as_ref().filter(|_| span.context.is_sampled) {
            tracer.queue.push(SpanRecord::Attempt(span), 1);
        }
    }

    /// The first span of an event's trace, for people who look for it; `None` when tracing is off.
    pub fn root(&self, key: &EventKey, generation: i32) -> Option<SpanContext> {
        let tracer = self.0.as_ref()?;
        let trace: EventTrace = tracer.ids.of(&key.provider, &key.event_id, generation);
        Some(tracer.place(&trace, trace.root_id))
    }
}

/// An event that was dispatched later than at its admission.
pub struct DispatchedEvent<'a> {
    pub key: &'a EventKey,
    pub event_type: &'a str,
    pub generation: i32,
    /// Number of dispatches in this generation, this one included.
    pub dispatch_n: u32,
}

/// What names an attempt.
pub struct AttemptOf<'a> {
    pub key: &'a EventKey,
    pub generation: i32,
    pub message_id: MessageId,
    pub attempt_n: u32,
}
