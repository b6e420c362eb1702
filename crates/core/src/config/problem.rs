//! A problem of a configuration, in words for its author; the environment of a process; and one value that is in
//! force.
//!
//! Problems are collected, never thrown: the operator sees all of them at once. No problem ever carries a
//! secret, so values are shown for keys that are known not to be one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use super::reader::ENV_PREFIX;
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
pub struct Environment {
    variables: BTreeMap<String, String>,
    unreadable: Vec<String>,
}

impl Environment {
    /// The environment that this process was started with.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        Self::of(std::env::vars_os())
    }

    /// Variables that are not Unicode cannot be named by a config; those that override a key are noted.
    fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut all = Self::default();
        for (name, text) in variables {
            let shown = name.to_string_lossy().into_owned();
            match (name.into_string(), text.into_string()) {
                (Ok(name), Ok(text)) => drop(all.variables.insert(name, text)),
                _ if shown.starts_with(ENV_PREFIX) => all.unreadable.push(shown),
                _ => {}
            }
        }
        all
    }

    /// Every variable, by name.
    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// The variables that override a key and are not Unicode.
    pub fn unreadable(&self) -> impl Iterator<Item = ConfigProblem> {
        self.unreadable.iter().map(|name| {
            ConfigProblem::new(name, "", "is not UTF-8", "write the variable in UTF-8, or unset it")
        })
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self { variables: pairs.into_iter().collect(), unreadable: Vec::new() }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_variable_that_is_not_unicode_is_a_problem_where_it_overrides_a_key() {
        let pair =
            |name: &[u8], text: &[u8]| (OsString::from_vec(name.to_vec()), OsString::from_vec(text.to_vec()));
        let found = Environment::of([
            pair(b"HOOKLATCH__SERVER__NAME", b"caf\xe9"),
            pair(b"HOOKLATCH__LOG__\xff", b"x"),
            pair(b"HOOKLATCH__LOG__FILTER", b"info"),
            pair(b"LESSCHARSET", b"\xff"),
        ]);
        assert_eq!(found.all().keys().collect::<Vec<_>>(), ["HOOKLATCH__LOG__FILTER"]);
        let problems: Vec<String> = found.unreadable().map(|problem| problem.to_string()).collect();
        let want = |name: &str| format!("{name}: is not UTF-8; write the variable in UTF-8, or unset it");
        assert_eq!(problems, [want("HOOKLATCH__SERVER__NAME"), want("HOOKLATCH__LOG__\u{fffd}")]);
    }
}
