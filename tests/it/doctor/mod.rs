//! The doctor against the real binary: a healthy system is healthy, and each fault is reported by its check.

mod broken;
mod handshakes;
mod machine;
mod proxies;
mod strangers;

use std::process::Command;

use serde_json::Value;

use crate::process::Server;

/// A run of `hooklatch doctor --json`: how it ended, and what it found.
pub(super) struct Examined {
    pub(super) code: i32,
    pub(super) findings: Vec<Value>,
    pub(super) text: String,
}

impl Examined {
    /// Check and verdict of what is a warning or worse, those of this machine's disk excepted.
    pub(super) fn bad(&self) -> Vec<(String, String)> {
        let of = |finding: &Value| {
            let text = |key: &str| finding[key].as_str().unwrap().to_owned();
            (text("check"), text("verdict"))
        };
        let all = self.findings.iter().map(of);
        all.filter(|(check, verdict)| {
            check != "disk" && ["warning", "failure", "unknown"].contains(&verdict.as_str())
        })
        .collect()
    }

    /// Checks the exit code, unless this machine's disk is full, which changes it.
    #[track_caller]
    pub(super) fn ends_with(&self, code: i32) {
        let is_full =
            self.findings.iter().any(|finding| finding["check"] == "disk" && finding["verdict"] != "well");
        assert!(is_full || self.code == code, "{} and not {code}: {}", self.code, self.text);
    }

    /// The finding of this check that is about this subject.
    pub(super) fn find(&self, check: &str, subject: Option<&str>) -> &Value {
        let is_it = |finding: &&Value| finding["check"] == check && finding["subject"].as_str() == subject;
        self.findings.iter().find(is_it).unwrap_or_else(|| panic!("no {check} {subject:?}: {}", self.text))
    }
}

/// Runs the command with the configuration of this server.
pub(super) async fn examine(server: &Server, more: &[&str]) -> Examined {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.arg("--config").arg(server.config()).args(["doctor", "--json"]).args(more);
    command.current_dir(server.config().parent().unwrap());
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap();
    let report: Value = serde_json::from_str(text.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    let findings = report["findings"].as_array().unwrap().clone();
    Examined { code: ran.status.code().unwrap(), findings, text }
}

/// A host that is not found. With a label of 64 letters it is no name, so no resolver is asked, which might not answer.
pub(super) fn no_host() -> String {
    format!("{}.invalid", "x".repeat(64))
}

/// An operator's token, as configuration.
pub(super) const OPERATOR: &str =
    "[[admin.tokens]]\nname = \"ann\"\nrole = \"operator\"\ntoken = \"anns-token-0123456789\"\n";
