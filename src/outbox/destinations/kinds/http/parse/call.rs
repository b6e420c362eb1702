//! Reads how a call over HTTP looks, which way it takes, and what is kept of its answer.

use super::{auth, hmac, pointer};
use crate::config::{
    BodyConfig, CaptureConfig, Checker, Field, HttpConfig, HttpVersion, StatusMeaning, SuccessConfig, Table,
    TlsConfig, UrlRule, http_url, private_hosts, proxy,
};
use crate::outbox::destinations::template_field::{AS_IN_JINJA, template};
use crate::template::{self, Escape};

/// The keys of `http`; `body` was read with what is common to all destinations.
pub(super) fn http(checker: &mut Checker<'_>, table: &mut Table, body: Option<BodyConfig>) -> HttpConfig {
    let versions = [("auto", HttpVersion::Auto), ("1.1", HttpVersion::Only11), ("2", HttpVersion::Only2)];
    HttpConfig {
        method: method(checker, table),
        body,
        private_hosts: private_hosts(checker, table),
        auth: table.take(checker, "auth").and_then(|field| auth::auth(checker, field)),
        hmac: table.take(checker, "hmac").and_then(|field| hmac::hmac(checker, field)),
        tls: tls(checker, table),
        proxy: table.take(checker, "proxy").and_then(|field| proxy(checker, field)),
        version: table.word(checker, "http_version", &versions).unwrap_or(HttpVersion::Auto),
        connect_timeout_ms: table.number(checker, "connect_timeout_ms", 10..=60_000),
        success: table.take(checker, "success").and_then(|field| success(checker, field)),
        capture: table.take(checker, "capture").and_then(|field| capture(checker, field)),
    }
}

/// The address of calls: plain, or a template whose values are percent-encoded.
pub(super) fn call_url(checker: &mut Checker<'_>, field: &Field, text: &str) -> Option<String> {
    // No address has braces of its own: they would be sent as they stand, percent-encoded.
    if let Some((old, _)) = template::single_braces(text) {
        checker.problem(field, format!("has `{old}`, which is not filled in"), AS_IN_JINJA);
        return None;
    }
    if !template::is_template(text) {
        return http_url(checker, field, text, UrlRule::Destination);
    }
    template(checker, field, text, Escape::Url)?;
    // What is around the values must be an address, and its scheme must not come out of an event.
    let with_stand_ins = template::without_tags(text);
    http_url(checker, field, &with_stand_ins, UrlRule::Destination)?;
    Some(text.to_owned())
}

fn method(checker: &mut Checker<'_>, table: &mut Table) -> Option<String> {
    let (field, text) = table.text(checker, "method")?;
    if template::is_template(&text) {
        template(checker, &field, &text, Escape::Nothing)?;
    } else if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_uppercase()) {
        checker.problem_shown(&field, "is not a method", "write POST, PUT, PATCH, DELETE or GET");
        return None;
    }
    Some(text)
}

fn tls(checker: &mut Checker<'_>, table: &mut Table) -> TlsConfig {
    let Some(mut table) = table.table(checker, "tls") else { return TlsConfig::default() };
    let mut pem = |key: &'static str, label: &str| {
        let field = table.take(checker, key)?;
        let place = field.clone();
        let secret = field.secret(checker)?;
        if !secret.reveal().contains(label) {
            checker.problem(&place, "is not in PEM form", format!("it must hold a `{label}` part"));
        }
        Some(secret)
    };
    let config = TlsConfig {
        ca: pem("ca", "-----BEGIN CERTIFICATE-----"),
        certificate: pem("certificate", "-----BEGIN CERTIFICATE-----"),
        key: pem("key", "PRIVATE KEY-----"),
    };
    for (key, other, is_missing) in [
        ("certificate", "key", config.certificate.is_none() && config.key.is_some()),
        ("key", "certificate", config.key.is_none() && config.certificate.is_some()),
    ] {
        if is_missing {
            checker.missing(
                table.path(key),
                format!("`{other}` is there: a client shows a certificate and its key"),
            );
        }
    }
    table.finish(checker);
    config
}

fn success(checker: &mut Checker<'_>, field: Field) -> Option<SuccessConfig> {
    let mut table = field.table(checker)?;
    let place = table.needed(checker, "pointer", "write a JSON pointer into the answer, such as \"/ok\"");
    let pointer = place.and_then(|field| pointer::pointer(checker, &field));
    let equals = table.text(checker, "equals").map(|(_, text)| text);
    let words =
        [("retry", StatusMeaning::Retry), ("dead", StatusMeaning::Dead), ("unknown", StatusMeaning::Unknown)];
    let otherwise = table.word(checker, "otherwise", &words).unwrap_or(StatusMeaning::Dead);
    table.finish(checker);
    Some(SuccessConfig { pointer: pointer?, equals, otherwise })
}

fn capture(checker: &mut Checker<'_>, field: Field) -> Option<CaptureConfig> {
    let mut table = field.table(checker)?;
    let bytes_max = table.number_u32(checker, "bytes_max", 1..=65_536).unwrap_or(4_096);
    let mut redact = Vec::new();
    if let Some(field) = table.take(checker, "redact") {
        let list = field.list(checker).unwrap_or_default();
        redact.extend(list.iter().filter_map(|field| pointer::pointer(checker, field)));
    }
    table.finish(checker);
    Some(CaptureConfig { bytes_max, redact })
}
