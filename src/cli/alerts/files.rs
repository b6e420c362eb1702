//! The texts of the rules, as they are in `ops/prometheus/rules`.

/// A file with the rules of one name.
pub(super) struct RuleFile {
    text: &'static str,
}

macro_rules! rule_files {
    ($($name:literal,)*) => {
        /// Every file of rules.
        pub(super) const RULE_FILES: &[RuleFile] = &[$(RuleFile {
            text: include_str!(concat!("../../../ops/prometheus/rules/", $name, ".yaml")),
        },)*];
    };
}

rule_files! {
    "admit-queue-full",
    "admit-slow",
    "answered-503",
    "breaker-open",
    "clock-off",
    "counts-old",
    "database-down",
    "db-connections-exhausted",
    "disk-full",
    "events-conflict",
    "events-failed",
    "events-ignored",
    "events-retry-old",
    "events-unreadable",
    "fenced",
    "foreign-account",
    "keys-run-out",
    "lanes-blocked",
    "messages-dead",
    "messages-held",
    "messages-overdue",
    "not-ready",
    "old-secret-matches",
    "open-files",
    "operation-waits",
    "operator-guessed",
    "panics",
    "pause-long",
    "receiver-gone",
    "receiver-gone-long",
    "refused-unread",
    "rejected-burst",
    "reload-failed",
    "restarts",
    "retention-lag",
    "row-damaged",
    "sealed-unopened",
    "sender-silent",
    "senders-give-up",
    "spans-dropped",
    "stray-messages",
    "tls-broken",
    "tls-ends",
    "versions-differ",
}

/// The place where runbooks are, as the files have it.
const RUNBOOKS: &str = "docs/runbooks/";
/// The jobs of Prometheus that are ours, as the files have it.
const JOBS: &str = r#"job=~"hooklatch.*""#;

/// What is put in the place of what the files say.
pub(super) struct Adapted<'a> {
    /// Name of the job in Prometheus' configuration.
    pub(super) job: &'a str,
    /// Where runbooks are, up to the name of the page.
    pub(super) runbooks: Option<&'a str>,
}

impl RuleFile {
    /// The groups of the file, with the essay above them, and without the line that begins a list of groups.
    pub(super) fn groups(&self, adapted: &Adapted<'_>) -> String {
        let text = self.text.replace("groups:\n", "").replace(JOBS, &format!("job=\"{}\"", adapted.job));
        match adapted.runbooks {
            Some(runbooks) => text.replace(RUNBOOKS, runbooks),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_runbooks_are_put_in_the_place_of_ours() {
        let gone = RULE_FILES
            .iter()
            .find(|file| file.text.contains("alert: HooklatchReceiverGone\n"))
            .expect("a file");
        let adapted = Adapted { job: "hooks", runbooks: Some("https://wiki.example/a/") };
        let text = gone.groups(&adapted);
        assert!(text.contains("absent(hooklatch_build_info{job=\"hooks\"})\n"), "{text}");
        assert!(text.contains("runbook_url: https://wiki.example/a/receiver-gone.md\n"), "{text}");
        assert!(!text.contains("groups:"), "{text}");
        let text = gone.groups(&Adapted { runbooks: None, ..adapted });
        assert!(text.contains("runbook_url: docs/runbooks/receiver-gone.md\n"), "{text}");
    }
}
