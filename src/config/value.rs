//! Readers of values that several sections have: names of entries, URLs, proxies, private hosts.

use ipnet::IpNet;

use super::field::{Checker, Field, Table};
use super::secret::Secret;
use crate::types::Name;

/// The name of an entry of `[providers]` or `[destinations]`.
pub(crate) fn entry_name(checker: &mut Checker<'_>, name: &str, field: &Field) -> Option<Name> {
    match Name::parse(name) {
        Ok(name) => Some(name),
        Err(error) => {
            checker.problem(field, error.to_string(), "rename the table");
            None
        }
    }
}

/// The parts that a URL may have besides scheme, host, port and path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UrlRule {
    /// `server.public_url`: nothing; its trailing slash is dropped.
    Public,
    /// A call's URL: a query.
    Destination,
}

/// An `http://` or `https://` URL, as it was written.
pub(crate) fn http_url(
    checker: &mut Checker<'_>,
    field: &Field,
    text: &str,
    rule: UrlRule,
) -> Option<String> {
    let has_scheme = text.contains("://");
    let Ok(url) = reqwest::Url::parse(text).map_err(drop) else {
        let remedy = if has_scheme { "write https://HOST/PATH" } else { "begin it with https:// or http://" };
        checker.problem_shown(field, "is not a URL", remedy);
        return None;
    };
    // Not shown: it holds a password.
    if !url.username().is_empty() || url.password().is_some() {
        checker.problem(field, "has a user or password in it", "use an `authorization` header instead");
        return None;
    }
    let why = if !has_scheme || !matches!(url.scheme(), "http" | "https") {
        Some(("has another scheme than http:// or https://", "begin it with https:// or http://"))
    } else if url.host_str().is_none_or(str::is_empty) {
        Some(("has no host", "write https://HOST/PATH"))
    } else if url.fragment().is_some() || (rule == UrlRule::Public && url.query().is_some()) {
        Some(("has a query or fragment", "remove everything from `?` or `#` on"))
    } else if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        Some(("has spaces or control characters", "remove or percent-encode them"))
    } else {
        None
    };
    if let Some((why, remedy)) = why {
        checker.problem_shown(field, why, remedy);
        return None;
    }
    if rule == UrlRule::Public {
        // Others are told it.
        checker.read.known_text(&field.key, &field.source, text);
        return Some(text.trim_end_matches('/').to_owned());
    }
    Some(text.to_owned())
}

/// The URL of a proxy; it may hold a password.
pub(crate) fn proxy(checker: &mut Checker<'_>, field: Field) -> Option<Secret> {
    let place = field.clone();
    let secret = field.secret(checker)?;
    let is_proxy = reqwest::Url::parse(secret.reveal())
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !is_proxy {
        // Not shown: it may hold a password.
        checker.problem(&place, "is not the URL of a proxy", "write http://[USER:PASSWORD@]HOST:PORT");
        return None;
    }
    Some(secret)
}

/// `private_hosts`: hosts and ranges that may be reached although they are private.
pub(crate) fn private_hosts(checker: &mut Checker<'_>, table: &mut Table) -> Vec<String> {
    let Some(field) = table.take(checker, "private_hosts") else { return Vec::new() };
    let mut hosts = Vec::new();
    for field in field.list(checker).unwrap_or_default() {
        let Some(text) = field.text(checker) else { continue };
        let is_net = text.parse::<IpNet>().is_ok() || text.parse::<std::net::IpAddr>().is_ok();
        let is_host = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if text.is_empty() || !(is_net || is_host) {
            let remedy = "write an address range such as 10.1.0.0/16, or the name of a host";
            checker.problem_shown(&field, "is neither", remedy);
        }
        hosts.push(text.to_ascii_lowercase());
    }
    hosts
}
