//! Everything that is wrong with the text of a `provider.toml`, each with its line and key.
//!
//! First the form (TOML, keys, types), and once that is right, what the parts mean to each other: a misspelt
//! key would otherwise be reported a second time as whatever its absence breaks.

use toml::de::{DeTable, Error};

use super::Spec;

/// Most mistakes of form that are looked for; after each the text is read again without that line, as long as
/// nothing is left out that must be there.
const FORM_MISTAKES_N_MAX: usize = 50;

/// What must be there: a table, and its keys.
const NEEDED: [(&str, &[&str]); 5] = [
    (
        "",
        &[
            "kind",
            "title",
            "confidence",
            "docs",
            "secret_hint",
            "horizon_h",
            "answer_within_ms",
            "signature",
            "event",
        ],
    ),
    ("signature", &["scheme"]),
    ("event", &["identity", "type"]),
    ("setting", &["name", "hint"]),
    ("answer", &["body", "content_type"]),
];

/// One thing that is wrong with a `provider.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where, when it is about one line.
    pub line: Option<usize>,
    /// The key as a dotted path; empty for the whole text.
    pub key: String,
    /// What is wrong.
    pub why: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.why)
    }
}

impl Spec {
    /// As [`Spec::parse`], with every mistake by itself.
    pub fn parse_all(text: &str) -> Result<Self, Vec<Mistake>> {
        let (_, syntax) = DeTable::parse_recoverable(text);
        if !syntax.is_empty() {
            return Err(syntax.iter().map(|error| of_form(text, error)).collect());
        }
        let mut mistakes = missing(&text.parse().unwrap_or_default());
        let mut left = text.to_owned();
        for _ in 0..FORM_MISTAKES_N_MAX {
            let error = match toml::from_str::<Self>(&left) {
                Ok(spec) if mistakes.is_empty() => return spec.checked(text),
                Ok(_) => break,
                Err(error) => error,
            };
            let is_missing = error.message().starts_with("missing field");
            if !is_missing || mistakes.is_empty() {
                mistakes.push(of_form(text, &error));
            }
            let without = if is_missing { None } else { error.span().and_then(|at| blanked(&left, &at)) };
            let Some(without) = without else { break };
            left = without;
        }
        mistakes.dedup();
        Err(mistakes)
    }

    fn checked(mut self, text: &str) -> Result<Self, Vec<Mistake>> {
        let is_needed = self.needs_signed_text();
        for signature in std::iter::once(&mut self.signature).chain(&mut self.alternative) {
            signature.is_signed_text_needed = is_needed;
        }
        let mistake = |told: String| {
            let (key, why) = told.split_once(": ").unwrap_or(("", &told));
            Mistake { line: line_of(text, key), key: key.to_owned(), why: why.to_owned() }
        };
        let mistakes: Vec<Mistake> = self.misfits().into_iter().map(mistake).collect();
        if mistakes.is_empty() { Ok(self) } else { Err(mistakes) }
    }
}

/// The line of `key`, a dotted path, where it is there once.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut table = "";
    let mut found = None;
    for (n, line) in text.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            table = line.trim_matches('[').split(']').next().unwrap_or_default();
            continue;
        }
        let Some((name, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let below = key.strip_prefix(table).map(|rest| rest.trim_start_matches('.'));
        if below == Some(name.trim()) && found.replace(n + 1).is_some() {
            return None;
        }
    }
    found
}

/// Keys that must be there and are not.
fn missing(root: &toml::Table) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, keys) in NEEDED {
        let tables: Vec<&toml::Table> = match root.get(name) {
            _ if name.is_empty() => vec![root],
            Some(toml::Value::Table(table)) => vec![table],
            Some(toml::Value::Array(list)) => list.iter().filter_map(toml::Value::as_table).collect(),
            _ => Vec::new(),
        };
        for table in tables {
            for key in keys.iter().filter(|key| !table.contains_key(**key)) {
                let key = if name.is_empty() { (*key).to_owned() } else { format!("{name}.{key}") };
                mistakes.push(Mistake { line: None, key, why: "is missing".to_owned() });
            }
        }
    }
    mistakes
}

fn of_form(text: &str, error: &Error) -> Mistake {
    let why = error.message().trim().replace('\n', ", ");
    let Some(at) = error.span() else { return Mistake { line: None, key: String::new(), why } };
    let before = text.get(..at.start).unwrap_or(text);
    let header = before.lines().rev().find_map(|line| Some(line.trim().strip_prefix('[')?.trim_matches('[')));
    let table = header.and_then(|header| header.split(']').next()).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    let dot = if table.is_empty() || key.is_empty() { "" } else { "." };
    Mistake { line: Some(before.matches('\n').count() + 1), key: format!("{table}{dot}{key}"), why }
}

/// `text` without the lines that `at` touches, everything else where it was; `None` when nothing is left out.
fn blanked(text: &str, at: &std::ops::Range<usize>) -> Option<String> {
    let start = text.get(..at.start)?.rfind('\n').map_or(0, |newline| newline + 1);
    let end = text.get(at.end..)?.find('\n').map_or(text.len(), |newline| at.end + newline);
    let lines = text.get(start..end)?;
    if lines.trim().is_empty() {
        return None;
    }
    let blank: String = lines
        .chars()
        .flat_map(|c| std::iter::repeat_n(if c == '\n' { c } else { ' ' }, c.len_utf8()))
        .collect();
    Some([text.get(..start)?, &blank, text.get(end..)?].concat())
}
