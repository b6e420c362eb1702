//! Turns recorded spans into the messages of OTLP. Names of attributes are those of `OpenTelemetry`'s semantic
//! conventions where they have one, and begin with `hooklatch.` where they have none: docs/tracing.md lists them.

use std::time::Instant;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use super::ids::{EventTrace, TraceIds};
use super::record::{
    AdmittedRequest, AttemptSpan, CommitSpan, DispatchSpan, HandlerRun, RequestSpan, SpanRecord, random_id,
};
use hooklatch_core::types::{Name, Outcome, SpanContext};

/// The version of the semantic conventions that the names are of.
pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Flags of a span and of a link: that it is recorded, that it has the next flag, and that its parent is of
/// another process.
const SAMPLED: u32 = 0x001;
const KNOWN_WHERE: u32 = 0x100;
const ELSEWHERE: u32 = 0x200;

/// OTLP's number for a span that failed.
const ERROR: i32 = 2;

/// A moment by both clocks: spans carry wall-clock times, but the monotonic clock measures them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BothClocks {
    pub(crate) instant: Instant,
    pub(crate) unix_ns: u64,
}

impl BothClocks {
    /// A span inside the program, of which the rest is filled in.
    fn span(
        self,
        trace: &EventTrace,
        span_id: [u8; 8],
        parent_id: Option<[u8; 8]>,
        (began, ended): (Instant, Instant),
    ) -> Span {
        Span {
            trace_id: trace.trace_id.to_vec(),
            span_id: span_id.to_vec(),
            parent_span_id: parent_id.map(Vec::from).unwrap_or_default(),
            flags: SAMPLED | KNOWN_WHERE,
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: self.unix_ns(began),
            end_time_unix_nano: self.unix_ns(ended),
            ..Span::default()
        }
    }

    fn unix_ns(self, at: Instant) -> u64 {
        let ago = self.instant.saturating_duration_since(at).as_nanos();
        self.unix_ns.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
    }
}

/// Turns span records into spans.
pub(crate) struct SpanWriter {
    pub(crate) ids: TraceIds,
    pub(crate) resource: Resource,
}

/// The program that the spans are of.
pub(crate) fn resource(service_name: &str, node: &str) -> Resource {
    let attributes = vec![
        text("service.name", service_name),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", node),
    ];
    Resource { attributes, ..Resource::default() }
}

impl SpanWriter {
    /// A request to the collector with these spans.
    pub(crate) fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "hooklatch".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let schema_url = SCHEMA_URL.to_owned();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: schema_url.clone() }];
        let resource = Some(self.resource.clone());
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource, scope_spans, schema_url }],
        }
    }

    /// Adds the spans of a record.
    pub(crate) fn write(&self, record: &SpanRecord, clocks: BothClocks, spans: &mut Vec<Span>) {
        match record {
            SpanRecord::Request(request) => self.request_spans(request, clocks, spans),
            SpanRecord::Dispatch(dispatch) => spans.push(self.dispatch_span(dispatch, clocks)),
            SpanRecord::Attempt(attempt) => spans.push(attempt_span(attempt, clocks)),
        }
    }

    fn request_spans(&self, span: &RequestSpan, clocks: BothClocks, spans: &mut Vec<Span>) {
        let AdmittedRequest { provider, events, times, .. } = &span.request;
        let trace_of = |event_id: &str| self.ids.of(provider, event_id, 0);
        let first = events.first().map(|(event_id, _)| trace_of(event_id));
        let commit = times.commit.as_ref().zip(first).map(|(commit, first)| (commit, commit.home(first)));
        spans.extend(events.iter().map(|(event_id, outcome)| {
            let trace = trace_of(event_id);
            let shared = commit.filter(|(_, (home, _))| home.trace_id != trace.trace_id);
            let shared = shared.map(|(commit, (home, _))| self.ids.context(&home, commit.span_id));
            admission_span(span, (event_id, *outcome), (&trace, shared), clocks)
        }));
        spans.extend(times.runs.iter().filter_map(|run| {
            let (event_id, _) = events.get(run.event_n)?;
            Some(handler_span(provider, run, &trace_of(event_id), clocks))
        }));
        if let Some((commit, (home, true))) = commit {
            spans.push(commit_span(commit, &home, clocks));
        }
    }

    fn dispatch_span(&self, dispatch: &DispatchSpan, clocks: BothClocks) -> Span {
        let DispatchSpan { key, generation, dispatch_n, .. } = dispatch;
        let trace = self.ids.of(&key.provider, &key.event_id, *generation);
        let span_id = trace.dispatch_id(*generation, *dispatch_n);
        let is_root = span_id == trace.root_id;
        let parent_id = (!is_root).then_some(trace.root_id);
        // What an operator had done once more follows from what was there before, in a trace of its own.
        let before = is_root.then(|| self.ids.of(&key.provider, &key.event_id, generation.saturating_sub(1)));
        let mut attributes = event_attributes(key.provider.as_str(), &key.event_id, &dispatch.event_type);
        attributes.push(number("hooklatch.dispatch_n", *dispatch_n));
        attributes.push(number("hooklatch.generation", *generation));
        Span {
            name: format!("handle {}", key.provider),
            attributes,
            links: before
                .iter()
                .map(|trace| link(&self.ids.context(trace, trace.root_id), KNOWN_WHERE))
                .collect(),
            status: failed(dispatch.is_failed),
            ..clocks.span(&trace, span_id, parent_id, (dispatch.began, dispatch.ended))
        }
    }
}

