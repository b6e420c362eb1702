//! `[[fetch]]` and `[[confirm]]`: which requests may be made to the sender's own hosts, and to no other. A host is a
//! name that is written out, with one variable part at most. A pattern never matches a host that another party can
//! have.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::misfits::{misfit, refuse};
use super::setting::SettingSpec;
use hooklatch_core::mistakes::Mistake;

/// Domains below which anybody can have a host: no `*` may stand there.
const SHARED: &str = "amazonaws.com amazonaws.com.cn appspot.com azurewebsites.net cloudfront.net \
                      cloudfunctions.net digitaloceanspaces.com firebaseapp.com fly.dev github.io \
                      gitlab.io googleapis.com herokuapp.com netlify.app ngrok.io onrender.com pages.dev \
                      r2.dev run.app trycloudflare.com vercel.app web.app windows.net workers.dev";
/// Second labels that are a part of the top-level domain below two letters, as in `co.uk`.
const SECOND: [&str; 8] = ["ac", "co", "com", "edu", "gov", "ne", "net", "org"];
/// Placeholder for a region of AWS.
const REGION: &str = "{region}";

/// The reason why a pattern is wrong; `None` when it is good. It is exact, or `*` is its first label, or `{region}` one
/// of them.
fn mistake_of(pattern: &str) -> Option<&'static str> {
    let labels: Vec<&str> = pattern.split('.').collect();
    let is_plain = |label: &&str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let (first, rest) = labels.split_first()?;
    let places_n = labels.iter().filter(|label| ["*", REGION].contains(label)).count();
    if places_n > 1 || !labels.iter().all(|label| ["*", REGION].contains(label) || is_plain(label)) {
        return Some("write the sender's hosts in lower case, each with one `*` or `{region}` at most");
    }
    if rest.contains(&"*") {
        return Some("a `*` is the first label: what stands behind it has to be the sender's own domain");
    }
    let own_n = match rest {
        [.., second, top] if top.len() == 2 && SECOND.contains(second) => 3,
        _ => 2,
    };
    if *first == "*" && rest.len() < own_n {
        return Some("a `*` needs the sender's own domain behind it, not a top-level one");
    }
    let own = rest.join(".");
    let is_below = |shared: &str| own == shared || own.ends_with(&format!(".{shared}"));
    if *first == "*" && SHARED.split(' ').any(is_below) {
        return Some(
            "anybody can have a host there: write it out, or `{region}` where a region of AWS stands",
        );
    }
    if pattern.ends_with(REGION) || labels.len() < 2 && pattern != "localhost" {
        return Some("it is no host of a sender");
    }
    None
}

/// True when `host` is one of `patterns`.
pub fn is_host_of(host: &str, patterns: &[String]) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    patterns.iter().any(|pattern| {
        let wanted: Vec<&str> = pattern.split('.').collect();
        let fits = |(wanted, label): (&&str, &&str)| match *wanted {
            "*" => !label.is_empty(),
            REGION => is_region(label),
            wanted => wanted.eq_ignore_ascii_case(label),
        };
        wanted.len() == labels.len() && wanted.iter().zip(&labels).all(fits)
    })
}

/// True when a certificate's `name` is one of `patterns`, where `{region}` is the region of the host that had it.
fn is_name_of(name: &str, host: &str, patterns: &[String]) -> bool {
    let region = host.split('.').find(|label| is_region(label));
    patterns.iter().any(|pattern| match region {
        Some(region) => pattern.replace(REGION, region).eq_ignore_ascii_case(name),
        None => pattern.eq_ignore_ascii_case(name),
    })
}

/// True when this is a region of AWS, such as `us-gov-west-1`: two letters, words, one digit.
fn is_region(label: &str) -> bool {
    let parts: Vec<&str> = label.split('-').collect();
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let is_digit = |part: &str| part.len() == 1 && part.bytes().all(|b| b.is_ascii_digit());
    // `s3-us-west-2` is a host of S3 and no region.
    let [area, words @ .., last] = parts.as_slice() else { return false };
    area.len() == 2 && is_word(area) && !words.is_empty() && words.iter().all(is_word) && is_digit(last)
}

