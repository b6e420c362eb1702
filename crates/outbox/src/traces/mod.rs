//! Traces: what became of an event, as spans that are sent to a collector over OTLP.
//!
//! Nothing of a trace is stored. `ids.rs` computes the ids from what names the event, so any node, any attempt and any
//! process after a crash has the same trace, and decides from the same bytes whether it is recorded.
//!
//! The parts of the program hold [`Traces`], which is off by default and then costs a look at one word. They record their
//! work in a bounded queue (`record.rs`) and never wait for it. Behind the feature `otel`, `otlp.rs` turns records into
//! OTLP's messages, and `exporter.rs` is the task that posts them.
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

#[cfg(feature = "otel")]
pub use exporter::SpanExporter;
use http::HeaderMap;
pub use record::{AdmissionTimes, AttemptSpan, CommitSpan, HandlerRun, HttpServer};
use uuid::Uuid;

use hooklatch_core::config::TracingConfig;
use hooklatch_core::types::{Clock, EventKey, MessageId, Name, Outcome, SpanContext};
use ids::{EventTrace, SampleRatio, TraceIds};
use record::{DispatchSpan, RequestSpan, SpanQueue, SpanRecord};

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

/// One request on its way; the task that ends its way records what became of it.
#[derive(Debug, Clone)]
pub struct RequestTrace {
    tracer: Arc<Tracer>,
    began: Instant,
    inbound: Option<SpanContext>,
}

/// What became of a request.
pub struct AdmittedRequest<'a> {
    /// The provider that it is for.
    pub provider: &'a Name,
    /// The HTTP status of the answer; `None` when its sender waits no longer.
    pub status: Option<u16>,
    /// Type of its event, where it has one.
    pub event_type: Option<String>,
    /// Ids of its events, and what was found.
    pub events: Vec<(String, Outcome)>,
    /// How they were admitted.
    pub times: AdmissionTimes,
}

impl RequestTrace {
    pub fn begun(tracer: Arc<Tracer>, inbound: Option<SpanContext>) -> Self {
        Self { tracer, began: Instant::now(), inbound }
    }

    /// Records that a request was admitted, if any of its events is recorded. The values are moved; where all events
    /// are recorded it allocates nothing but its place in the queue.
    pub fn admitted(self, request: AdmittedRequest<'_>) {
        let AdmittedRequest { provider, status, event_type, mut events, mut times } = request;
        let is_recorded = |event_id: &str| self.tracer.recorded(provider, event_id, 0).is_some();
        let (events_n, recorded_n) = (events.len(), events.iter().filter(|(id, _)| is_recorded(id)).count());
        if recorded_n == 0 {
            return;
        }
        if recorded_n < events_n {
            keep(&mut events, &mut times.runs, is_recorded);
        }
        let spans_n = events.len() + times.runs.len();
        let span = RequestSpan {
            provider: provider.clone(),
            began: self.began,
            ended: Instant::now(),
            status,
            event_type: event_type.filter(|_| events_n == 1),
            events,
            times,
            inbound: self.inbound,
        };
        self.tracer.queue.push(SpanRecord::Request(span), spans_n);
    }
}

/// Leaves out the other events, with what ran for them: the queue is bounded in spans, and must not hold what makes none.
fn keep(events: &mut Vec<(String, Outcome)>, runs: &mut Vec<HandlerRun>, is_recorded: impl Fn(&str) -> bool) {
    let (mut places, mut kept_n) = (Vec::with_capacity(events.len()), 0);
    events.retain(|(event_id, _)| {
        let is_kept = is_recorded(event_id);
        places.push(is_kept.then_some(kept_n));
        kept_n += usize::from(is_kept);
        is_kept
    });
    runs.retain_mut(|run| {
        let place = places.get(run.event_n).copied().flatten();
        run.event_n = place.unwrap_or_default();
        place.is_some()
    });
    events.shrink_to_fit();
    runs.shrink_to_fit();
}

/// The exporter, of which this program has none.
#[cfg(not(feature = "otel"))]
pub struct SpanExporter(());

#[cfg(not(feature = "otel"))]
impl SpanExporter {
    pub fn new(_: &TraceOptions<'_>) -> Result<(Tracer, Self), String> {
        Err("this program was built without the feature `otel`".to_owned())
    }

    /// Never called: without the feature there is no exporter.
    pub async fn run(&mut self, mut stop: hooklatch_core::stop::Stop) {
        let () = self.0;
        stop.wait().await;
    }
}
