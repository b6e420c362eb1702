//! The keys of a destination that only calls over HTTP have: what a call looks like, who vouches for it, which
//! way it takes, and what its answer is kept for.

use super::super::field::{Checker, Field, Table};
use super::super::value::{UrlRule, http_url, private_hosts, proxy};
use super::super::{
    AuthConfig, BodyConfig, CaptureConfig, HmacAlgorithm, HmacConfig, HmacEncoding, HttpConfig, HttpVersion,
    Secret, StatusMeaning, SuccessConfig, TlsConfig,
};
use super::OUR_HEADERS;
use crate::template::{self, Escape, Template};

/// The HTTP part of one destination.
pub(super) fn http(checker: &mut Checker<'_>, table: &mut Table) -> HttpConfig {
    let versions = [("auto", HttpVersion::Auto), ("1.1", HttpVersion::Only11), ("2", HttpVersion::Only2)];
    HttpConfig {
        method: method(checker, table),
        body: body(checker, table),
        private_hosts: private_hosts(checker, table),
        auth: table.take(checker, "auth").and_then(|field| auth(checker, field)),
        hmac: table.take(checker, "hmac").and_then(|field| hmac(checker, field)),
        tls: tls(checker, table),
        proxy: table.take(checker, "proxy").and_then(|field| proxy(checker, field)),
        version: table.word(checker, "http_version", &versions).unwrap_or(HttpVersion::Auto),
        connect_timeout_ms: table.number(checker, "connect_timeout_ms", 10..=60_000),
        success: table.take(checker, "success").and_then(|field| success(checker, field)),
        capture: table.take(checker, "capture").and_then(|field| capture(checker, field)),
    }
}

/// The address of calls: plain, or a template whose values are percent-encoded.
pub(in crate::config) fn call_url(checker: &mut Checker<'_>, field: &Field, text: &str) -> Option<String> {
    if !template::is_template(text) {
        return http_url(checker, field, text, UrlRule::Destination);
    }
    parse(checker, field, text, Escape::Url)?;
    // What is around the values must be an address, and its scheme must not come out of an event.
    let with_stand_ins = template::without_tags(text);
    http_url(checker, field, &with_stand_ins, UrlRule::Destination)?;
    Some(text.to_owned())
}

fn parse(checker: &mut Checker<'_>, field: &Field, text: &str, escape: Escape) -> Option<()> {
    if let Err(why) = Template::parse(text, escape) {
        let why = format!("is not a template: {why}");
        checker.problem(field, why, "write values as {{ payload.id }}, as in Jinja");
        return None;
    }
    Some(())
}

fn method(checker: &mut Checker<'_>, table: &mut Table) -> Option<String> {
    let (field, text) = table.text(checker, "method")?;
    if template::is_template(&text) {
        parse(checker, &field, &text, Escape::Nothing)?;
    } else if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_uppercase()) {
        checker.problem_shown(&field, "is not a method", "write POST, PUT, PATCH, DELETE or GET");
        return None;
    }
    Some(text)
}

fn body(checker: &mut Checker<'_>, table: &mut Table) -> Option<BodyConfig> {
    let content_type = table.text(checker, "content_type");
    if let Some((field, text)) = &content_type
        && (text.is_empty() || ::http::HeaderValue::from_str(text).is_err())
    {
        checker.problem_shown(field, "is not a content type", "write application/json or the like");
    }
    let Some((field, text)) = table.text(checker, "body") else {
        if let Some((field, _)) = content_type {
            checker.problem(&field, "is there without `body`", "write a body template or remove it");
        }
        return None;
    };
    let content_type = content_type.map_or_else(|| "application/json".to_owned(), |(_, text)| text);
    parse(checker, &field, &text, Escape::of_content_type(&content_type))?;
    Some(BodyConfig { template: text, content_type })
}

fn needed_secret(checker: &mut Checker<'_>, table: &mut Table, key: &'static str) -> Option<Secret> {
    table.needed(checker, key, "write a text, { env = \"NAME\" } or { file = \"PATH\" }")?.secret(checker)
}