/// True when `path` is `pattern`, in which `{hex}` is lower-case hexadecimal and `{name}` letters, digits, `-` and `_`.
fn is_path_of(path: &str, pattern: &str) -> bool {
    let is_hex: fn(u8) -> bool = |b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let is_name: fn(u8) -> bool = |b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    for (place, is_of) in [("{hex}", is_hex), ("{name}", is_name)] {
        if let Some((before, after)) = pattern.split_once(place) {
            let between = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            return between.is_some_and(|text| !text.is_empty() && text.bytes().all(is_of));
        }
    }
    path == pattern
}

/// Source of the keys of a setting when the operator wrote none: they are fetched when a request first names one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchSpec {
    /// The setting that would hold the key.
    pub setting: String,
    /// The address, `https` only. `{id}` is the key's id, percent-encoded, or alone the URL that the request
    /// names; `{setting:NAME}` or `{setting:NAME|default}` is a setting of the provider.
    pub url: String,
    /// Hosts that may be requested: exact, or with `*` before the sender's own domain, or with `{region}` for one of
    /// AWS.
    pub hosts: Vec<String>,
    /// The path that a URL of the request must have, whole, with one `{hex}` or `{name}`; it has no query then.
    pub path: Option<String>,
    /// The form that the sender's ids have, where it is known: no other id costs a call.
    pub id: Option<IdForm>,
    /// Names of which a certificate must have one, with `{region}` for that of the host.
    #[serde(default)]
    pub names: Vec<String>,
    /// Form of the key in the answer.
    pub form: FetchForm,
    /// Pointer to the key in a JSON answer.
    pub pointer: Option<String>,
    /// GET, or POST with `body`.
    #[serde(default = "get")]
    pub method: String,
    /// Headers of the request, with `{setting:NAME}`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A JSON body, with `{id}` and `{setting:NAME}` as texts in it.
    pub body: Option<String>,
    /// True when a certificate's chain has to lead to an authority that this machine trusts.
    #[serde(default)]
    pub chain: bool,
    /// Age at which a key is fetched again. Hours.
    #[serde(default = "cache_h")]
    pub cache_h: u32,
    /// Time for which it is used after that while the sender's host is away. Hours.
    #[serde(default = "grace_h")]
    pub grace_h: u32,
}

/// Forms of the ids that senders give their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdForm {
    /// As in `bfbd5111-8e33-4643-8ced-b2e642a72f3c`.
    Uuid,
}

/// Forms of a key in an answer.
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

/// A verified request that has to be confirmed by a GET before the sender sends anything else.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfirmSpec {
    /// JSON pointers and the texts they must hold.
    pub when: BTreeMap<String, String>,
    /// JSON pointer to the address.
    pub url: String,
    /// Hosts that may be requested, as in [`FetchSpec`].
    pub hosts: Vec<String>,
    /// The path that the address must have; its query is the sender's own.
    pub path: String,
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
    pub fn check(&self, settings: &[SettingSpec]) -> Result<(), Mistake> {
        if !settings.iter().any(|one| one.name == self.setting) {
            return Err(misfit("fetch.setting", format!("`{}` is no [[setting]]", self.setting)));
        }
        if self.url != "{id}" && !self.url.starts_with("https://") {
            return Err(misfit("fetch.url", "it must be https:// or {id}"));
        }
        check_hosts("fetch.hosts", &self.hosts)?;
        if self.url == "{id}" {
            let why = "where a request names the URL, say which path it must have, from `/` on";
            check_path("fetch.path", self.path.as_deref().unwrap_or_default(), why)?;
        }
        if !self.names.is_empty() && self.form != FetchForm::Pem {
            return Err(misfit("fetch.names", "they are for certificates, form = \"pem\""));
        }
        if (self.form == FetchForm::Json) != self.pointer.is_some() {
            return Err(misfit("fetch.pointer", "it belongs to form = \"json\""));
        }
        if !matches!(self.method.as_str(), "GET" | "POST") {
            return Err(misfit("fetch.method", format!("`{}` is neither GET nor POST", self.method)));
        }
        Ok(())
    }

    /// True when the sender may have a key with this id.
    pub fn is_id(&self, id: &str) -> bool {
        match self.id {
            Some(IdForm::Uuid) => id.len() == Hyphenated::LENGTH && Uuid::try_parse(id).is_ok(),
            None => true,
        }
    }

    /// True when this is where the sender has its keys.
    pub fn is_path(&self, path: &str) -> bool {
        self.path.as_ref().is_none_or(|pattern| is_path_of(path, pattern))
    }

    /// True when a certificate that `host` has may be of `name`.
    pub fn is_name(&self, name: &str, host: &str) -> bool {
        is_name_of(name, host, &self.names)
    }
}

