//! Traces: what became of an event, as spans that are sent to a collector over OTLP.
//!
//! Nothing of a trace is stored. `ids.rs` computes the ids from what names the event, so any node, any attempt and any
//! process after a crash has the same trace, and decides from the same bytes whether it is recorded.
//!
//! The parts of the program hold [`Traces`], which is off by default and then costs a look at one word. They record
//! their work in a bounded queue (`record.rs`) and never wait for it. Behind the feature `otel`, `otlp.rs` turns
//! records into OTLP's messages, and `exporter.rs` is the task that posts them.
//!
//! No span has a body, a header, a URL or an error's text: docs/tracing.md says what they have.

#[cfg(feature = "otel")]
mod exporter;
mod ids;
#[cfg(feature = "otel")]
mod otlp;
mod record;
#[cfg(feature = "otel")]
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use uuid::Uuid;

#[cfg(feature = "otel")]
pub use exporter::SpanExporter;
use hooklatch_core::config::TracingConfig;
use hooklatch_core::types::{Clock, EventKey, Name, SpanContext};
use hooklatch_store::LeasedMessage;
use ids::{EventTrace, TraceIds};
pub use record::{AdmissionTimes, AdmittedRequest, CommitSpan, HandlerRun};
pub(crate) use record::{AttemptSpan, HttpServer};
use record::{DispatchSpan, RequestSpan, SpanQueue, SpanRecord};

/// The header by which a caller says which span it is in.
const TRACEPARENT: &str = "traceparent";

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

/// Tracing as the parts of the program hold it: off, which is the default, or the way to the exporter. Cloning is
/// cheap.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<Tracer>>);

/// Tracing that is on.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) ids: TraceIds,
    pub(crate) queue: SpanQueue,
    /// True when calls carry the span that they are of.
    pub(crate) is_propagated: bool,
    /// True when a sender's own span is linked.
    pub(crate) is_linked: bool,
}

/// An event that was dispatched later than at its admission.
pub struct DispatchedEvent<'a> {
    pub key: &'a EventKey,
    pub event_type: &'a str,
    pub generation: i32,
    /// Number of dispatches in this generation, this one included.
    pub dispatch_n: u32,
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

    /// A request with these headers, where requests are traced. Its sender's own span is parsed only if it is linked.
    pub fn request(&self, headers: &HeaderMap) -> Option<RequestTrace> {
        let tracer = Arc::clone(self.0.as_ref()?);
        let mut values = headers.get_all(TRACEPARENT).iter().filter(|_| tracer.is_linked);
        // Of two, neither counts.
        let inbound = match (values.next(), values.next()) {
            (Some(one), None) => SpanContext::parse(one.as_bytes()),
            _ => None,
        };
        Some(RequestTrace { tracer, began: Instant::now(), inbound })
    }

    /// Id of the trace of an event's first generation, where it is recorded.
    pub fn trace_id(&self, provider: &Name, event_id: &str) -> Option<String> {
        let trace = self.0.as_ref()?.ids.recorded(provider, event_id, 0)?;
        Some(hex::encode(trace.trace_id))
    }

    /// Records that an event was dispatched again, or once more at an operator's request.
    pub fn dispatched(&self, event: &DispatchedEvent<'_>, began: Option<Instant>, is_failed: bool) {
        let (Some(tracer), Some(began)) = (&self.0, began) else { return };
        if tracer.ids.recorded(&event.key.provider, &event.key.event_id, event.generation).is_none() {
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

    /// The trace and the span of the attempt that a lease is for, where attempts are traced; the span says whether it
    /// is recorded.
    pub(crate) fn attempt(&self, message: &LeasedMessage) -> Option<(EventTrace, SpanContext)> {
        let ids = &self.0.as_ref()?.ids;
        let trace = ids.of(&message.key.provider, &message.key.event_id, message.generation);
        Some((trace, ids.context(&trace, trace.attempt_id(message.message_id, message.attempt_n))))
    }

    /// The span that the call of an attempt carries, where calls carry any.
    pub(crate) fn propagated(&self, message: &LeasedMessage) -> Option<SpanContext> {
        self.0.as_ref().filter(|tracer| tracer.is_propagated)?;
        Some(self.attempt(message)?.1)
    }

    /// Records that an attempt ended.
    pub(crate) fn attempted(&self, span: AttemptSpan) {
        if let Some(tracer) = &self.0 {
            tracer.queue.push(SpanRecord::Attempt(span), 1);
        }
    }

    /// The first span of an event's trace, for operators who look for it; `None` when tracing is off.
    pub fn root(&self, key: &EventKey, generation: i32) -> Option<SpanContext> {
        let ids = &self.0.as_ref()?.ids;
        let trace = ids.of(&key.provider, &key.event_id, generation);
        Some(ids.context(&trace, trace.root_id))
    }
}

/// One request on its way, where it is traced; the task that ends its way records what became of it.
#[derive(Debug, Clone)]
pub struct RequestTrace {
    tracer: Arc<Tracer>,
    began: Instant,
    inbound: Option<SpanContext>,
}

impl RequestTrace {
    /// Records that a request was admitted, if any of its events is recorded. The values are moved.
    pub fn admitted(self, mut request: AdmittedRequest) {
        let provider = request.provider.clone();
        let is_recorded = |event_id: &str| self.tracer.ids.recorded(&provider, event_id, 0).is_some();
        let events_n = request.events.len();
        let ids = request.events.iter().map(|(event_id, _)| event_id).enumerate();
        let recorded: Vec<usize> = ids.filter(|(_, id)| is_recorded(id)).map(|(n, _)| n).collect();
        if recorded.is_empty() {
            return;
        }
        // The queue is bounded in spans, and must not hold what makes none.
        if recorded.len() < events_n {
            let (mut all, place) = (0.., |n| recorded.binary_search(&n).ok());
            request.events.retain(|_| all.next().and_then(place).is_some());
            request.times.runs.retain_mut(|run| {
                let place = place(run.event_n);
                run.event_n = place.unwrap_or_default();
                place.is_some()
            });
            request.events.shrink_to_fit();
            request.times.runs.shrink_to_fit();
        }
        if events_n > 1 {
            request.event_type = None;
        }
        let spans_n = request.events.len() + request.times.runs.len();
        let span = RequestSpan { request, began: self.began, ended: Instant::now(), inbound: self.inbound };
        self.tracer.queue.push(SpanRecord::Request(span), spans_n);
    }
}

/// The exporter of a program that was built without the feature `otel`: there is none, and a configuration that asks
/// for one is refused before.
#[cfg(not(feature = "otel"))]
pub struct SpanExporter(());

#[cfg(not(feature = "otel"))]
impl SpanExporter {
    fn new(_: &TraceOptions<'_>) -> Result<(Tracer, Self), String> {
        Err("this program was built without the feature `otel`".to_owned())
    }

    /// Never called.
    pub async fn run(&mut self, mut stop: hooklatch_core::stop::Stop) {
        let () = self.0;
        stop.wait().await;
    }
}
