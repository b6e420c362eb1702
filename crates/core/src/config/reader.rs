//! One key at a time: [`Checker`] collects what is wrong, [`Table`] gives out the keys of a table and reports those
//! that nothing took, [`Field`] reads a value as what its key wants.
//!
//! Every reading method gives `None` after recording a problem, so that the rest is still looked at.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ::config::{FileFormat, Format, Map, Value, ValueKind};

use super::report::{ConfigProblem, Environment, ReadValues};
use crate::mistakes::{Mistake, nearest, shown};
use crate::types::Name;

/// Beginning of every variable that overrides a key.
pub const ENV_PREFIX: &str = "HOOKLATCH__";
/// The source of what a user did not write.
pub const DEFAULTS_ORIGIN: &str = "config.default.toml";
/// Most keys that are listed where one is not known.
const LISTED_N_MAX: usize = 20;

/// What the keys are checked against, and what was found so far.
#[derive(Debug)]
pub struct Checker<'a> {
    /// Variables that secrets may name.
    pub env: &'a Environment,
    /// Secret files are relative to this folder.
    pub folder: PathBuf,
    /// True when only loopback may be listened on.
    pub is_dev: bool,
    /// Named when a value has no origin of its own, such as a key that is missing.
    pub default_source: String,
    found: RefCell<Found>,
}

/// What reading has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Everything that is wrong so far.
    pub problems: Vec<ConfigProblem>,
    /// What is allowed and most likely not meant.
    pub warnings: Vec<ConfigProblem>,
    /// Files that hold secrets themselves.
    pub secret_files: BTreeSet<PathBuf>,
    /// The keys that the program knows, with `NAME` and `[]` for what varies, and the ranges of numbers.
    pub asked: BTreeMap<String, Option<RangeInclusive<u64>>>,
    /// What was read as something that may be shown, or as a secret.
    pub read: ReadValues,
}

impl<'a> Checker<'a> {
    /// A checker that has found nothing yet.
    pub fn new(env: &'a Environment, folder: PathBuf, default_source: String) -> Self {
        Self { env, folder, is_dev: false, default_source, found: RefCell::default() }
    }

    /// What was found so far; not to be kept while something is read.
    pub fn found(&self) -> RefMut<'_, Found> {
        self.found.borrow_mut()
    }

    /// Number of problems so far.
    pub fn problems_n(&self) -> usize {
        self.found().problems.len()
    }

    /// Records a problem of a key that is not there.
    pub fn missing(&self, key: &str, remedy: impl Into<String>) {
        let problem = ConfigProblem::new(&self.default_source, key, "is missing", remedy);
        self.found().problems.push(problem);
    }

    /// Everything that was found.
    pub fn into_found(self) -> Found {
        self.found.into_inner()
    }
}

/// A value with its place.
#[derive(Debug, Clone)]
pub struct Field<'c> {
    /// What it is checked against.
    pub checker: &'c Checker<'c>,
    /// The key as a dotted path.
    pub key: String,
    /// The file or variable that says it.
    pub source: String,
    /// The value as it is written.
    pub value: Value,
    /// The path with `NAME` and `[]` for what varies.
    pattern: String,
}

/// A type whose values stand behind keys.
pub trait FromField: Sized {
    /// The value; `None` after a problem.
    fn read(field: &Field<'_>) -> Option<Self>;
}

impl<'c> Field<'c> {
    fn new(checker: &'c Checker<'c>, key: String, pattern: String, value: Value) -> Self {
        let source = origin_of(&value).unwrap_or_else(|| checker.default_source.clone());
        Self { checker, key, source, value, pattern }
    }

    /// A place of the same source, at another key.
    pub fn at(&self, key: String) -> Self {
        Self { key, ..self.clone() }
    }

    /// Records a problem of this key, without showing its value.
    pub fn problem(&self, why: impl Into<String>, remedy: impl Into<String>) {
        self.push(None, why, remedy);
    }

    /// Records a problem of this key and shows its value, which is not a secret.
    pub fn problem_shown(&self, why: impl Into<String>, remedy: impl Into<String>) {
        self.push(plain_text(&self.value).map(|text| shown(&text)), why, remedy);
    }

