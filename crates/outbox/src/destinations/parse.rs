//! Reads `[destinations.NAME]`: what is common to all destinations here, and the rest by the kind that the url names.

use std::collections::BTreeMap;

use ::config::ValueKind;
use serde::de::IgnoredAny;

use crate::destinations::kinds::{DestinationKind, KINDS, Reading};
use hooklatch_core::config::{
    BodyConfig, DestinationConfig, Field, HttpConfig, RetryConfig, Table, Target, UnknownPolicy, entry_name,
};
use hooklatch_core::template::{self, Escape, Template, is_template};
use hooklatch_core::types::Name;

/// The retries of failed calls unless `retry` says otherwise.
const RETRY: RetryConfig =
    RetryConfig { first_ms: 1_000, max_ms: 3_600_000, attempts_n: 20, age_max_ms: 79_200_000 };
/// Longest `Retry-After` that is honoured unless it is configured. Milliseconds.
const RETRY_AFTER_MS_MAX: u64 = 3_600_000;
/// Most calls at once unless it is configured, where nothing or an operator decides about what is under way.
const CONCURRENCY_N: u32 = 8;
/// Most calls at once where the destination's answers decide how many there are.
const CONCURRENCY_N_ADAPTIVE: u32 = 64;

/// One destination; what is wrong with it is recorded.
pub fn destination(
    name: &str,
    field: &Field<'_>,
    lease_ms: Option<u64>,
) -> Option<(Name, DestinationConfig)> {
    let name = entry_name(name, field)?;
    let mut table = field.table()?;
    let places = ["url", "query", "heartbeat"].map(|key| table.peek(key));
    let url = url(&mut table);
    let named = url.as_ref().and_then(|(_, url)| kind_of(url));
    misfits(&mut table, named);
    // An unknown url is read as HTTP, and HTTP says what is wrong with its url.
    let [http, ..] = &KINDS;
    let kind = named.unwrap_or(http);
    if let (Some((field, _)), Some(feature), None) = (&url, kind.feature, kind.connect) {
        let schemes = kind.schemes_text();
        let why =
            format!("needs the feature `{feature}` for {schemes}, which this program was built without");
        let remedy = format!(
            "use the package or the image, which have it, or build with `cargo build --release --features {feature}`"
        );
        field.problem(why, remedy);
    }
    let mut reading = Reading { table: &mut table, url, lease_ms };
    let unknown = (kind.unknown)(&mut reading);
    let mut config = common(&mut reading, unknown);
    (kind.parse)(kind, &mut reading, &mut config);
    table.finish();
    fit_together(&places, &config);
    Some((name, config))
}

/// `url`, which may be a secret, with the text that it stands for.
fn url<'c>(table: &mut Table<'c>) -> Option<(Field<'c>, String)> {
    let field = table.needed("url", "write where messages go: url = \"https://…\"")?;
    let text = match field.value.kind {
        ValueKind::Table(_) => field.secret()?.reveal().to_owned(),
        _ => field.text()?,
    };
    Some((field, text))
}

/// The kind that has the scheme of `url`.
fn kind_of(url: &str) -> Option<&'static DestinationKind> {
    let (scheme, _) = url.split_once("://")?;
    KINDS.iter().find(|kind| kind.schemes.contains(&scheme))
}

/// Takes the keys of all kinds but the one that the url names, and records those that are there. Without such a url
/// HTTP's are left, and nothing is recorded: what fits is unknown.
fn misfits(table: &mut Table<'_>, named: Option<&DestinationKind>) {
    let [http, ..] = &KINDS;
    let parsed_name = named.unwrap_or(http).name;
    for other in KINDS.iter().filter(|kind| kind.name != parsed_name) {
        for name in other.key_names() {
            if let Some(field) = table.take(name)
                && named.is_some()
            {
                let schemes = other.schemes_text();
                let why = format!("does not fit this destination's url: it is for {schemes}");
                field.problem(why, "remove it, or change the url");
            }
        }
    }
}

/// Reads the keys that every kind of destination has; those of HTTP are as if they were not written.
fn common(reading: &mut Reading<'_, '_>, unknown: UnknownPolicy) -> DestinationConfig {
    let lease_ms = reading.lease_ms;
    let table = &mut *reading.table;
    let format = table.get("format").unwrap_or_default();
    let heartbeat: bool = table.get("heartbeat").unwrap_or_default();
    let timeout_ms = timeout(table, lease_ms.filter(|_| !heartbeat));
    let (concurrency_n, adaptive) = concurrency(table, &unknown);
    DestinationConfig {
        url: String::new(),
        target: Target::http(),
        format,
        headers: BTreeMap::new(),
        unknown,
        timeout_ms,
        concurrency_n,
        adaptive,
        retry: RetryConfig::read(table, RETRY),
        retry_after_max_ms: RETRY_AFTER_MS_MAX,
        key_valid_for_ms: table.number("key_valid_for_ms", 60_000..=31_536_000_000).unwrap_or(86_400_000),
        rate_per_s: table.number("rate_per_s", 0..=100_000).unwrap_or(0),
        breaker_failures_n: table.number("breaker_failures_n", 0..=1_000).unwrap_or(20),
        breaker_open_ms: table.number("breaker_open_ms", 100..=3_600_000).unwrap_or(30_000),
        statuses: BTreeMap::new(),
        sign_secrets: Vec::new(),
        heartbeat,
        http: HttpConfig { body: body(table), ..HttpConfig::default() },
    }
}

