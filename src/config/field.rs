//! One key at a time: [`Checker`] collects what is wrong, [`Table`] hands out the keys of a table and knows
//! which ones nobody asked for, [`Field`] reads a value as what its key wants.
//!
//! Every reading method gives `None` after recording a problem, so that the rest is still looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ::config::{Map, Value, ValueKind};

use super::environment::Environment;
use super::origin::{ENV_PREFIX, origin_of, toml_value};
use super::problem::ConfigProblem;
use super::read_values::ReadValues;
use crate::mistakes::{Mistake, nearest, shown};

/// Collects problems, and every key that was asked for.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    /// Variables that secrets may name.
    pub env: &'a Environment,
    /// Secret files are relative to this folder.
    pub folder: PathBuf,
    /// True when only loopback may be listened on.
    pub is_dev: bool,
    /// Named when a value has no origin of its own, such as a key that is missing.
    pub default_source: String,
    /// Everything that is wrong so far.
    pub problems: Vec<ConfigProblem>,
    /// What is allowed and most likely not meant.
    pub warnings: Vec<ConfigProblem>,
    /// Files that hold secrets themselves.
    pub secret_files: BTreeSet<PathBuf>,
    /// The keys that the program knows, with `NAME` and `[]` for what varies, and the ranges of numbers; for the test
    /// of the manual.
    pub asked: BTreeMap<String, Option<RangeInclusive<u64>>>,
    /// What was read as something that may be shown, or as a secret.
    pub read: ReadValues,
}

impl Checker<'_> {
    /// Records a problem of `field`, without showing its value.
    pub(crate) fn problem(&mut self, field: &Field, why: impl Into<String>, remedy: impl Into<String>) {
        self.push(field, None, why.into(), remedy.into());
    }

    /// Records a problem of `field` and shows its value, which is no secret.
    pub(crate) fn problem_shown(&mut self, field: &Field, why: impl Into<String>, remedy: impl Into<String>) {
        let value = plain_text(&field.value).map(|text| shown(&text));
        self.push(field, value, why.into(), remedy.into());
    }

    /// Records a problem of a key that is not there.
    pub(crate) fn missing(&mut self, key: String, remedy: impl Into<String>) {
        let (source, why, remedy) = (self.default_source.clone(), "is missing".to_owned(), remedy.into());
        self.problems.push(ConfigProblem { source, key, value: None, why, remedy });
    }

    /// Records a mistake that was found below `place`, whose keys are right one by one.
    pub(crate) fn judged(&mut self, place: &Field, mistake: &Mistake) {
        let dot = if mistake.key.is_empty() { "" } else { "." };
        let key = format!("{}{dot}{}", place.key, mistake.key);
        self.problems.push(ConfigProblem { key, ..ConfigProblem::of(place.source.clone(), mistake) });
    }

    fn push(&mut self, place: &Field, value: Option<String>, why: String, remedy: String) {
        // Nobody can change the defaults: what they do not go with is in the file of the user.
        let is_default = place.source == DEFAULTS_ORIGIN;
        let source = if is_default { self.default_source.clone() } else { place.source.clone() };
        let key = place.key.clone();
        self.problems.push(ConfigProblem { source, key, value, why, remedy });
    }
}

/// The source of what a user did not write.
pub(crate) const DEFAULTS_ORIGIN: &str = "config.default.toml";

/// A value with its place.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// The key as a dotted path.
    pub key: String,
    /// The file or variable that says it.
    pub source: String,
    /// The value as it is written.
    pub value: Value,
    /// The path with `NAME` and `[]` for what varies.
    pattern: String,
}

impl Field {
    fn new(checker: &Checker<'_>, key: String, pattern: String, value: Value) -> Self {
        let source = origin_of(&value).unwrap_or_else(|| checker.default_source.clone());
        Self { key, source, value, pattern }
    }

    /// A place of the same source, at another key.
    pub(crate) fn at(&self, key: String) -> Self {
        Self { key, ..self.clone() }
    }

    /// True when an environment variable says it, as text.
    pub(crate) fn is_env_text(&self) -> bool {
        self.source.starts_with(ENV_PREFIX) && matches!(self.value.kind, ValueKind::String(_))
    }

    /// A text; numbers are not taken for one, except from the environment.
    pub(crate) fn text(&self, checker: &mut Checker<'_>) -> Option<String> {
        if let ValueKind::String(text) = &self.value.kind {
            checker.read.text(&self.key, &self.source, text);
            return Some(text.clone());
        }
        checker.problem(self, format!("is {}, wanted a text", kind_name(&self.value)), "put it in quotes");
        None
    }

