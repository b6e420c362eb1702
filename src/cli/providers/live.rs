//! `providers --live`: the providers of a running server, and which of their secrets still match.

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use super::super::api_client::{ApiClient, ReachArgs};
use super::super::shared::say;
use crate::load::Kinds;
use crate::types::Clock;

/// Shows what a running server knows about its providers' secrets.
pub(super) fn live(reach: &ReachArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let found = ApiClient::new(reach, file, kinds)?.get(&["providers"], &[])?;
    if reach.json {
        say(found);
        return Ok(ExitCode::SUCCESS);
    }
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_i64);
    let now_ms = Clock::system().now_ms();
    for provider in list(&found, "items") {
        let text = |name: &str| provider.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let secrets = list(&provider, "secrets");
        let horizon_h = number(&provider, "horizon_h").unwrap_or_default();
        say(format!("{:<20} kind {}", text("name"), text("kind")));
        if provider.get("is_unverified") == Some(&Value::Bool(true)) {
            say("  nobody signs its requests: they are accepted all the same (unverified)");
        }
        for secret in &secrets {
            let position = number(secret, "position").unwrap_or_default();
            let used = match number(secret, "last_matched_at_ms") {
                None => "has not matched yet".to_owned(),
                Some(at_ms) => format!("last matched {} ago, horizon {horizon_h} h", ago(now_ms - at_ms)),
            };
            let advice = match (position, secret.get("is_safe_to_remove") == Some(&Value::Bool(true))) {
                (1, _) => "the newest",
                (_, true) => "safe to remove",
                (_, false) => "not yet safe to remove",
            };
            say(format!("  secret {position} of {} {used}: {advice}", secrets.len()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A length of time in its largest whole unit below two days.
fn ago(ms: i64) -> String {
    match ms.max(0) / 1_000 {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s @ 7_200..=172_799 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_largest_unit_that_still_says_enough() {
        #[track_caller]
        fn check(s: i64, want: &str) {
            assert_eq!(ago(s * 1_000), want);
        }
        check(-5, "0 s");
        check(119, "119 s");
        check(120, "2 min");
        check(7_199, "119 min");
        check(7_200, "2 h");
        check(172_799, "47 h");
        check(172_800, "2 days");
        check(10_000_000, "115 days");
    }
}
