//! Reads the keys of `[destinations.NAME]` that only HTTP has: how a call looks, which way it takes, and what its
//! answers mean.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use ::config::ValueKind;
use ::http::{HeaderName, HeaderValue};

use super::sign::HmacTemplate;
use super::sign::samples;
use crate::destinations::kinds::Reading;
use crate::destinations::parse::{AS_IN_JINJA, double_braces, template};
use hooklatch_core::config::{
    AuthConfig, BodyConfig, CaptureConfig, DestinationConfig, Field, HmacConfig, HttpConfig, QueryConfig,
    SECRET_FORMS, Secret, StatusMeaning, SuccessConfig, Table, Target, TlsConfig, UnknownPolicy, UrlRule,
    http_url, private_hosts, proxy,
};
use hooklatch_core::template::{self, Escape, Limits};
use hooklatch_core::types::UnknownWord;

/// Headers that the outbox sets itself.
const OUR_HEADERS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding"];
/// What a status can mean.
const MEANINGS: [(&str, StatusMeaning); 4] = [
    ("done", StatusMeaning::Done),
    ("retry", StatusMeaning::Retry),
    ("dead", StatusMeaning::Dead),
    ("unknown", StatusMeaning::Unknown),
];
/// Time that a call may still be running after its attempt ended. Milliseconds; the default is the lease.
const AFTER_MS: RangeInclusive<u64> = 1_000..=86_400_000;
/// The lease unless it is configured. Milliseconds.
const LEASE_MS: u64 = 30_000;

/// Reads the url and the keys of HTTP into `config`; what is wrong is recorded.
pub(crate) fn parse(reading: &mut Reading<'_, '_>, config: &mut DestinationConfig) {
    let table = &mut *reading.table;
    config.target = Target::http();
    if let Some((field, url)) = &reading.url {
        config.url = call_url(field, url).unwrap_or_default();
    }
    config.headers = headers(table);
    if let Some(longest_ms) = table.number("retry_after_max_ms", 0..=604_800_000) {
        config.retry_after_max_ms = longest_ms;
    }
    config.statuses = statuses(table);
    config.sign_secrets = table.take("sign_secret").map_or_else(Vec::new, |field| one_or_two(&field));
    config.http = http(table, config.http.body.take());
}

/// The keys of `http`; `body` was read with what is common to all destinations.
fn http(table: &mut Table<'_>, body: Option<BodyConfig>) -> HttpConfig {
    HttpConfig {
        method: method(table),
        body,
        private_hosts: private_hosts(table, "private_hosts"),
        auth: table.take("auth").and_then(|field| auth(&field)),
        hmac: table.take("hmac").and_then(|field| field.section(hmac).flatten()),
        tls: table.section("tls", tls).unwrap_or_default(),
        proxy: proxy(table, "proxy"),
        version: table.get("http_version").unwrap_or_default(),
        connect_timeout_ms: table.number("connect_timeout_ms", 10..=60_000),
        success: table.take("success").and_then(|field| field.section(success).flatten()),
        capture: table.take("capture").and_then(|field| field.section(capture)),
    }
}

/// The address of calls: plain, or a template whose values are percent-encoded.
fn call_url(field: &Field<'_>, text: &str) -> Option<String> {
    // No address has braces of its own: they would be sent as they stand, percent-encoded.
    if let Some((old, _)) = template::single_braces(text) {
        field.problem(format!("has `{old}`, which is not filled in"), AS_IN_JINJA);
        return None;
    }
    if !template::is_template(text) {
        return http_url(field, text, UrlRule::Destination);
    }
    template(field, text, Escape::Url)?;
    // What is around the values must be an address, and its scheme must not be taken from an event.
    let with_stand_ins = template::without_tags(text);
    http_url(field, &with_stand_ins, UrlRule::Destination)?;
    Some(text.to_owned())
}

fn method(table: &mut Table<'_>) -> Option<String> {
    let (field, text) = table.text("method")?;
    if template::is_template(&text) {
        template(&field, &text, Escape::Nothing)?;
    } else if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_uppercase()) {
        field.problem_shown("is not a method", "write POST, PUT, PATCH, DELETE or GET");
        return None;
    }
    Some(text)
}

