//! `[[handshake]]`: requests that want an answer of their own instead of admission, as data.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Encoding, Scheme, Template};

/// When every condition that is written holds, the answer is sent and nothing is admitted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandshakeSpec {
    /// The request's method.
    #[serde(default = "post")]
    pub method: String,
    /// Whether the request is signed like any other; an unsigned one is answered before verification.
    #[serde(default)]
    pub signed: bool,
    /// A value of the query that must be there.
    pub query: Option<String>,
    /// A header that must be there.
    pub header: Option<String>,
    /// A header and the value it must have.
    #[serde(default)]
    pub when_header: BTreeMap<String, String>,
    /// JSON pointers and the texts they must hold.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
    /// JSON pointers at which there must be nothing.
    #[serde(default)]
    pub without: Vec<String>,
    /// A field of a form that must be the only one.
    pub form: Option<String>,
    /// A value of the query that must be a secret of ours.
    pub token: Option<TokenSpec>,
    /// A setting that must be `open`: the operator has armed it.
    pub armed_by: Option<String>,
    /// A MAC of a text of the request by the newest secret, for `{mac}`.
    pub mac: Option<MacSpec>,
    /// The answer's status.
    #[serde(default = "ok")]
    pub status: u16,
    /// The answer's body.
    #[serde(default = "empty")]
    pub body: Template,
    /// The answer's body as a JSON object of texts, instead of `body`.
    #[serde(default)]
    pub json: BTreeMap<String, Template>,
    /// The body's content type; `application/json` for `json`, else `text/plain`.
    pub content_type: Option<String>,
    /// Headers of the answer; one whose places are not in the request is left out.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
}

/// A value of the query that must be a secret of ours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// The value's name.
    pub query: String,
    /// The setting it must equal; where the operator wrote none, one of the secrets.
    pub setting: String,
}

/// What `{mac}` is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MacSpec {
    /// The text.
    pub of: Template,
    /// Its digest.
    #[serde(default = "sha256")]
    pub scheme: Scheme,
    /// How the MAC is written.
    #[serde(default)]
    pub encoding: Encoding,
}

impl HandshakeSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        const METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "POST"];
        if !METHODS.contains(&self.method.as_str()) {
            return Err(format!("handshake.method: `{}` is not one of {}", self.method, METHODS.join(", ")));
        }
        let has_condition = self.query.is_some()
            || self.header.is_some()
            || self.form.is_some()
            || !self.when.is_empty()
            || !self.when_header.is_empty();
        if self.method == "POST" && !has_condition {
            return Err("handshake: a POST needs a condition, or every event would be one".to_owned());
        }
        self.when.keys().chain(&self.without).try_for_each(|key| super::pointer("handshake.when", key))
    }
}

fn post() -> String {
    "POST".to_owned()
}
fn ok() -> u16 {
    200
}
fn sha256() -> Scheme {
    Scheme::HmacSha256
}
fn empty() -> Template {
    Template::empty()
}
