//! Tests of what becomes of requests with many events, and of a queue that is full.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::Counter;
use opentelemetry_proto::tonic::trace::v1::Span;
use uuid::Uuid;

use super::Tracer;
use super::exporter::pause;
use super::ids::TraceIds;
use super::otlp::{BothClocks, SpanWriter, resource};
use super::record::span_queue;
use super::record::{AdmissionTimes, CommitSpan, HandlerRun, SpanRecord};
use super::{AdmittedRequest, RequestTrace};
use hooklatch_core::types::{Name, Outcome};

fn tracer(ratio: f64, spans_n_max: usize) -> (Arc<Tracer>, super::record::WaitingSpans) {
    let (queue, waiting) = span_queue(spans_n_max, Counter::noop());
    let ids = TraceIds::new(&Uuid::nil(), ratio);
    (Arc::new(Tracer { ids, queue, is_propagated: true, is_linked: false }), waiting)
}

fn provider() -> Name {
    Name::parse("stripe").expect("a name")
}

/// Records a request with so many events, the second of which had a handler.
fn record_request(tracer: &Arc<Tracer>, events_n: usize, commit: &Arc<CommitSpan>) {
    let now = Instant::now();
    let times = AdmissionTimes {
        commit: Some(Arc::clone(commit)),
        runs: vec![HandlerRun { event_n: 1, began: now, ended: now, is_failed: true }],
    };
    RequestTrace { tracer: Arc::clone(tracer), began: now, inbound: None }.admitted(AdmittedRequest {
        provider: provider(),
        status: Some(200),
        event_type: Some("of the first one".to_owned()),
        events: (0..events_n).map(|n| (format!("evt_{n}"), Outcome::Accepted)).collect(),
        times,
    });
}

fn written(tracer: &Tracer, record: &SpanRecord) -> Vec<Span> {
    let writer = SpanWriter { ids: tracer.ids.clone(), resource: resource("s", "n") };
    let mut spans = Vec::new();
    writer.write(record, BothClocks { instant: Instant::now(), unix_ns: 1 << 60 }, &mut spans);
    spans
}

#[test]
fn each_recorded_event_of_a_request_has_its_spans_and_the_commit_has_one() {
    let (tracer, mut waiting) = tracer(0.5, 10_000);
    let commit = CommitSpan::ended(Instant::now(), 200, 2);
    record_request(&tracer, 100, &commit);
    record_request(&tracer, 100, &commit);
    let is_recorded = |n: usize| tracer.ids.recorded(&provider(), &format!("evt_{n}"), 0).is_some();
    let recorded_n = (0..100).filter(|n| is_recorded(*n)).count();
    assert!((20..80).contains(&recorded_n), "{recorded_n}");
    let named = |spans: &[Span], name: &str| spans.iter().filter(|span| span.name == name).count();
    for commits_n in [1, 0] {
        let record = waiting.next_now().expect("a record");
        let SpanRecord::Request(request) = &record else { panic!("{record:?}") };
        let held_n = (request.request.events.capacity(), request.request.times.runs.capacity());
        assert_eq!(held_n, (recorded_n, usize::from(is_recorded(1))), "what makes no span is not held");
        let spans = written(&tracer, &record);
        assert_eq!(named(&spans, "admit stripe"), recorded_n);
        assert_eq!(named(&spans, "handle stripe"), usize::from(is_recorded(1)));
        assert_eq!(named(&spans, "commit"), commits_n);
        let types =
            spans.iter().flat_map(|span| &span.attributes).filter(|one| one.key == "hooklatch.event.type");
        assert_eq!(types.count(), 0, "the type of one is not an attribute of all");
    }
}

#[test]
fn a_queue_takes_as_many_spans_as_it_may_and_has_room_again_when_they_are_taken() {
    let (tracer, mut waiting) = tracer(1.0, 8);
    let commit = CommitSpan::ended(Instant::now(), 3, 1);
    // Three admissions and a handler are four spans.
    (0..5).for_each(|_| record_request(&tracer, 3, &commit));
    assert_eq!(std::iter::from_fn(|| waiting.next_now()).count(), 2);
    record_request(&tracer, 100, &commit);
    assert!(waiting.next_now().is_none(), "what is larger than all of it finds no room");
    record_request(&tracer, 3, &commit);
    assert!(waiting.next_now().is_some());
    record_request(&tracer, 3, &commit);
    assert_eq!(waiting.close(), 4);
    record_request(&tracer, 3, &commit);
    assert!(waiting.next_now().is_none(), "the queue is closed");
}

#[test]
fn a_request_without_recorded_events_has_no_spans() {
    let (tracer, mut waiting) = tracer(0.0, 10);
    record_request(&tracer, 3, &CommitSpan::ended(Instant::now(), 3, 1));
    assert!(waiting.next_now().is_none());
}

#[test]
fn span_times_follow_the_wall_clock_and_are_never_in_the_future() {
    let (tracer, mut waiting) = tracer(1.0, 10);
    record_request(&tracer, 1, &CommitSpan::ended(Instant::now(), 1, 1));
    let spans = written(&tracer, &waiting.next_now().expect("a record"));
    let minute_ns = u64::try_from(Duration::from_mins(1).as_nanos()).expect("it fits");
    for span in spans {
        let (began, ended) = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert!(began <= ended && ended <= 1 << 60 && (1 << 60) - began < minute_ns, "{began} {ended}");
    }
}

#[test]
fn a_collector_is_left_alone_for_as_long_as_it_asks_and_never_posted_to_at_once() {
    let ms = Duration::from_millis;
    for (failures_n, asked, want) in [
        (0, None, ms(500)),
        (1, None, ms(1_000)),
        (40, None, ms(30_000)),
        (0, Some(ms(0)), ms(500)),
        (40, Some(ms(0)), ms(500)),
        (40, Some(ms(7_000)), ms(7_000)),
    ] {
        assert_eq!(pause(failures_n, asked), want, "{failures_n} {asked:?}");
    }
}
