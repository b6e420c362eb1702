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

use super::ids::TraceIds;
use super::otlp::{BothClocks, SpanWriter, resource};
use super::record::{SpanRecord, WaitingSpans, span_queue};
use super::{TraceOptions, Tracer};
use hooklatch_core::config::{InboundTraces, TracingConfig};
use hooklatch_core::net::{client_builder, read_capped};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::Clock;

/// Most spans in one request to the collector.
const BATCH_SPANS_N: usize = 512;
/// Longest time that a span waits for others to fill its batch.
const BATCH_LINGER: Duration = Duration::from_secs(1);
/// Longest time for which one batch is posted again: a collector that has something against this one takes the next.
const RETRY_TIMEOUT: Duration = Duration::from_mins(2);
/// First and longest pause before a batch is posted again.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest wait that a collector can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);
/// Time for the post that is under way when the stop is set, and as much again for what still waits then.
const SHUTDOWN_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Posts spans until the stop.
pub struct SpanExporter {
    waiting: WaitingSpans,
    writer: SpanWriter,
    /// Spans of the next batches.
    spans: Vec<Span>,
    collector: Collector,
    clock: Clock,
    exported: Counter,
    dropped: Counter,
    /// Number of posts that failed since one was taken.
    failures_n: u32,
}

impl SpanExporter {
    /// Reads the configuration; connects to nothing yet.
    pub(crate) fn new(options: &TraceOptions<'_>) -> Result<(Tracer, Self), String> {
        let config = options.config;
        let (exported, dropped) = (
            metrics::counter!("hooklatch_spans_exported_total"),
            metrics::counter!("hooklatch_spans_dropped_total"),
        );
        let spans_n_max = usize::try_from(config.queue_n_max).unwrap_or(usize::MAX);
        let (queue, waiting) = span_queue(spans_n_max, dropped.clone());
        let ids = TraceIds::new(options.installation_id, config.ratio);
        let resource = resource(&config.service_name, options.node);
        let exporter = Self {
            waiting,
            writer: SpanWriter { ids: ids.clone(), resource },
            spans: Vec::new(),
            collector: Collector::new(config)?,
            clock: options.clock.clone(),
            exported,
            dropped,
            failures_n: 0,
        };
        let is_linked = config.inbound == InboundTraces::Link;
        Ok((Tracer { ids, queue, is_propagated: config.propagate, is_linked }, exporter))
    }

    /// Posts queued spans until the stop, and then what still waits, within two seconds.
    pub async fn run(&mut self, mut stop: Stop) {
        let mut over = stop.clone();
        while self.gather(&mut over).await {
            while !stop.is_set()
                && let Some((body, spans_n)) = self.next_batch()
            {
                let posted = self.post_until_taken(&body, &mut stop).await;
                self.ended(posted, spans_n);
            }
        }
        if !self.flush().await {
            warn!("stopped before every span was exported");
        }
        let left_n = self.waiting.close() + self.spans.len();
        self.drop_spans(left_n);
    }

    /// Waits for a span, and then until the batch is full or has waited for long enough. False after the stop.
    async fn gather(&mut self, over: &mut Stop) -> bool {
        let mut first = None;
        while !over.is_set() && self.spans.len() < BATCH_SPANS_N {
            let until = first.map(|first: tokio::time::Instant| first + BATCH_LINGER);
            let next = async {
                match until {
                    Some(until) => timeout_at(until, self.waiting.next()).await.ok().flatten(),
                    None => self.waiting.next().await,
                }
            };
            let record = tokio::select! {
                record = next => record,
                () = over.wait() => return false,
            };
            let Some(record) = record else { return first.is_some() };
            first.get_or_insert_with(tokio::time::Instant::now);
            self.write(&record);
        }
        !over.is_set()
    }

    /// Posts these and what waits now, each batch once. False when the time for it ended before.
    async fn flush(&mut self) -> bool {
        let until = tokio::time::Instant::now() + SHUTDOWN_FLUSH_TIMEOUT;
        loop {
            while self.spans.len() < BATCH_SPANS_N
                && let Some(record) = self.waiting.next_now()
            {
                self.write(&record);
            }
            let Some((body, spans_n)) = self.next_batch() else { return true };
            let posted = timeout_at(until, self.collector.post(body)).await;
            let is_over = posted.is_err();
            self.ended(posted.unwrap_or_else(|_| Err(NotTaken::stopped())), spans_n);
            if is_over {
                return false;
            }
        }
    }

    fn write(&mut self, record: &SpanRecord) {
        let clocks = BothClocks { instant: Instant::now(), unix_ns: self.clock.now_ns() };
        self.writer.write(record, clocks, &mut self.spans);
    }

    /// The request with the next batch, and the number of its spans; `None` when there are none.
    fn next_batch(&mut self) -> Option<(Bytes, usize)> {
        let spans_n = self.spans.len().min(BATCH_SPANS_N);
        let batch: Vec<Span> = self.spans.drain(..spans_n).collect();
        (spans_n > 0).then(|| (self.writer.request(batch).encode_to_vec().into(), spans_n))
    }

