//! `provider.toml`: how to believe and read one kind of sender, as data.
//!
//! No and/or/regex language: what this cannot say is a named scheme in `verify/` or code in the kind's
//! `mod.rs`. Every key is documented here and shown in `providers/README.md`.

mod chars;
mod event;
mod fetch;
mod handshake;
mod hosts;
mod identity;
mod layout;
mod parse;
mod pattern;
mod resend;
mod setting;
mod signature;

use serde::Deserialize;

pub use chars::Chars;
pub use event::{BodyFormat, EventSpec, Source, Sources};
pub use fetch::{ConfirmSpec, FetchForm, FetchSpec};
pub use handshake::{HandshakeSpec, MacSpec, TokenSpec};
pub use hosts::is_host_of;
pub use identity::{Identity, IdentitySpec};
pub use layout::{Layout, Slot};
pub use parse::Mistake;
pub use pattern::{Pattern, Piece};
pub use resend::Resend;
pub use setting::{DevKey, SettingForm, SettingSpec};
pub use signature::{Encoding, Scheme, SecretFormat, SignatureSpec, TimeUnit, Weakness};

use crate::types::Name;

/// One kind of sender, as its folder describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The kind: the folder's name.
    pub kind: String,
    /// Whether this kind, read from a folder when the program starts, is meant to stand in for the built-in one
    /// of the same name. Without it, such a name is an error.
    #[serde(default)]
    pub replaces_builtin: bool,
    /// The sender's name for people.
    pub title: String,
    /// How sure the facts are.
    pub confidence: Confidence,
    /// Where the facts were read.
    pub docs: String,
    /// Where the sender's dashboard shows the secret.
    pub secret_hint: String,
    /// How long the sender goes on sending an event by itself, from its first attempt to its last. Hours; after that
    /// long nothing comes any more that an old secret signed.
    pub horizon_h: u32,
    /// How long a person or an API can have it sent again; absent where nothing is known of that. Ids live for the longer
    /// of the two, and for the sender's own attempts after it.
    pub resend_h: Option<Resend>,
    /// How fast the sender wants its answer. Milliseconds.
    pub answer_within_ms: u32,
    /// How a request is signed.
    pub signature: SignatureSpec,
    /// Another way, which counts when its `when_header` is present.
    pub alternative: Option<SignatureSpec>,
    /// Whether the kind's code checks the URL as the sender called it.
    #[serde(default)]
    pub signed_url: bool,
    /// How events are read; the first entry whose `when_header` is present (or that has none) counts.
    pub event: Vec<EventSpec>,
    /// What the sender wants to hear instead of our JSON.
    pub answer: Option<AnswerSpec>,
    /// Requests that want an answer of their own instead of admission.
    #[serde(default)]
    pub handshake: Vec<HandshakeSpec>,
    /// What else a provider of this kind is told.
    #[serde(default)]
    pub setting: Vec<SettingSpec>,
    /// Keys that may be fetched from the sender's own hosts.
    #[serde(default)]
    pub fetch: Vec<FetchSpec>,
    /// Requests that want to be confirmed at the sender's own hosts.
    #[serde(default)]
    pub confirm: Vec<ConfirmSpec>,
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

/// What the sender wants to hear instead of our JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSpec {
    /// The status.
    #[serde(default = "ok")]
    pub status: u16,
    /// The body, as it is.
    pub body: String,
    /// Its content type.
    pub content_type: String,
}

