//! All mistakes in the text of a `provider.toml`, each with its line and key.
//!
//! First the form (TOML, keys, types), and once that is valid, the contradictions between its parts: a misspelt
//! key would otherwise be reported a second time as whatever its absence breaks.

use std::ops::Range;

use toml::de::DeTable;

use super::check::{NEEDS_CODE, REMEDY};
use super::form::{self, FormError};
use super::provider_toml::Spec;
use hooklatch_core::mistakes::{Flaw, Mistake, nearest};

/// Most mistakes of form that are looked for; after each the text is read again without that line, as long as
/// nothing is left out that must be there.
const FORM_MISTAKES_N_MAX: usize = 50;

/// Keys that must be there: a table, and its keys.
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

/// Remedy for a key that is not there.
const WRITE_IT: &str = "write it; providers/README.md says what it means";

/// The reason why a `provider.toml` is not a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("provider.toml of `{kind}`: {why}")]
pub struct SpecError {
    /// The kind, or `?` when the file does not say.
    pub kind: String,
    /// Everything that is wrong, each with its key.
    pub why: String,
}

impl Spec {
    /// Reads the text of a `provider.toml` and checks that its parts fit each other.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        Self::parse_all(text).map_err(|mistakes| {
            let table: toml::Table = text.parse().unwrap_or_default();
            let kind = table.get("kind").and_then(toml::Value::as_str).unwrap_or("?").to_owned();
            let why: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            SpecError { kind, why: why.join("; ") }
        })
    }

    /// Reads as [`Spec::parse`] does, with every mistake by itself.
    pub fn parse_all(text: &str) -> Result<Self, Vec<Mistake>> {
        let (_, syntax) = DeTable::parse_recoverable(text);
        if !syntax.is_empty() {
            return Err(syntax.iter().map(|error| placed(text, error.span(), form::syntax(error))).collect());
        }
        let mut mistakes = missing(&text.parse().unwrap_or_default());
        let mut left = text.to_owned();
        for _ in 0..FORM_MISTAKES_N_MAX {
            let unfit = match form::read::<Self>(&left) {
                Ok(spec) if mistakes.is_empty() => return spec.checked(text),
                Ok(_) => break,
                Err(unfit) => unfit,
            };
            let (without, flaw) = match unfit {
                FormError::Absent { .. } if !mistakes.is_empty() => break,
                FormError::Absent { key, .. } => (None, Flaw::Said(format!("missing field `{key}`"))),
                FormError::Flawed { ref flaw, ref span } => {
                    (span.as_ref().and_then(|span| blanked(&left, span)), flaw.clone())
                }
            };
            mistakes.push(placed(text, unfit.span(), flaw));
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
        let placed = |mistake: Mistake| Mistake { line: line_of(text, &mistake.key), ..mistake };
        let mistakes: Vec<Mistake> = self.misfits().into_iter().map(placed).collect();
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
                mistakes.push(Mistake { line: None, key, flaw: Flaw::Missing, remedy: WRITE_IT.to_owned() });
            }
        }
    }
    mistakes
}

/// A flaw of form, with the line and the key that stand at `span`, and what to do about it.
fn placed(text: &str, span: Option<Range<usize>>, flaw: Flaw) -> Mistake {
    let mut remedy = remedy(&flaw);
    let Some(at) = span else { return Mistake { line: None, key: String::new(), flaw, remedy } };
    let before = text.get(..at.start).unwrap_or(text);
    let header = before.lines().rev().find_map(|line| Some(line.trim().strip_prefix('[')?.trim_matches('[')));
    let table = header.and_then(|header| header.split(']').next()).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    if key == "scheme" && matches!(flaw, Flaw::WrongValue { .. }) {
        remedy.push_str("; where the sender signs in none of these ways, ");
        remedy.push_str(NEEDS_CODE);
    }
    let dot = if table.is_empty() || key.is_empty() { "" } else { "." };
    Mistake { line: Some(before.matches('\n').count() + 1), key: format!("{table}{dot}{key}"), flaw, remedy }
}

/// Remedy for a flaw of form.
fn remedy(flaw: &Flaw) -> String {
    match flaw {
        Flaw::Missing => WRITE_IT.to_owned(),
        Flaw::UnknownKey { name, known } => match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        },
        Flaw::WrongValue { expected, .. } => format!("write {}", in_words(expected)),
        Flaw::Said(_) => REMEDY.to_owned(),
    }
}

/// The expected values, in TOML's terms instead of Rust's.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below 0",
        "i64" => "a whole number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "a map" => "a table",
        other => other,
    }
}

/// `text` without the lines that `at` touches, everything else where it was; `None` when nothing is left out.
fn blanked(text: &str, at: &Range<usize>) -> Option<String> {
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
