//! `retry`: how failures are tried again, of a provider's handlers and of a destination's calls.

use super::field::{Checker, Table};

/// `retry = { first_ms, max_ms, attempts_n, age_max_ms }`: delays between attempts, and when to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryConfig {
    /// Upper bound of the first delay. Milliseconds.
    pub first_ms: u64,
    /// Upper bound of any delay. Milliseconds.
    pub max_ms: u64,
    /// Most attempts, the first included.
    pub attempts_n: u32,
    /// Oldest age at which another attempt is made, from the first. Milliseconds.
    pub age_max_ms: u64,
}

/// `retry = { … }` of a provider or a destination; what is not written is as in `default`.
pub(crate) fn retry(checker: &mut Checker<'_>, table: &mut Table, default: RetryConfig) -> RetryConfig {
    let Some(mut table) = table.table(checker, "retry") else { return default };
    let first_ms = table.number(checker, "first_ms", 1..=86_400_000).unwrap_or(default.first_ms);
    let max_field = table.take(checker, "max_ms");
    let max_ms = match &max_field {
        Some(field) => field.number(checker, &(1..=604_800_000)).unwrap_or(u64::MAX),
        None => default.max_ms.max(first_ms),
    };
    if let Some(field) = max_field.filter(|_| max_ms < first_ms) {
        let remedy = format!("make it at least first_ms, {first_ms}");
        checker.problem_shown(&field, "is below the first delay", remedy);
    }
    let attempts_n = table.number_u32(checker, "attempts_n", 1..=1_000).unwrap_or(default.attempts_n);
    let age_max_ms = table.number(checker, "age_max_ms", 1..=31_536_000_000).unwrap_or(default.age_max_ms);
    table.finish(checker);
    RetryConfig { first_ms, max_ms, attempts_n, age_max_ms }
}
