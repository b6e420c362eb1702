//! The rules of `ops/prometheus/rules`, taken apart: this reads no YAML but theirs.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};

/// Every rule of every file: `alert`, `severity`, `expr`, `for`, `summary`, `description` and `runbook_url`.
pub(super) fn rules() -> &'static [Value] {
    static RULES: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/prometheus/rules");
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().flat_map(|path| parse(&std::fs::read_to_string(path).unwrap())).collect()
    });
    &RULES
}

fn parse(text: &str) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.trim_start().split_once(':') else { continue };
        let (key, value) = (key.trim_start_matches("- "), value.trim());
        let mut block = Vec::new();
        let is_block = matches!(value, "|" | ">-");
        while let Some(inner) = lines.next_if(|next| is_block && indent(next) > indent(line)) {
            block.push(inner.trim());
        }
        let value = match value {
            "|" => block.join("\n"),
            ">-" => block.join(" "),
            _ => value.trim_matches('"').to_owned(),
        };
        match rules.last_mut() {
            _ if key == "alert" => rules.push(json!({ "alert": value })),
            Some(rule) => rule[key] = value.into(),
            None => {}
        }
    }
    rules
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