    /// A whole number within `range`.
    pub(crate) fn number(&self, checker: &mut Checker<'_>, range: &RangeInclusive<u64>) -> Option<u64> {
        checker.asked.insert(self.pattern.clone(), Some(range.clone()));
        let wanted = format!("write a whole number from {} to {}", range.start(), range.end());
        let number = match &self.value.kind {
            ValueKind::I64(number) => i128::from(*number),
            ValueKind::U64(number) => i128::from(*number),
            ValueKind::I128(number) => *number,
            ValueKind::String(text) if self.is_env_text() && text.trim().parse::<i128>().is_ok() => {
                text.trim().parse().unwrap_or_default()
            }
            _ => {
                let why = format!("is {}, wanted a whole number", kind_name(&self.value));
                checker.problem_shown(self, why, wanted);
                return None;
            }
        };
        let number = u64::try_from(number).ok().filter(|number| range.contains(number));
        match number {
            Some(number) => checker.read.plain(&self.key, &self.source, number.to_string()),
            None => checker.problem_shown(self, "is out of bounds", wanted),
        }
        number
    }

    /// Reads `true` or `false`.
    pub(crate) fn flag(&self, checker: &mut Checker<'_>) -> Option<bool> {
        let flag = match &self.value.kind {
            ValueKind::Boolean(flag) => Some(*flag),
            ValueKind::String(text) if self.is_env_text() => text.trim().parse().ok(),
            _ => None,
        };
        if let Some(flag) = flag {
            checker.read.plain(&self.key, &self.source, flag.to_string());
            return Some(flag);
        }
        let why = format!("is {}, wanted true or false", kind_name(&self.value));
        checker.problem_shown(self, why, "write true or false, without quotes");
        None
    }

    /// Reads one value, or a list of values.
    pub(crate) fn one_or_more(&self, checker: &mut Checker<'_>) -> Option<Vec<Self>> {
        match self.value.kind {
            ValueKind::String(_) if !self.is_env_text() => Some(vec![self.clone()]),
            _ => self.list(checker),
        }
    }

    /// The elements of a list. A plain text from the environment is a list of one.
    pub(crate) fn list(&self, checker: &mut Checker<'_>) -> Option<Vec<Self>> {
        let list = match &self.value.kind {
            ValueKind::Array(list) => list.clone(),
            ValueKind::String(text) if self.is_env_text() && !text.trim_start().starts_with('[') => {
                vec![self.value.clone()]
            }
            ValueKind::String(text) if self.is_env_text() => {
                let Some(Value { kind: ValueKind::Array(list), .. }) = toml_value(&self.source, text) else {
                    checker.problem(self, "is not a TOML array", "write it as [\"a\", \"b\"]");
                    return None;
                };
                list
            }
            _ => {
                let why = format!("is {}, wanted a list", kind_name(&self.value));
                checker.problem(self, why, "write it as [\"a\", \"b\"]");
                return None;
            }
        };
        if list.is_empty() {
            checker.read.plain(&self.key, &self.source, "[]".to_owned());
        }
        let fields = list.into_iter().enumerate().map(|(position, value)| {
            Self::new(checker, format!("{}[{position}]", self.key), format!("{}[]", self.pattern), value)
        });
        Some(fields.collect())
    }

    /// Reads a table, whose keys are then taken one by one.
    pub(crate) fn table(self, checker: &mut Checker<'_>) -> Option<Table> {
        let map = match self.value.kind {
            ValueKind::Table(map) => map,
            ValueKind::String(ref text) if self.is_env_text() && text.trim_start().starts_with('{') => {
                let Some(Value { kind: ValueKind::Table(map), .. }) = toml_value(&self.source, text) else {
                    checker.problem(&self, "is not a TOML inline table", "write it as { key = value }");
                    return None;
                };
                map
            }
            _ => {
                let why = format!("is {}, wanted a table", kind_name(&self.value));
                checker.problem(&self, why, "write it as { key = value } or under its own [heading]");
                return None;
            }
        };
        Some(Table { key: self.key, pattern: self.pattern, map, known: Vec::new() })
    }
}

