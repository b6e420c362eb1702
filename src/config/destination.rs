//! `[destinations.NAME]`: where messages go and what an unclear answer means.

use std::collections::BTreeMap;

use super::field::{Checker, Field, Table};
use super::retry::retry;
use super::target::{self, Target};
use super::value::{UrlRule, entry_name, http_url};
use super::{DestinationConfig, QueryConfig, RetryConfig, Secret, StatusMeaning, UnknownPolicy};
use crate::template;
use crate::types::Name;

mod http;

pub(super) use http::call_url;

/// How failed calls are tried again unless `retry` says otherwise.
const RETRY: RetryConfig =
    RetryConfig { first_ms: 1_000, max_ms: 3_600_000, attempts_n: 20, age_max_ms: 79_200_000 };
/// How long a call may still be running after its attempt ended. Milliseconds; the default is the lease.
const AFTER_MS: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;
/// The lease unless it is configured. Milliseconds.
const LEASE_MS: u64 = 30_000;
/// Most calls at once unless it is configured, where nothing or a person decides about what is under way.
const CONCURRENCY_N: u32 = 8;
/// The same where the destination's answers decide how many there are.
const CONCURRENCY_N_ADAPTIVE: u32 = 64;
/// What may be filled into `query.url`.
const PLACEHOLDERS: [&str; 3] = ["{idempotency_key}", "{event_id}", "{message_id}"];
/// Headers that the outbox sets itself.
const OUR_HEADERS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding"];

/// One destination; what is wrong with it is recorded.
pub(crate) fn destination(
    checker: &mut Checker<'_>,
    name: &str,
    field: Field,
    lease_ms: Option<u64>,
) -> Option<(Name, DestinationConfig)> {
    let name = entry_name(checker, name, &field)?;
    let mut table = field.table(checker)?;
    let url_place = table.peek(checker, "url");
    let (url, target) = target::target(checker, &mut table).unwrap_or((String::new(), Target::Http));
    let format = target::format(checker, &mut table);
    let headers = headers(checker, &mut table);
    let query_place = table.peek(checker, "query");
    let unknown = unknown(checker, &mut table, lease_ms);
    let heartbeat_place = table.take(checker, "heartbeat");
    let heartbeat = heartbeat_place.as_ref().and_then(|field| field.flag(checker)).unwrap_or(false);
    let timeout_ms = timeout(checker, &mut table, lease_ms.filter(|_| !heartbeat));
    let (concurrency_n, adaptive) = concurrency(checker, &mut table, &unknown);
    let config = DestinationConfig {
        url,
        target,
        format,
        headers,
        unknown,
        timeout_ms,
        concurrency_n,
        adaptive,
        retry: retry(checker, &mut table, RETRY),
        retry_after_max_ms: table.number(checker, "retry_after_max_ms", 0..=604_800_000).unwrap_or(3_600_000),
        key_valid_for_ms: table
            .number(checker, "key_valid_for_ms", 60_000..=31_536_000_000)
            .unwrap_or(86_400_000),
        rate_per_s: table.number_u32(checker, "rate_per_s", 0..=100_000).unwrap_or(0),
        breaker_failures_n: table.number_u32(checker, "breaker_failures_n", 0..=1_000).unwrap_or(20),
        breaker_open_ms: table.number(checker, "breaker_open_ms", 100..=3_600_000).unwrap_or(30_000),
        statuses: statuses(checker, &mut table),
        sign_secret: table.take(checker, "sign_secret").and_then(|field| field.secret(checker)),
        heartbeat,
        http: http::http(checker, &mut table),
    };
    table.finish(checker);
    if let (Some(field), UnknownPolicy::Query(query)) = (&query_place, &config.unknown)
        && query.after_ms >= config.key_valid_for_ms.min(config.retry.age_max_ms)
    {
        let why = "has an after_ms that is not below key_valid_for_ms and retry.age_max_ms";
        checker.problem(field, why, "make it shorter: nothing could be sent again after the answer");
    }
    if let (Some(field), true, UnknownPolicy::Query(_)) =
        (&heartbeat_place, config.heartbeat, &config.unknown)
    {
        let why =
            "is set with unknown = \"query\": a call still under way could be asked about and made again";
        checker.problem(field, why, "use unknown = \"retry\" or \"hold\", or a timeout_ms below the lease");
    }
    if let Some(field) =
        url_place.filter(|_| template::has_host_template(&config.url) && config.http.proxy.is_some())
    {
        let remedy = "write the host without a template, or call without a proxy";
        checker.problem(
            &field,
            "leaves the host to a template, and the proxy would look it up unseen",
            remedy,
        );
    }
    Some((name, config))
}

