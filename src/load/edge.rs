//! The keys of `[server]` that bound what one connection, and one peer, may take.

use std::net::IpAddr;

use ipnet::IpNet;

use super::tls::forwarded;
use crate::config::{Checker, EdgeConfig, Table};

/// Reads it out of `[server]`.
pub(super) fn edge(checker: &mut Checker<'_>, table: &mut Table) -> EdgeConfig {
    let mut number = |key, range| table.number(checker, key, range).unwrap_or_default();
    let (write_timeout_ms, connection_life_ms) =
        (number("write_timeout_ms", 100..=300_000), number("connection_life_ms", 1_000..=86_400_000));
    let mut number = |key, range| table.number_u32(checker, key, range).unwrap_or_default();
    EdgeConfig {
        write_timeout_ms,
        connection_life_ms,
        body_bytes_per_s_min: number("body_bytes_per_s_min", 0..=1_048_576),
        connection_requests_n_max: number("connection_requests_n_max", 1..=1_000_000),
        peer_share_percent: number("peer_share_percent", 1..=100),
        proxies: nets(checker, table, "proxies"),
        forwarded: forwarded(checker, table),
    }
}

/// Addresses and ranges; an empty list where the key is not there.
pub(super) fn nets(checker: &mut Checker<'_>, table: &mut Table, key: &'static str) -> Vec<IpNet> {
    let Some(field) = table.take(checker, key) else { return Vec::new() };
    let mut nets = Vec::new();
    for one in field.list(checker).unwrap_or_default() {
        let Some(text) = one.text(checker) else { continue };
        match text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)) {
            Ok(net) => nets.push(net),
            Err(_) => checker.problem_shown(
                &one,
                "is neither an address nor a range",
                "write it as 10.0.0.0/8 or 192.0.2.7",
            ),
        }
    }
    nets
}

/// `admin.hosts`: names without ports.
pub(super) fn hosts(checker: &mut Checker<'_>, table: &mut Table) -> Vec<String> {
    let Some(field) = table.take(checker, "hosts") else { return Vec::new() };
    let mut hosts = Vec::new();
    for one in field.list(checker).unwrap_or_default() {
        let Some(text) = one.text(checker) else { continue };
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        {
            checker.problem_shown(
                &one,
                "is not the name of a host",
                "write it as hooklatch.internal, without a port",
            );
        }
        hosts.push(text.to_ascii_lowercase());
    }
    hosts
}
