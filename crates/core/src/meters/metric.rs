//! A row of the table, and how it is registered with the exporter.

/// The type of a metric, as Prometheus has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricType {
    /// Only ever grows while the process lives.
    Counter,
    /// A number as it is now.
    Gauge,
    /// Counts by upper bounds of what was measured.
    Histogram {
        /// The upper bounds, ascending; one without a bound follows.
        buckets: &'static [f64],
    },
}

impl MetricType {
    /// The word that `# TYPE` has for it, which is also the macro's that counts it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram { .. } => "histogram",
        }
    }
}

/// One metric of `/metrics`.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The whole name, with `hooklatch_` in front; `process_` where every program has it.
    pub name: &'static str,
    /// What kind of number it is.
    pub metric_type: MetricType,
    /// Its labels, each of which it always has.
    pub labels: &'static [&'static str],
    /// The unit of its number.
    pub unit: &'static str,
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// Metrics that belong together.
#[derive(Debug, Clone, Copy)]
pub struct MetricGroup {
    /// The headline above them.
    pub title: &'static str,
    /// Its metrics, in the order of the page.
    pub metrics: &'static [Metric],
}

/// The labels of a metric.
type Labels = &'static [&'static str];

pub(crate) const fn counter(
    name: &'static str,
    labels: Labels,
    unit: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, metric_type: MetricType::Counter, labels, unit, help }
}

pub(crate) const fn gauge(
    name: &'static str,
    labels: Labels,
    unit: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, metric_type: MetricType::Gauge, labels, unit, help }
}

/// A histogram, whose name says the unit: seconds, or events.
pub(crate) const fn histogram(
    name: &'static str,
    labels: Labels,
    unit: &'static str,
    buckets: &'static [f64],
    help: &'static str,
) -> Metric {
    Metric { name, metric_type: MetricType::Histogram { buckets }, labels, unit, help }
}

/// Bounds for what a request, a call or a statement takes. Seconds.
pub(super) const QUICK_SECONDS: &[f64] =
    &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bounds for what may take days, because a destination is away. Seconds.
pub(super) const LONG_SECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0,
    259_200.0, 604_800.0,
];

impl Metric {
    /// Describes the metric to the recorder.
    pub fn describe(&self) {
        match self.metric_type {
            MetricType::Counter => metrics::describe_counter!(self.name, self.help),
            MetricType::Gauge => metrics::describe_gauge!(self.name, self.help),
            MetricType::Histogram { .. } => metrics::describe_histogram!(self.name, self.help),
        }
    }
}
