//! The small sections: `[kinds]`, `[outbox]`, `[fetch]`, `[log]`.
//!
//! The defaults are those of `config.default.toml`, so a key is always there unless it was spoilt; then a
//! problem is recorded and the value given back here is of no matter.

use crate::config::{
    Checker, ConfigProblem, FetchConfig, LogConfig, LogFormat, OutboxConfig, Table, private_hosts, proxy,
};
use crate::mistakes::{nearest, shown};

/// `[kinds]`; its folder is read before the rest is checked, because the kinds in it say what is right.
pub(super) fn kinds(checker: &mut Checker<'_>, root: &mut Table) {
    let Some(mut table) = root.table(checker, "kinds") else { return };
    table.text(checker, "folder");
    table.finish(checker);
}

/// `[outbox]`. The second value is the lease, when it is right.
pub(super) fn outbox(checker: &mut Checker<'_>, root: &mut Table) -> Option<(OutboxConfig, Option<u64>)> {
    let mut table = root.table(checker, "outbox")?;
    let lease_ms = table.number(checker, "lease_ms", 1_000..=3_600_000);
    let config = OutboxConfig {
        lease_ms: lease_ms.unwrap_or_default(),
        poll_ms: table.number(checker, "poll_ms", 50..=60_000).unwrap_or_default(),
        stop_timeout_ms: table.number(checker, "stop_timeout_ms", 0..=600_000).unwrap_or_default(),
    };
    table.finish(checker);
    Some((config, lease_ms))
}

/// Reads `[fetch]`, whose proxy may hold a password.
pub(super) fn fetch(checker: &mut Checker<'_>, root: &mut Table) -> Option<FetchConfig> {
    let mut table = root.table(checker, "fetch")?;
    let config = FetchConfig {
        proxy: table.take(checker, "proxy").and_then(|field| proxy(checker, field)),
        ca: table.take(checker, "ca").and_then(|field| field.secret(checker)),
        private_hosts: private_hosts(checker, &mut table),
    };
    table.finish(checker);
    Some(config)
}

/// The words that are levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The first word of a filter that is neither a level nor a module that is likely to exist: a wrong level is read as a
/// module, and then nothing at all is logged.
fn stray_word(filter: &str) -> Option<&str> {
    let is_level = |word: &str| {
        LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) || word.parse::<u8>().is_ok()
    };
    let words = filter.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains('['));
    let stray = |word: &str| match word.split_once('=') {
        // Modules of a program of somebody's own, and of its libraries, are not known here.
        Some((module, _)) => {
            let first = module.split("::").next().unwrap_or_default();
            first != "hooklatch" && nearest(first, ["hooklatch"]).is_some()
        }
        None => !is_level(word) && !word.starts_with("hooklatch") && !word.contains("::"),
    };
    words.into_iter().find(|word| stray(word)).and_then(|word| word.split(['=', ':']).next())
}

/// Reads `[log]` and tries its filter.
pub(super) fn log(checker: &mut Checker<'_>, root: &mut Table) -> Option<LogConfig> {
    let mut table = root.table(checker, "log")?;
    let filter = table.text(checker, "filter").map(|(field, text)| {
        if text.trim().is_empty() || tracing_subscriber::EnvFilter::builder().parse(&text).is_err() {
            checker.problem_shown(
                &field,
                "is not a log filter",
                "write info, or \"info,hooklatch::outbox=debug\"",
            );
        } else if let Some(word) = stray_word(&text) {
            let remedy = match nearest(word, LEVELS.into_iter().chain(["hooklatch"])) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("write a level ({}), or MODULE=LEVEL", LEVELS.join(", ")),
            };
            let why = format!("has `{word}`, which is no level, and a module of that name has no lines");
            let (source, key, value) = (field.source, field.key, Some(shown(&text)));
            checker.warnings.push(ConfigProblem { source, key, value, why, remedy });
        }
        text
    });
    let words = [("auto", LogFormat::Auto), ("human", LogFormat::Human), ("json", LogFormat::Json)];
    let format = table.word(checker, "format", &words).unwrap_or(LogFormat::Auto);
    table.finish(checker);
    Some(LogConfig { filter: filter.unwrap_or_default(), format })
}
