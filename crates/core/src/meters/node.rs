//! The node itself: its version, its listeners, its log, its telemetry.

use super::metric::{Metric, MetricGroup, counter, gauge};

pub(super) const NODE: MetricGroup = MetricGroup { title: "The node", metrics: ROWS };

const ROWS: &[Metric] = &[
    gauge(
        "hooklatch_build_info",
        &["version", "features"],
        "1",
        "1, with the version and the features that the program was built with.",
    ),
    gauge("hooklatch_ready", &[], "0 or 1", "1 while `/readyz` answers 200."),
    gauge("process_start_time_seconds", &[], "unix seconds", "When the server started."),
    counter(
        "process_cpu_seconds_total",
        &[],
        "seconds",
        "Time of processors that the process took, in whole seconds (Linux).",
    ),
    gauge(
        "process_resident_memory_bytes",
        &[],
        "bytes",
        "Memory of the process that is not swapped out (Linux).",
    ),
    gauge("process_open_fds", &[], "files", "Files and sockets that the process has open (Linux)."),
    gauge("process_max_fds", &[], "files", "Most files and sockets that the process may have open."),
    gauge(
        "hooklatch_connections_open",
        &["listener"],
        "connections",
        "Connections of a listener that are open now.",
    ),
    gauge(
        "hooklatch_connections_max",
        &["listener"],
        "connections",
        "Most connections of a listener; past it the one that has been idle longest is closed.",
    ),
    counter(
        "hooklatch_panics_total",
        &["part"],
        "panics",
        "Panics that were contained, by the part of the program.",
    ),
    counter(
        "hooklatch_connections_closed_total",
        &["listener", "reason"],
        "connections",
        "Connections that had to give way or were refused, by reason.",
    ),
    counter(
        "hooklatch_operator_refused_total",
        &["reason"],
        "requests",
        "Requests of the operator side that were refused, by reason.",
    ),
    gauge(
        "hooklatch_reload_failed",
        &[],
        "0 or 1",
        "1 while the newest reload of the configuration was refused and the one before it goes on; not there before the first.",
    ),
    gauge(
        "hooklatch_tls_files_broken",
        &["listener"],
        "0 or 1",
        "1 while a listener's certificate files cannot be used and it goes on with the ones before.",
    ),
    gauge(
        "hooklatch_tls_not_after_timestamp_seconds",
        &["listener"],
        "unix seconds",
        "When a listener's certificate ends.",
    ),
    counter(
        "hooklatch_log_lines_left_out_total",
        &[],
        "lines",
        "Log lines that were not written, because there were too many of their kind or nobody took them.",
    ),
    counter(
        "hooklatch_spans_exported_total",
        &[],
        "spans",
        "Spans that the collector took (built with `otel`).",
    ),
    counter(
        "hooklatch_spans_dropped_total",
        &[],
        "spans",
        "Spans that were thrown away, because the collector was away or slow (built with `otel`).",
    ),
];
