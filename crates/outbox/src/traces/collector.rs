//! The collector: where spans are posted, and what its answer means.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use reqwest::{Certificate, Response, Url};

use hooklatch_core::config::TracingConfig;
use hooklatch_core::net::{client_builder, read_capped};

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
