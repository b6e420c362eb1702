//! What `hooklatch alerts` prints: rules that Prometheus takes, with the numbers of a configuration.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::prometheus::promtool;

/// A configuration in which every number is another one than by default.
const CONFIG: &str = r#"
[server]
answer_timeout_ms = 6000
[outbox]
lease_ms = 120000
[retention]
bodies_days = 7
[providers.stripe]
secrets = ["whsec_0123456789abcdef"]
[providers.shop_eu]
kind = "shopify"
types = ["orders/paid"]
secrets = ["0123456789abcdef0123456789abcdef"]
tolerance_s = 300
[destinations.billing]
url = "http://127.0.0.1:9/"
[destinations.quick]
url = "http://127.0.0.1:9/"
key_valid_for_ms = 600000
"#;

fn run(folder: &Path, config: &str, arguments: &[&str]) -> Output {
    std::fs::write(folder.join("hooklatch.toml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.arg("alerts").args(arguments).current_dir(folder).output().unwrap()
}

/// What it says on stdout, when it ends well.
#[track_caller]
fn said(config: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), config, arguments);
    let complaints = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{complaints}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Every rule, as it is told to programs.
pub(super) fn printed() -> &'static [Value] {
    static TOLD: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&said("", &["--json"])).unwrap());
    TOLD["rules"].as_array().unwrap()
}

#[test]
fn numbers_are_those_of_the_configuration() {
    let config = CONFIG.replace("tolerance_s = 300\n", "");
    let told: Value = serde_json::from_str(&said(&config, &["--json", "--job", "hooks"])).unwrap();
    let numbers = told["numbers"].as_array().unwrap();
    let value = |record: &str, label: &str, of: &str| {
        let is_it =
            |one: &&Value| one["record"] == record && (label.is_empty() || one["labels"][label] == of);
        let found: Vec<&Value> = numbers.iter().filter(is_it).collect();
        assert!(found.len() == 1 && found[0]["labels"]["job"] == "hooks", "{record} {of}: {found:?}");
        found[0]["value_s"].clone()
    };
    assert_eq!(value("hooklatch:key_valid_seconds", "destination", "billing"), json!(86400.0));
    assert_eq!(value("hooklatch:key_valid_seconds", "destination", "quick"), json!(600.0));
    assert_eq!(value("hooklatch:answer_seconds", "provider", "stripe"), json!(6.0), "our own limit");
    assert_eq!(value("hooklatch:answer_seconds", "provider", "shop_eu"), json!(5.0), "Shopify's limit");
    assert_eq!(value("hooklatch:retention_seconds", "table", "webhook_payloads"), json!(604_800.0));
    assert_eq!(value("hooklatch:retention_seconds", "table", "outbox_finished"), json!(7_776_000.0));
    assert_eq!(value("hooklatch:clock_tolerance_seconds", "", ""), json!(120.0), "the lease");
    let narrow = config.replace("[destinations.quick]", "[providers.slack]\nsecrets = [\"0123456789abcdef0123456789abcdef\"]\ntolerance_s = 60\n[destinations.quick]");
    let told: Value = serde_json::from_str(&said(&narrow, &["--json", "--numbers"])).unwrap();
    let clock = told["numbers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["record"] == "hooklatch:clock_tolerance_seconds");
    assert_eq!(clock.unwrap()["value_s"], json!(60.0), "the narrowest signature");
    assert_eq!(told["rules"], json!([]));
}

#[test]
fn prometheus_takes_what_is_printed() {
    let Some(promtool) = promtool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("tolerance_s = 300\n", "");
    let arguments: [&[&str]; 4] = [
        &[],
        &["--numbers"],
        &["--job", "monitoring/hooks-1"],
        &["--runbooks", "https://wiki.example:8443/~ops/hooks%20latch/"],
    ];
    for (config, arguments) in ["", &config].into_iter().flat_map(|config| arguments.map(|one| (config, one)))
    {
        let file = folder.path().join("rules.yaml");
        std::fs::write(&file, said(config, arguments)).unwrap();
        let ran =
            Command::new(&promtool).args(["check", "rules", "--lint-fatal"]).arg(&file).output().unwrap();
        let told =
            format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && told.contains("rules found"), "{arguments:?}: {told}");
    }
}

#[test]
fn a_job_and_runbooks_of_ones_own_stand_in_every_rule() {
    let text = said(
        CONFIG.replace("tolerance_s = 300\n", "").as_str(),
        &["--job", "hooks", "--runbooks", "https://wiki.example/r/"],
    );
    assert!(!text.contains("docs/runbooks") && !text.contains("hooklatch.*"), "{text}");
    assert!(text.contains("runbook_url: https://wiki.example/r/sender-silent.md\n"), "{text}");
    assert!(text.contains("absent(hooklatch_build_info{job=\"hooks\"})"), "{text}");
}

#[test]
fn what_cannot_be_printed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ended = |config: &str, arguments: &[&str]| {
        let ran = run(folder.path(), config, arguments);
        assert!(ran.stdout.is_empty(), "{arguments:?}");
        (ran.status.code().unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let (code, told) = ended("", &["--job", "a\"}\n- alert: x"]);
    assert!(code == 2 && told.contains("--job"), "{code} {told}");
    let (code, told) = ended("", &["--runbooks", "https://wiki.example/a b"]);
    assert!(code == 2 && told.contains("--runbooks"), "{code} {told}");
    let (code, told) = ended("[server]\nanswer_timeout_ms = 0\n", &[]);
    assert!(code == 1 && told.contains("answer_timeout_ms"), "{code} {told}");
}
