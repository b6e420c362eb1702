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

impl Spec {
    /// Reads the text of a `provider.toml` and checks that its parts fit each other.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let spec: Self = toml::from_str(text)
            .map_err(|error| SpecError { kind: "?".to_owned(), why: error.to_string().trim().to_owned() })?;
        let kind = spec.kind.clone();
        spec.check().map_err(|why| SpecError { kind, why })?;
        Ok(spec)
    }

    /// Whether the signature covers a time, so that an old request stops being believed.
    pub fn has_signed_time(&self) -> bool {
        self.signature.tolerance_s.is_some()
    }

    fn check(&self) -> Result<(), String> {
        Name::parse(&self.kind).map_err(|error| format!("kind: {error}"))?;
        self.signature.check()?;
        if self.event.is_empty() {
            return Err("event: at least one [[event]] is needed".to_owned());
        }
        if self.event.iter().position(|event| event.when_header.is_none()) != Some(self.event.len() - 1) {
            return Err("event: the last [[event]], and only that one, has no when_header".to_owned());
        }
        self.event.iter().try_for_each(EventSpec::check)?;
        if let Some(challenge) = &self.challenge {
            pointer("challenge.echo", &challenge.echo)?;
            challenge.when.keys().try_for_each(|key| pointer("challenge.when", key))?;
        }
        Ok(())
    }
}

impl SignatureSpec {
    fn check(&self) -> Result<(), String> {
        let has_time_in_header = self.layout.contains("{timestamp}") || self.timestamp_header.is_some();
        match self.scheme {
            Scheme::Code => return Ok(()),
            Scheme::StandardWebhooks if self.tolerance_s.is_none() => {
                return Err("signature.tolerance_s: standard-webhooks signs a time, so it needs a tolerance"
                    .to_owned());
            }
            _ => {}
        }
        if self.headers.is_empty() {
            return Err("signature.headers: name at least one header".to_owned());
        }
        if self.scheme == Scheme::StandardWebhooks {
            return Ok(());
        }
        if self.layout.matches("{signature}").count() != 1 {
            return Err(format!("signature.layout: `{}` needs exactly one {{signature}}", self.layout));
        }
        if !self.signed.contains("{body}") {
            return Err(format!("signature.signed: `{}` does not cover {{body}}", self.signed));
        }
        if self.tolerance_s.is_some() && !has_time_in_header {
            return Err(
                "signature.tolerance_s: no {timestamp} in the layout and no timestamp_header".to_owned()
            );
        }
        if has_time_in_header && (self.tolerance_s.is_none() || !self.signed.contains("{timestamp}")) {
            return Err("signature: a timestamp must be in `signed` and have a tolerance_s".to_owned());
        }
        Ok(())
    }
}

impl EventSpec {
    fn check(&self) -> Result<(), String> {
        if self.id.0.is_empty() || self.event_type.0.is_empty() {
            return Err("event.id and event.type: name at least one source".to_owned());
        }
        let object = self.object.iter().flat_map(|sources| &sources.0);
        let sources = self.id.0.iter().chain(&self.event_type.0).chain(object).chain(&self.version);
        for source in sources.chain(&self.created) {
            if let Source::Json(text) = source {
                pointer("event", text)?;
            }
        }
        if self.object.is_some() != self.version.is_some() {
            return Err("event: object and version go together".to_owned());
        }
        if let Some(each) = &self.each {
            pointer("event.each", each)?;
        }
        self.volatile.iter().chain([&self.payload]).try_for_each(|text| pointer("event", text))
    }
}

fn pointer(key: &str, text: &str) -> Result<(), String> {
    if text.is_empty() || text.starts_with('/') {
        return Ok(());
    }
    Err(format!("{key}: `{text}` is not a JSON pointer, it must start with `/`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        kind = "acme"
        title = "Acme"
        confidence = "official"
        docs = "https://acme.example/webhooks"
        secret_hint = "Settings"
        horizon_h = 72
        answer_within_ms = 10000
        [signature]
        scheme = "hmac-sha256"
        headers = ["acme-signature"]
        layout = "t={timestamp},v1={signature}"
        signed = "{timestamp}.{body}"
        tolerance_s = 300
        [[event]]
        id = [{ json = "/id" }]
        id_signed = true
        type = [{ json = "/type" }]
    "#;

    #[test]
    fn a_good_spec_is_read() {
        let spec = Spec::parse(GOOD).expect("a spec");
        assert!(spec.has_signed_time());
        assert_eq!(spec.event[0].id.0, [Source::Json("/id".to_owned())]);
    }

    #[test]
    fn a_bad_spec_says_which_key_and_why() {
        #[track_caller]
        fn check(from: &str, to: &str, want: &str) {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "the row changes nothing");
            let error = Spec::parse(&text).expect_err(want).to_string();
            assert!(error.contains(want), "{error}");
        }
        check("kind = \"acme\"", "kind = \"Acme!\"", "kind: `Acme!`");
        check("title", "titel", "titel");
        check("hmac-sha256", "md5", "unknown variant `md5`");
        check("{signature}", "{sig}", "signature.layout");
        check(".{body}", "", "does not cover {body}");
        check("tolerance_s = 300", "", "tolerance_s");
        check("t={timestamp},v1={signature}", "{signature}", "signature.tolerance_s");
        check("headers = [\"acme-signature\"]", "", "signature.headers");
        check("\"/id\"", "\"id\"", "`id` is not a JSON pointer");
        check("{ json = \"/id\" }", "", "event.id");
        check("id_signed = true", "id_signed = true\nobject = [{ json = \"/o\" }]", "object and version");
        check("id_signed = true", "id_signed = true\nwhen_header = \"x\"", "when_header");
    }
}
