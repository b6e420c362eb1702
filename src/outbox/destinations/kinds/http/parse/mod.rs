//! Reads the keys of `[destinations.NAME]` that only HTTP has.
//!
//! `call.rs` reads how a call looks (with `auth.rs`, `hmac.rs` and `headers.rs`), `statuses.rs` and `unknown.rs` what
//! its answers mean. `pointer.rs` and `secret.rs` read values that several of them have.

mod auth;
mod call;
mod headers;
mod hmac;
mod pointer;
mod secret;
mod statuses;
mod unknown;

use super::super::super::reading::Reading;
use crate::config::{DestinationConfig, Target};
pub(super) use unknown::unknown;

/// Reads the url and the keys of HTTP into `config`; what is wrong is recorded.
pub(super) fn parse(reading: &mut Reading<'_, '_>, config: &mut DestinationConfig) {
    let (checker, table) = (&mut *reading.checker, &mut *reading.table);
    config.target = Target::http();
    if let Some((field, url)) = &reading.url {
        config.url = call::call_url(checker, field, url).unwrap_or_default();
    }
    config.headers = headers::headers(checker, table);
    if let Some(longest_ms) = table.number(checker, "retry_after_max_ms", 0..=604_800_000) {
        config.retry_after_max_ms = longest_ms;
    }
    config.statuses = statuses::statuses(checker, table);
    config.sign_secrets =
        table.take(checker, "sign_secret").map_or_else(Vec::new, |field| secret::one_or_two(checker, field));
    config.http = call::http(checker, table, config.http.body.take());
}
