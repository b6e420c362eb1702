//! The metrics recorder, configured from the table of metrics.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::warn;

use hooklatch_core::meters::{METRIC_GROUPS, Metric, MetricType};

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