fn check_hosts(key: &str, hosts: &[String]) -> Result<(), Mistake> {
    refuse(hosts.is_empty(), key, "name the sender's hosts")?;
    let found = hosts.iter().find_map(|host| Some((host, mistake_of(host)?)));
    found.map_or(Ok(()), |(host, why)| Err(misfit(key, format!("`{host}`: {why}"))))
}

fn check_path(key: &str, path: &str, why: &str) -> Result<(), Mistake> {
    let is_plain =
        path.starts_with('/') && !path.contains(['*', '?', '#', '%', '\\']) && !path.contains("..");
    if is_plain { Ok(()) } else { Err(misfit(key, why)) }
}

impl ConfirmSpec {
    pub fn check(&self) -> Result<(), Mistake> {
        check_hosts("confirm.hosts", &self.hosts)?;
        check_path("confirm.path", &self.path, "say which path the address must have, from `/` on")?;
        refuse(self.when.is_empty(), "confirm.when", "say which requests")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_the_senders_own_hosts_and_no_bucket_of_anybody() {
        let patterns = ["*.paypal.com", "sns.{region}.amazonaws.com", "paypal.com"].map(str::to_owned);
        for host in
            ["api.paypal.com", "paypal.com", "SNS.us-east-1.amazonaws.com", "sns.us-gov-west-1.amazonaws.com"]
        {
            assert!(is_host_of(host, &patterns), "{host}");
        }
        for host in [
            "a.b.paypal.com",
            "evilpaypal.com",
            "paypal.com.evil.test",
            ".paypal.com",
            "",
            "x.sns.y.amazonaws.com",
            "sns.s3-us-west-2.amazonaws.com",
            "sns.s3-website-us-west-2.amazonaws.com",
            "sns.s3.amazonaws.com",
            "sns.elb.amazonaws.com",
            "sns.us-east-10.amazonaws.com",
            "sns.us-1.amazonaws.com",
            "sns..amazonaws.com",
        ] {
            assert!(!is_host_of(host, &patterns), "{host}");
        }
    }

    #[test]
    fn a_pattern_that_could_fit_a_strangers_host_is_refused() {
        for bad in [
            "*",
            "*.com",
            "*.co.uk",
            "*.*.paypal.com",
            "a_b.com",
            "sns.*.amazonaws.com",
            "*.amazonaws.com",
            "*.s3.amazonaws.com",
            "*.github.io",
            "api.*.com",
            "a.*",
            "",
            "com",
            "A.com",
            "a..com",
            "a.{region}",
            "*.{region}.amazonaws.com",
        ] {
            assert!(mistake_of(bad).is_some(), "{bad}");
        }
        for good in
            ["*.paypal.com", "api.circle.com", "sns.{region}.amazonaws.com.cn", "*.acme.co.uk", "localhost"]
        {
            assert_eq!(mistake_of(good), None, "{good}");
        }
    }

    #[test]
    fn names_are_of_the_hosts_region_and_paths_are_whole() {
        let names = ["sns.amazonaws.com", "sns-signing.{region}.amazonaws.com"].map(str::to_owned);
        let is_name = |name: &str| is_name_of(name, "sns.af-south-1.amazonaws.com", &names);
        assert!(is_name("sns.amazonaws.com") && is_name("sns-signing.af-south-1.amazonaws.com"));
        assert!(!is_name("sns-signing.eu-west-1.amazonaws.com") && !is_name("evil.example"));
        assert!(!is_name_of("sns-signing.{region}.amazonaws.com", "sns.eu-west-1.amazonaws.com", &names));
        let pattern = "/SimpleNotificationService-{hex}.pem";
        assert!(is_path_of("/SimpleNotificationService-0a9f.pem", pattern));
        for bad in [
            "/SimpleNotificationService-.pem",
            "/a/SimpleNotificationService-0a.pem",
            "/x.pem",
            "/",
            "/SimpleNotificationService-0a/../x.pem",
            "/SimpleNotificationService-0A.pem",
        ] {
            assert!(!is_path_of(bad, pattern), "{bad}");
        }
    }
}