/// The span of one event's admission, or of a further copy of it; with a link to a commit that stands in another trace.
fn admission_span(
    span: &RequestSpan,
    (event_id, outcome): (&str, Outcome),
    (trace, commit): (&EventTrace, Option<SpanContext>),
    clocks: BothClocks,
) -> Span {
    // A copy is another span of the same trace: the first one's id is for the one that was latched.
    let is_first = matches!(outcome, Outcome::Accepted | Outcome::Unreadable | Outcome::Superseded);
    let (span_id, parent) = if is_first { (trace.root_id, None) } else { (random_id(), Some(trace.root_id)) };
    let AdmittedRequest { provider, status, event_type, .. } = &span.request;
    let provider = provider.as_str();
    let mut attributes = event_attributes(provider, event_id, event_type.as_deref().unwrap_or_default());
    attributes.extend([
        text("messaging.operation.name", "admit"),
        text("messaging.operation.type", "process"),
        text("http.request.method", "POST"),
        text("http.route", &format!("/webhooks/{provider}")),
        text("hooklatch.outcome", outcome.as_str()),
    ]);
    attributes.extend(status.map(|status| number("http.response.status_code", status)));
    let commit = commit.as_ref().map(|commit| link(commit, KNOWN_WHERE));
    let inbound = span.inbound.as_ref().map(|context| link(context, KNOWN_WHERE | ELSEWHERE));
    Span {
        name: format!("admit {provider}"),
        kind: SpanKind::Consumer.into(),
        attributes,
        links: commit.into_iter().chain(inbound).collect(),
        ..clocks.span(trace, span_id, parent, (span.began, span.ended))
    }
}

/// The span of the handlers that ran in the commit.
fn handler_span(provider: &Name, run: &HandlerRun, trace: &EventTrace, clocks: BothClocks) -> Span {
    Span {
        name: format!("handle {provider}"),
        attributes: vec![
            text("hooklatch.provider", provider.as_str()),
            number("hooklatch.dispatch_n", 1),
            number("hooklatch.generation", 0),
        ],
        status: failed(run.is_failed),
        ..clocks.span(trace, trace.dispatch_id(0, 1), Some(trace.root_id), (run.began, run.ended))
    }
}

fn commit_span(commit: &CommitSpan, home: &EventTrace, clocks: BothClocks) -> Span {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    Span {
        name: "commit".to_owned(),
        attributes: vec![
            number("messaging.batch.message_count", count(commit.events_n)),
            number("hooklatch.batch.requests_n", count(commit.requests_n)),
        ],
        ..clocks.span(home, commit.span_id, Some(home.root_id), (commit.began, commit.ended))
    }
}

fn attempt_span(attempt: &AttemptSpan, clocks: BothClocks) -> Span {
    let destination = attempt.destination.as_str();
    let result = attempt.result.as_str();
    let mut attributes = vec![
        text("messaging.system", "hooklatch"),
        text("messaging.operation.name", "send"),
        text("messaging.operation.type", "send"),
        text("messaging.destination.name", destination),
        text("messaging.message.id", &attempt.message_id.to_string()),
        number("hooklatch.attempt_n", attempt.attempt_n),
        text("hooklatch.outcome", result),
        text("hooklatch.next", attempt.next),
    ];
    attributes.extend(attempt.method.as_deref().map(|method| text("http.request.method", method)));
    if let Some(server) = &attempt.server {
        attributes.extend([
            text("server.address", &server.address),
            number("server.port", server.port),
            text("url.scheme", server.scheme),
        ]);
    }
    if attempt.method.is_some() && attempt.attempt_n > 1 {
        attributes.push(number("http.request.resend_count", i64::from(attempt.attempt_n) - 1));
    }
    let status = attempt.http_status;
    attributes.extend(status.map(|status| number("http.response.status_code", status)));
    let is_failed = !attempt.is_unsent && attempt.next != "done";
    if is_failed {
        let kind =
            status.filter(|status| *status >= 400).map_or_else(|| result.to_owned(), |it| it.to_string());
        attributes.push(text("error.type", &kind));
    }
    let times = (attempt.began, attempt.ended);
    Span {
        name: format!("send {destination}"),
        kind: if attempt.is_unsent { SpanKind::Internal } else { SpanKind::Client }.into(),
        attributes,
        status: failed(is_failed),
        ..clocks.span(&attempt.trace, attempt.span_id, Some(attempt.trace.root_id), times)
    }
}

/// The attributes by which an event is found.
fn event_attributes(provider: &str, event_id: &str, event_type: &str) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("messaging.system", "hooklatch"),
        text("messaging.destination.name", provider),
        text("messaging.message.id", event_id),
        text("hooklatch.provider", provider),
        text("hooklatch.event.id", event_id),
    ];
    attributes.extend((!event_type.is_empty()).then(|| text("hooklatch.event.type", event_type)));
    attributes
}

fn link(context: &SpanContext, flags: u32) -> Link {
    Link {
        trace_id: context.trace_id.to_vec(),
        span_id: context.span_id.to_vec(),
        flags: flags | u32::from(context.is_sampled),
        ..Link::default()
    }
}

fn failed(is_failed: bool) -> Option<Status> {
    is_failed.then(|| Status { code: ERROR, ..Status::default() })
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: impl Into<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.into()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