fn tls(table: &mut Table<'_>) -> TlsConfig {
    let mut pem = |key: &'static str, label: &str| {
        let field = table.take(key)?;
        let secret = field.secret()?;
        if !secret.reveal().contains(label) {
            field.problem("is not in PEM form", format!("it must hold a `{label}` part"));
        }
        Some(secret)
    };
    let config = TlsConfig {
        ca: pem("ca", "-----BEGIN CERTIFICATE-----"),
        certificate: pem("certificate", "-----BEGIN CERTIFICATE-----"),
        key: pem("key", "PRIVATE KEY-----"),
    };
    let missing = match (&config.certificate, &config.key) {
        (None, Some(_)) => Some(("certificate", "key")),
        (Some(_), None) => Some(("key", "certificate")),
        _ => None,
    };
    if let Some((key, other)) = missing {
        table.missing(key, format!("`{other}` is there: a client shows a certificate and its key"));
    }
    config
}

fn success(table: &mut Table<'_>) -> Option<SuccessConfig> {
    let place = table.needed("pointer", "write a JSON pointer into the answer, such as \"/ok\"");
    let pointer = place.and_then(|field| pointer(&field));
    let equals = table.get("equals");
    let [_done, failures @ ..] = &MEANINGS;
    let otherwise = table.word("otherwise", failures).unwrap_or(StatusMeaning::Dead);
    Some(SuccessConfig { pointer: pointer?, equals, otherwise })
}

fn capture(table: &mut Table<'_>) -> CaptureConfig {
    let bytes_max = table.number("bytes_max", 1..=65_536).unwrap_or(4_096);
    CaptureConfig { bytes_max, redact: table.list("redact").iter().filter_map(pointer).collect() }
}

/// Basic or bearer; what is wrong is recorded.
fn auth(field: &Field<'_>) -> Option<AuthConfig> {
    let mut table = field.table()?;
    let is_basic = table.word("scheme", &[("basic", true), ("bearer", false)]);
    let user = table.text("user");
    let secret = needed_secret(&mut table);
    if is_basic.is_none() {
        field.problem("does not say how", "write scheme = \"basic\" or scheme = \"bearer\"");
    }
    let is_basic = is_basic?;
    match (is_basic, &user) {
        (true, None) => table.missing("user", "basic authentication has a user and a password, `secret`"),
        (true, Some((field, user))) if user.contains(':') => {
            field.problem("has a colon", "a user's name cannot have one: it ends there");
        }
        (false, Some((field, _))) => {
            field.problem("is there with \"bearer\"", "remove it or write scheme = \"basic\"");
        }
        _ => {}
    }
    table.finish();
    Some(if is_basic {
        AuthConfig::Basic { user: user?.1, password: secret? }
    } else {
        AuthConfig::Bearer(secret?)
    })
}

/// Reads what is signed, with what key, and where it goes; mistakes are recorded.
fn hmac(table: &mut Table<'_>) -> Option<HmacConfig> {
    let header = table.needed("header", "name the header that carries the signature");
    let header = header.and_then(|field| header_name(&field));
    let secret = needed_secret(table);
    let algorithm = table.get("algorithm").unwrap_or_default();
    let encoding = table.get("encoding").unwrap_or_default();
    let prefix = table.get("prefix").unwrap_or_default();
    let signed = table.text("signed");
    let timestamp_header = table.take("timestamp_header").and_then(|field| header_name(&field));
    let signed = match signed {
        Some((field, text)) => signed_text(&field, text, timestamp_header.is_none().then_some(&*table)),
        None => Some("{{ body }}".to_owned()),
    };
    let (header, secret, signed) = (header?, secret?, signed?);
    Some(HmacConfig { header, secret, algorithm, encoding, prefix, signed, timestamp_header })
}