/// Records keys that are right one by one and not beside each other.
fn fit_together([url, query, heartbeat]: &[Option<Field<'_>>; 3], config: &DestinationConfig) {
    if let (Some(field), UnknownPolicy::Query(question)) = (query, &config.unknown)
        && question.after_ms >= config.key_valid_for_ms.min(config.retry.age_max_ms)
    {
        let why = "has an after_ms that is not below key_valid_for_ms and retry.age_max_ms";
        field.problem(why, "make it shorter: nothing could be sent again after the answer");
    }
    if let (Some(field), true, UnknownPolicy::Query(_)) = (heartbeat, config.heartbeat, &config.unknown) {
        let why =
            "is set with unknown = \"query\": a call still under way could be asked about and made again";
        field.problem(why, "use unknown = \"retry\" or \"hold\", or a timeout_ms below the lease");
    }
    if let Some(field) = url
        && template::has_host_template(&config.url)
        && config.http.proxy.is_some()
    {
        let why = "leaves the host to a template, and the proxy would look it up unseen";
        field.problem(why, "write the host without a template, or call without a proxy");
    }
}

/// Most calls at once; and true when answers decide how many of those there are.
fn concurrency(table: &mut Table<'_>, unknown: &UnknownPolicy) -> (u32, bool) {
    let adaptive = table.get("adaptive").unwrap_or(true);
    let configured = table.number("concurrency_n", 1..=1_000);
    // What a dead node had under way is an operator's to decide with `hold`: no more of it than is configured.
    let may_be_many = adaptive && *unknown != UnknownPolicy::Hold;
    (configured.unwrap_or(if may_be_many { CONCURRENCY_N_ADAPTIVE } else { CONCURRENCY_N }), adaptive)
}

/// `timeout_ms`, below the lease if one is given.
fn timeout(table: &mut Table<'_>, lease_ms: Option<u64>) -> u64 {
    /// Connect to last byte, unless it says otherwise. Milliseconds.
    const TIMEOUT_MS: u64 = 10_000;
    let field = table.take("timeout_ms");
    let timeout_ms = match &field {
        Some(field) => field.number(&(100..=3_600_000)),
        None => Some(TIMEOUT_MS),
    };
    if let (Some(timeout_ms), Some(lease_ms)) = (timeout_ms, lease_ms)
        && timeout_ms >= lease_ms
    {
        let why = format!("is not below outbox.lease_ms ({lease_ms})");
        let remedy = "make it shorter, or the lease longer: another worker would send the same message";
        match field {
            Some(field) => field.problem_shown(why, remedy),
            None => table.missing("timeout_ms", format!("the default of {timeout_ms} {why}; {remedy}")),
        }
    }
    timeout_ms.unwrap_or(TIMEOUT_MS)
}

/// The remedy for what is not a template.
pub(crate) const AS_IN_JINJA: &str = "write values as {{ payload.id }}, as in Jinja";

/// The template; `None` after a problem, which is recorded.
pub(crate) fn template(field: &Field<'_>, text: &str, escape: Escape) -> Option<Template> {
    Template::parse(text, escape)
        .map_err(|why| field.problem(format!("is not a template: {why}"), AS_IN_JINJA))
        .ok()
}

/// Records a `{name}` with single braces, which nothing fills in; `None` after a problem.
pub(crate) fn double_braces(field: &Field<'_>, text: &str) -> Option<()> {
    if let Some((old, new)) = template::single_braces(text) {
        let problem = format!("has `{old}`, which is not filled in");
        field.problem_shown(problem, format!("write `{new}`"));
        return None;
    }
    Some(())
}

/// `body` and `content_type`, which every kind of destination has.
pub(crate) fn body(table: &mut Table<'_>) -> Option<BodyConfig> {
    let content_type = table.text("content_type");
    if let Some((field, text)) = &content_type
        && (text.is_empty() || ::http::HeaderValue::from_str(text).is_err())
    {
        field.problem_shown("is not a content type", "write application/json or the like");
    }
    let Some((field, text)) = table.text("body") else {
        if let Some((field, _)) = content_type {
            field.problem("is there without `body`", "write a body template or remove it");
        }
        return None;
    };
    let content_type = content_type.map_or_else(|| "application/json".to_owned(), |(_, text)| text);
    let escape = Escape::of_content_type(&content_type);
    template(&field, &text, escape)?;
    // Nothing is filled in, so this is what every call would be refused for.
    if escape == Escape::Json && !is_template(&text) && serde_json::from_str::<IgnoredAny>(&text).is_err() {
        field.problem(
            "is not JSON, and nothing is filled in",
            format!("{AS_IN_JINJA}, or set content_type to what it is"),
        );
        return None;
    }
    Some(BodyConfig { template: text, content_type })
}