fn auth(checker: &mut Checker<'_>, field: Field) -> Option<AuthConfig> {
    let place = field.clone();
    let mut table = field.table(checker)?;
    let is_basic = table.word(checker, "scheme", &[("basic", true), ("bearer", false)]);
    let user = table.text(checker, "user");
    let secret = needed_secret(checker, &mut table, "secret");
    if is_basic.is_none() {
        checker.problem(&place, "does not say how", "write scheme = \"basic\" or scheme = \"bearer\"");
    }
    let user = match (is_basic?, user) {
        (true, None) => {
            checker.missing(table.path("user"), "basic authentication has a user and a password, `secret`");
            None
        }
        (true, Some((field, user))) if user.contains(':') => {
            checker.problem(&field, "has a colon", "a user's name cannot have one: it ends there");
            None
        }
        (false, Some((field, _))) => {
            checker.problem(&field, "is there with \"bearer\"", "remove it or write scheme = \"basic\"");
            None
        }
        (true, Some((_, user))) => Some(user),
        (false, None) => None,
    };
    table.finish(checker);
    Some(if is_basic? {
        AuthConfig::Basic { user: user?, password: secret? }
    } else {
        AuthConfig::Bearer(secret?)
    })
}

fn hmac(checker: &mut Checker<'_>, field: Field) -> Option<HmacConfig> {
    let mut table = field.table(checker)?;
    let header = table.needed(checker, "header", "name the header that carries the signature");
    let header = header.and_then(|field| header_name(checker, &field));
    let secret = needed_secret(checker, &mut table, "secret");
    let algorithms = [("sha256", HmacAlgorithm::Sha256), ("sha512", HmacAlgorithm::Sha512)];
    let algorithm = table.word(checker, "algorithm", &algorithms).unwrap_or(HmacAlgorithm::Sha256);
    let encodings = [("hex", HmacEncoding::Hex), ("base64", HmacEncoding::Base64)];
    let encoding = table.word(checker, "encoding", &encodings).unwrap_or(HmacEncoding::Hex);
    let prefix = table.text(checker, "prefix").map(|(_, text)| text).unwrap_or_default();
    let signed = table.text(checker, "signed");
    let timestamp_header = table.take(checker, "timestamp_header");
    let timestamp_header = timestamp_header.and_then(|field| header_name(checker, &field));
    if let Some((field, text)) = &signed {
        let rest = text.replace("{timestamp}", "").replace("{idempotency_key}", "").replace("{body}", "");
        if !text.contains("{body}") || rest.contains(['{', '}']) {
            let remedy = "write it of {body}, {timestamp} and {idempotency_key}; {body} must be there";
            checker.problem_shown(field, "does not say what is signed", remedy);
        }
        if text.contains("{timestamp}") && timestamp_header.is_none() {
            checker.missing(table.path("timestamp_header"), "the destination has to be told the signed time");
        }
    }
    let signed = signed.map_or_else(|| "{body}".to_owned(), |(_, text)| text);
    table.finish(checker);
    Some(HmacConfig {
        header: header?,
        secret: secret?,
        algorithm,
        encoding,
        prefix,
        signed,
        timestamp_header,
    })
}

fn header_name(checker: &mut Checker<'_>, field: &Field) -> Option<String> {
    let text = field.text(checker)?.to_ascii_lowercase();
    if ::http::HeaderName::from_bytes(text.as_bytes()).is_err() {
        checker.problem_shown(field, "is not a header name", "use letters, digits and `-`");
        return None;
    }
    if OUR_HEADERS.contains(&text.as_str()) || text.starts_with("hooklatch-") {
        checker.problem_shown(field, "is a header that Hooklatch sets itself", "choose another");
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

/// A JSON pointer, or a problem that shows how to write it.
pub(super) fn pointer(checker: &mut Checker<'_>, field: &Field) -> Option<String> {
    let text = field.text(checker)?;
    if !text.is_empty() && !text.starts_with('/') {
        let remedy = format!("write it as \"/{}\"", text.trim_start_matches("$.").replace('.', "/"));
        checker.problem_shown(field, "is not a JSON pointer", remedy);
    }
    Some(text)
}

fn success(checker: &mut Checker<'_>, field: Field) -> Option<SuccessConfig> {
    let mut table = field.table(checker)?;
    let place = table.needed(checker, "pointer", "write a JSON pointer into the answer, such as \"/ok\"");
    let pointer = place.and_then(|field| pointer(checker, &field));
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
        redact.extend(list.iter().filter_map(|field| pointer(checker, field)));
    }
    table.finish(checker);
    Some(CaptureConfig { bytes_max, redact })
}