fn ok() -> u16 {
    200
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
        Self::parse_all(text).map_err(|mistakes| {
            let table: toml::Table = text.parse().unwrap_or_default();
            let kind = table.get("kind").and_then(toml::Value::as_str).unwrap_or("?").to_owned();
            let why: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            SpecError { kind, why: why.join("; ") }
        })
    }

    /// Whether the signature covers a time, so that an old request stops being believed.
    pub fn has_signed_time(&self) -> bool {
        self.signature.tolerance_s.is_some()
    }

    /// True when every signature covers a time whose age is bounded; else a recorded request can be sent again for ever.
    pub fn bounds_signed_time(&self) -> bool {
        self.has_signed_time() && !self.signature.time_optional
    }

    /// How old a signed time may be by the kind's own rule, be it in one of two schemes. Seconds.
    pub fn tolerance_s(&self) -> Option<u32> {
        self.signatures().find_map(|one| one.tolerance_s)
    }

    /// True when it signs a time whose age nobody bounds.
    pub fn is_age_unchecked(&self) -> bool {
        self.signatures().any(|one| one.age_unchecked)
    }

    /// The kind's signature, and its alternative where it has one.
    pub fn signatures(&self) -> impl Iterator<Item = &SignatureSpec> {
        std::iter::once(&self.signature).chain(&self.alternative)
    }

    /// Whether a provider of this kind must have `secrets`.
    pub fn needs_secrets(&self) -> bool {
        self.signature.secrets_needed && self.takes_secrets()
    }

    /// Whether `secrets` could be of use to a provider of this kind.
    pub fn takes_secrets(&self) -> bool {
        self.signature.keys.is_none() && !matches!(self.signature.scheme, Scheme::Basic | Scheme::Unsigned)
    }

    /// Whether what was signed has to be known: where an id is not covered, it tells replays.
    pub fn needs_signed_text(&self) -> bool {
        self.event.iter().flat_map(|event| &event.identity).any(|identity| !identity.signed)
    }

    /// Whether `serve --dev` and `sign` need keys that are generated.
    pub fn needs_generated_keys(&self) -> bool {
        self.setting.iter().any(|setting| setting.dev_key.is_some_and(DevKey::is_generated))
    }

    /// Whether the signature covers the URL, so that `server.public_url` must be right.
    pub fn has_signed_url(&self) -> bool {
        self.signed_url || self.signature.has_signed_url()
    }

    /// What does not fit together, each as `key: why`.
    fn misfits(&self) -> Vec<String> {
        let alternative = self.alternative.as_ref().map_or(Ok(()), |alternative| {
            if alternative.when_header.is_none() {
                return Err("alternative.when_header: say when it counts".to_owned());
            }
            if let Some(name) = &alternative.required_by
                && !self.setting.iter().any(|one| one.name == *name)
            {
                return Err(format!("alternative.required_by: `{name}` is no [[setting]]"));
            }
            alternative.check().map_err(|why| why.replacen("signature", "alternative", 1))
        });
        let checks = [
            Name::parse(&self.kind).map(drop).map_err(|error| format!("kind: {error}")),
            bounded("horizon_h", self.horizon_h, HORIZON_H_MAX),
            self.resend_h.map_or(Ok(()), Resend::check),
            bounded("answer_within_ms", self.answer_within_ms, ANSWER_WITHIN_MS_MAX),
            self.signature.check(),
            self.check_settings(),
            self.check_answer(),
            self.check_order_of_events(),
            self.check_signed(),
            alternative,
        ];
        let events = self.event.iter().map(EventSpec::check);
        let handshakes = self.handshake.iter().map(|handshake| handshake.check(self));
        let fetches = self.fetch.iter().map(|fetch| fetch.check(&self.setting));
        let confirms = self.confirm.iter().map(ConfirmSpec::check);
        let more = events.chain(handshakes).chain(fetches).chain(confirms);
        checks.into_iter().chain(more).filter_map(Result::err).collect()
    }

    fn check_order_of_events(&self) -> Result<(), String> {
        if self.event.is_empty() {
            return Err("event: at least one [[event]] is needed".to_owned());
        }
        if self.event.iter().position(|event| event.when_header.is_none()) != Some(self.event.len() - 1) {
            return Err("event: the last [[event]], and only that one, has no when_header".to_owned());
        }
        Ok(())
    }

    /// Whether `signed = true` can be so: of schemes in code nobody but the code knows.
    fn check_signed(&self) -> Result<(), String> {
        if self.signature.check().is_err() {
            return Ok(());
        }
        for event in &self.event {
            // Events that come with the other signature's header are signed that way.
            let is_other = |other: &&SignatureSpec| {
                event.when_header.is_some() && event.when_header == other.when_header
            };
            let signature = self.alternative.as_ref().filter(is_other).unwrap_or(&self.signature);
            for identity in event.identity.iter().filter(|identity| identity.signed) {
                let mut sources = identity.id.0.iter().chain(&event.event_type.0);
                if let Some(what) =
                    signature.nothing_covered().or_else(|| sources.find_map(|one| signature.uncovered(one)))
                {
                    return Err(format!(
                        "event.identity.signed: the signature does not cover {what}: write signed = false"
                    ));
                }
            }
        }
        Ok(())
    }

    /// After a good signature there is no other answer than success, or the sender would come again for days.
    fn check_answer(&self) -> Result<(), String> {
        match self.answer.iter().map(|answer| answer.status).find(|status| !(200..=299).contains(status)) {
            Some(status) => Err(format!("answer.status: {status} is not a success: write 200 to 299")),
            None => Ok(()),
        }
    }
}

/// Longest time over which a sender may send again: the most that ids can be kept. Hours.
const HORIZON_H_MAX: u32 = 3_650 * 24;
/// Longest time a sender may wait. Milliseconds.
const ANSWER_WITHIN_MS_MAX: u32 = 3_600_000;

fn bounded(key: &str, number: u32, max: u32) -> Result<(), String> {
    if (1..=max).contains(&number) { Ok(()) } else { Err(format!("{key}: write a number from 1 to {max}")) }
}

