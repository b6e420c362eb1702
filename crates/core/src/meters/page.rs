//! docs/metrics.md: the part of the page that is made of the rows, and what holds for every row.

use std::path::Path;

use super::{METRIC_GROUPS, Metric, MetricType};

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
    let labels = if one.labels.is_empty() { String::new() } else { format!("{{{}}}", one.labels.join(",")) };
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
            assert!(LABELS.contains(label), "{}: `{label}` is a new label; who writes its values?", one.name);
        }
        if let MetricType::Histogram { buckets } = one.metric_type {
            assert!(buckets.is_sorted() && !buckets.is_empty(), "{}", one.name);
        }
    }
}