/// `signed`, tried with made-up messages. `timeless` is the table when no header carries the signed time.
fn signed_text(field: &Field<'_>, text: String, timeless: Option<&Table<'_>>) -> Option<String> {
    let remedy =
        "write it of {{ body }}, {{ timestamp }} and {{ idempotency_key }}; {{ body }} must be there";
    double_braces(field, &text)?;
    let no_template = |why: String| field.problem_shown(format!("is not a template: {why}"), remedy);
    let signed = HmacTemplate::parse(&text).map_err(no_template).ok()?;
    if !signed.has_body() {
        field.problem_shown("does not say what is signed", remedy);
        return None;
    }
    let samples = signed.sample(1).and_then(|first| Ok(first != signed.sample(2)?));
    let is_timed =
        samples.map_err(|why| field.problem_shown(format!("cannot be filled in: {why}"), remedy)).ok()?;
    if let (true, Some(table)) = (is_timed, timeless) {
        table.missing("timestamp_header", "the destination has to be given the signed time");
    }
    Some(text)
}

/// What is wrong with the name of a header, in lower case.
fn header_mistake(name: &str, remedy_for_ours: &'static str) -> Option<(&'static str, &'static str)> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Some(("is not a header name", "use letters, digits and `-`"));
    }
    let is_ours = OUR_HEADERS.contains(&name) || name.starts_with("hooklatch-");
    is_ours.then_some(("is a header that Hooklatch sets itself", remedy_for_ours))
}

/// `headers`: those that every call carries.
fn headers(table: &mut Table<'_>) -> BTreeMap<String, Secret> {
    let mut headers = BTreeMap::new();
    for (name, field) in table.entries_of("headers") {
        let lower = name.to_ascii_lowercase();
        if let Some((why, remedy)) = header_mistake(&lower, "leave it out") {
            field.problem(why, remedy);
        }
        let Some(value) = field.secret() else { continue };
        if HeaderValue::from_str(value.reveal()).is_err() {
            field.problem("has characters that a header cannot carry", "remove line breaks and the like");
        }
        if headers.insert(lower, value).is_some() {
            field.problem("is there twice, in another case", "keep one of the two");
        }
    }
    headers
}

/// The name of a header that is not one of ours, in lower case.
fn header_name(field: &Field<'_>) -> Option<String> {
    field.parsed(|text| {
        let name = text.to_ascii_lowercase();
        header_mistake(&name, "choose another").map_or(Ok(name), Err)
    })
}

/// A JSON pointer, or a problem that shows how to write it.
fn pointer(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if !text.is_empty() && !text.starts_with('/') {
        let remedy = format!("write it as \"/{}\"", text.trim_start_matches("$.").replace('.', "/"));
        field.problem_shown("is not a JSON pointer", remedy);
    }
    Some(text)
}

/// Takes `secret`; a missing one is a problem.
fn needed_secret(table: &mut Table<'_>) -> Option<Secret> {
    table.get_needed("secret", &format!("write {SECRET_FORMS}"))
}

/// Reads a secret, or a list of two: the new one and the one before it.
fn one_or_two(field: &Field<'_>) -> Vec<Secret> {
    let is_list = match &field.value.kind {
        ValueKind::Array(_) => true,
        // The environment has a list as text.
        ValueKind::String(text) => field.is_env_text() && text.trim_start().starts_with('['),
        _ => false,
    };
    if !is_list {
        return field.secret().into_iter().collect();
    }
    let Some(list) = field.list() else { return Vec::new() };
    if !(1..=2).contains(&list.len()) {
        let remedy = "write one, or the new one and the one before it; leave the key out to sign nothing";
        field.problem(format!("has {} secrets", list.len()), remedy);
    }
    list.iter().filter_map(Field::secret).collect()
}

/// `statuses`: what they mean here.
fn statuses(table: &mut Table<'_>) -> BTreeMap<u16, StatusMeaning> {
    let mut statuses = BTreeMap::new();
    for (name, field) in table.entries_of("statuses") {
        let Some(code) = name.parse().ok().filter(|code| (200..=599).contains(code)) else {
            field.problem("is not a status", "use numbers from 200 to 599");
            continue;
        };
        let meaning = field.parsed(|text| {
            let found = MEANINGS.iter().find(|(word, _)| *word == text);
            found
                .map(|(_, meaning)| *meaning)
                .ok_or(("is no meaning of a status", "use done, retry, dead or unknown"))
        });
        statuses.extend(meaning.map(|meaning| (code, meaning)));
    }
    statuses
}