    /// Posts a batch until it is taken, for as long as is worth it. New spans meanwhile wait, or find no room.
    async fn post_until_taken(&mut self, body: &Bytes, stop: &mut Stop) -> Result<usize, NotTaken> {
        let since = Instant::now();
        loop {
            let refused = match self.post(body.clone(), stop).await {
                Ok(rejected_n) => return Ok(rejected_n),
                Err(refused) => refused,
            };
            if !refused.is_for_now || since.elapsed() > RETRY_TIMEOUT || stop.is_set() {
                return Err(refused);
            }
            self.failed(&refused);
            if stop.pause(pause(self.failures_n, refused.retry_after)).await {
                return Err(refused);
            }
        }
    }

    /// Posts once, for no longer than a moment after the stop.
    async fn post(&self, body: Bytes, stop: &mut Stop) -> Result<usize, NotTaken> {
        let mut post = pin!(self.collector.post(body));
        tokio::select! {
            posted = &mut post => posted,
            () = stop.wait() => {
                timeout(SHUTDOWN_FLUSH_TIMEOUT, post).await.unwrap_or_else(|_| Err(NotTaken::stopped()))
            }
        }
    }

    /// Counts the spans of a batch that is finished.
    fn ended(&mut self, posted: Result<usize, NotTaken>, spans_n: usize) {
        match posted {
            Ok(rejected_n) => {
                let rejected_n = rejected_n.min(spans_n);
                self.exported.increment(u64::try_from(spans_n - rejected_n).unwrap_or(u64::MAX));
                self.drop_spans(rejected_n);
                if std::mem::take(&mut self.failures_n) > 0 {
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
}

/// Time before a batch is posted again: as long as the collector asks for, which is never nothing, else longer each
/// time.
pub(crate) fn pause(failures_n: u32, asked: Option<Duration>) -> Duration {
    let own = PAUSE_FIRST.saturating_mul(1 << failures_n.min(16)).min(PAUSE_MAX);
    asked.map_or(own, |asked| asked.max(PAUSE_FIRST))
}

/// Where spans are posted.
struct Collector {
    http: reqwest::Client,
    url: Url,
}

/// The reason why a collector did not take what was posted.
struct NotTaken {
    /// The reason, in words without addresses or secrets.
    why: String,
    /// True when the collector may take it later.
    is_for_now: bool,
    /// Time for which it wants no requests.
    retry_after: Option<Duration>,
}

impl Collector {
    /// Reads the configuration once; connects to nothing yet.
    fn new(config: &TracingConfig) -> Result<Self, String> {
        let url = config.endpoint.as_deref().and_then(|text| Url::parse(text).ok());
        let url = url.ok_or("tracing.endpoint is not a URL")?;
        let words = |error: reqwest::Error| error.without_url().to_string();
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
        let timeout = Duration::from_millis(config.timeout_ms);
        let mut builder = client_builder().timeout(timeout).default_headers(headers);
        if let Some(ca) = &config.ca {
            let pem = ca.reveal().as_bytes();
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(words)?);
        } else if url.scheme() == "http" {
            // Plain HTTP needs no trusted certificates.
            builder = builder.tls_certs_only([]);
        }
        Ok(Self { http: builder.build().map_err(words)?, url })
    }

    /// Posts a request to export, and returns how many of its spans were rejected although it was taken.
    async fn post(&self, body: Bytes) -> Result<usize, NotTaken> {
        let request = self.http.post(self.url.clone()).body(body);
        let response = request.send().await.map_err(|error| NotTaken::away(&error))?;
        if !response.status().is_success() {
            return Err(NotTaken::of(&response));
        }
        // Whatever else is in the answer, it confirms that it has them.
        let answer = read_capped(response, ANSWER_BYTES_MAX).await.ok().flatten().unwrap_or_default();
        let answer = ExportTraceServiceResponse::decode(answer.as_slice()).unwrap_or_default();
        let rejected_n = answer.partial_success.map_or(0, |part| part.rejected_spans);
        Ok(usize::try_from(rejected_n).unwrap_or_default())
    }
}

impl NotTaken {
    fn stopped() -> Self {
        Self { why: "no answer before the stop".to_owned(), is_for_now: false, retry_after: None }
    }

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
    fn of(response: &Response) -> Self {
        let code = response.status().as_u16();
        let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Self {
            why: format!("answered {code}"),
            is_for_now: matches!(code, 429 | 502 | 503 | 504),
            retry_after: asked.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn spans_in_the_post_when_the_time_after_the_stop_ends_are_counted_as_dropped() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let config = TracingConfig {
            endpoint: Some(format!("http://{}", silent.local_addr().expect("an address"))),
            ratio: 1.0,
            headers: BTreeMap::new(),
            ca: None,
            service_name: "s".to_owned(),
            timeout_ms: 60_000,
            queue_n_max: 1,
            propagate: false,
            inbound: InboundTraces::Ignore,
        };
        let (installation_id, clock) = (Uuid::nil(), Clock::system());
        let options =
            TraceOptions { config: &config, installation_id: &installation_id, node: "n", clock: &clock };
        let (_tracer, mut exporter) = SpanExporter::new(&options).expect("an exporter");
        let dropped_n = Arc::new(AtomicU64::new(0));
        exporter.dropped = Counter::from_arc(Arc::clone(&dropped_n));
        // One batch is in the post, and another one waits for it.
        let spans_n = BATCH_SPANS_N + 3;
        exporter.spans = vec![Span::default(); spans_n];
        let (stopper, stop) = Stop::channel();
        stopper.stop();
        exporter.run(stop).await;
        assert_eq!(dropped_n.load(Ordering::SeqCst), spans_n as u64);
        drop(silent);
    }
}
