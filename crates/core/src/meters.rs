//! Every metric of `/metrics`, once: its name, its labels, its type, its unit and what it says.
//!
//! Who counts something writes the name as a literal where it is counted, and the row here: `tests/it/tidy` holds both
//! to each other, with the labels. The exporter's `# HELP` and `# TYPE` and `docs/metrics.md` are made of the rows.
//!
//! No label has a value that a stranger writes: providers, destinations, listeners and tables are those of the
//! configuration, all else are words of this program.
//! `docs/adr/0065-metrics-and-traces.md` says why, and what a number may cost.

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

/// Bounds for what a request, a call or a statement takes. Seconds.
const QUICK_SECONDS: &[f64] =
    &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bounds for what may take days, because a destination is away. Seconds.
const LONG_SECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0,
    259_200.0, 604_800.0,
];

/// Bounds for the events of one transaction.
const BATCH_EVENTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];

/// Groups of rows: type, name and labels as the exporter has them, unit, and what it says.
macro_rules! metric_groups {
    ($($title:literal {
        $($type:ident $name:ident { $($label:ident),* } $(by $buckets:ident)?, $unit:literal: $help:literal;)*
    })*) => {
        /// Every metric that there is, in groups.
        pub const METRIC_GROUPS: &[MetricGroup] = &[$(MetricGroup {
            title: $title,
            metrics: &[$(Metric {
                name: stringify!($name),
                metric_type: metric_groups!(@type $type $($buckets)?),
                labels: &[$(stringify!($label)),*],
                unit: $unit,
                help: $help,
            }),*],
        }),*];
    };
    (@type counter) => { MetricType::Counter };
    (@type gauge) => { MetricType::Gauge };
    (@type histogram $buckets:ident) => { MetricType::Histogram { buckets: $buckets } };
}

