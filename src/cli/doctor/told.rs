//! Prints findings: for people the bad ones first to read, for programs all of them.

use serde_json::json;

use crate::api::{FindingVerdict, FindingView};
use crate::cli::output::{Screen, Shown, Tone, plural};
use crate::cli::shared::say;

/// All that was found, and where.
pub(super) struct DoctorReport {
    /// URL of the server that answered; `None` when none did.
    pub(super) server: Option<String>,
    pub(super) node: Option<String>,
    pub(super) version: Option<String>,
    pub(super) findings: Vec<FindingView>,
}

/// Prints them; what is well for people only with `is_all`.
pub(super) fn told(screen: &Screen, report: &DoctorReport, is_all: bool) {
    let DoctorReport { server, node, version, findings } = report;
    if screen.is_json {
        let worst = findings.iter().map(|finding| finding.verdict).max();
        say(json!({
            "server": server, "node": node, "version": version,
            "verdict": worst.unwrap_or(FindingVerdict::Well).as_str(), "findings": findings,
        }));
        return;
    }
    let shown = findings.iter().filter(|finding| is_all || finding.verdict != FindingVerdict::Well);
    let mut lines: Vec<String> = shown.map(|finding| entry(screen, finding)).collect();
    lines.push(summary(findings));
    screen.print(&lines.join("\n"));
}

fn entry(screen: &Screen, finding: &FindingView) -> String {
    let tone = match finding.verdict {
        FindingVerdict::Well => Tone::Good,
        FindingVerdict::Note => Tone::Faint,
        FindingVerdict::Unknown | FindingVerdict::Warning => Tone::Waits,
        FindingVerdict::Failure => Tone::Bad,
    };
    let verdict = screen.paint(tone, finding.verdict.as_str());
    let subject = finding.subject.as_ref().map(|subject| format!(" ({subject})")).unwrap_or_default();
    let bound = finding.bound.as_ref().map(|bound| format!(" [bound: {bound}]")).unwrap_or_default();
    let head = Shown::text(format!("{}{subject}: {}{bound}", finding.check, finding.found));
    let mut lines = vec![format!("{verdict}  {}", head.as_str())];
    if finding.is_bad() {
        lines.push(format!("    looked at  {}", Shown::text(&finding.looked_at).as_str()));
    }
    for (name, text) in [("means", &finding.meaning), ("do", &finding.remedy)] {
        lines.extend(text.as_ref().map(|text| format!("    {name:<9}  {}", Shown::text(text).as_str())));
    }
    lines.join("\n")
}

fn summary(findings: &[FindingView]) -> String {
    let of = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count() as u64;
    let [well, note, unknown, warning, failure] = [
        FindingVerdict::Well,
        FindingVerdict::Note,
        FindingVerdict::Unknown,
        FindingVerdict::Warning,
        FindingVerdict::Failure,
    ]
    .map(of);
    let mut parts = vec![plural(failure, "failure"), plural(warning, "warning")];
    if unknown > 0 {
        parts.push(format!("{unknown} not found out"));
    }
    parts.push(plural(note, "note"));
    format!("{}; {well} well", parts.join(", "))
}
