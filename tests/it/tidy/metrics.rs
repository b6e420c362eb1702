//! Metrics: what is counted in the program stands in the table, with its type and its labels, and the other way round.

use std::collections::BTreeSet;

use hooklatch_core::meters::METRIC_GROUPS;

use super::{code, files, nothing, sources};

/// A place that counts: the macro's name, the metric's, and its labels.
type Use = (String, String, Vec<String>);

/// The text of a call from behind its opening parenthesis up to the one that closes it.
fn arguments(text: &str) -> &str {
    let (mut depth_n, mut is_text) = (1, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_text = !is_text,
            '(' if !is_text => depth_n += 1,
            ')' if !is_text => depth_n -= 1,
            _ => {}
        }
        if depth_n == 0 {
            return text.split_at(at).0;
        }
    }
    text
}

/// The places of a file that update a metric.
fn uses(text: &str) -> Vec<Use> {
    let mut found = Vec::new();
    for metric_type in ["counter", "gauge", "histogram"] {
        for part in text.split(&format!("metrics::{metric_type}!(")).skip(1) {
            let arguments = arguments(part);
            let name = arguments.split('"').nth(1).unwrap_or_default().to_owned();
            // What stands before each arrow ends with a label.
            let before = arguments.rsplit_once("=>").map_or("", |(before, _)| before).split("=>");
            let labels = before.filter_map(|before| before.trim_end().strip_suffix('"')?.rsplit('"').next());
            found.push((metric_type.to_owned(), name, labels.map(str::to_owned).collect()));
        }
    }
    found
}

#[test]
fn a_place_that_counts_is_read_with_its_labels() {
    let text = "metrics::counter!(\"a\", \"b\" => f(\"x)\"), \"c\" => y)\n; metrics::gauge!(\"d\").set(g(\"e\" , 1));";
    let labels = vec!["b".to_owned(), "c".to_owned()];
    let want =
        [("counter".to_owned(), "a".to_owned(), labels), ("gauge".to_owned(), "d".to_owned(), Vec::new())];
    assert_eq!(uses(text), want);
}

#[test]
fn every_metric_of_the_source_is_in_the_table_and_every_row_is_counted() {
    let rows: Vec<_> = METRIC_GROUPS.iter().flat_map(|group| group.metrics).collect();
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (file, text) in sources() {
        if file.starts_with("crates/core/src/meters") {
            continue;
        }
        for (metric_type, name, mut labels) in uses(code(&text)) {
            let Some(row) = rows.iter().find(|row| row.name == name) else {
                wrong.push(format!("{file}: `{name}` has no row"));
                continue;
            };
            let mut wanted: Vec<&str> = row.labels.to_vec();
            wanted.sort_unstable();
            labels.sort_unstable();
            if labels != wanted || metric_type != row.metric_type.as_str() {
                wrong.push(format!(
                    "{file}: `{name}` is a {metric_type} with {labels:?}, its row says otherwise"
                ));
            }
            used.insert(name);
        }
    }
    let unused = rows.iter().filter(|row| !used.contains(row.name));
    wrong.extend(unused.map(|row| format!("crates/core/src/meters: nothing counts `{}`", row.name)));
    nothing(
        "crates/core/src/meters has each metric as it is counted, by a literal and with all its labels",
        &wrong,
    );
}

#[test]
fn pages_name_no_metric_that_is_not_there() {
    let rows: BTreeSet<&str> =
        METRIC_GROUPS.iter().flat_map(|group| group.metrics).map(|row| row.name).collect();
    // Tables, cookies and indexes that are named as metrics are.
    let others =
        ["hooklatch_messages", "hooklatch_dev", "hooklatch_migrations", "hooklatch_program_migrations"];
    let mut strangers = Vec::new();
    for (file, text) in files("docs", ".md") {
        for part in text.split("hooklatch_").skip(1) {
            let rest: String = part
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_')
                .collect();
            let name = format!("hooklatch_{}", rest.trim_end_matches('_'));
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_there =
                rows.contains(name.as_str()) || of_histogram.is_some_and(|base| rows.contains(base));
            // `hooklatch_events_*` means all that begin so.
            let is_family = rows.iter().any(|row| row.starts_with(&format!("hooklatch_{rest}")));
            if !is_there && !is_family && !others.contains(&name.as_str()) {
                strangers.push(format!("{file}: `{name}`"));
            }
        }
    }
    nothing("these are not metrics of ours", &strangers);
}
