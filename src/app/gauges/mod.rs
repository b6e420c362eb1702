//! The metrics of this node in `/metrics`: its own counters, counts from the tables, and values of the system.
//!
//! A scrape queries nothing: it sets the gauges that are in memory ([`LiveGauges`]) and renders all metrics. What needs
//! the database is counted in the background (`counting.rs`), bounded by indexes and in time;
//! `hooklatch_counted_timestamp_seconds` says when. [`publish_info`] sets the gauges that change only with a reload, or
//! never.

mod counting;

pub(super) use counting::{Counting, Counts, NodeActivity, Rhythms};

use std::sync::Arc;
use std::sync::atomic::Ordering;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::watch;
use tracing::warn;

use crate::app::entries::Entries;
use hooklatch_core::config::{ACTIVITY_DAYS, Config, RetentionConfig};
use hooklatch_core::meters::{METRIC_GROUPS, Metric, MetricType};
use hooklatch_core::types::Clock;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_receive::CountedRequests;
use hooklatch_receive::admit::{MemoryRoom, Providers};
use hooklatch_store::{PrunedKind, Store};

/// The one metrics recorder of the process. If the program installed a recorder before, that one receives the metrics
/// and `/metrics` stays empty.
pub(crate) fn metrics_handle() -> PrometheusHandle {
    static HANDLE: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    HANDLE.get_or_init(install_metrics).clone()
}

fn install_metrics() -> PrometheusHandle {
    let builder = every_metric().fold(PrometheusBuilder::new(), |builder, one| match one.metric_type {
        // Only an empty list of bounds is refused, and a test holds that none is.
        MetricType::Histogram { buckets } => {
            builder.set_buckets_for_metric(Matcher::Full(one.name.to_owned()), buckets).unwrap_or_default()
        }
        MetricType::Counter | MetricType::Gauge => builder,
    });
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        warn!("another recorder of metrics was installed before ours; /metrics stays empty");
    }
    every_metric().for_each(Metric::describe);
    handle
}

fn every_metric() -> impl Iterator<Item = &'static Metric> {
    METRIC_GROUPS.iter().flat_map(|group| group.metrics)
}

/// What is written down: a gauge without a value is left out.
pub(super) fn written(handle: &PrometheusHandle) -> String {
    let mut text = handle.render();
    if text.contains(NO_VALUE) {
        text = text.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(NO_VALUE)).collect();
    }
    text
}

/// The end of the line of a gauge that has no value now.
const NO_VALUE: &str = " NaN";

/// Everything that a scrape reads.
pub(crate) struct LiveGauges {
    pub(crate) handle: PrometheusHandle,
    pub(crate) readiness: watch::Receiver<Readiness>,
    pub(crate) providers: Providers,
    pub(crate) requests: CountedRequests,
    pub(crate) rhythms: Arc<Rhythms>,
    pub(crate) store: Store,
    pub(crate) memory: MemoryRoom,
}

impl LiveGauges {
    /// Renders the current text of `/metrics`. Queries neither the database nor the system.
    pub(crate) fn text(&self) -> String {
        let (is_ready, is_database_there) = {
            let readiness = self.readiness.borrow();
            (readiness.is_ready(), readiness.is_database_there)
        };
        metrics::gauge!("hooklatch_ready").set(flag(is_ready));
        metrics::gauge!("hooklatch_database_up").set(flag(is_database_there));
        let waiting_n: usize =
            self.providers.get().values().map(|entry| entry.waiting_n.load(Ordering::Relaxed)).sum();
        metrics::gauge!("hooklatch_admit_waiting").set(number(waiting_n as u64));
        metrics::gauge!("hooklatch_refusing_since_timestamp_seconds")
            .set(seconds(self.requests.refusing_since_ms(self.rhythms.now_ms(), is_ready)));
        metrics::gauge!("hooklatch_inflight_bytes").set(number(self.memory.held_bytes() as u64));
        for used in self.store.connections() {
            metrics::gauge!("hooklatch_db_connections_in_use", "pool" => used.pool)
                .set(f64::from(used.in_use_n));
            metrics::gauge!("hooklatch_db_connections_max", "pool" => used.pool)
                .set(f64::from(used.places_n));
        }
        self.rhythms.publish(&self.requests);
        written(&self.handle)
    }
}

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

/// Sets the gauges that name the kinds of a configuration: to 0 before another one is published.
pub(crate) fn set_kinds(config: &Config, entries: &Entries, value: f64) {
    for (name, entry) in entries.iter() {
        let kind = entry.provider.spec().kind.clone();
        metrics::gauge!("hooklatch_provider_info", "provider" => name.to_string(), "kind" => kind).set(value);
    }
    for (name, destination) in &config.destinations {
        let kind = destination.target.kind();
        metrics::gauge!("hooklatch_destination_info", "destination" => name.to_string(), "kind" => kind)
            .set(value);
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
    metrics::gauge!("hooklatch_admit_waiting_max").set(number(config.server.queue_n_max.into()));
    metrics::gauge!("hooklatch_inflight_bytes_max").set(number(config.server.inflight_bytes_max.into()));
    metrics::gauge!("process_start_time_seconds").set(seconds(Clock::system().now_ms()));
    set_kinds(config, entries, 1.0);
    for (name, entry) in entries.iter() {
        let spec = entry.provider.spec();
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
        PrunedKind::Pairing => Some(kept.pairing_days),
        PrunedKind::Activity => Some(ACTIVITY_DAYS),
        PrunedKind::Answers => Some(kept.answers_days),
        PrunedKind::Audit => Some(kept.audit_days),
        _ => None,
    }
}

/// A number of things, or of bytes.
#[expect(clippy::cast_precision_loss, reason = "a gauge")]
fn number(n: u64) -> f64 {
    n as f64
}

/// 1 where it is so.
fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

/// A time or a span of milliseconds in seconds.
#[expect(clippy::cast_precision_loss, reason = "a gauge")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

/// Seconds; NaN, which is not rendered, where there is no time.
fn seconds_or_nan(ms: Option<i64>) -> f64 {
    ms.map_or(f64::NAN, seconds)
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