/// Whether `text` is a JSON pointer, or pointers separated by `|`.
fn pointer(key: &str, text: &str) -> Result<(), String> {
    if text.split('|').all(|one| one.is_empty() || one.starts_with('/')) {
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
        type = [{ json = "/type" }]
        [[event.identity]]
        is = "sender"
        id = [{ json = "/id" }]
        signed = true
    "#;

    #[test]
    fn a_good_spec_is_read() {
        let spec = Spec::parse(GOOD).expect("a spec");
        assert!(spec.has_signed_time() && spec.resend_h.is_none());
        let resend =
            |value: &str| Spec::parse(&format!("resend_h = {value}\n{GOOD}")).expect("a spec").resend_h;
        assert_eq!(resend("2160"), Some(Resend::Hours(2_160)));
        assert_eq!(resend("\"unbounded\""), Some(Resend::Unbounded));
        assert_eq!(spec.event[0].identity[0].id.0, [Source::Json("/id".to_owned())]);
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
        check("type =", "volatile = [\"\"]\ntype =", "event.volatile: the whole body");
        check("type =", "volatile = [\"/a|/b\"]\ntype =", "event.volatile: `/a|/b` is not one");
        check("type =", "payload = \"/a|/b\"\ntype =", "event.payload: `/a|/b` is not one");
        check("\"sender\"", "\"sender\"\nversion = 0", "event.identity.version");
        let first = "[[event.identity]]\nis = \"content\"\nsigned = true\n[[event.identity]]";
        check("[[event.identity]]", first, "event.identity: one that every event has comes last");
        check("tolerance_s = 300", "tolerance_s = 0", "signature.tolerance_s: 0 refuses every request");
        check("tolerance_s = 300", "tolerance_s = 9\nage_unchecked = true", "signature.age_unchecked");
        check("{ json = \"/id\" }", "", "event.identity.id");
        check("\"sender\"", "\"signal\"\nwindow_s = 0", "event.identity.window_s: write a number");
        check("\"sender\"", "\"sender\"\nwindow_s = 5", "only a signal has one");
        check("\"sender\"", "\"signal\"\nwindow_renews = true", "window_renews: there is no window_s");
        check("\"sender\"", "\"content\"\nsigned_with = [{ text = \"\" }]", "event.identity.signed_with");
        check("\"sender\"", "\"sender\"\ntypes = [\"a*b*\"]", "event.identity.types");
        let (_, identity) = GOOD.split_once("[[event.identity]]").expect("one");
        let identity = format!("[[event.identity]]{identity}");
        check(&identity, "identity = []", "event.identity: say what two copies");
        check(&identity, "", "event.identity: is missing");
        let object = "object = [{ json = \"/o\" }]\ntype =";
        check("type =", object, "object and version");
        let answer = "\n[answer]\nstatus = 500\nbody = \"\"\ncontent_type = \"text/plain\"\n[[event]]";
        check("\n        [[event]]", answer, "answer.status: 500 is not a success");
        check("acme-signature", "acme signature", "is not the name of a header");
        check("horizon_h = 72", "horizon_h = 0", "horizon_h: write a number");
        let resend = |value: &str| format!("horizon_h = 72\nresend_h = {value}");
        check(
            "horizon_h = 72",
            &resend("0"),
            "resend_h: write a number from 1 to 87600, \"unbounded\", or leave it",
        );
        check("horizon_h = 72", &resend("87601"), "resend_h: write a number");
        for odd in ["-1", "\"forever\"", "true", "1.5"] {
            check("horizon_h = 72", &resend(odd), "expected a number of hours or \"unbounded\"");
        }
        check("tolerance_s = 300", "tolerance_s = 300\nkeys = \"k\"", "signature.keys: no [[setting]]");
        let header = "id = [{ header = \"x-id\" }]";
        check(
            "id = [{ json = \"/id\" }]",
            header,
            "event.identity.signed: the signature does not cover the header",
        );
        check("type =", "when_header = \"x\"\ntype =", "when_header");
    }

    #[test]
    fn all_mistakes_of_form_come_at_once_with_their_lines() {
        let text = GOOD
            .replace("title", "titel")
            .replace("type =", "body = \"xml\"\n        type =")
            .replace("tolerance_s = 300", "tolerance_s = \"300\"")
            .replace("docs = \"https://acme.example/webhooks\"", "");
        let mistakes = Spec::parse_all(&text).expect_err("mistakes");
        let keys: Vec<(Option<usize>, &str)> =
            mistakes.iter().map(|one| (one.line, one.key.as_str())).collect();
        assert_eq!(
            keys,
            [
                (None, "title"),
                (None, "docs"),
                (Some(16), "event.body"),
                (Some(14), "signature.tolerance_s"),
                (Some(3), "titel"),
            ]
        );
    }

    #[test]
    fn all_misfits_come_at_once() {
        let text = GOOD
            .replace("horizon_h = 72", "horizon_h = 0")
            .replace(".{body}", "")
            .replace("\"/id\"", "\"id\"");
        let keys: Vec<String> =
            Spec::parse_all(&text).expect_err("three").into_iter().map(|one| one.key).collect();
        assert_eq!(keys, ["horizon_h", "signature.signed", "event.identity.id"]);
    }
}