    fn push(&self, value: Option<String>, why: impl Into<String>, remedy: impl Into<String>) {
        // The defaults cannot be changed: what they do not go with is in the file of the user.
        let is_default = self.source == DEFAULTS_ORIGIN;
        let source = if is_default { &self.checker.default_source } else { &self.source };
        let problem = ConfigProblem { value, ..ConfigProblem::new(source, &self.key, why, remedy) };
        self.checker.found().problems.push(problem);
    }

    /// Records a mistake that was found below this key, whose keys are right one by one.
    pub fn mistake(&self, mistake: &Mistake) {
        let dot = if mistake.key.is_empty() { "" } else { "." };
        let key = format!("{}{dot}{}", self.key, mistake.key);
        let problem = ConfigProblem { key, ..ConfigProblem::of(&self.source, mistake) };
        self.checker.found().problems.push(problem);
    }

    /// Records what is allowed and most likely not meant.
    pub fn warn(&self, value: Option<String>, why: impl Into<String>, remedy: impl Into<String>) {
        let warning = ConfigProblem { value, ..ConfigProblem::new(&self.source, &self.key, why, remedy) };
        self.checker.found().warnings.push(warning);
    }

    /// Keeps what may be shown of the value.
    pub fn keep(&self, text: String) {
        self.checker.found().read.plain(&self.key, &self.source, text);
    }

    /// True when an environment variable says it, as text.
    pub fn is_env_text(&self) -> bool {
        self.source.starts_with(ENV_PREFIX) && matches!(self.value.kind, ValueKind::String(_))
    }

    /// The text, when an environment variable says it.
    pub(super) fn env_text(&self) -> Option<&str> {
        match &self.value.kind {
            ValueKind::String(text) if self.is_env_text() => Some(text.trim()),
            _ => None,
        }
    }

    /// Records that the value is of another type than its key wants.
    fn wanted(&self, what: &str, remedy: &str) {
        self.problem(format!("is {}, wanted {what}", kind_name(&self.value)), remedy);
    }

    /// A text; numbers are not taken for one, except from the environment.
    pub fn text(&self) -> Option<String> {
        if let ValueKind::String(text) = &self.value.kind {
            self.checker.found().read.text(&self.key, &self.source, text);
            return Some(text.clone());
        }
        self.wanted("a text", "put it in quotes");
        None
    }

    /// The text as `parse` reads it; the reason and remedy of a refusal are recorded with the text.
    pub fn parsed<T, W: Into<String>, R: Into<String>>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, (W, R)>,
    ) -> Option<T> {
        parse(&self.text()?).map_err(|(why, remedy)| self.problem_shown(why, remedy)).ok()
    }

    /// A name, as tables and tokens have one.
    pub fn name(&self, remedy: &str) -> Option<Name> {
        Name::parse(&self.text()?).map_err(|error| self.problem(error.to_string(), remedy)).ok()
    }

    /// A whole number within `range`.
    pub fn number<N: TryFrom<u64>>(&self, range: &RangeInclusive<u64>) -> Option<N> {
        self.checker.found().asked.insert(self.pattern.clone(), Some(range.clone()));
        let number = match &self.value.kind {
            ValueKind::I64(number) => Some(i128::from(*number)),
            ValueKind::U64(number) => Some(i128::from(*number)),
            ValueKind::I128(number) => Some(*number),
            _ => self.env_text().and_then(|text| text.parse().ok()),
        };
        let fit =
            number.and_then(|number| u64::try_from(number).ok()).filter(|number| range.contains(number));
        if let Some(number) = fit {
            self.keep(number.to_string());
            return N::try_from(number).ok();
        }
        let why = match number {
            None => format!("is {}, wanted a whole number", kind_name(&self.value)),
            Some(_) => "is out of bounds".to_owned(),
        };
        self.problem_shown(why, format!("write a whole number from {} to {}", range.start(), range.end()));
        None
    }

    /// Reads one value, or a list of values.
    pub fn one_or_more(&self) -> Option<Vec<Self>> {
        match self.value.kind {
            ValueKind::String(_) if !self.is_env_text() => Some(vec![self.clone()]),
            _ => self.list(),
        }
    }

