//! A real Prometheus that scrapes test servers four times a second, with our rules and shorter waits.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::needs;
use crate::process::{client, free_port, now_s, until};
use crate::tidy::files;

/// Where `promtool` is; `None` where it is not installed, and the test is skipped then.
pub(crate) fn promtool() -> Option<PathBuf> {
    needs::place("HOOKLATCH_TEST_PROMTOOL").map(PathBuf::from)
}

/// A Prometheus that runs until it is dropped.
pub(crate) struct Prometheus {
    addr: SocketAddr,
    folder: TempDir,
    child: Child,
}

/// A text of `/metrics`, and how long ago it is to have been scraped.
pub(crate) type PastMetrics = (Duration, String);

/// Writes earlier metrics of `target` as if they had been scraped then: only the times are invented.
fn remember(data: &Path, target: SocketAddr, past: &[PastMetrics]) -> Option<()> {
    let mut text = String::new();
    for (ago, metrics) in past {
        let at_s = now_s() - i64::try_from(ago.as_secs()).unwrap();
        for line in metrics.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = format!("job=\"hooklatch\",instance=\"{target}\",{labels}").replace(",}", "}");
            writeln!(text, "{name}{{{labels} {value} {at_s}").unwrap();
        }
    }
    let file = data.with_extension("txt");
    std::fs::write(&file, text + "# EOF\n").unwrap();
    let mut command = Command::new(promtool()?);
    command.args(["tsdb", "create-blocks-from", "openmetrics"]).arg(file).arg(data);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(())
}

