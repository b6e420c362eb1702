//! `[tracing]`: spans and their collector.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use reqwest::Url;

use crate::config::{Checker, Field, InboundTraces, Secret, Table, TracingConfig, UrlRule, http_url};

/// Longest name of the service. Bytes.
const NAME_BYTES_MAX: usize = 255;

/// Reads `[tracing]`, whose headers are secrets.
pub(super) fn tracing(checker: &mut Checker<'_>, root: &mut Table) -> Option<TracingConfig> {
    let mut table = root.table(checker, "tracing")?;
    let endpoint = table.text(checker, "endpoint").filter(|(_, text)| !text.is_empty());
    if let Some((field, _)) = endpoint.as_ref().filter(|_| !cfg!(feature = "otel")) {
        let why = "needs the feature `otel`, which this program was built without";
        checker.problem(field, why, "build it with `cargo build --features otel`");
    }
    let endpoint = endpoint.and_then(|(field, text)| {
        http_url(checker, &field, &text, UrlRule::Destination).and_then(|text| with_path(&text))
    });
    let words = [("ignore", InboundTraces::Ignore), ("link", InboundTraces::Link)];
    let config = TracingConfig {
        endpoint,
        ratio: table.take(checker, "ratio").and_then(|field| field.ratio(checker)).unwrap_or_default(),
        headers: headers(checker, &mut table),
        ca: table.take(checker, "ca").and_then(|field| field.secret(checker)),
        service_name: service_name(checker, &mut table),
        timeout_ms: table.number(checker, "timeout_ms", 100..=60_000).unwrap_or_default(),
        queue_n_max: table.number_u32(checker, "queue_n_max", 1..=1_000_000).unwrap_or_default(),
        propagate: table.flag(checker, "propagate").unwrap_or_default(),
        inbound: table.word(checker, "inbound", &words).unwrap_or(InboundTraces::Ignore),
    };
    table.finish(checker);
    Some(config)
}

/// The address with the path that OTLP has for spans, where none is written.
fn with_path(text: &str) -> Option<String> {
    let mut url = Url::parse(text).ok()?;
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/traces");
    }
    Some(url.to_string())
}

fn headers(checker: &mut Checker<'_>, table: &mut Table) -> BTreeMap<String, Secret> {
    let entries = table.table(checker, "headers").map_or_else(Vec::new, |table| table.entries(checker));
    let mut headers = BTreeMap::new();
    for (name, field) in entries {
        let place = field.clone();
        let Some(secret) = field.secret(checker) else { continue };
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            checker.problem(&place, "is not the name of a header", "use letters, digits and `-`");
        } else if HeaderValue::from_str(secret.reveal()).is_err() {
            let remedy = "remove line breaks and everything that is no ASCII";
            checker.problem(&place, "has characters that a header cannot carry", remedy);
        }
        headers.insert(name.to_ascii_lowercase(), secret);
    }
    headers
}

fn service_name(checker: &mut Checker<'_>, table: &mut Table) -> String {
    let Some((field, text)) = table.text(checker, "service_name") else { return String::new() };
    check_name(checker, &field, &text);
    text
}

fn check_name(checker: &mut Checker<'_>, field: &Field, text: &str) {
    if text.trim().is_empty() || text.len() > NAME_BYTES_MAX || text.contains(char::is_control) {
        checker.problem_shown(field, "is no name", "write 1 to 255 bytes without control characters");
    }
}
