//! Names and labels in an expression of `PromQL`, and whether Hooklatch exports them.

use std::collections::{BTreeMap, BTreeSet};

use hooklatch_core::meters::{METRIC_GROUPS, MetricType};

/// Labels that Prometheus adds to whatever it scrapes, and those that its operator usually does.
const OF_PROMETHEUS: [&str; 4] = ["job", "instance", "pod", "le"];

/// Every series that a rule may query: its labels, without those of Prometheus.
pub(super) fn known() -> BTreeMap<String, BTreeSet<String>> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for metric in METRIC_GROUPS.iter().flat_map(|group| group.metrics) {
        let labels: BTreeSet<String> = metric.labels.iter().map(ToString::to_string).collect();
        let endings: &[&str] = match metric.metric_type {
            MetricType::Histogram { .. } => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        known.extend(endings.iter().map(|ending| (format!("{}{ending}", metric.name), labels.clone())));
    }
    known.insert("up".to_owned(), BTreeSet::new());
    let of_alerts = ["alertname", "alertstate", "severity", "provider", "destination"];
    known.insert("ALERTS".to_owned(), of_alerts.map(str::to_owned).into());
    known
}

/// A selector in an expression: its name, and its matchers, label by label.
pub(super) struct Selector {
    pub(super) name: String,
    pub(super) matchers: Vec<(String, String)>,
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Selectors of our series in an expression.
pub(super) fn selectors(expr: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(at) = rest.find(is_of_name) {
        let from = rest.split_at(at).1;
        let end = from.find(|c| !is_of_name(c)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        rest = after;
        if !(name.starts_with("hooklatch_")
            || name.starts_with("process_")
            || name == "up"
            || name == "ALERTS")
        {
            continue;
        }
        let mut matchers = Vec::new();
        if let Some((inner, after)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            rest = after;
            for matcher in inner.split(',').filter(|one| !one.is_empty()) {
                let (label, value) = matcher.split_once(['=', '!']).unwrap();
                let value = value.trim_start_matches(['=', '~']).trim_matches('"');
                matchers.push((label.trim().to_owned(), value.to_owned()));
            }
        }
        found.push(Selector { name: name.to_owned(), matchers });
    }
    found
}

/// Labels that an expression groups or joins by.
pub(super) fn grouped_by(expr: &str) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for word in ["by (", "without (", "on (", "ignoring ("] {
        for inner in expr.split(word).skip(1).filter_map(|rest| rest.split(')').next()) {
            labels.extend(
                inner.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()),
            );
        }
    }
    labels
}

/// What is wrong with the names and labels of an expression, or of texts with `$labels.NAME` that go with it.
pub(super) fn mistakes(expr: &str, texts: &str) -> Vec<String> {
    let (known, selectors) = (known(), selectors(expr));
    let mut mistakes = Vec::new();
    let mut all: BTreeSet<&str> = OF_PROMETHEUS.into();
    for one in &selectors {
        let Some(labels) = known.get(&one.name) else {
            mistakes.push(format!("no metric is called `{}`", one.name));
            continue;
        };
        all.extend(labels.iter().map(String::as_str));
        for (label, _) in &one.matchers {
            if !labels.contains(label) && !OF_PROMETHEUS.contains(&label.as_str()) {
                mistakes.push(format!("`{}` has no label `{label}`", one.name));
            }
        }
    }
    if selectors.is_empty() {
        mistakes.push("it asks for nothing of ours".to_owned());
    }
    let used = texts.split("$labels.").skip(1);
    let used = used.map(|rest| rest.split(|c| !is_of_name(c)).next().unwrap_or_default().to_owned());
    let strange = grouped_by(expr).into_iter().chain(used).filter(|label| !all.contains(label.as_str()));
    mistakes.extend(strange.map(|label| format!("nothing in it has a label `{label}`")));
    mistakes
}

#[test]
fn names_and_labels_of_an_expression_are_found() {
    #[track_caller]
    fn check(expr: &str, texts: &str, want: &[&str]) {
        assert_eq!(mistakes(expr, texts), want, "{expr}");
    }
    check("up{job=~\"hooklatch.*\"} == 0", "{{ $labels.instance }}", &[]);
    check("time() > 3", "", &["it asks for nothing of ours"]);
    check(
        "sum without (instance, pod) (rate(hooklatch_admit_seconds_bucket{provider=\"a\",le=\"1\"}[5m]))",
        "of {{ $labels.provider }}",
        &[],
    );
    check("hooklatch_admit_seconds > 1", "", &["no metric is called `hooklatch_admit_seconds`"]);
    check("hooklatch_ready{node=\"a\"} == 0", "", &["`hooklatch_ready` has no label `node`"]);
    check(
        "max by (destination) (hooklatch_ready) < on (job) group_left () hooklatch_lease",
        "{{ $labels.provider }}.",
        &[
            "no metric is called `hooklatch_lease`",
            "nothing in it has a label `destination`",
            "nothing in it has a label `provider`",
        ],
    );
}
