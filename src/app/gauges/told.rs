//! What changes with a reload alone, or never: what the configuration says, and the build.

use super::numbers::{number, seconds};
use crate::app::entries::Entries;
use crate::config::Config;
use crate::types::Clock;

/// The features that this program can be built with, and whether it was.
const FEATURES: [(&str, bool); 6] = [
    ("kafka", cfg!(feature = "kafka")),
    ("nats", cfg!(feature = "nats")),
    ("otel", cfg!(feature = "otel")),
    ("rabbitmq", cfg!(feature = "rabbitmq")),
    ("redis", cfg!(feature = "redis")),
    ("router", cfg!(feature = "router")),
];

/// Takes back what was published of this configuration, before another one is.
pub(in crate::app) fn take_back(config: &Config, entries: &Entries) {
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

/// Publishes what was built and what is configured.
pub(in crate::app) fn tell(config: &Config, entries: &Entries) {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_that_changes_the_program_is_told() {
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