/// How many calls at once, and whether answers decide about it.
fn concurrency(checker: &mut Checker<'_>, table: &mut Table, unknown: &UnknownPolicy) -> (u32, bool) {
    let adaptive = table.take(checker, "adaptive").and_then(|field| field.flag(checker)).unwrap_or(true);
    let configured = table.number_u32(checker, "concurrency_n", 1..=1_000);
    // What a dead node had under way is a person's to decide with `hold`: no more of it than somebody said.
    let may_be_many = adaptive && *unknown != UnknownPolicy::Hold;
    (configured.unwrap_or(if may_be_many { CONCURRENCY_N_ADAPTIVE } else { CONCURRENCY_N }), adaptive)
}

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
        let why = format!("timeout of {timeout_ms} ms is not below outbox.lease_ms, {lease_ms}");
        let remedy = "make it shorter, or the lease longer: another worker would send the same message";
        match field {
            Some(field) => checker.problem_shown(&field, why, remedy),
            None => checker.missing(key, format!("{why}, with the default; {remedy}")),
        }
    }
    timeout_ms.unwrap_or(TIMEOUT_MS)
}

fn statuses(checker: &mut Checker<'_>, table: &mut Table) -> BTreeMap<u16, StatusMeaning> {
    let Some(field) = table.take(checker, "statuses") else { return BTreeMap::new() };
    let Some(table) = field.table(checker) else { return BTreeMap::new() };
    let mut statuses = BTreeMap::new();
    for (name, field) in table.entries(checker) {
        let Some(code) = name.parse().ok().filter(|code| (200..=599).contains(code)) else {
            checker.problem(&field, "is not a status", "use numbers from 200 to 599");
            continue;
        };
        let meaning = match field.text(checker).as_deref() {
            Some("done") => StatusMeaning::Done,
            Some("retry") => StatusMeaning::Retry,
            Some("dead") => StatusMeaning::Dead,
            Some("unknown") => StatusMeaning::Unknown,
            Some(_) => {
                checker.problem_shown(
                    &field,
                    "is no meaning of a status",
                    "use done, retry, dead or unknown",
                );
                continue;
            }
            None => continue,
        };
        statuses.insert(code, meaning);
    }
    statuses
}

fn headers(checker: &mut Checker<'_>, table: &mut Table) -> BTreeMap<String, Secret> {
    let Some(field) = table.take(checker, "headers") else { return BTreeMap::new() };
    let Some(table) = field.table(checker) else { return BTreeMap::new() };
    let mut headers = BTreeMap::new();
    for (name, field) in table.entries(checker) {
        let lower = name.to_ascii_lowercase();
        if ::http::HeaderName::from_bytes(lower.as_bytes()).is_err() {
            checker.problem(&field, "is not a header name", "use letters, digits and `-`");
        } else if OUR_HEADERS.contains(&lower.as_str()) || lower.starts_with("hooklatch-") {
            checker.problem(&field, "is a header that Hooklatch sets itself", "leave it out");
        }
        let place = field.clone();
        let Some(value) = field.secret(checker) else { continue };
        if ::http::HeaderValue::from_str(value.reveal()).is_err() {
            checker.problem(
                &place,
                "has characters that a header cannot carry",
                "remove line breaks and the like",
            );
        }
        if headers.insert(lower, value).is_some() {
            checker.problem(&place, "is there twice, in another case", "keep one of the two");
        }
    }
    headers
}

