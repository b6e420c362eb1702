//! What is kept: the database, retention, operations of people.

use super::metric::{Metric, MetricGroup, QUICK_SECONDS, counter, gauge, histogram};

pub(super) const KEEPING: MetricGroup = MetricGroup { title: "Database and retention", metrics: ROWS };

const ROWS: &[Metric] = &[
    gauge("hooklatch_database_up", &[], "0 or 1", "1 while the database answers this node."),
    gauge(
        "hooklatch_counted_timestamp_seconds",
        &[],
        "unix seconds",
        "When this node last counted the tables, or began to: the age of every number that only they know.",
    ),
    gauge(
        "hooklatch_db_connections_in_use",
        &["pool"],
        "connections",
        "Connections that operations hold now, by what they are for.",
    ),
    gauge(
        "hooklatch_db_connections_max",
        &["pool"],
        "connections",
        "Most connections that this node opens, by what they are for.",
    ),
    histogram(
        "hooklatch_db_wait_seconds",
        &[],
        "seconds",
        QUICK_SECONDS,
        "Time that an operation waited for a connection.",
    ),
    gauge(
        "hooklatch_clock_offset_seconds",
        &[],
        "seconds",
        "How far the clock of the database is ahead of this node's; negative when it is behind.",
    ),
    gauge(
        "hooklatch_clock_tolerance_seconds",
        &[],
        "seconds",
        "How far clocks may be apart: `outbox.lease_ms`, or the narrowest tolerance of a signed time if that is less.",
    ),
    gauge("hooklatch_database_bytes", &[], "bytes", "Size of the database's files (SQLite)."),
    gauge(
        "hooklatch_database_disk_free_bytes",
        &[],
        "bytes",
        "Room that is left where the database's files are (SQLite).",
    ),
    gauge(
        "hooklatch_retention_seconds",
        &["table"],
        "seconds",
        "How long rows of a table are kept, where a key of `[retention]` says so.",
    ),
    gauge(
        "hooklatch_prune_lag_seconds",
        &["table"],
        "seconds",
        "How much older than it should be the oldest row of a table is that is to be pruned.",
    ),
    gauge(
        "hooklatch_pruned_timestamp_seconds",
        &[],
        "unix seconds",
        "When this node came through a round of pruning last, or began to prune; of several nodes the newest counts.",
    ),
    gauge("hooklatch_prune_round_seconds", &[], "seconds", "Time that the last round of pruning took."),
    counter("hooklatch_pruned_rows_total", &["table"], "rows", "Rows that pruning took away."),
    counter(
        "hooklatch_unopened_total",
        &["of"],
        "values",
        "Looks at stored values that did not open, of an event or of a message: no key, another key, damaged, or in clear where that is refused.",
    ),
    counter(
        "hooklatch_damaged_rows_total",
        &["table"],
        "rows",
        "Rows that cannot be read because a value of theirs is damaged, each counted when this process met it first.",
    ),
    gauge(
        "hooklatch_operations",
        &["state"],
        "operations",
        "Operations that go on only when a person decides: waiting for an approval, or stopped because calls failed.",
    ),
    counter(
        "hooklatch_operation_rows_total",
        &["outcome"],
        "rows",
        "Rows that operations of people went over: changed, or skipped.",
    ),
];
