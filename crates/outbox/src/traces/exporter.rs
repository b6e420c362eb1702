//! The exporter: the one task that makes spans and posts them to the collector, a batch at a time.
//!
//! Whatever the collector does, it costs the rest of the program only spans: while one batch is tried again the queue
//! fills, and a sender that finds it full drops and counts.

use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use metrics::Counter;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reqwest::{Certificate, Response, Url};
use tokio::time::{timeout, timeout_at};
use tracing::{info, warn};

use super::ids::{SampleRatio, TraceIds};
use super::otlp::{BothClocks, SpanWriter, resource};
use super::record::{WaitingSpans, span_queue};
use super::{TraceOptions, Tracer};
use hooklatch_core::config::{InboundTraces, TracingConfig};
use hooklatch_core::net::{client_builder, read_capped};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::Clock;

/// Most spans in one request to the collector.
const BATCH_SPANS_N: usize = 512;
/// Longest time that a span waits for company.
const COMPANY: Duration = Duration::from_secs(1);
/// Longest time for which one batch is posted again: a collector that has something against this one takes the next.
const TRIED_FOR: Duration = Duration::from_mins(2);
/// First and longest pause before a batch is posted again.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Time for the post that is under way when the stop is set, and as much again for what still waits then.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Posts spans until the stop.
pub struct SpanExporter {
    waiting: WaitingSpans,
    writer: SpanWriter,
    collector: Collector,
    clock: Clock,
    exported: Counter,
    dropped: Counter,
    /// Number of posts that failed since one was taken.
    failures_n: u32,
}

impl SpanExporter {
    /// Reads the configuration; connects to nothing yet.
    pub fn new(options: &TraceOptions<'_>) -> Result<(Tracer, Self), String> {
        let config = options.config;
        let (exported, dropped) = (
            metrics::counter!("hooklatch_spans_exported_total"),
            metrics::counter!("hooklatch_spans_dropped_total"),
        );
        let spans_n_max = usize::try_from(config.queue_n_max).unwrap_or(usize::MAX);
        let (queue, waiting) = span_queue(spans_n_max, dropped.clone());
        let (ids, ratio) = (TraceIds::new(options.installation_id), SampleRatio::new(config.ratio));
        let resource = resource(&config.service_name, options.node);
        let exporter = Self {
            waiting,
            writer: SpanWriter { ids: ids.clone(), ratio, resource },
            collector: Collector::new(config)?,
            clock: options.clock.clone(),
            exported,
            dropped,
            failures_n: 0,
        };
        let is_linked = config.inbound == InboundTraces::Link;
        Ok((Tracer { ids, ratio, queue, is_propagated: config.propagate, is_linked }, exporter))
    }

    /// Posts queued spans until the stop, and then what still waits, within two seconds.
    pub async fn run(&mut self, mut stop: Stop) {
        let (mut over, mut left) = (stop.clone(), Vec::new());
        while !stop.is_set() {
            let first = tokio::select! {
                first = self.waiting.next() => first,
                () = over.wait() => break,
            };
            let Some(first) = first else { break };
            let mut spans = Vec::with_capacity(BATCH_SPANS_N);
            self.writer.write(&first, self.clocks(), &mut spans);
            self.gather(&mut spans, &mut over).await;
            if stop.is_set() {
                left = spans;
                break;
            }
            self.export(spans, &mut stop).await;
        }
        if timeout(LAST_WORDS, self.flush(left)).await.is_err() {
            warn!("stopped before every span was exported");
        }
        let left_n = self.waiting.close();
        self.drop_spans(left_n);
    }

    /// Waits for company, for a while or until the batch is full.
    async fn gather(&mut self, spans: &mut Vec<Span>, over: &mut Stop) {
        let until = tokio::time::Instant::now() + COMPANY;
        while spans.len() < BATCH_SPANS_N {
            let next = tokio::select! {
                next = timeout_at(until, self.waiting.next()) => next,
                () = over.wait() => break,
            };
            let Ok(Some(record)) = next else { break };
            self.writer.write(&record, self.clocks(), spans);
        }
    }

    /// Posts these and what waits now, each batch once.
    async fn flush(&mut self, mut spans: Vec<Span>) {
        loop {
            while spans.len() < BATCH_SPANS_N
                && let Some(record) = self.waiting.next_now()
            {
                self.writer.write(&record, self.clocks(), &mut spans);
            }
            if spans.is_empty() {
                break;
            }
            for batch in batches(std::mem::take(&mut spans)) {
                let (body, spans_n) = self.encoded(batch);
                let posted = self.collector.post(body).await;
                self.ended(posted, spans_n);
            }
        }
    }

    /// One request may have more spans than go into one batch.
    async fn export(&mut self, spans: Vec<Span>, stop: &mut Stop) {
        for batch in batches(spans) {
            let (body, spans_n) = self.encoded(batch);
            if stop.is_set() {
                self.drop_spans(spans_n);
                continue;
            }
            let posted = self.tried(&body, stop).await;
            self.ended(posted, spans_n);
        }
    }

    fn encoded(&self, spans: Vec<Span>) -> (Bytes, usize) {
        let spans_n = spans.len();
        (self.writer.request(spans).encode_to_vec().into(), spans_n)
    }

