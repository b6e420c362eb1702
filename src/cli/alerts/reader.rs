//! Takes the text of rules apart, as far as our own files go: this reads no YAML but theirs.

use serde::Serialize;

/// One rule, taken apart.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct RuleRead {
    /// Name of the alert.
    pub(super) alert: String,
    /// How bad it is: `warning` or `critical`.
    pub(super) severity: String,
    /// The condition, in `PromQL`.
    pub(super) expr: String,
    /// How long it must hold.
    #[serde(rename = "for")]
    pub(super) holds_for: String,
    /// One line for people; may be a template.
    pub(super) summary: String,
    /// What it means; may be a template.
    pub(super) description: String,
    /// Where its page is.
    pub(super) runbook_url: String,
}

/// The rules of a text.
pub(super) fn rules(text: &str) -> Vec<RuleRead> {
    let mut rules: Vec<RuleRead> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.trim_start().split_once(':') else { continue };
        let (key, value) = (key.trim_start_matches("- "), value.trim());
        let depth_n = indent(line);
        let mut block = Vec::new();
        while let Some(inner) = lines.next_if(|next| is_block(value) && indent(next) > depth_n) {
            block.push(inner.trim());
        }
        let value = match value {
            "|" => block.join("\n"),
            ">-" => block.join(" "),
            _ => value.trim_matches('"').to_owned(),
        };
        if key == "alert" {
            rules.push(RuleRead { alert: value, ..RuleRead::default() });
            continue;
        }
        let Some(rule) = rules.last_mut() else { continue };
        match key {
            "severity" => rule.severity = value,
            "expr" => rule.expr = value,
            "for" => rule.holds_for = value,
            "summary" => rule.summary = value,
            "description" => rule.description = value,
            "runbook_url" => rule.runbook_url = value,
            _ => {}
        }
    }
    rules
}

/// True when the lines that follow are the value.
fn is_block(value: &str) -> bool {
    matches!(value, "|" | ">-")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        const TEXT: &str = "# Why.\ngroups:\n  - name: a\n    rules:\n      - alert: A\n        expr: |\n          x\n            > 3\n        \
                    for: 5m\n        labels:\n          severity: warning\n        annotations:\n          \
                    summary: \"{{ $value }}: so\"\n          description: >-\n            One\n            two.\n          \
                    runbook_url: docs/a.md\n      - alert: B\n        expr: absent(y)\n";
        let a = RuleRead {
            alert: "A".to_owned(),
            severity: "warning".to_owned(),
            expr: "x\n> 3".to_owned(),
            holds_for: "5m".to_owned(),
            summary: "{{ $value }}: so".to_owned(),
            description: "One two.".to_owned(),
            runbook_url: "docs/a.md".to_owned(),
        };
        let b = RuleRead { alert: "B".to_owned(), expr: "absent(y)".to_owned(), ..RuleRead::default() };
        assert_eq!(rules(TEXT), [a, b]);
    }
}
