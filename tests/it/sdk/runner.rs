//! The processes that run the SDKs: `tests/sdk/check.py` and `tests/sdk/check.mjs`, a line in, a line out.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One SDK for one kind, as a runner presents it.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    pub package: String,
    pub version: String,
    pub registry: String,
    pub kind: String,
    /// Which of the kind's ways, where it has several.
    #[serde(rename = "as")]
    pub way: String,
    /// `sdk`, `key` (ours, with a key pair, as the sender documents it), or empty: it cannot sign.
    pub signs: String,
    pub verifies: bool,
    /// True when what our `sign` makes is what this SDK verifies.
    pub ours: bool,
    /// Who refuses what was signed a day ago: `both`, `us`, `sdk` or `none`.
    pub stale: String,
    /// Where a bit is flipped: empty (the last digit of the body), `body:AFTER`, `header:NAME` or `url`.
    pub flip: String,
    /// What is configured, and a stranger's: `secrets`, `settings`, `private`.
    pub keys: [Value; 2],
    /// Its place in its runner.
    #[serde(skip)]
    pub n: usize,
}

impl Row {
    pub fn name(&self) -> String {
        let way = if self.way.is_empty() { String::new() } else { format!(", {}", self.way) };
        format!("{} {} ({}): {}{way}", self.package, self.version, self.registry, self.kind)
    }
}

/// A process with every SDK of one registry loaded.
pub struct Runner {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Where the SDKs are; `None` where they are not installed, and the test is skipped then.
pub fn installed() -> Option<PathBuf> {
    crate::needs::place("HOOKLATCH_TEST_SDK").map(PathBuf::from)
}

impl Runner {
    pub fn python(sdk: &Path) -> Self {
        let mut command = Command::new(sdk.join("python/bin/python"));
        command.arg(scripts().join("check.py"));
        Self::start(command)
    }

    pub fn node(sdk: &Path) -> Self {
        // Beside its modules, where node looks for them.
        for entry in std::fs::read_dir(scripts()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "mjs") {
                std::fs::copy(&path, sdk.join(path.file_name().unwrap())).unwrap();
            }
        }
        let mut command = Command::new("node");
        command.arg("check.mjs").current_dir(sdk);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    pub fn rows(&mut self) -> Vec<Row> {
        let rows: Vec<Row> = serde_json::from_value(self.ask(&json!({ "do": "rows" }))).unwrap();
        rows.into_iter().enumerate().map(|(n, row)| Row { n, ..row }).collect()
    }

    /// Answers in the order of `asks`, given as if it were `clock_s`.
    pub fn each(&mut self, what: &str, clock_s: i64, asks: &[Map<String, Value>]) -> Vec<Value> {
        let answers = self.ask(&json!({ "do": what, "clock": clock_s, "asks": asks }));
        let answers = answers.as_array().unwrap().clone();
        assert_eq!(answers.len(), asks.len());
        answers
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        let read_n = self.output.read_line(&mut line).unwrap();
        assert!(read_n > 0, "the runner ended; what it said is above");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.child.wait());
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk")
}
