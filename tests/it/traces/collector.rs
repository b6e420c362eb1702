//! A stand-in for a collector: it parses OTLP over HTTP with the types of its authors, and answers by its `Behaviour`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// How it answers a POST.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// It takes everything and confirms it.
    #[default]
    Takes,
    /// It answers with this status.
    Refuses(u16),
    /// It takes the connection and never answers.
    Stalls,
    /// It confirms them, and reports that it rejected so many.
    Rejects(i64),
    /// It confirms them, in a text that is no OTLP response.
    InvalidResponse,
}

#[derive(Default)]
struct Memory {
    behaviour: Behaviour,
    posts_n: usize,
    spans: Vec<ReceivedSpan>,
    headers: HeaderMap,
    path: String,
}

/// A collector that runs as long as its runtime.
#[derive(Clone)]
pub(super) struct Collector {
    url: String,
    memory: Arc<Mutex<Memory>>,
}

/// A span that was taken, as tests look at it.
#[derive(Debug, Clone)]
pub(super) struct ReceivedSpan {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    pub(super) parent_id: String,
    pub(super) name: String,
    /// Internal 1, server 2, client 3.
    pub(super) kind: i32,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) resource: BTreeMap<String, String>,
    /// Trace and span of each link.
    pub(super) links: Vec<(String, String)>,
    pub(super) is_error: bool,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { url, memory: Arc::default() };
        let router = Router::new().fallback(post).with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        collector
    }

    /// An address without a listener.
    pub(super) fn gone() -> Self {
        let url = format!("http://{}", crate::process::free_port());
        Self { url, memory: Arc::default() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn behave(&self, behaviour: Behaviour) {
        self.memory.lock().unwrap().behaviour = behaviour;
    }

    pub(super) fn posts_n(&self) -> usize {
        self.memory.lock().unwrap().posts_n
    }

    /// Headers and path of the last post.
    pub(super) fn last(&self) -> (HeaderMap, String) {
        let memory = self.memory.lock().unwrap();
        (memory.headers.clone(), memory.path.clone())
    }

    pub(super) fn spans(&self) -> Vec<ReceivedSpan> {
        self.memory.lock().unwrap().spans.clone()
    }

    /// The spans of this name.
    pub(super) fn named(&self, name: &str) -> Vec<ReceivedSpan> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }
}

async fn post(
    State(collector): State<Collector>,
    uri: http::Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = ExportTraceServiceRequest::decode(body).expect("OTLP");
    let behaviour = {
        let mut memory = collector.memory.lock().unwrap();
        memory.posts_n += 1;
        (memory.headers, memory.path) = (headers, uri.path().to_owned());
        if !matches!(memory.behaviour, Behaviour::Refuses(_) | Behaviour::Stalls) {
            memory.spans.extend(taken(request));
        }
        memory.behaviour
    };
    match behaviour {
        Behaviour::Takes => ExportTraceServiceResponse::default().encode_to_vec().into_response(),
        Behaviour::Refuses(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Behaviour::Stalls => std::future::pending().await,
        Behaviour::Rejects(rejected_spans) => {
            let partial_success =
                Some(ExportTracePartialSuccess { rejected_spans, error_message: "too many".to_owned() });
            ExportTraceServiceResponse { partial_success }.encode_to_vec().into_response()
        }
        Behaviour::InvalidResponse => "{\"partialSuccess\":{}}".into_response(),
    }
}

fn taken(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let mut all = Vec::new();
    for of_resource in request.resource_spans {
        let resource = attributes(&of_resource.resource.unwrap().attributes);
        for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            all.push(ReceivedSpan::of(&span, resource.clone()));
        }
    }
    all
}

impl ReceivedSpan {
    fn of(span: &Span, resource: BTreeMap<String, String>) -> Self {
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8), "ids of the right length");
        Self {
            trace_id: hex::encode(&span.trace_id),
            span_id: hex::encode(&span.span_id),
            parent_id: hex::encode(&span.parent_span_id),
            name: span.name.clone(),
            kind: span.kind,
            attributes: attributes(&span.attributes),
            resource,
            links: span
                .links
                .iter()
                .map(|link| (hex::encode(&link.trace_id), hex::encode(&link.span_id)))
                .collect(),
            is_error: span.status.as_ref().is_some_and(|status| status.code == 2),
            began_ns: span.start_time_unix_nano,
            ended_ns: span.end_time_unix_nano,
        }
    }

    /// The value of an attribute as text; empty for one that is not there.
    pub(super) fn get(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |one: &KeyValue| match one.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("an attribute of another kind: {other:?}"),
    };
    let all: BTreeMap<String, String> = list.iter().map(|one| (one.key.clone(), text(one))).collect();
    assert_eq!(all.len(), list.len(), "each attribute is there once");
    all
}
