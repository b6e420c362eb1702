//! The command: prints a file of rules, or the same for programs.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::files::{Adapted, RULE_FILES};
use super::numbers::{Number, numbers};
use super::reader::rules;
use crate::cli::shared::{Usage, say};
use crate::load::{Kinds, loaded};

/// The example behind `--help`.
const EXAMPLE: &str = "Example:
  hooklatch alerts --config hooklatch.toml > /tmp/hooklatch.yaml &&
    promtool check rules /tmp/hooklatch.yaml && mv /tmp/hooklatch.yaml /etc/prometheus/rules/hooklatch.yaml

Print it again when the configuration has changed. docs/alerts.md says more.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(in crate::cli) struct AlertsArgs {
    /// One JSON object instead of a file of rules.
    #[arg(long)]
    json: bool,
    /// Only the numbers of the configuration, for who has the rules from `ops/prometheus/rules`.
    #[arg(long)]
    numbers: bool,
    /// Name of the job in Prometheus' configuration that asks for our metrics.
    #[arg(long, value_name = "NAME", default_value = "hooklatch")]
    job: String,
    /// Where you keep the runbooks, up to the name of a page: `https://wiki.example/hooklatch/`.
    #[arg(long, value_name = "URL")]
    runbooks: Option<String>,
}

/// Prints the rules, or what they are made of.
pub(in crate::cli) fn alerts(
    args: &AlertsArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let adapted = Adapted { job: &args.job, runbooks: args.runbooks.as_deref() };
    plain("--job", Some(adapted.job))?;
    plain("--runbooks", adapted.runbooks)?;
    let numbers = numbers(&loaded(file, false, kinds)?);
    say(if args.json {
        as_json(&numbers, args.numbers, &adapted).to_string()
    } else {
        as_rules(&numbers, args.numbers, &adapted)
    });
    Ok(ExitCode::SUCCESS)
}

/// Refuses what would have to be quoted where it goes.
fn plain(name: &str, given: Option<&str>) -> Result<(), Usage> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/~%".contains(c);
    match given {
        Some(text) if text.is_empty() || !text.chars().all(is_plain) => {
            Err(Usage(format!("{name} `{text}`: letters, digits and _-.:/~% only")))
        }
        _ => Ok(()),
    }
}

/// A file of rules as Prometheus reads it.
fn as_rules(numbers: &[Number], is_numbers_only: bool, adapted: &Adapted<'_>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "# Rules for Hooklatch {version}, written by `hooklatch alerts`: print them again when the configuration has changed.\n\
         groups:\n  \
         # What follows from the configuration; the rules compare with it.\n  \
         - name: hooklatch-numbers\n    \
         rules:\n"
    );
    text.extend(numbers.iter().map(|number| recorded(number, adapted.job)));
    let files = RULE_FILES.iter().filter(|_| !is_numbers_only).map(|file| file.groups(adapted));
    text.extend(files);
    text.trim_end().to_owned()
}

/// The rule that records a number. Names are plain, and a text in JSON is one in YAML.
fn recorded(number: &Number, job: &str) -> String {
    let Number { record, of, length, why } = number;
    let of =
        of.as_ref().map(|(label, value)| format!("          {label}: {}\n", Value::from(value.as_str())));
    format!(
        "      # {why}\n      - record: {record}\n        expr: vector({})\n        labels:\n          job: {}\n{}",
        length.as_secs_f64(),
        Value::from(job),
        of.unwrap_or_default(),
    )
}

/// The same for programs.
fn as_json(numbers: &[Number], is_numbers_only: bool, adapted: &Adapted<'_>) -> Value {
    let number = |number: &Number| {
        let of = number.of.iter().map(|(label, value)| (*label, value.as_str()));
        let labels: serde_json::Map<String, Value> =
            of.chain([("job", adapted.job)]).map(|(label, value)| (label.to_owned(), value.into())).collect();
        json!({
            "record": number.record, "labels": labels, "value_s": number.length.as_secs_f64(), "why": number.why,
        })
    };
    let files = RULE_FILES.iter().filter(|_| !is_numbers_only);
    let all: Vec<_> = files.flat_map(|file| rules(&file.groups(adapted))).collect();
    json!({ "numbers": numbers.iter().map(number).collect::<Vec<_>>(), "rules": all })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_number_is_a_series_of_its_own() {
        let number = Number {
            record: "hooklatch:key_valid_seconds",
            of: Some(("destination", "billing".to_owned())),
            length: Duration::from_millis(1_500),
            why: "why".to_owned(),
        };
        let adapted = Adapted { job: "hooks", runbooks: None };
        let text = as_rules(std::slice::from_ref(&number), true, &adapted);
        let want = "      # why\n      - record: hooklatch:key_valid_seconds\n        expr: vector(1.5)\n        labels:\n          \
                    job: \"hooks\"\n          destination: \"billing\"";
        assert!(text.ends_with(want), "{text}");
        let told = as_json(&[number], true, &adapted);
        assert_eq!(told["numbers"][0]["labels"], json!({ "destination": "billing", "job": "hooks" }));
        assert_eq!(told["rules"], json!([]));
    }

    #[test]
    fn every_rule_says_all_that_a_rule_says() {
        let told = as_json(&[], false, &Adapted { job: "hooklatch", runbooks: None });
        let all = told["rules"].as_array().expect("a list");
        assert!(all.len() > RULE_FILES.len(), "{}", all.len());
        for rule in all {
            let empty = rule
                .as_object()
                .expect("an object")
                .iter()
                .find(|(_, value)| value.as_str().is_none_or(str::is_empty));
            assert!(empty.is_none(), "{rule}");
        }
    }

    #[test]
    fn what_would_have_to_be_quoted_is_refused() {
        #[track_caller]
        fn check(given: &str, is_good: bool) {
            assert_eq!(plain("--job", Some(given)).is_ok(), is_good, "{given}");
        }
        check("hooklatch", true);
        check("monitoring/hooks-prod_1", true);
        check("https://wiki.example:8443/~ops/hooks%20latch/", true);
        check("", false);
        check("a\" b", false);
        check("a\nb: c", false);
        check("a # b", false);
        assert!(plain("--runbooks", None).is_ok());
    }
}
