//! Every metric of `/metrics`, once: its name, its type, its labels, its unit and what it says.
//!
//! Who counts something writes the name as a literal where it is counted, and the row here: `tests/it/tidy` holds both
//! to each other, with the labels. The exporter's `# HELP` and `# TYPE` and `docs/metrics.md` are made of the rows.
//!
//! No label has a value that a stranger writes: providers, destinations, listeners and tables are those of the
//! configuration, all else are words of this program.
//! `docs/adr/0065-metrics-and-traces.md` says why, and what a number may cost.
//!
//! In reading order: `metric.rs` says what a row is, then the rows: `receiving.rs`, `calling.rs`, `keeping.rs`, `node.rs`;
//! `page.rs` writes them down for people.

mod calling;
mod keeping;
mod metric;
mod node;
#[cfg(test)]
mod page;
mod receiving;

pub use metric::{Metric, MetricGroup, MetricType};

/// Every metric that there is, in groups.
pub const METRIC_GROUPS: [MetricGroup; 4] =
    [receiving::RECEIVING, calling::CALLING, keeping::KEEPING, node::NODE];