fn unknown(checker: &mut Checker<'_>, table: &mut Table, lease_ms: Option<u64>) -> UnknownPolicy {
    #[derive(Clone, Copy, PartialEq)]
    enum Word {
        Retry,
        Query,
        Hold,
    }
    let words = [("retry", Word::Retry), ("query", Word::Query), ("hold", Word::Hold)];
    let problems_before = checker.problems.len();
    let word = table.word(checker, "unknown", &words).unwrap_or(Word::Retry);
    let is_word_good = checker.problems.len() == problems_before;
    let query_field = table.take(checker, "query");
    match (word, query_field) {
        (Word::Query, Some(field)) => {
            query(checker, field, lease_ms).map_or(UnknownPolicy::Retry, UnknownPolicy::Query)
        }
        (Word::Query, None) => {
            checker.missing(
                table.path("query"),
                "say how to ask: query = { url = \"…/{idempotency_key}\", pointer = \"/id\" }",
            );
            UnknownPolicy::Retry
        }
        (_, Some(field)) => {
            if is_word_good {
                checker.problem(
                    &field,
                    "is there, but `unknown` is not \"query\"",
                    "set unknown = \"query\" or remove it",
                );
            }
            // Its keys are looked at all the same.
            query(checker, field, lease_ms);
            UnknownPolicy::Retry
        }
        (Word::Hold, None) => UnknownPolicy::Hold,
        (Word::Retry, None) => UnknownPolicy::Retry,
    }
}

fn query(checker: &mut Checker<'_>, field: Field, lease_ms: Option<u64>) -> Option<QueryConfig> {
    let mut table = field.table(checker)?;
    let url = table.needed(checker, "url", "write what to GET, with {idempotency_key} in it");
    let url = url.and_then(|field| query_url(checker, &field));
    let pointer = table.needed(checker, "pointer", "write a JSON pointer such as \"/id\"");
    let pointer = pointer.and_then(|field| http::pointer(checker, &field));
    let equals = table.text(checker, "equals").map(|(_, text)| text);
    let pending = table
        .take(checker, "pending")
        .map_or_else(Vec::new, |field| pending(checker, &field, equals.as_ref()));
    let after_ms = table.number(checker, "after_ms", AFTER_MS).or(lease_ms).unwrap_or(LEASE_MS);
    table.finish(checker);
    Some(QueryConfig { url: url?, pointer: pointer?, equals, pending, after_ms })
}

/// The values that mean "still under way".
fn pending(checker: &mut Checker<'_>, field: &Field, equals: Option<&String>) -> Vec<String> {
    let mut values = Vec::new();
    for field in field.one_or_more(checker).unwrap_or_default() {
        let Some(text) = field.text(checker) else { continue };
        if equals == Some(&text) {
            checker.problem_shown(&field, "is what `equals` says, too", "a value means one thing: remove it");
        }
        values.push(text);
    }
    values
}

/// Placeholders stay as they are; what is around them must be a URL.
fn query_url(checker: &mut Checker<'_>, field: &Field) -> Option<String> {
    let template = field.text(checker)?;
    if !PLACEHOLDERS.iter().any(|placeholder| template.contains(placeholder)) {
        let remedy = format!("put one of {} into it", PLACEHOLDERS.join(", "));
        checker.problem_shown(field, "asks the same for every message", remedy);
    }
    let filled =
        PLACEHOLDERS.iter().fold(template.clone(), |text, placeholder| text.replace(placeholder, "x"));
    if filled.contains(['{', '}']) {
        let remedy = format!("known are {}", PLACEHOLDERS.join(", "));
        checker.problem_shown(field, "has a placeholder that is not known", remedy);
    }
    http_url(checker, field, &filled, UrlRule::Destination)?;
    Some(template)
}