/// The keys of one table that nobody took yet.
#[derive(Debug)]
pub(crate) struct Table {
    /// Dotted path; empty for the whole configuration.
    pub key: String,
    pattern: String,
    map: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Table {
    /// The table of the whole configuration.
    pub(crate) fn root(map: Map<String, Value>) -> Self {
        Self { key: String::new(), pattern: String::new(), map, known: Vec::new() }
    }

    /// The dotted path of a key in here.
    pub(crate) fn path(&self, key: &str) -> String {
        join(&self.key, key)
    }

    /// Takes a key out, present or not; from now on it is known.
    pub(crate) fn take(&mut self, checker: &mut Checker<'_>, key: &'static str) -> Option<Field> {
        self.known.push(key);
        let pattern = join(&self.pattern, key);
        checker.asked.insert(pattern.clone(), None);
        let value = self.map.remove(key)?;
        Some(Field::new(checker, self.path(key), pattern, value))
    }

    /// The value of a key, if it is there; it still has to be taken.
    pub(crate) fn peek(&self, checker: &Checker<'_>, key: &str) -> Option<Field> {
        let value = self.map.get(key)?.clone();
        Some(Field::new(checker, self.path(key), join(&self.pattern, key), value))
    }

    /// Takes a key out as [`Table::take`] does, and records a problem when it is not there.
    pub(crate) fn needed(
        &mut self,
        checker: &mut Checker<'_>,
        key: &'static str,
        remedy: &str,
    ) -> Option<Field> {
        let field = self.take(checker, key);
        if field.is_none() {
            checker.missing(self.path(key), remedy);
        }
        field
    }

    /// Takes a table out; an absent one is empty.
    pub(crate) fn table(&mut self, checker: &mut Checker<'_>, key: &'static str) -> Option<Self> {
        match self.take(checker, key) {
            Some(field) => field.table(checker),
            None => Some(Self {
                key: self.path(key),
                pattern: join(&self.pattern, key),
                map: Map::new(),
                known: Vec::new(),
            }),
        }
    }

    /// All entries by name, for tables whose keys are the user's own.
    pub(crate) fn entries(self, checker: &Checker<'_>) -> Vec<(String, Field)> {
        let (key, pattern) = (self.key, join(&self.pattern, "NAME"));
        let mut entries: Vec<(String, Field)> = self
            .map
            .into_iter()
            .map(|(name, value)| {
                let field = Field::new(checker, join(&key, &name), pattern.clone(), value);
                (name, field)
            })
            .collect();
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        entries
    }

    /// A text, when the key is there.
    pub(crate) fn text(&mut self, checker: &mut Checker<'_>, key: &'static str) -> Option<(Field, String)> {
        let field = self.take(checker, key)?;
        let text = field.text(checker)?;
        Some((field, text))
    }

    /// A whole number within `range`, when the key is there.
    pub(crate) fn number(
        &mut self,
        checker: &mut Checker<'_>,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        self.take(checker, key)?.number(checker, &range)
    }

    /// A whole number within `range`, which fits 32 bits.
    pub(crate) fn number_u32(
        &mut self,
        checker: &mut Checker<'_>,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<u32> {
        self.number(checker, key, range).and_then(|number| u32::try_from(number).ok())
    }

    /// `true` or `false`, when the key is there.
    pub(crate) fn flag(&mut self, checker: &mut Checker<'_>, key: &'static str) -> Option<bool> {
        self.take(checker, key)?.flag(checker)
    }

    /// Reads one of a few words, when the key is there.
    pub(crate) fn word<T: Copy>(
        &mut self,
        checker: &mut Checker<'_>,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let (field, text) = self.text(checker, key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let list: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            checker.problem_shown(
                &field,
                "is not one of the words for this key",
                format!("write {}", list.join(" or ")),
            );
        }
        found
    }

    /// Records every key that nobody knows.
    pub(crate) fn finish(self, checker: &mut Checker<'_>) {
        let (known, key, pattern) = (self.known.clone(), self.key.clone(), self.pattern.clone());
        for (name, value) in self.map {
            let field = Field::new(checker, join(&key, &shown(&name)), pattern.clone(), value);
            let remedy = match nearest(&name, known.iter().copied()) {
                Some(near) if field.source.starts_with(ENV_PREFIX) => {
                    format!(
                        "did you mean `{ENV_PREFIX}{}`?",
                        join(&key, near).replace('.', "__").to_uppercase()
                    )
                }
                Some(near) => format!("did you mean `{}`?", join(&key, near)),
                None if known.len() > LISTED_N_MAX => {
                    format!("config.default.toml lists the {} keys that can stand here", known.len())
                }
                None => format!("known here: {}", known.join(", ")),
            };
            checker.problem(&field, "is not a key of Hooklatch", remedy);
        }
    }
}

/// Most keys that are listed where one is not known.
const LISTED_N_MAX: usize = 20;

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn plain_text(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::String(text) => Some(text.clone()),
        ValueKind::Boolean(flag) => Some(flag.to_string()),
        ValueKind::I64(number) => Some(number.to_string()),
        ValueKind::U64(number) => Some(number.to_string()),
        ValueKind::I128(number) => Some(number.to_string()),
        ValueKind::U128(number) => Some(number.to_string()),
        ValueKind::Float(number) => Some(number.to_string()),
        ValueKind::Nil | ValueKind::Table(_) | ValueKind::Array(_) => None,
    }
}

fn kind_name(value: &Value) -> &'static str {
    match &value.kind {
        ValueKind::Nil => "nothing",
        ValueKind::Boolean(_) => "true or false",
        ValueKind::I64(_) | ValueKind::U64(_) | ValueKind::I128(_) | ValueKind::U128(_) => "a whole number",
        ValueKind::Float(_) => "a number with a fraction",
        ValueKind::String(_) => "a text",
        ValueKind::Table(_) => "a table",
        ValueKind::Array(_) => "a list",
    }
}
