//! Reads `[destinations.NAME]`: what is common to all destinations here, and the rest by the kind that the url names.

use std::collections::BTreeMap;

use ::config::ValueKind;

use super::kind::{DestinationKind, schemes_text};
use super::kinds::kinds;
use super::reading::Reading;
use super::template_field::body;
use crate::config::{
    Checker, DestinationConfig, Field, Format, HttpConfig, RetryConfig, Table, Target, UnknownPolicy,
    entry_name, retry,
};
use crate::template;
use crate::types::Name;

/// The retries of failed calls unless `retry` says otherwise.
const RETRY: RetryConfig =
    RetryConfig { first_ms: 1_000, max_ms: 3_600_000, attempts_n: 20, age_max_ms: 79_200_000 };
/// Longest `Retry-After` that is honoured unless it is configured. Milliseconds.
const RETRY_AFTER_MS_MAX: u64 = 3_600_000;
/// Most calls at once unless it is configured, where nothing or a person decides about what is under way.
const CONCURRENCY_N: u32 = 8;
/// The same where the destination's answers decide how many there are.
const CONCURRENCY_N_ADAPTIVE: u32 = 64;

/// One destination; what is wrong with it is recorded.
pub(crate) fn destination(
    checker: &mut Checker<'_>,
    name: &str,
    field: Field,
    lease_ms: Option<u64>,
) -> Option<(Name, DestinationConfig)> {
    let name = entry_name(checker, name, &field)?;
    let mut table = field.table(checker)?;
    let places = Places::of(checker, &table);
    let url = url(checker, &mut table);
    let named = url.as_ref().and_then(|(_, url)| kind_of(url));
    misfits(checker, &mut table, named);
    // What nobody knows is read as HTTP, and HTTP says what is wrong with its url.
    let http = kinds().first().copied()?;
    let kind = named.unwrap_or(http);
    if let (Some((field, _)), Some(feature), None) = (&url, kind.feature(), kind.connect()) {
        let schemes = schemes_text(kind);
        let why =
            format!("needs the feature `{feature}` for {schemes}, which this program was built without");
        let remedy = format!(
            "use the package or the image, which have it, or build with `cargo build --release --features {feature}`"
        );
        checker.problem(field, why, remedy);
    }
    let mut reading = Reading { checker, table: &mut table, url, lease_ms };
    let unknown = kind.unknown(&mut reading);
    let mut config = common(&mut reading, unknown);
    kind.parse(&mut reading, &mut config);
    table.finish(checker);
    fit_together(checker, &places, &config);
    Some((name, config))
}

/// `url`, which may be a secret, with the text that it stands for.
fn url(checker: &mut Checker<'_>, table: &mut Table) -> Option<(Field, String)> {
    let field = table.needed(checker, "url", "write where messages go: url = \"https://…\"")?;
    let text = match field.value.kind {
        ValueKind::Table(_) => field.clone().secret(checker)?.reveal().to_owned(),
        _ => field.text(checker)?,
    };
    Some((field, text))
}

/// The kind that has the scheme of `url`.
fn kind_of(url: &str) -> Option<&'static dyn DestinationKind> {
    let (scheme, _) = url.split_once("://")?;
    kinds().iter().copied().find(|kind| kind.schemes().contains(&scheme))
}

/// Takes the keys of all kinds but the one that the url names, and records those that are there. Without such a url
/// HTTP's are left, and nothing is recorded: it is not known what fits.
fn misfits(checker: &mut Checker<'_>, table: &mut Table, named: Option<&dyn DestinationKind>) {
    let read_name = named.or(kinds().first().copied()).map(DestinationKind::name);
    for other in kinds().iter().filter(|kind| Some(kind.name()) != read_name) {
        for key in other.keys() {
            if let Some(field) = table.take(checker, key.name)
                && named.is_some()
            {
                let schemes = schemes_text(*other);
                let why = format!("does not fit this destination's url: it is for {schemes}");
                checker.problem(&field, why, "remove it, or change the url");
            }
        }
    }
}