impl Prometheus {
    /// Starts one that scrapes our metrics from `targets`; `past` are earlier metrics of the first target.
    pub(crate) fn start(targets: &[SocketAddr], past: &[PastMetrics]) -> Option<Self> {
        let prometheus = needs::place("HOOKLATCH_TEST_PROMETHEUS")?;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        if !past.is_empty() {
            remember(&data, targets[0], past)?;
        }
        let rules = folder.path().join("rules");
        std::fs::create_dir(&rules).unwrap();
        for entry in
            std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/prometheus/rules")).unwrap()
        {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(rules.join(path.file_name().unwrap()), impatient(&text)).unwrap();
        }
        let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
        let config = format!(
            "global: {{ scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms }}\n\
             rule_files: [{}/*.yaml]\n\
             scrape_configs: [{{ job_name: hooklatch, static_configs: [{{ targets: [{}] }}] }}]\n",
            rules.display(),
            targets.join(", ")
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let addr = free_port();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(prometheus)
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={addr}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Some(Self { addr, folder, child })
    }

    async fn ask(&self, path: &str) -> Option<Value> {
        let answer = client().get(format!("http://{}/api/v1/{path}", self.addr)).send().await.ok()?;
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }

    /// Alerts that fire now, as `NAME severity`, with their texts.
    pub(crate) async fn firing(&self) -> BTreeMap<String, Value> {
        let reply = self.ask("alerts").await.unwrap_or_default();
        let alerts = reply["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.into_iter().filter(|one| one["state"] == "firing");
        let named = |one: Value| {
            let name =
                one["labels"]["alertname"].as_str().unwrap().trim_start_matches("Hooklatch").to_owned();
            (format!("{name} {}", one["labels"]["severity"].as_str().unwrap()), one)
        };
        firing.map(named).collect()
    }

    /// Waits until these fire; their texts have no mistake.
    pub(crate) async fn fires(&self, names: &[&str]) {
        let all = |firing: &BTreeMap<String, Value>| names.iter().all(|name| firing.contains_key(*name));
        for (name, alert) in &self.until_firing(&format!("{names:?} fire"), all).await {
            let said = alert["annotations"].to_string();
            assert!(!said.contains("<error") && !said.contains("<no value>"), "{name}: {said}");
        }
    }

    /// Waits until none of these fires.
    pub(crate) async fn is_quiet_about(&self, names: &[&str]) {
        let none = |firing: &BTreeMap<String, Value>| !names.iter().any(|name| firing.contains_key(*name));
        self.until_firing(&format!("{names:?} are over"), none).await;
    }

    /// Waits until what fires `is_so`, and gives it back.
    async fn until_firing(
        &self,
        what: &str,
        is_so: impl Fn(&BTreeMap<String, Value>) -> bool,
    ) -> BTreeMap<String, Value> {
        let last = RefCell::new(BTreeMap::new());
        let look = async || {
            let firing = self.firing().await;
            last.replace(firing);
            is_so(&last.borrow())
        };
        until(what, Duration::from_secs(90), || self.describe(&last.borrow()), look).await;
        last.into_inner()
    }

    /// Waits until it has scraped and judged the rules a few times since now.
    pub(crate) async fn has_looked(&self) {
        let count = async || {
            // Over a day: over less the number would stop growing.
            let path = "query?query=count_over_time(up%5B1d%5D)";
            let reply = self.ask(path).await.unwrap_or_default();
            let n = reply["data"]["result"][0]["value"][1].as_str().and_then(|n| n.parse::<u32>().ok());
            n.unwrap_or_default()
        };
        let mut first = 0;
        until(
            "Prometheus has asked",
            Duration::from_secs(30),
            || self.log(),
            async || {
                first = count().await;
                first > 0
            },
        )
        .await;
        until(
            "Prometheus has asked again",
            Duration::from_secs(30),
            || self.log(),
            async || count().await > first + 6,
        )
        .await;
    }

    /// Waits until it knows that the server was ready once: it looks back in steps of five seconds.
    pub(crate) async fn was_ready(&self) {
        self.finds("max_over_time(timestamp(hooklatch_ready==1)%5B10m:5s%5D)").await;
    }

    /// Waits until it gets an answer from a target, whatever it is.
    pub(crate) async fn is_up(&self) {
        self.finds("up==1").await;
    }

    /// Waits until a query finds something.
    async fn finds(&self, query: &str) {
        until(
            query,
            Duration::from_secs(30),
            || self.log(),
            async || {
                let reply = self.ask(&format!("query?query={query}")).await.unwrap_or_default();
                reply["data"]["result"].as_array().is_some_and(|found| !found.is_empty())
            },
        )
        .await;
    }

    fn describe(&self, firing: &BTreeMap<String, Value>) -> String {
        let names: Vec<&String> = firing.keys().collect();
        format!("these fire: {names:?}\n{}", self.log())
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().rev().take(10).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The rules whose wait stands in the expression: here it is shorter, as their metrics change every few seconds.
const SHORTER_WAITS: [(&str, &str); 2] = [
    ("hooklatch_counted_timestamp_seconds) > 300", "hooklatch_counted_timestamp_seconds) > 12"),
    ("hooklatch_pruned_timestamp_seconds) > 172800", "hooklatch_pruned_timestamp_seconds) > 5"),
];

/// The same rules, which fire at once instead of after minutes. Nothing else about them is another.
fn impatient(rules: &str) -> String {
    let line = |line: &str| {
        let is_patience = line.trim_start().starts_with("for: ");
        if is_patience { line.split("for: ").next().unwrap().to_owned() + "for: 0s" } else { line.to_owned() }
    };
    let rules = rules.lines().map(line).collect::<Vec<_>>().join("\n") + "\n";
    SHORTER_WAITS.iter().fold(rules, |rules, (long, short)| rules.replace(long, short))
}

#[test]
fn only_patience_is_taken_from_a_rule() {
    let rule = "      - alert: A\n        expr: x[5m] > 300\n        for: 15m\n        labels: {}\n";
    assert_eq!(impatient(rule), rule.replace("15m", "0s"));
    let rules: String = files("ops/prometheus/rules", ".yaml").into_iter().map(|(_, text)| text).collect();
    for (long, short) in SHORTER_WAITS {
        assert!(rules.matches(long).count() == 1 && impatient(&rules).contains(short), "{long}");
    }
}
