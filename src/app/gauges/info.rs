//! Gauges that change only with a reload, or never: the configuration and the build.

use super::numbers::{number, seconds};
use crate::app::entries::Entries;
use hooklatch_core::config::{ACTIVITY_DAYS, Config, RetentionConfig};
use hooklatch_core::types::Clock;
use hooklatch_store::PrunedKind;

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// The cargo features of this program, and whether each is built in.
const FEATURES: [(&str, bool); 6] = [
    ("kafka", cfg!(feature = "kafka")),
    ("nats", cfg!(feature = "nats")),
    ("otel", cfg!(feature = "otel")),
    ("rabbitmq", cfg!(feature = "rabbitmq")),
    ("redis", cfg!(feature = "redis")),
    ("router", cfg!(feature = "router")),
];

/// Sets the gauges of a configuration to 0, before another one is published.
pub(crate) fn withdraw_info(config: &Config, entries: &Entries) {
    for (name, entry) in entries.iter() {
        let kind = entry.provider.spec().kind.clone();
        metrics::gauge!("hooklatch_provider_info", "provider" => name.to_string(), "kind" => kind).set(0.0);
    }
    for (name, destination) in &config.destinations {
        let kind = destination.target.kind();
        metrics::gauge!("hooklatch_destination_info", "destination" => name.to_string(), "kind" => kind)
            .set(0.0);
    }
}

/// Publishes the build and the configuration.
pub(crate) fn publish_info(config: &Config, entries: &Entries) {
    let features: Vec<&str> =
        FEATURES.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name).collect();
    metrics::gauge!(
        "hooklatch_build_info",
        "version" => env!("CARGO_PKG_VERSION"),
        "features" => features.join(" "),
    )
    .set(1.0);
    metrics::gauge!("hooklatch_admit_waiting_max").set(number(config.server.queue_n_max as usize));
    metrics::gauge!("hooklatch_inflight_bytes_max").set(number(config.server.inflight_bytes_max as usize));
    metrics::gauge!("process_start_time_seconds").set(seconds(Clock::system().now_ms()));
    for (name, entry) in entries.iter() {
        let spec = entry.provider.spec();
        metrics::gauge!("hooklatch_provider_info", "provider" => name.to_string(), "kind" => spec.kind.clone())
            .set(1.0);
        let answer_ms =
            spec.answer_within_ms.min(u32::try_from(config.server.answer_timeout_ms).unwrap_or(u32::MAX));
        metrics::gauge!("hooklatch_answer_limit_seconds", "provider" => name.to_string())
            .set(seconds(answer_ms.into()));
        if let Some(span_s) = spec.retry_span_s {
            metrics::gauge!("hooklatch_sender_retry_span_seconds", "provider" => name.to_string())
                .set(f64::from(span_s));
        }
    }
    for (name, destination) in &config.destinations {
        metrics::gauge!(
            "hooklatch_destination_info",
            "destination" => name.to_string(),
            "kind" => destination.target.kind(),
        )
        .set(1.0);
        metrics::gauge!("hooklatch_key_valid_seconds", "destination" => name.to_string())
            .set(seconds(i64::try_from(destination.key_valid_for_ms).unwrap_or(i64::MAX)));
    }
    metrics::gauge!("hooklatch_clock_tolerance_seconds").set(clock_tolerance_s(config, entries));
    for kind in PrunedKind::ALL {
        if let Some(days) = kept_days(&config.retention, *kind) {
            metrics::gauge!("hooklatch_retention_seconds", "table" => kind.table())
                .set(f64::from(days) * DAY_S);
        }
    }
}

/// The largest allowed clock difference: the lease, or the narrowest tolerance of a signed time if that is less.
fn clock_tolerance_s(config: &Config, entries: &Entries) -> f64 {
    let signatures = entries.values().flat_map(|entry| entry.provider.spec().signatures());
    let bounded = signatures.filter(|signature| signature.tolerance_s.is_some());
    let tolerances_s = bounded.map(|signature| {
        let (past_s, ahead_s) = signature.tolerances_s();
        f64::from(past_s.min(ahead_s))
    });
    tolerances_s.fold(seconds(i64::try_from(config.outbox.lease_ms).unwrap_or(i64::MAX)), f64::min)
}

/// How long a table keeps its rows; `None` where they are deleted together with their parent.
fn kept_days(kept: &RetentionConfig, kind: PrunedKind) -> Option<u32> {
    let ids_days =
        || kept.ids_of.keys().map(|name| kept.ids_days_for(name)).chain([kept.ids_days_unknown()]).min();
    match kind {
        PrunedKind::Bodies | PrunedKind::Contents => Some(kept.bodies_days),
        PrunedKind::Attempts => Some(kept.attempts_days),
        PrunedKind::Messages | PrunedKind::Operations => Some(kept.messages_days),
        PrunedKind::Ids => ids_days(),
        PrunedKind::Lanes => Some(kept.lanes_days),
        PrunedKind::Rejections => Some(kept.rejections_days),
        PrunedKind::SecretUses => Some(kept.secret_uses_days),
        PrunedKind::Taught => Some(kept.taught_days),
        PrunedKind::Activity => Some(ACTIVITY_DAYS),
        PrunedKind::Answers => Some(kept.answers_days),
        PrunedKind::Audit => Some(kept.audit_days),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_that_changes_the_program_is_published() {
        let manifest =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("there");
        let features = manifest.split("[features]").nth(1).and_then(|rest| rest.split("\n[").next());
        let names = features.expect("features").lines().filter_map(|line| line.split_once(" = "));
        let mut names: Vec<&str> =
            names.map(|(name, _)| name).filter(|name| !name.starts_with('#')).collect();
        names.retain(|name| !["default", "full", "brokers"].contains(name));
        names.sort_unstable();
        assert_eq!(names, FEATURES.map(|(name, _)| name));
    }
}
