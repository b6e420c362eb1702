//! The dashboard queries metrics that exist, and its links work.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hooklatch_core::meters::METRIC_GROUPS;
use serde_json::Value;

use super::expressions::{mistakes, selectors};
use super::texts::rules;
use crate::tidy::files;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn dashboard() -> Value {
    let text = fs::read_to_string(root().join("ops/grafana/hooklatch.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Each panel that shows something.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let all = dashboard["panels"].as_array().unwrap();
    all.iter().filter(|panel| panel["type"] != "row").collect()
}

/// Title and expression of every question.
fn questions(dashboard: &Value) -> Vec<(String, String)> {
    let mut questions = Vec::new();
    for panel in panels(dashboard) {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().unwrap();
        questions
            .extend(targets.iter().map(|one| (title.to_owned(), one["expr"].as_str().unwrap().to_owned())));
    }
    questions
}

#[test]
fn every_name_and_label_on_the_dashboard_is_there() {
    let dashboard = dashboard();
    let mut wrong = Vec::new();
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().unwrap() {
            let legend = target["legendFormat"].as_str().unwrap().replace("{{", "$labels.");
            let expr = target["expr"].as_str().unwrap();
            wrong.extend(mistakes(expr, &legend).into_iter().map(|one| format!("{}: {one}", panel["title"])));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["definition"].as_str() {
            let label = query.trim_end_matches(')').rsplit(", ").next().unwrap();
            wrong.extend(mistakes(query, &format!("$labels.{label}")));
        }
    }
    assert!(wrong.is_empty(), "the dashboard would stay empty:\n  {}", wrong.join("\n  "));
}

#[test]
fn whatever_is_counted_or_an_alert_is_about_is_on_the_dashboard() {
    let base = |name: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name)).to_owned()
    };
    let shown: BTreeSet<String> = questions(&dashboard())
        .iter()
        .flat_map(|(_, expr)| selectors(expr))
        .map(|one| base(&one.name))
        .collect();
    // What is only joined or compared with, shown as a text, or is Prometheus' own.
    let besides = [
        "up",
        "hooklatch_provider_info",
        "hooklatch_destination_info",
        "hooklatch_answer_limit_seconds",
        "hooklatch_clock_tolerance_seconds",
        "hooklatch_key_valid_seconds",
        "hooklatch_retention_seconds",
    ];
    let rules = rules().iter().flat_map(|rule| selectors(rule["expr"].as_str().unwrap()));
    let counted = METRIC_GROUPS.iter().flat_map(|group| group.metrics).map(|row| row.name.to_owned());
    let asked = rules.map(|one| base(&one.name)).chain(counted);
    let missing: BTreeSet<String> =
        asked.filter(|name| !shown.contains(name) && !besides.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "show these: {missing:?}");
}

#[test]
fn every_question_keeps_to_the_job_and_to_what_was_chosen() {
    for (title, expr) in questions(&dashboard()) {
        for one in selectors(&expr).iter().filter(|one| one.name != "ALERTS") {
            let has = |label: &str| {
                one.matchers.iter().any(|(name, value)| name == label && value == &format!("${label}"))
            };
            assert!(has("job"), "{title}: `{}` is asked for of all jobs", one.name);
            let is_of = |label: &str| super::expressions::known()[&one.name].contains(label);
            for label in ["provider", "destination"] {
                assert!(!is_of(label) || has(label), "{title}: `{}` does not heed ${label}", one.name);
            }
        }
    }
}

#[test]
fn links_lead_to_runbooks_and_pages_that_there_are() {
    let dashboard = dashboard();
    let routes: String = files("crates/console/src/pages", ".rs").into_iter().map(|(_, text)| text).collect();
    let mut linked = BTreeSet::new();
    for link in panels(&dashboard).iter().flat_map(|panel| panel["links"].as_array().unwrap()) {
        let url = link["url"].as_str().unwrap();
        if let Some(page) = url.strip_prefix("${runbooks}/") {
            assert!(root().join("docs/runbooks").join(page).exists(), "{url}");
            linked.insert(page.trim_end_matches(".md").to_owned());
        } else {
            let path =
                url.strip_prefix("${console}").unwrap_or_else(|| panic!("{url}")).split('?').next().unwrap();
            assert!(routes.contains(&format!(".route(\"{path}\"")), "{url} is no page of the console");
        }
    }
    let pages = fs::read_dir(root().join("docs/runbooks")).unwrap();
    let pages =
        pages.map(|one| one.unwrap().file_name().into_string().unwrap().trim_end_matches(".md").to_owned());
    let unlinked: Vec<String> = pages
        .filter(|page| !linked.contains(page) && !["README", "receiver-gone-long"].contains(&page.as_str()))
        .collect();
    assert!(unlinked.is_empty(), "no panel leads to {unlinked:?}");
}

#[test]
fn panels_do_not_overlap_and_have_a_unit() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert((x, y)), "{} lies over another", panel["title"]);
        }
    }
    for panel in panels(&dashboard) {
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{}", panel["title"]);
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
}

#[test]
fn what_is_provisioned_is_where_it_says() {
    let read = |name: &str| fs::read_to_string(root().join("ops").join(name)).unwrap();
    let source = read("grafana/provisioning/datasources/prometheus.yaml");
    assert!(source.contains("url: http://prometheus:9090\n") && source.contains("timeInterval: 15s\n"));
    assert!(read("prometheus/prometheus.yml").contains("scrape_interval: 15s\n"));
    assert!(
        read("grafana/provisioning/dashboards/hooklatch.yaml")
            .contains("path: /var/lib/grafana/dashboards\n")
    );
}