    /// The elements of a list. A plain text from the environment is a list of one.
    pub fn list(&self) -> Option<Vec<Self>> {
        let remedy = "write it as [\"a\", \"b\"]";
        let list = match (&self.value.kind, self.env_text()) {
            (ValueKind::Array(list), _) => list.clone(),
            (_, Some(text)) if !text.starts_with('[') => vec![self.value.clone()],
            (_, Some(text)) => {
                let Some(Value { kind: ValueKind::Array(list), .. }) = toml_value(&self.source, text) else {
                    self.problem("is not a TOML array", remedy);
                    return None;
                };
                list
            }
            _ => {
                self.wanted("a list", remedy);
                return None;
            }
        };
        if list.is_empty() {
            self.keep("[]".to_owned());
        }
        let fields = list.into_iter().enumerate().map(|(position, value)| {
            let (key, pattern) = (format!("{}[{position}]", self.key), format!("{}[]", self.pattern));
            Self::new(self.checker, key, pattern, value)
        });
        Some(fields.collect())
    }

    /// A table, whose keys are then taken one by one; [`Table::finish`] ends it.
    pub fn table(&self) -> Option<Table<'c>> {
        let written = self.env_text().filter(|text| text.starts_with('{'));
        let kind = written.map(|text| toml_value(&self.source, text).map(|value| value.kind));
        let map = match (&self.value.kind, kind) {
            (ValueKind::Table(map), _) => map.clone(),
            (_, Some(Some(ValueKind::Table(map)))) => map,
            (_, Some(_)) => {
                self.problem("is not a TOML inline table", "write it as { key = value }");
                return None;
            }
            (_, None) => {
                self.wanted("a table", "write it as { key = value } or under its own [heading]");
                return None;
            }
        };
        let (checker, key, pattern) = (self.checker, self.key.clone(), self.pattern.clone());
        Some(Table { checker, key, pattern, map, known: Vec::new() })
    }

    /// The value of a key of a table, if both are there.
    pub fn peek(&self, key: &str) -> Option<Self> {
        self.table()?.peek(key)
    }

    /// Reads a table; keys that `read` does not take are problems.
    pub fn section<T>(&self, read: impl FnOnce(&mut Table<'c>) -> T) -> Option<T> {
        Some(self.table()?.finished(read))
    }

    /// The entries of a table whose keys are the user's own, by name.
    pub fn entries(&self) -> Option<Vec<(String, Self)>> {
        Some(self.table()?.entries())
    }
}

