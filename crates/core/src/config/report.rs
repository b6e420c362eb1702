//! What reading a configuration reports: problems, in words for its author, and the values that are in force; and the
//! environment of a process.
//!
//! Problems are collected, never thrown: the operator sees all of them at once. No problem ever carries a secret, so
//! values are shown for keys that are known not to be one. Of the values that were read it has those that may be shown,
//! not those that may not: a value is here only because it was read as a number, a flag or a text, and what is read as
//! a secret is here without itself. Of a text that looks like more than it says, the part that may open something is
//! left out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reader::ENV_PREFIX;
use crate::mistakes::Mistake;

/// One thing that is wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
        // A fault of the whole has no place.
        if !self.source.is_empty() {
            write!(f, "{}: ", self.source)?;
        }
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
    pub layer: SettingLayer,
    /// True when it is the default, in whatever layer.
    pub is_default: bool,
    /// Stands for the whole value in this process, secret or not: another one has another number.
    pub mark: u64,
}

/// A layer of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingLayer {
    /// The built-in default.
    Default,
    /// Set by `serve --dev`.
    Dev,
    /// Set in the configuration file.
    File,
    /// A variable of the environment.
    Environment,
}

impl SettingLayer {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Dev => "dev",
            Self::File => "file",
            Self::Environment => "environment",
        }
    }
}

/// Last words of keys whose texts are not shown, however they were read.
const SECRET_WORDS: [&str; 8] =
    ["secret", "secrets", "token", "password", "passphrase", "key", "authorization", "cookie"];

/// A value as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadValue {
    /// The file or variable that says it.
    pub source: String,
    /// The value as TOML writes it; `None` for a secret.
    pub text: Option<String>,
    /// The variable or file that a secret stands in, where it is not written in the configuration itself.
    pub secret_in: Option<String>,
    /// Stands for the whole value in this process, secret or not: another one has another number.
    pub mark: u64,
}

/// A number that stands for a text in this process alone, and says nothing about it.
pub fn mark_of(text: &str) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(text)
}

/// Values that were read, by key.
#[derive(Debug, Clone, Default)]
pub struct ReadValues(BTreeMap<String, ReadValue>);

impl ReadValues {
    /// Keeps a number, a flag or an empty list.
    pub fn plain(&mut self, key: &str, source: &str, text: String) {
        let mark = mark_of(&text);
        self.keep(key, ReadValue { source: source.to_owned(), text: Some(text), secret_in: None, mark });
    }

    /// Keeps a text, unless it is a secret by its key or holds one.
    pub fn text(&mut self, key: &str, source: &str, text: &str) {
        let word = key.rsplit('.').next().unwrap_or_default().split('[').next().unwrap_or_default();
        let is_secret = SECRET_WORDS.iter().any(|one| word == *one || word.ends_with(&format!("_{one}")));
        let shown = if text.contains("://") { host_of(text) } else { Some(text.to_owned()) };
        match shown.filter(|_| !is_secret) {
            Some(shown) => self.plain(key, source, quoted(&shown)),
            None => self.secret(key, source, None),
        }
        self.mark(key, text);
    }

    /// Keeps a whole text of which the reader knows that it is not a secret.
    pub(crate) fn known_text(&mut self, key: &str, source: &str, text: &str) {
        self.plain(key, source, quoted(text));
    }

    /// Keeps of the URL of a database, which was read as a secret, what opens nothing.
    pub fn database_url(&mut self, key: &str, url: &str) {
        let path = url.starts_with("sqlite://").then(|| url.split('?').next().unwrap_or_default().to_owned());
        if let (Some(value), Some(shown)) = (self.0.get_mut(key), path.or_else(|| host_of(url))) {
            (value.text, value.secret_in) = (Some(quoted(&shown)), None);
        }
    }

