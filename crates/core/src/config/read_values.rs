//! What the reader has read, for people who want to see what is in force.
//!
//! It is a list of what may be shown, not of what may not: a value is here only because it was read as a number, a flag
//! or a text, and what is read as a secret is here without itself. Of a text that looks like more than it says, the part
//! that may open something is left out.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

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
        if SECRET_WORDS.iter().any(|one| word == *one || word.ends_with(&format!("_{one}"))) {
            self.secret(key, source, None);
        } else if !text.contains("://") {
            self.plain(key, source, quoted(text));
        } else if let Some(shown) = host_of(text) {
            self.plain(key, source, quoted(&shown));
        } else {
            self.secret(key, source, None);
        }
        self.mark(key, text);
    }

    /// Keeps a whole text of which the reader knows that it is not a secret.
    pub(crate) fn known_text(&mut self, key: &str, source: &str, text: &str) {
        self.plain(key, source, quoted(text));
    }

    /// Keeps of the URL of a database, which was read as a secret, what opens nothing.
    pub fn database_url(&mut self, key: &str, url: &str) {
        let Some((source, mark)) = self.0.get(key).map(|value| (value.source.clone(), value.mark)) else {
            return;
        };
        let shown = if url.starts_with("sqlite://") {
            url.split('?').next().map(str::to_owned)
        } else {
            host_of(url)
        };
        if let Some(shown) = shown {
            let value = ReadValue { source, text: Some(quoted(&shown)), secret_in: None, mark };
            self.0.insert(key.to_owned(), value);
        }
    }

    /// Keeps that there is a secret.
    pub fn secret(&mut self, key: &str, source: &str, secret_in: Option<String>) {
        self.0
            .insert(key.to_owned(), ReadValue { source: source.to_owned(), text: None, secret_in, mark: 0 });
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
}
