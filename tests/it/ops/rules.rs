//! Every rule has a runbook and tests, and queries metrics that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::expressions::{known, mistakes, selectors};
use super::texts::rules;
use crate::tidy::sources;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names of the files of a folder with this ending, without it.
fn names(folder: &str, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect()
}

fn rule_names() -> BTreeSet<String> {
    names("ops/prometheus/rules", ".yaml")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The alerts of `sender-silent` are called `HooklatchSenderSilent`.
fn alert_of(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    };
    format!("Hooklatch{}", name.split('-').map(word).collect::<String>())
}

#[track_caller]
fn nothing(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn every_rule_has_a_runbook_and_tests_and_is_called_as_its_file() {
    let names_of_rules = rule_names();
    let runbooks: BTreeSet<String> =
        names("docs/runbooks", ".md").into_iter().filter(|name| name != "README").collect();
    assert_eq!(names_of_rules, runbooks, "a rule and its runbook have one name");
    assert_eq!(names_of_rules, names("ops/prometheus/tests", ".yaml"), "a rule and its tests have one name");
    let alerts: BTreeSet<String> =
        rules().iter().map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        alerts,
        names_of_rules.iter().map(|name| alert_of(name)).collect(),
        "an alert is called as its file"
    );
}

#[test]
fn every_rule_has_a_severity_its_texts_and_its_runbook() {
    let mut wrong = Vec::new();
    for name in rule_names() {
        let alert = alert_of(&name);
        let page = text(&format!("docs/runbooks/{name}.md"));
        for rule in rules().iter().filter(|rule| rule["alert"] == alert.as_str()) {
            let of = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
            let severity = of("severity");
            let mut no = |what: &str| wrong.push(format!("{alert} ({severity}): {what}"));
            if !["warning", "critical"].contains(&severity.as_str()) {
                no("severity is `warning` or `critical`");
            }
            if ["for", "summary", "description"].iter().any(|key| of(key).is_empty()) {
                no("`for`, `summary` or `description` is missing");
            }
            if of("runbook_url") != format!("docs/runbooks/{name}.md") {
                no("runbook_url names another page");
            }
            if !page.contains(&format!("`{alert}`")) {
                no("its runbook does not name it");
            }
        }
    }
    nothing("mend these rules", &wrong);
}

#[test]
fn every_name_and_label_of_a_rule_is_there() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let of = |key: &str| rule[key].as_str().unwrap();
        let texts = format!("{} {}", of("summary"), of("description"));
        wrong.extend(mistakes(of("expr"), &texts).into_iter().map(|one| format!("{}: {one}", of("alert"))));
    }
    nothing("these rules would never fire, or say nothing", &wrong);
}

/// The series that a file of tests has: name and labels.
fn series_of(tests: &str) -> Vec<(String, BTreeSet<String>)> {
    let lines = tests.lines().filter_map(|line| line.trim().strip_prefix("- series: "));
    let of = |line: &str| {
        let found = selectors(line.trim_matches('\''));
        let one = found.into_iter().next().unwrap_or_else(|| panic!("{line}"));
        (one.name, one.matchers.into_iter().map(|(label, _)| label).collect())
    };
    lines.map(of).collect()
}

#[test]
fn series_in_tests_of_rules_look_as_ours_do() {
    let known = known();
    let mut wrong = Vec::new();
    for name in rule_names() {
        for (series, labels) in series_of(&text(&format!("ops/prometheus/tests/{name}.yaml"))) {
            let Some(ours) = known.get(&series) else {
                wrong.push(format!("{name}: no metric is called `{series}`"));
                continue;
            };
            let ends = if series.contains(':') { &["job"][..] } else { &["instance", "job"] };
            let mut want: BTreeSet<String> =
                ours.iter().cloned().chain(ends.iter().map(ToString::to_string)).collect();
            if series.ends_with("_bucket") {
                want.insert("le".to_owned());
            }
            if labels != want {
                wrong.push(format!("{name}: `{series}` has the labels {want:?}, not {labels:?}"));
            }
        }
    }
    nothing("these tests are about something else than what we count", &wrong);
}

#[test]
fn every_rule_is_tested_firing_and_quiet_in_each_severity() {
    let mut wrong = Vec::new();
    for name in rule_names() {
        let tests = text(&format!("ops/prometheus/tests/{name}.yaml"));
        let alert = alert_of(&name);
        for rule in rules().iter().filter(|rule| rule["alert"] == alert.as_str()) {
            let severity = rule["severity"].as_str().unwrap();
            if !tests.contains(&format!("alertname=\"{alert}\",severity=\"{severity}\"")) {
                wrong.push(format!("{name}: nothing shows that it fires as {severity}"));
            }
        }
        let questions: Vec<&str> = tests.split("      - expr: ").skip(1).collect();
        if questions.iter().all(|question| question.contains("exp_samples")) {
            wrong.push(format!("{name}: nothing shows that it is quiet when it should be"));
        }
    }
    nothing("write tests", &wrong);
}

#[test]
fn label_values_in_rules_exist_in_the_source() {
    let sources = sources();
    let is_there = |word: &str| sources.iter().any(|(_, text)| text.contains(&format!("\"{word}\"")));
    let mut strange = Vec::new();
    for rule in rules() {
        for selector in selectors(rule["expr"].as_str().unwrap()) {
            let of = selector.matchers.iter().filter(|(label, _)| !["job", "slot"].contains(&label.as_str()));
            let words = of.flat_map(|(_, value)| value.split('|'));
            strange.extend(
                words.filter(|word| !is_there(word)).map(|word| format!("{}: {word}", rule["alert"])),
            );
        }
    }
    nothing("nothing in the source says these words", &strange);
}

#[test]
fn the_page_of_alerts_has_each_of_them() {
    let page = text("docs/alerts.md");
    let rows: BTreeSet<&str> = page.lines().filter(|line| line.starts_with("| [")).collect();
    let mut want = BTreeSet::new();
    for name in rule_names() {
        let title = text(&format!("docs/runbooks/{name}.md"));
        let title = title.lines().next().unwrap().trim_start_matches("# ").to_owned();
        let alert = alert_of(&name);
        let of = rules().iter().filter(|rule| rule["alert"] == alert.as_str());
        let severities: Vec<String> = of
            .map(|rule| {
                format!("{} after {}", rule["severity"].as_str().unwrap(), rule["for"].as_str().unwrap())
            })
            .collect();
        want.insert(format!("| [{name}](runbooks/{name}.md) | {title} | {} |", severities.join(", ")));
    }
    let want: BTreeSet<&str> = want.iter().map(String::as_str).collect();
    let missing: Vec<&&str> = want.difference(&rows).collect();
    let strange: Vec<&&str> = rows.difference(&want).collect();
    assert!(
        missing.is_empty() && strange.is_empty(),
        "docs/alerts.md lacks {missing:#?}\nand has {strange:#?}"
    );
}