    /// Keeps that there is a secret.
    pub fn secret(&mut self, key: &str, source: &str, secret_in: Option<String>) {
        let value = ReadValue { source: source.to_owned(), text: None, secret_in, mark: 0 };
        self.0.insert(key.to_owned(), value);
    }

    /// Keeps what stands for the whole of a value, of which less is shown or nothing.
    pub fn mark(&mut self, key: &str, text: &str) {
        if let Some(value) = self.0.get_mut(key) {
            value.mark = mark_of(text);
        }
    }

    /// Keeps a value; what was read as a secret once stays one.
    fn keep(&mut self, key: &str, value: ReadValue) {
        if self.0.get(key).is_none_or(|one| one.text.is_some()) {
            self.0.insert(key.to_owned(), value);
        }
    }

    /// The values by key.
    pub fn into_values(self) -> BTreeMap<String, ReadValue> {
        self.0
    }
}

/// A text as TOML writes it.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Scheme and hosts of a URL, and that there is more: user and password, paths and queries may open something. `None`
/// when it is not certain which part is which.
fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (user, rest),
        None => ("", rest),
    };
    let (hosts, more) = match rest.find(['/', '?', '#']) {
        Some(place) => rest.split_at_checked(place)?,
        None => (rest, ""),
    };
    let is_plain = |text: &str, more: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    // With one of these before the `@`, that is perhaps no user but a part of a query.
    let is_sure =
        !user.contains(['/', '?', '#', '@']) && is_plain(scheme, b"+-.") && is_plain(hosts, b".-_:,[]");
    is_sure.then(|| {
        let end = if more.is_empty() || more == "/" { more } else { "/…" };
        format!("{scheme}://{hosts}{end}")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn of_a_url_only_what_opens_nothing_is_shown() {
        #[track_caller]
        fn check(url: &str, want: Option<&str>) {
            assert_eq!(host_of(url).as_deref(), want, "{url}");
        }
        check("https://billing.internal/", Some("https://billing.internal/"));
        check("https://hooks.example/services/T0/B0/s3cr3t", Some("https://hooks.example/…"));
        check("https://a.example?key=s3cr3t", Some("https://a.example/…"));
        check("https://u:s3cr3t@a.example:8443/x", Some("https://a.example:8443/…"));
        check("nats://s3cr3t@127.0.0.1:4222", Some("nats://127.0.0.1:4222"));
        check("postgres://u:s3cr3t@a:1,b:2/db?sslmode=verify-full", Some("postgres://a:1,b:2/…"));
        check("postgres://u:s3@cr3t@a/db", None);
        check("postgres://a/db?password=x@s3cr3t", None);
        check("postgres://u:s3?cr3t@a/db", None);
        check("postgres://u:s3/cr3t@a/db", None);
        check("https://{host}/x", None);
        check("https://s3 cr3t/x", None);
    }

    #[test]
    fn values_other_than_numbers_flags_and_plain_texts_are_blanked() {
        let mut read = ReadValues::default();
        read.text("a.name", "f", "plain \"quoted\"");
        read.text("a.sign_secret", "f", "s3cr3t");
        read.text("a.headers.authorization", "f", "s3cr3t");
        read.text("a.tokens[0].token", "f", "s3cr3t");
        read.text("a.secrets[1]", "f", "s3cr3t");
        read.text("a.key_file", "f", "/etc/key.pem");
        read.text("a.url", "f", "https://u:s3cr3t@a/");
        read.secret("a.both", "f", Some("variable X".to_owned()));
        read.text("a.both", "f", "s3cr3t");
        let debug_text = format!("{read:?}");
        assert!(!debug_text.contains("s3cr3t"), "{debug_text}");
        let values = read.into_values();
        let text = |key: &str| values[key].text.as_deref();
        assert_eq!(
            (text("a.name"), text("a.key_file")),
            (Some(r#""plain \"quoted\"""#), Some(r#""/etc/key.pem""#))
        );
        assert_eq!((text("a.url"), text("a.both")), (Some("\"https://a/\""), None));
    }

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
