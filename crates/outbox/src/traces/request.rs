//! One request on its way, where it is traced.

use std::sync::Arc;
use std::time::Instant;

use super::span::{AdmissionTimes, HandlerRun, RequestSpan, SpanRecord};
use super::tracer::Tracer;
use hooklatch_core::types::{Name, Outcome, SpanContext};

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
