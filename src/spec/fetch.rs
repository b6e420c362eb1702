//! `[[fetch]]` and `[[confirm]]`: what may be asked of the sender's own hosts, and of no other.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::SettingSpec;

/// Where the keys of a setting come from, when the operator wrote none: fetched when a request first names one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchSpec {
    /// The setting that would hold the key.
    pub setting: String,
    /// The address, `https` only. `{id}` is the key's id, percent-encoded, or alone the URL that the request
    /// names; `{setting:NAME}` or `{setting:NAME|default}` is a setting of the provider.
    pub url: String,
    /// Hosts that may be asked: exact, with `*` for one label.
    pub hosts: Vec<String>,
    /// How the key is in the answer.
    pub form: FetchForm,
    /// Where it is in a JSON answer.
    pub pointer: Option<String>,
    /// GET, or POST with `body`.
    #[serde(default = "get")]
    pub method: String,
    /// Headers, with `{setting:NAME}`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A JSON body, with `{id}` and `{setting:NAME}` as texts in it.
    pub body: Option<String>,
    /// Whether a certificate's chain has to lead to an authority that this machine believes.
    #[serde(default)]
    pub chain: bool,
    /// How long a key is used before it is fetched again. Hours.
    #[serde(default = "cache_h")]
    pub cache_h: u32,
    /// How long it is used after that while the sender's host is away. Hours.
    #[serde(default = "grace_h")]
    pub grace_h: u32,
}

/// How a key is in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FetchForm {
    /// The body is a certificate or a public key in PEM form.
    Pem,
    /// The body is a JWK set; the key is the one with this `kid`.
    Jwks,
    /// The body is JSON; the key is at `pointer`, a text or a JWK.
    Json,
}

/// A believed request that wants to be confirmed by a GET before anything else comes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfirmSpec {
    /// JSON pointers and the texts they must hold.
    pub when: BTreeMap<String, String>,
    /// JSON pointer to the address.
    pub url: String,
    /// Hosts that may be asked: exact, with `*` for one label.
    pub hosts: Vec<String>,
}

fn get() -> String {
    "GET".to_owned()
}
fn cache_h() -> u32 {
    24
}
fn grace_h() -> u32 {
    168
}

impl FetchSpec {
    pub(super) fn check(&self, settings: &[SettingSpec]) -> Result<(), String> {
        if !settings.iter().any(|one| one.name == self.setting) {
            return Err(format!("fetch.setting: `{}` is no [[setting]]", self.setting));
        }
        if self.url != "{id}" && !self.url.starts_with("https://") {
            return Err("fetch.url: it must be https:// or {id}".to_owned());
        }
        if self.hosts.is_empty() || !self.hosts.iter().all(|host| is_pattern(host)) {
            return Err("fetch.hosts: name the sender's hosts, with `*` for one label at most".to_owned());
        }
        if (self.form == FetchForm::Json) != self.pointer.is_some() {
            return Err("fetch.pointer: it belongs to form = \"json\"".to_owned());
        }
        if !matches!(self.method.as_str(), "GET" | "POST") {
            return Err(format!("fetch.method: `{}` is neither GET nor POST", self.method));
        }
        Ok(())
    }
}

impl ConfirmSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.hosts.is_empty() || !self.hosts.iter().all(|host| is_pattern(host)) {
            return Err("confirm.hosts: name the sender's hosts, with `*` for one label at most".to_owned());
        }
        if self.when.is_empty() {
            return Err("confirm.when: say which requests".to_owned());
        }
        Ok(())
    }
}

/// At least two labels behind a `*`, so that no pattern is a whole top-level domain.
fn is_pattern(host: &str) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    let stars_n = labels.iter().filter(|label| **label == "*").count();
    let plain =
        |label: &&str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    stars_n <= 1
        && labels.iter().all(|label| *label == "*" || plain(label))
        && (stars_n == 0 || labels.len() - stars_n >= 2)
}

/// Whether `host` is one of `patterns`.
pub fn is_host_of(host: &str, patterns: &[String]) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    patterns.iter().any(|pattern| {
        let wanted: Vec<&str> = pattern.split('.').collect();
        wanted.len() == labels.len()
            && wanted.iter().zip(&labels).all(|(wanted, label)| {
                *wanted == "*" && !label.is_empty() || wanted.eq_ignore_ascii_case(label)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_one_label_and_never_all_of_a_domain() {
        let patterns = ["*.paypal.com".to_owned(), "sns.*.amazonaws.com".to_owned(), "paypal.com".to_owned()];
        for host in ["api.paypal.com", "paypal.com", "SNS.us-east-1.amazonaws.com"] {
            assert!(is_host_of(host, &patterns), "{host}");
        }
        for host in [
            "a.b.paypal.com",
            "evilpaypal.com",
            "paypal.com.evil.test",
            ".paypal.com",
            "",
            "x.sns.y.amazonaws.com",
        ] {
            assert!(!is_host_of(host, &patterns), "{host}");
        }
        for (pattern, want) in [
            ("*.com", false),
            ("*", false),
            ("*.*.paypal.com", false),
            ("a_b.com", false),
            ("*.paypal.com", true),
        ] {
            assert_eq!(is_pattern(pattern), want, "{pattern}");
        }
    }
}
