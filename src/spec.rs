//! `provider.toml`: how to believe and read one kind of sender, as data.
//!
//! No and/or/regex language: what this cannot say is a named scheme in `verify/` or code in the kind's
//! `mod.rs`. Every key is documented here and shown in `providers/README.md`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::types::Name;

/// One kind of sender, as its folder describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The kind: the folder's name.
    pub kind: String,
    /// The sender's name for people.
    pub title: String,
    /// How sure the facts are.
    pub confidence: Confidence,
    /// Where the facts were read.
    pub docs: String,
    /// Where the sender's dashboard shows the secret.
    pub secret_hint: String,
    /// How long the sender may send an event again, by itself or by hand. Hours; the floor of id retention.
    pub horizon_h: u32,
    /// How fast the sender wants its answer. Milliseconds.
    pub answer_within_ms: u32,
    /// How a request is signed.
    pub signature: SignatureSpec,
    /// How events are read; the first entry whose `when_header` is present (or that has none) counts.
    pub event: Vec<EventSpec>,
    /// What the sender wants to hear instead of our JSON.
    pub answer: Option<AnswerSpec>,
    /// A signed request that wants an echo instead of admission.
    pub challenge: Option<ChallengeSpec>,
}

/// How sure the facts of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Read in the sender's own documentation, SDK or SDK tests.
    Official,
    /// Read in third parties' texts only.
    Secondary,
    /// Not confirmed.
    Unsure,
}

/// How a request is signed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureSpec {
    /// The named scheme.
    pub scheme: Scheme,
    /// Headers that may carry the signature; the first one present counts.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The header's shape: `{signature}`, `sha256={signature}` or `t={timestamp},v1={signature}`.
    #[serde(default = "default_layout")]
    pub layout: String,
    /// What is signed, from `{timestamp}`, `{id}`, `{url}` and `{body}`.
    #[serde(default = "default_signed")]
    pub signed: String,
    /// How the signature is written.
    #[serde(default)]
    pub encoding: Encoding,
    /// How the configured secret becomes key bytes.
    #[serde(default)]
    pub secret: SecretFormat,
    /// Fewest key bytes that the server starts with.
    #[serde(default = "one")]
    pub secret_bytes_min: usize,
    /// The header with the timestamp, when the layout has none.
    pub timestamp_header: Option<String>,
    /// How old a signed time may be. Seconds; absent when nothing is signed about time.
    pub tolerance_s: Option<u32>,
    /// How far ahead a signed time may be. Seconds; `tolerance_s` unless set.
    pub tolerance_future_s: Option<u32>,
}

fn default_layout() -> String {
    "{signature}".to_owned()
}
fn default_signed() -> String {
    "{body}".to_owned()
}
fn one() -> usize {
    1
}

/// The schemes that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// HMAC-SHA-256 over `signed`.
    HmacSha256,
    /// HMAC-SHA-512 over `signed`.
    HmacSha512,
    /// HMAC-SHA-1 over `signed`; only for senders that offer nothing else.
    HmacSha1,
    /// Standard Webhooks v1 (HMAC-SHA-256) and v1a (Ed25519); `headers` holds the header prefixes.
    StandardWebhooks,
    /// The kind's `mod.rs` verifies (`Provider::verify_with`).
    Code,
}

/// How a signature is written in its header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Lower-case hexadecimal.
    #[default]
    Hex,
    /// Standard base64 with padding.
    Base64,
}

/// How the configured secret becomes key bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretFormat {
    /// The text's UTF-8 bytes as they are.
    #[default]
    Text,
    /// Hexadecimal, either case.
    Hex,
    /// Standard base64.
    Base64,
    /// Base64 behind an optional `whsec_`; `whpk_` is an Ed25519 public key.
    Whsec,
}

/// How the events of a request are read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// Counts only when this header is present; absent counts always.
    pub when_header: Option<String>,
    /// JSON pointer to the array of events, when one request carries several. The other pointers of this
    /// table then start at each element.
    pub each: Option<String>,
    /// The form field that holds the JSON, when the content type is a form.
    pub form_field: Option<String>,
    /// Where the id is; several sources are joined with their lengths.
    pub id: Sources,
    /// Whether the signature covers the id. When it does not, equal bodies under another id are `replayed`.
    pub id_signed: bool,
    /// Whether equal bodies of different types are different events (the type decides with the body).
    #[serde(default)]
    pub replay_by_type: bool,
    /// Event types whose equal bodies are legitimate.
    #[serde(default)]
    pub replay_exempt: Vec<String>,
    /// Where the type is; several sources are joined with `.`.
    #[serde(rename = "type")]
    pub event_type: Sources,
    /// JSON pointer to what handlers receive; empty is the whole event.
    #[serde(default)]
    pub payload: String,
    /// JSON pointers whose values may change between copies of one event; left out of the digest.
    #[serde(default)]
    pub volatile: Vec<String>,
    /// What the event is about, for `latest`.
    pub object: Option<Sources>,
    /// A number or RFC 3339 time that only goes up with the object.
    pub version: Option<Source>,
    /// When it happened at the sender.
    pub created: Option<Source>,
}

/// One or several places, in the order they are joined.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Sources(pub Vec<Source>);

/// One place in a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// A JSON pointer into the event.
    Json(String),
    /// A header; the first of several values separated by `|` that is present.
    Header(String),
}

/// What the sender wants to hear instead of our JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSpec {
    /// The body, as it is.
    pub body: String,
    /// Its content type.
    pub content_type: String,
}

/// A signed request that wants an echo: when every pointer of `when` has its value, the text at `echo` is
/// the answer and nothing is admitted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeSpec {
    /// JSON pointers and the strings they must hold.
    pub when: BTreeMap<String, String>,
    /// JSON pointer to the text to answer with.
    pub echo: String,
}

/// Why a `provider.toml` is not a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("provider.toml of `{kind}`: {why}")]
pub struct SpecError {
    /// The kind, or `?` when the file does not say.
    pub kind: String,
    /// What is wrong, with the key.
    pub why: String,
}