/// The keys of one table that nothing took yet.
#[derive(Debug)]
pub struct Table<'c> {
    /// What it is checked against.
    pub checker: &'c Checker<'c>,
    /// Dotted path; empty for the whole configuration.
    pub key: String,
    pattern: String,
    map: Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'c> Table<'c> {
    /// The table of the whole configuration.
    pub fn root(checker: &'c Checker<'c>, map: Map<String, Value>) -> Self {
        Self { checker, key: String::new(), pattern: String::new(), map, known: Vec::new() }
    }

    /// The dotted path of a key in here.
    pub fn path(&self, key: &str) -> String {
        join(&self.key, key)
    }

    /// Takes a key out, present or not; from now on it is known.
    pub fn take(&mut self, key: &'static str) -> Option<Field<'c>> {
        self.known.push(key);
        let pattern = join(&self.pattern, key);
        self.checker.found().asked.insert(pattern.clone(), None);
        let value = self.map.remove(key)?;
        Some(Field::new(self.checker, self.path(key), pattern, value))
    }

    /// The value of a key, if it is there; it still has to be taken.
    pub fn peek(&self, key: &str) -> Option<Field<'c>> {
        let value = self.map.get(key)?.clone();
        Some(Field::new(self.checker, self.path(key), join(&self.pattern, key), value))
    }

    /// Records a problem of a key that is not there.
    pub fn missing(&self, key: &str, remedy: impl Into<String>) {
        self.checker.missing(&self.path(key), remedy);
    }

    /// Takes a key out as [`Table::take`] does, and records a problem when it is not there.
    pub fn needed(&mut self, key: &'static str, remedy: &str) -> Option<Field<'c>> {
        let field = self.take(key);
        if field.is_none() {
            self.missing(key, remedy);
        }
        field
    }

    /// The value of a key, when it is there and right.
    pub fn get<T: FromField>(&mut self, key: &'static str) -> Option<T> {
        T::read(&self.take(key)?)
    }

    /// The value of a key that must be there.
    pub fn get_needed<T: FromField>(&mut self, key: &'static str, remedy: &str) -> Option<T> {
        T::read(&self.needed(key, remedy)?)
    }

    /// Reads a table, where an absent one is empty; keys that `read` does not take are problems.
    pub fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if let Some(field) = self.take(key) {
            return field.section(read);
        }
        let pattern = join(&self.pattern, key);
        let empty = Self { key: self.path(key), pattern, ..Self::root(self.checker, Map::new()) };
        Some(empty.finished(read))
    }

    /// The elements of a list; none when the key is not there.
    pub fn list(&mut self, key: &'static str) -> Vec<Field<'c>> {
        self.take(key).and_then(|field| field.list()).unwrap_or_default()
    }

    /// The entries of a table whose keys are the user's own, by name; none when the key is not there.
    pub fn entries_of(&mut self, key: &'static str) -> Vec<(String, Field<'c>)> {
        self.take(key).and_then(|field| field.entries()).unwrap_or_default()
    }

    /// All entries by name.
    pub fn entries(self) -> Vec<(String, Field<'c>)> {
        let pattern = join(&self.pattern, "NAME");
        let entry = |(name, value): (String, Value)| {
            let field = Field::new(self.checker, join(&self.key, &name), pattern.clone(), value);
            (name, field)
        };
        let entries: BTreeMap<_, _> = self.map.into_iter().map(entry).collect();
        entries.into_iter().collect()
    }

    /// A text with its place, when the key is there.
    pub fn text(&mut self, key: &'static str) -> Option<(Field<'c>, String)> {
        let field = self.take(key)?;
        let text = field.text()?;
        Some((field, text))
    }

    /// A text that is not empty, with its place.
    pub fn filled_text(&mut self, key: &'static str) -> Option<(Field<'c>, String)> {
        self.text(key).filter(|(_, text)| !text.is_empty())
    }

    /// A whole number within `range`, when the key is there.
    pub fn number<N: TryFrom<u64>>(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<N> {
        self.take(key)?.number(&range)
    }

    /// Reads one of a few words, when the key is there.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.take(key)?.word(words)
    }

    fn finished<T>(mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let read = read(&mut self);
        self.finish();
        read
    }

    /// Records every key that nothing took.
    pub fn finish(self) {
        let known = &self.known;
        for (name, value) in self.map {
            let key = |name: &str| join(&self.key, name);
            let field = Field::new(self.checker, key(&shown(&name)), self.pattern.clone(), value);
            let remedy = match nearest(&name, known.iter().copied()) {
                Some(near) if field.source.starts_with(ENV_PREFIX) => {
                    let variable = key(near).replace('.', "__").to_uppercase();
                    format!("did you mean `{ENV_PREFIX}{variable}`?")
                }
                Some(near) => format!("did you mean `{}`?", key(near)),
                None if known.len() > LISTED_N_MAX => {
                    format!("config.default.toml lists the {} keys that can stand here", known.len())
                }
                None => format!("known here: {}", known.join(", ")),
            };
            field.problem("is not a key of Hooklatch", remedy);
        }
    }
}

impl Field<'_> {
    /// Reads one of a few words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        self.parsed(|text| {
            let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
            found.ok_or_else(|| {
                let list: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                ("is not one of the words for this key", format!("write {}", list.join(" or ")))
            })
        })
    }
}

/// One value of TOML, as written in an environment variable.
pub fn toml_value(origin: &str, text: &str) -> Option<Value> {
    let document = format!("value = {text}\n");
    let mut map = FileFormat::Toml.parse(Some(&origin.to_owned()), &document).ok()?;
    let value = map.remove("value")?;
    map.is_empty().then_some(value)
}

/// The file or variable that `value` was written in: its own origin, or that of the first key inside it.
pub fn origin_of(value: &Value) -> Option<String> {
    if let Some(origin) = value.origin() {
        return Some(origin.to_owned());
    }
    match &value.kind {
        ValueKind::Table(table) => {
            let keys: BTreeMap<&String, &Value> = table.iter().collect();
            keys.into_values().find_map(origin_of)
        }
        ValueKind::Array(list) => list.iter().find_map(origin_of),
        _ => None,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn plain_text(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::Nil | ValueKind::Table(_) | ValueKind::Array(_) => None,
        kind => Some(kind.to_string()),
    }
}

pub(super) fn kind_name(value: &Value) -> &'static str {
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
