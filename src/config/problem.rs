//! A problem of a configuration, in words for the one who wrote it.
//!
//! Problems are collected, never thrown: the operator sees all of them at once. No problem ever carries a
//! secret, so values are shown for keys that are known not to be one.

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
    /// The mistake, in the file or variable that has it.
    pub(crate) fn of(source: String, mistake: &Mistake) -> Self {
        let line = mistake.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        Self {
            source,
            key: mistake.key.clone(),
            value: None,
            why: format!("{line}{}", mistake.flaw.brief()),
            remedy: mistake.remedy.clone(),
        }
    }
}
