//! `[[fetch]]` and `[[confirm]]`: which requests may be made to the sender's own hosts, and to no other.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::check::misfit;
use super::hosts::{is_name_of, is_path_of, mistake_of};
use super::setting::SettingSpec;
use hooklatch_core::mistakes::Mistake;

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
}

impl FetchSpec {
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
    if hosts.is_empty() {
        return Err(misfit(key, "name the sender's hosts"));
    }
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
        if self.when.is_empty() {
            return Err(misfit("confirm.when", "say which requests"));
        }
        Ok(())
    }
}
