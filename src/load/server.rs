//! `[server]`: the receiver's listener and its bounds.

use std::ops::RangeInclusive;

use super::edge::edge;
use super::listen::{listen, reachable};
use super::tls::listener_tls;
use crate::config::{Checker, ServerConfig, Table, UrlRule, http_url};

/// Values of `body_bytes_max`. Bytes.
pub(super) const BODY_BYTES: RangeInclusive<u64> = 1_024..=67_108_864;

/// `[server]`. The second value is whether the operator set `public_url`.
pub(super) fn server(checker: &mut Checker<'_>, root: &mut Table) -> Option<(ServerConfig, bool)> {
    let mut table = root.table(checker, "server")?;
    let name = name(checker, &mut table);
    let listen = listen(checker, &mut table);
    let written = table.text(checker, "public_url").filter(|(_, text)| !text.is_empty());
    let has_public_url = written.is_some();
    let tls = listener_tls(checker, &mut table);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let public_url = match written {
        Some((field, text)) => http_url(checker, &field, &text, UrlRule::Public),
        None => Some(format!("{scheme}://{}", reachable(listen))),
    };
    let body_bytes_max = table.number_u32(checker, "body_bytes_max", BODY_BYTES).unwrap_or_default();
    let inflight_range = u64::from(body_bytes_max)..=u64::from(u32::MAX);
    let answer_timeout_ms = table.number(checker, "answer_timeout_ms", 100..=60_000).unwrap_or_default();
    let handler_timeout_ms = table.number(checker, "handler_timeout_ms", 10..=30_000).unwrap_or_default();
    let config = ServerConfig {
        name,
        is_test: table.flag(checker, "test").unwrap_or_default(),
        listen,
        public_url: public_url.unwrap_or_default(),
        body_bytes_max,
        header_timeout_ms: table.number(checker, "header_timeout_ms", 100..=300_000).unwrap_or_default(),
        body_timeout_ms: table.number(checker, "body_timeout_ms", 100..=300_000).unwrap_or_default(),
        answer_timeout_ms,
        stop_delay_ms: table.number(checker, "stop_delay_ms", 0..=300_000).unwrap_or_default(),
        connections_n_max: table.number_u32(checker, "connections_n_max", 1..=100_000).unwrap_or_default(),
        queue_n_max: table.number_u32(checker, "queue_n_max", 1..=100_000).unwrap_or_default(),
        inflight_bytes_max: table
            .number_u32(checker, "inflight_bytes_max", inflight_range)
            .unwrap_or_default(),
        events_n_max: table.number_u32(checker, "events_n_max", 1..=100_000).unwrap_or_default(),
        // Requests that wait behind a handler on SQLite must have their answer in time.
        handler_timeout_ms: handler_timeout_ms.min(answer_timeout_ms / 2),
        unreadable_bytes_max: table
            .number_u32(checker, "unreadable_bytes_max", 0..=u64::from(u32::MAX))
            .unwrap_or_default(),
        tls,
        edge: edge(checker, &mut table),
    };
    table.finish(checker);
    Some((config, has_public_url))
}

/// Most characters of the installation's name: it stands in the title of each page.
const NAME_CHARS_MAX: usize = 64;

/// The installation's name; empty when there is none.
fn name(checker: &mut Checker<'_>, table: &mut Table) -> String {
    let Some((field, text)) = table.text(checker, "name") else { return String::new() };
    let is_line = text.trim() == text && !text.chars().any(crate::plain::is_hidden);
    if is_line && text.chars().count() <= NAME_CHARS_MAX {
        return text;
    }
    let why = "is not a name of at most 64 characters on one line";
    checker.problem_shown(&field, why, "write a short name, such as \"production\"");
    String::new()
}