    /// Posts a batch until it is taken, for as long as is worth it. New spans meanwhile wait, or find no room.
    async fn tried(&mut self, body: &Bytes, stop: &mut Stop) -> Result<usize, NotTaken> {
        let since = Instant::now();
        loop {
            let refused = match self.posted(body.clone(), stop).await {
                Ok(rejected_n) => return Ok(rejected_n),
                Err(refused) => refused,
            };
            if !refused.is_for_now || since.elapsed() > TRIED_FOR || stop.is_set() {
                return Err(refused);
            }
            self.failed(&refused);
            if stop.pause(pause(self.failures_n, refused.retry_after)).await {
                return Err(refused);
            }
        }
    }

    /// Posts once, for no longer than a moment after the stop.
    async fn posted(&self, body: Bytes, stop: &mut Stop) -> Result<usize, NotTaken> {
        let mut post = pin!(self.collector.post(body));
        tokio::select! {
            posted = &mut post => posted,
            () = stop.wait() => timeout(LAST_WORDS, post).await.unwrap_or_else(|_| {
                Err(NotTaken { why: "no answer before the stop".to_owned(), is_for_now: false, retry_after: None })
            }),
        }
    }

    /// Counts the spans of a batch that is finished.
    fn ended(&mut self, posted: Result<usize, NotTaken>, spans_n: usize) {
        match posted {
            Ok(rejected_n) => {
                let rejected_n = rejected_n.min(spans_n);
                self.exported.increment(u64::try_from(spans_n - rejected_n).unwrap_or(u64::MAX));
                self.drop_spans(rejected_n);
                if self.failures_n > 0 {
                    self.failures_n = 0;
                    info!("the collector takes spans again");
                }
            }
            Err(refused) => {
                self.failed(&refused);
                self.drop_spans(spans_n);
            }
        }
    }

    fn drop_spans(&self, spans_n: usize) {
        self.dropped.increment(u64::try_from(spans_n).unwrap_or(u64::MAX));
    }

    /// One line for each time that the collector goes away.
    fn failed(&mut self, refused: &NotTaken) {
        if self.failures_n == 0 {
            warn!(
                reason = refused.why,
                "the collector does not take spans; what there is no room for is dropped and counted"
            );
        }
        self.failures_n = self.failures_n.saturating_add(1);
    }

    fn clocks(&self) -> BothClocks {
        BothClocks { instant: Instant::now(), unix_ns: self.clock.now_ns() }
    }
}

/// Time before a batch is posted again: as long as the collector asks for, which is never nothing, else longer each time.
pub(crate) fn pause(failures_n: u32, asked: Option<Duration>) -> Duration {
    let own = PAUSE_FIRST.saturating_mul(1 << failures_n.min(16)).min(PAUSE_MAX);
    asked.map_or(own, |asked| asked.max(PAUSE_FIRST))
}

/// Spans in batches of the usual size.
fn batches(spans: Vec<Span>) -> Vec<Vec<Span>> {
    if spans.len() <= BATCH_SPANS_N {
        return vec![spans];
    }
    spans.chunks(BATCH_SPANS_N).map(<[Span]>::to_vec).collect()
}

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest wait that a collector can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// Where spans are posted.
pub(crate) struct Collector {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
}

/// The reason why a collector did not take what was posted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotTaken {
    /// The reason, in words without addresses or secrets.
    pub why: String,
    /// True when the same may be taken later.
    pub is_for_now: bool,
    /// Time for which it wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Collector {
    /// Reads what the configuration says once; connects to nothing yet.
    pub(crate) fn new(config: &TracingConfig) -> Result<Self, String> {
        let url = config.endpoint.as_deref().and_then(|text| Url::parse(text).ok());
        let url = url.ok_or("tracing.endpoint is not a URL")?;
        let words = |error: reqwest::Error| error.without_url().to_string();
        let mut builder = client_builder().timeout(Duration::from_millis(config.timeout_ms));
        if let Some(ca) = &config.ca {
            let pem = ca.reveal().as_bytes();
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(words)?);
        } else if url.scheme() == "http" {
            // Plain HTTP needs no trusted certificates.
            builder = builder.tls_certs_only([]);
        }
        let mut headers = HeaderMap::new();
        for (name, secret) in &config.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(secret.reveal());
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err("tracing.headers has what a header cannot carry".to_owned());
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        Ok(Self { http: builder.build().map_err(words)?, url, headers })
    }

    /// Posts a request to export, and says how many of its spans were not taken although it was.
    pub(crate) async fn post(&self, body: Bytes) -> Result<usize, NotTaken> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = request.send().await.map_err(|error| NotTaken::away(&error))?;
        let code = response.status().as_u16();
        if !(200..300).contains(&code) {
            return Err(NotTaken::of(code, &response));
        }
        // Whatever else is in the answer, it confirms that it has them.
        let answer = read_capped(response, ANSWER_BYTES_MAX).await.ok().flatten().unwrap_or_default();
        let answer = ExportTraceServiceResponse::decode(answer.as_slice()).unwrap_or_default();
        let rejected_n = answer.partial_success.map_or(0, |part| part.rejected_spans);
        Ok(usize::try_from(rejected_n).unwrap_or_default())
    }
}

impl NotTaken {
    fn away(error: &reqwest::Error) -> Self {
        // Its causes may name the address.
        let why = if error.is_connect() {
            "no connection"
        } else if error.is_timeout() {
            "no answer in time"
        } else {
            "the connection broke"
        };
        Self { why: why.to_owned(), is_for_now: true, retry_after: None }
    }

    /// By the rules of OTLP: these alone may be repeated.
    fn of(code: u16, response: &Response) -> Self {
        let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Self {
            why: format!("answered {code}"),
            is_for_now: matches!(code, 429 | 502 | 503 | 504),
            retry_after: asked.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX)),
        }
    }
}
