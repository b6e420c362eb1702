//! A problem of a configuration, in words for its author; the environment of a process; and one value that is in
//! force.
//!
//! Problems are collected, never thrown: the operator sees all of them at once. No problem ever carries a
//! secret, so values are shown for keys that are known not to be one.

use std::collections::BTreeMap;
use std::fmt;

use crate::mistakes::Mistake;

/// One thing that is wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct ConfigProblem {
    /// The file, or the environment variable, that says it.
    pub source: String,
    /// The key as a dotted path, such as `providers.stripe.secrets[0]`; empty for the whole source.
    pub key: String,
    /// The value that is written there, when it cannot be a secret.
    pub value: Option<String>,
    /// The reason, in words: what is wrong.
    pub why: String,
    /// The remedy, in words: what to do.
    pub remedy: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        if let Some(value) = &self.value {
            write!(f, "`{value}` ")?;
        }
        f.write_str(&self.why)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl ConfigProblem {
    /// A problem whose value is not shown; `key` is empty for the whole source.
    pub fn new(source: &str, key: &str, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (source, key) = (source.to_owned(), key.to_owned());
        Self { source, key, value: None, why: why.into(), remedy: remedy.into() }
    }

    /// The mistake, in the file or variable that has it.
    pub fn of(source: &str, mistake: &Mistake) -> Self {
        let line = mistake.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let why = format!("{line}{}", mistake.flaw.brief());
        Self::new(source, &mistake.key, why, mistake.remedy.as_str())
    }
}

/// The environment variables of a process. It does not print their values.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment that this process was started with. Variables that are not Unicode cannot be named by a config.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
            .collect()
    }

    /// Every variable, by name.
    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A key of the configuration with its value and the source of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// The key as a dotted path; lists of tables have `[0]`, `[1]`, ….
    pub key: String,
    /// The value as TOML writes it; `None` for a secret. Of a URL, what opens nothing.
    pub value: Option<String>,
    /// The variable or file that a secret stands in, where it is not written in the configuration itself.
    pub secret_in: Option<String>,
    /// The file or variable that says it.
    pub source: String,
    /// The layer that this is of.
    pub layer: ConfigLayer,
    /// True when it is the default, in whatever layer.
    pub is_default: bool,
    /// Stands for the whole value in this process, secret or not: another one has another number.
    pub mark: u64,
}

/// A layer of the configuration; each goes before those above it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigLayer {
    /// What holds where nothing is written.
    Default,
    /// What `serve --dev` says.
    Dev,
    /// What the configuration file says.
    File,
    /// A variable of the environment.
    Environment,
}