/// `unknown`, with the keys of `query` where it says so.
pub(crate) fn unknown(reading: &mut Reading<'_, '_>) -> UnknownPolicy {
    let checker = reading.table.checker;
    let problems_before = checker.problems_n();
    let word = reading.unknown();
    let is_word_good = checker.problems_n() == problems_before;
    let field = reading.table.take("query");
    // Its keys are looked at also where they do not fit `unknown`.
    let lease_ms = reading.lease_ms;
    let query = field.as_ref().and_then(|field| field.section(|table| query(table, lease_ms)).flatten());
    match (word, field) {
        (UnknownWord::Query, Some(_)) => query.map_or(UnknownPolicy::Retry, UnknownPolicy::Query),
        (UnknownWord::Query, None) => {
            let remedy = "say how to ask: query = { url = \"…/{{ idempotency_key }}\", pointer = \"/id\" }";
            reading.table.missing("query", remedy);
            UnknownPolicy::Retry
        }
        (_, Some(field)) => {
            if is_word_good {
                let why = "is there, but `unknown` is not \"query\"";
                field.problem(why, "set unknown = \"query\" or remove it");
            }
            UnknownPolicy::Retry
        }
        (UnknownWord::Hold, None) => UnknownPolicy::Hold,
        (UnknownWord::Retry, None) => UnknownPolicy::Retry,
    }
}

fn query(table: &mut Table<'_>, lease_ms: Option<u64>) -> Option<QueryConfig> {
    let url = table.needed("url", "write what to GET, with {{ idempotency_key }} in it");
    let url = url.and_then(|field| query_url(&field));
    let place = table.needed("pointer", "write a JSON pointer such as \"/id\"");
    let pointer = place.and_then(|field| pointer(&field));
    let equals: Option<String> = table.get("equals");
    let mut used: Vec<(&str, String)> = equals.iter().map(|text| ("equals", text.clone())).collect();
    let [pending, absent] = ["pending", "absent"].map(|name| {
        let found = table.take(name).map_or_else(Vec::new, |field| values(&field, &used));
        used.extend(found.iter().map(|text| (name, text.clone())));
        found
    });
    let after_ms = table.number("after_ms", AFTER_MS).or(lease_ms).unwrap_or(LEASE_MS);
    Some(QueryConfig { url: url?, pointer: pointer?, equals, pending, absent, after_ms })
}

/// The values that mean one thing, and nothing that is `used` for another one.
fn values(field: &Field<'_>, used: &[(&str, String)]) -> Vec<String> {
    let mut values = Vec::new();
    for field in field.one_or_more().unwrap_or_default() {
        let Some(text) = field.text() else { continue };
        if let Some((name, _)) = used.iter().find(|(_, used)| *used == text) {
            let what = format!("is what `{name}` says, too");
            field.problem_shown(what, "a value means one thing: remove it");
        }
        values.push(text);
    }
    values
}

/// `query.url`, tried with two messages that were made up: each must lead to an address, and the two to
/// different ones: where a call is taken for another's, it is settled as done and never made.
fn query_url(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    double_braces(field, &text)?;
    let parsed = template(field, &text, Escape::Url)?;
    if template::has_host_template(&text) {
        field.problem_shown("leaves the host to a template", "write the host as it is");
        return None;
    }
    let [one, other] = samples().map(|values| parsed.render(&template::values(&values), Limits::head()));
    let both = one.and_then(|one| Ok((one, other?)));
    let no_url = |why| {
        let remedy = "write {{ idempotency_key }} or {{ message.id }}";
        field.problem_shown(format!("cannot be filled in: {why}"), remedy);
    };
    let (one, other) = both.map_err(no_url).ok()?;
    if one == other {
        let what = "asks the same about several messages, so that one call could be taken for another's";
        let remedy = "put {{ idempotency_key }} or {{ message.id }} into it: all else is the same when an event runs again";
        field.problem_shown(what, remedy);
    }
    http_url(field, &one, UrlRule::Destination)?;
    Some(text)
}