/// Reads the keys that every kind of destination has; those of HTTP are as if they were not written.
fn common(reading: &mut Reading<'_, '_>, unknown: UnknownPolicy) -> DestinationConfig {
    let lease_ms = reading.lease_ms;
    let (checker, table) = (&mut *reading.checker, &mut *reading.table);
    let formats = [("raw", Format::Raw), ("cloudevents", Format::CloudEvents)];
    let format = table.word(checker, "format", &formats).unwrap_or(Format::Raw);
    let heartbeat = table.flag(checker, "heartbeat").unwrap_or(false);
    let timeout_ms = timeout(checker, table, lease_ms.filter(|_| !heartbeat));
    let (concurrency_n, adaptive) = concurrency(checker, table, &unknown);
    DestinationConfig {
        url: String::new(),
        target: Target::http(),
        format,
        headers: BTreeMap::new(),
        unknown,
        timeout_ms,
        concurrency_n,
        adaptive,
        retry: retry(checker, table, RETRY),
        retry_after_max_ms: RETRY_AFTER_MS_MAX,
        key_valid_for_ms: table
            .number(checker, "key_valid_for_ms", 60_000..=31_536_000_000)
            .unwrap_or(86_400_000),
        rate_per_s: table.number_u32(checker, "rate_per_s", 0..=100_000).unwrap_or(0),
        breaker_failures_n: table.number_u32(checker, "breaker_failures_n", 0..=1_000).unwrap_or(20),
        breaker_open_ms: table.number(checker, "breaker_open_ms", 100..=3_600_000).unwrap_or(30_000),
        statuses: BTreeMap::new(),
        sign_secrets: Vec::new(),
        heartbeat,
        http: HttpConfig { body: body(checker, table), ..HttpConfig::default() },
    }
}

/// The places of keys that have to fit to others.
struct Places {
    url: Option<Field>,
    query: Option<Field>,
    heartbeat: Option<Field>,
}

impl Places {
    fn of(checker: &Checker<'_>, table: &Table) -> Self {
        let place = |key| table.peek(checker, key);
        Self { url: place("url"), query: place("query"), heartbeat: place("heartbeat") }
    }
}

/// Records keys that are right one by one and not beside each other.
fn fit_together(checker: &mut Checker<'_>, places: &Places, config: &DestinationConfig) {
    if let (Some(field), UnknownPolicy::Query(query)) = (&places.query, &config.unknown)
        && query.after_ms >= config.key_valid_for_ms.min(config.retry.age_max_ms)
    {
        let why = "has an after_ms that is not below key_valid_for_ms and retry.age_max_ms";
        checker.problem(field, why, "make it shorter: nothing could be sent again after the answer");
    }
    if let (Some(field), true, UnknownPolicy::Query(_)) =
        (&places.heartbeat, config.heartbeat, &config.unknown)
    {
        let why =
            "is set with unknown = \"query\": a call still under way could be asked about and made again";
        checker.problem(field, why, "use unknown = \"retry\" or \"hold\", or a timeout_ms below the lease");
    }
    if let Some(field) = &places.url
        && template::has_host_template(&config.url)
        && config.http.proxy.is_some()
    {
        let why = "leaves the host to a template, and the proxy would look it up unseen";
        checker.problem(field, why, "write the host without a template, or call without a proxy");
    }
}

/// Most calls at once; and true when answers decide how many of those there are.
fn concurrency(checker: &mut Checker<'_>, table: &mut Table, unknown: &UnknownPolicy) -> (u32, bool) {
    let adaptive = table.take(checker, "adaptive").and_then(|field| field.flag(checker)).unwrap_or(true);
    let configured = table.number_u32(checker, "concurrency_n", 1..=1_000);
    // What a dead node had under way is a person's to decide with `hold`: no more of it than somebody said.
    let may_be_many = adaptive && *unknown != UnknownPolicy::Hold;
    (configured.unwrap_or(if may_be_many { CONCURRENCY_N_ADAPTIVE } else { CONCURRENCY_N }), adaptive)
}

/// `timeout_ms`, below the lease if one is given.
fn timeout(checker: &mut Checker<'_>, table: &mut Table, lease_ms: Option<u64>) -> u64 {
    /// Connect to last byte, unless it says otherwise. Milliseconds.
    const TIMEOUT_MS: u64 = 10_000;
    let key = table.path("timeout_ms");
    let field = table.take(checker, "timeout_ms");
    let timeout_ms = match &field {
        Some(field) => field.number(checker, &(100..=3_600_000)),
        None => Some(TIMEOUT_MS),
    };
    if let (Some(timeout_ms), Some(lease_ms)) = (timeout_ms, lease_ms)
        && timeout_ms >= lease_ms
    {
        let why = format!("is not below outbox.lease_ms ({lease_ms})");
        let remedy = "make it shorter, or the lease longer: another worker would send the same message";
        match field {
            Some(field) => checker.problem_shown(&field, why, remedy),
            None => checker.missing(key, format!("the default of {timeout_ms} {why}; {remedy}")),
        }
    }
    timeout_ms.unwrap_or(TIMEOUT_MS)
}