metric_groups! {
    "Requests and events" {
        gauge hooklatch_provider_info{provider, kind}, "1":
            "1 for each configured provider, with its kind.";
        counter hooklatch_requests_total{provider, outcome}, "requests":
            "Webhook requests that ended, by how they ended; provider is - for paths that no provider has.";
        histogram hooklatch_admit_seconds{provider} by QUICK_SECONDS, "seconds":
            "Time that a request waited for the commit of its events.";
        histogram hooklatch_batch_events{} by BATCH_EVENTS, "events":
            "Events that were committed in one transaction.";
        counter hooklatch_test_events_total{provider}, "events":
            "Test events that operators made; no other metric of requests counts them.";
        gauge hooklatch_admit_waiting{}, "requests":
            "Requests that wait for the commit of their events now.";
        gauge hooklatch_admit_waiting_max{}, "requests":
            "Most requests that may wait for a commit; one more is answered 503.";
        gauge hooklatch_inflight_bytes{}, "bytes":
            "Memory that requests hold now, from their first byte until their events are written.";
        gauge hooklatch_inflight_bytes_max{}, "bytes":
            "Most memory that requests may hold; one more is answered 503.";
        counter hooklatch_requests_given_up_total{provider}, "requests":
            "Requests whose sender hung up before its events were committed.";
        gauge hooklatch_last_accepted_timestamp_seconds{provider}, "unix seconds":
            "When the newest accepted event of a provider was received, by any node; absent before the first.";
        gauge hooklatch_usual_gap_seconds{provider}, "seconds":
            "How long the sender is silent as a rule: 95 of 100 seconds lay in gaps between accepted events that were no longer; a minute or more, absent while fewer than 20 gaps, or less than a day, were seen.";
        gauge hooklatch_answer_limit_seconds{provider}, "seconds":
            "How long a request may take: as long as its sender waits, or `server.answer_timeout_ms` if that is less.";
        gauge hooklatch_sender_retry_span_seconds{provider}, "seconds":
            "How long the sender of this kind repeats what it got no 2xx for; 0 when it never does, absent when its documentation does not say.";
        gauge hooklatch_refusing_since_timestamp_seconds{}, "unix seconds":
            "Since when this node answered every request 5xx that it could have admitted; 0 while it admits, and once it is ready and refused none for five minutes.";
        counter hooklatch_secret_matched_total{provider, slot}, "requests":
            "Believed requests by the place of the secret that matched, as configured: slot 0 is the first, the newest.";
        counter hooklatch_rejected_total{provider, reason}, "requests":
            "Requests that were not believed, by reason.";
        counter hooklatch_refused_total{provider, reason, signed}, "requests":
            "Requests that were neither admitted nor rejected, by the code of the answer; signed is yes where a signature header was there or none can be, provider is - for paths that no provider has.";
        counter hooklatch_rejections_dropped_total{}, "requests":
            "Refused requests of which no note was kept, because their provider's share of notes was used up.";
        counter hooklatch_unidentified_total{provider}, "requests":
            "Believed requests in which no event id was found where the kind says that it stands.";
        counter hooklatch_copies_uncounted_total{}, "requests":
            "Copies of known events that were answered well and not counted, because the database was slow.";
        counter hooklatch_replays_unrecorded_total{provider}, "events":
            "Events of which it could not be noted that their signed text was seen before.";
        counter hooklatch_repeats_total{provider, outcome}, "events":
            "Events whose signed text arrived before under another id, of bodies that may repeat: accepted, or replayed when another one was accepted within ten minutes.";
        counter hooklatch_conflicts_kept_total{provider}, "events":
            "Events with other content under a known id that were kept beside the first.";
        counter hooklatch_conflicts_unkept_total{provider}, "events":
            "Events with other content under a known id that were counted and not kept, because there are too many.";
        counter hooklatch_unreadable_cut_total{provider}, "events":
            "Events that could not be read and whose bytes were not kept, because their provider has too many of them.";
        counter hooklatch_unconfirmed_total{provider}, "events":
            "Events that were signed and are no documented form of their sender's: kept as a type that ends in .unconfirmed, for a handler to ask the sender.";
        counter hooklatch_taken_total{provider}, "events":
            "New events that a route or a handler takes.";
        counter hooklatch_ignored_total{provider, reason}, "events":
            "New events from which nothing followed, by reason: no_route when no route and no handler takes their type, handler when a handler ignored them, filter when the `when` of their routes was false.";
        counter hooklatch_dispatch_failures_total{provider, state}, "events":
            "Dispatches that failed, by the state that the event got.";
        gauge hooklatch_events{provider, state}, "events":
            "Events that wait for an operator, by state; 10000 means as many or more.";
        gauge hooklatch_events_oldest_seconds{provider, state}, "seconds":
            "Age of the first event in that state; 0 when there is none.";
    }
    "Messages and calls" {
        gauge hooklatch_destination_info{destination, kind}, "1":
            "1 for each configured destination, with its kind.";
        gauge hooklatch_key_valid_seconds{destination}, "seconds":
            "How long a destination remembers an idempotency key: `key_valid_for_ms`.";
        gauge hooklatch_outbox_messages{destination, state}, "messages":
            "Messages that are not done, by state; 10000 means as many or more.";
        gauge hooklatch_outbox_oldest_due_seconds{destination, state}, "seconds":
            "How long the first message in that state has been due; 0 when none is.";
        histogram hooklatch_message_age_seconds{destination} by LONG_SECONDS, "seconds":
            "Time from when an event was received, or dispatched again, until a message that followed from it was done.";
        counter hooklatch_attempts_total{destination, result}, "attempts":
            "Attempts that ended, by result.";
        histogram hooklatch_attempt_seconds{destination} by QUICK_SECONDS, "seconds":
            "Time that a call took.";
        gauge hooklatch_lanes_blocked{destination}, "lanes":
            "Lanes whose head waits for a person, with all that is behind it; 10000 means as many or more.";
        gauge hooklatch_key_left_seconds{destination}, "seconds":
            "Least time until the idempotency key of an open message is not known any more, negative when it has passed; absent where no key ends or no message is open.";
        gauge hooklatch_breaker_open{destination}, "0 or 1":
            "1 while a node makes calls only now and then because too many in a row failed; 0 after one that worked, and when nothing was left to try with for as long as the longest back-off.";
        gauge hooklatch_destination_paused{destination}, "0 or 1":
            "1 while an operator has paused a destination: no node sends to it.";
        gauge hooklatch_pause_due_timestamp_seconds{destination}, "unix seconds":
            "When a pause should be over: its end, or a day after it began where it has none; absent while there is none.";
        gauge hooklatch_provider_paused{provider}, "0 or 1":
            "1 while an operator has paused a provider: its events are admitted and not dispatched.";
        gauge hooklatch_provider_pause_due_timestamp_seconds{provider}, "unix seconds":
            "When a pause of a provider should be over: its end, or a day after it began where it has none; absent while there is none.";
        gauge hooklatch_concurrency{destination}, "calls":
            "Calls that a destination bears at once, as this node found out.";
        counter hooklatch_fenced_total{destination}, "attempts":
            "Settlements that changed nothing, because the lease had ended and another worker held the message.";
        gauge hooklatch_outbox_stray_messages{}, "messages":
            "Messages that wait for destinations that are not configured; each state is counted up to 10000.";
    }
    "Database and retention" {
        gauge hooklatch_database_up{}, "0 or 1":
            "1 while the database answers this node.";
        gauge hooklatch_counted_timestamp_seconds{}, "unix seconds":
            "When this node last counted the tables, or began to: the age of every number that only they know.";
        gauge hooklatch_db_connections_in_use{pool}, "connections":
            "Connections that operations hold now, by what they are for.";
        gauge hooklatch_db_connections_max{pool}, "connections":
            "Most connections that this node opens, by what they are for.";
        histogram hooklatch_db_wait_seconds{} by QUICK_SECONDS, "seconds":
            "Time that an operation waited for a connection.";
        gauge hooklatch_clock_offset_seconds{}, "seconds":
            "How far the clock of the database is ahead of this node's; negative when it is behind.";
        gauge hooklatch_clock_tolerance_seconds{}, "seconds":
            "How far clocks may be apart: `outbox.lease_ms`, or the narrowest tolerance of a signed time if that is less.";
        gauge hooklatch_database_bytes{}, "bytes":
            "Size of the database's files (SQLite).";
        gauge hooklatch_database_disk_free_bytes{}, "bytes":
            "Room that is left where the database's files are (SQLite).";
        gauge hooklatch_retention_seconds{table}, "seconds":
            "How long rows of a table are kept, where a key of `[retention]` says so.";
        gauge hooklatch_prune_lag_seconds{table}, "seconds":
            "How much older than it should be the oldest row of a table is that is to be pruned.";
        gauge hooklatch_pruned_timestamp_seconds{}, "unix seconds":
            "When this node came through a round of pruning last, or began to prune; of several nodes the newest counts.";
        gauge hooklatch_prune_round_seconds{}, "seconds":
            "Time that the last round of pruning took.";
        counter hooklatch_pruned_rows_total{table}, "rows":
            "Rows that pruning took away.";
        counter hooklatch_unopened_total{of}, "values":
            "Looks at stored values that did not open, of an event or of a message: no key, another key, damaged, or in clear where that is refused.";
        counter hooklatch_damaged_rows_total{table}, "rows":
            "Rows that cannot be read because a value of theirs is damaged, each counted when this process met it first.";
        gauge hooklatch_operations{state}, "operations":
            "Operations that go on only when a person decides: waiting for an approval, or stopped because calls failed.";
        counter hooklatch_operation_rows_total{outcome}, "rows":
            "Rows that operations of people went over: changed, or skipped.";
    }
    "The node" {
        gauge hooklatch_build_info{version, features}, "1":
            "1, with the version and the features that the program was built with.";
        gauge hooklatch_ready{}, "0 or 1":
            "1 while `/readyz` answers 200.";
        gauge process_start_time_seconds{}, "unix seconds":
            "When the server started.";
        counter process_cpu_seconds_total{}, "seconds":
            "Time of processors that the process took, in whole seconds (Linux).";
        gauge process_resident_memory_bytes{}, "bytes":
            "Memory of the process that is not swapped out (Linux).";
        gauge process_open_fds{}, "files":
            "Files and sockets that the process has open (Linux).";
        gauge process_max_fds{}, "files":
            "Most files and sockets that the process may have open.";
        gauge hooklatch_connections_open{listener}, "connections":
            "Connections of a listener that are open now.";
        gauge hooklatch_connections_max{listener}, "connections":
            "Most connections of a listener; past it the one that has been idle longest is closed.";
        counter hooklatch_panics_total{part}, "panics":
            "Panics that were contained, by the part of the program.";
        counter hooklatch_connections_closed_total{listener, reason}, "connections":
            "Connections that had to give way or were refused, by reason.";
        counter hooklatch_operator_refused_total{reason}, "requests":
            "Requests of the operator side that were refused, by reason.";
        gauge hooklatch_reload_failed{}, "0 or 1":
            "1 while the newest reload of the configuration was refused and the one before it goes on; not there before the first.";
        gauge hooklatch_tls_files_broken{listener}, "0 or 1":
            "1 while a listener's certificate files cannot be used and it goes on with the ones before.";
        gauge hooklatch_tls_not_after_timestamp_seconds{listener}, "unix seconds":
            "When a listener's certificate ends.";
        counter hooklatch_log_lines_left_out_total{}, "lines":
            "Log lines that were not written, because there were too many of their kind or nobody took them.";
        counter hooklatch_spans_exported_total{}, "spans":
            "Spans that the collector took (built with `otel`).";
        counter hooklatch_spans_dropped_total{}, "spans":
            "Spans that were thrown away, because the collector was away or slow (built with `otel`).";
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What stands above the part of the page that is written here.
    const BEGINS: &str =
        "<!-- `scripts/metrics-page` writes what follows; a test compares it with the source. -->\n";

    /// Labels, and none of their values is written by a stranger.
    const LABELS: [&str; 16] = [
        "provider",
        "destination",
        "kind",
        "outcome",
        "state",
        "reason",
        "signed",
        "result",
        "slot",
        "table",
        "listener",
        "part",
        "pool",
        "of",
        "version",
        "features",
    ];

    fn all() -> impl Iterator<Item = &'static Metric> {
        METRIC_GROUPS.iter().flat_map(|group| group.metrics)
    }

    fn rows() -> String {
        let mut lines = vec![BEGINS.trim_end().to_owned()];
        for group in METRIC_GROUPS {
            lines.push(format!(
                "\n## {}\n\n| name | type | unit | what it says |\n|---|---|---|---|",
                group.title
            ));
            lines.extend(group.metrics.iter().map(row));
        }
        lines.join("\n") + "\n"
    }

    fn row(one: &Metric) -> String {
        let labels =
            if one.labels.is_empty() { String::new() } else { format!("{{{}}}", one.labels.join(",")) };
        format!("| `{}{labels}` | {} | {} | {} |", one.name, one.metric_type.as_str(), one.unit, one.help)
    }

    #[test]
    fn the_metrics_page_agrees_with_the_table() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let there = std::fs::read_to_string(root.join("docs/metrics.md")).unwrap_or_default();
        let (by_hand, written) = there.split_once(BEGINS).unwrap_or((&there, ""));
        let wanted = format!("{by_hand}{}", rows());
        if format!("{by_hand}{BEGINS}{written}") != wanted {
            // Where `scripts/metrics-page` takes it from.
            std::fs::write(root.join("target/metrics.md"), &wanted).expect("written");
            panic!("docs/metrics.md is not up to date: run `scripts/metrics-page`");
        }
    }

    #[test]
    fn a_metric_name_has_its_type_and_unit() {
        for one in all() {
            let Metric { name, unit, help, .. } = one;
            assert!(name.starts_with("hooklatch_") || name.starts_with("process_"), "{name}");
            let is_counter = one.metric_type == MetricType::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}: counters alone end in _total");
            assert_eq!(name.ends_with("_info"), *unit == "1", "{name}");
            let base = name.trim_end_matches("_max").trim_end_matches("_total");
            assert_eq!(base.ends_with("_bytes"), *unit == "bytes", "{name}");
            assert_eq!(base.ends_with("_seconds"), unit.ends_with("seconds"), "{name} is in {unit}");
            assert!(
                !help.contains('|') && !help.contains('\n'),
                "{name}: HELP and the page take one line without a bar"
            );
        }
    }

    #[test]
    fn a_metric_is_there_once_and_no_label_is_a_strangers() {
        let mut names: Vec<&str> = all().map(|one| one.name).collect();
        let names_n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), names_n, "a name is there twice");
        for one in all() {
            for label in one.labels {
                assert!(
                    LABELS.contains(label),
                    "{}: `{label}` is a new label; who writes its values?",
                    one.name
                );
            }
            if let MetricType::Histogram { buckets } = one.metric_type {
                assert!(buckets.is_sorted() && !buckets.is_empty(), "{}", one.name);
            }
        }
    }
}
