//! The file as a whole: the description of one kind of sender; the response that it expects, and for how long it can be
//! made to send an event again.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::event::{EventSpec, Source};
use super::fetch::{ConfirmSpec, FetchSpec};
use super::handshake::HandshakeSpec;
use super::misfits::{HORIZON_H_MAX, REMEDY, bounded};
use super::setting::{AcceptSpec, DevKey, SettingSpec, WhoseSpec};
use super::signature::{Scheme, SignatureSpec, Weakness};
use hooklatch_core::mistakes::Mistake;

/// One kind of sender, as its folder describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The kind: the folder's name.
    pub kind: String,
    /// True when this kind, read from a folder when the program starts, is meant to stand in for the built-in one
    /// of the same name. Without it, such a name is an error.
    #[serde(default)]
    pub replaces_builtin: bool,
    /// The sender's name for people.
    pub title: String,
    /// Confidence in the facts.
    pub confidence: Confidence,
    /// Page where the facts were read.
    pub docs: String,
    /// Place in the sender's dashboard that shows the secret.
    pub secret_hint: String,
    /// Time for which the sender goes on sending an event by itself, from its first attempt to its last. Hours; after
    /// that long nothing comes any more that an old secret signed.
    pub horizon_h: u32,
    /// Time from the first attempt to the last one that the sender documents: what got no 2xx by then is not sent
    /// again. 0 for a sender that never repeats; absent where it does not say. Seconds.
    pub retry_span_s: Option<u32>,
    /// Time for which a person or an API can have it sent again; absent where nothing is known of that. Ids live for
    /// the longer of the two, and for the sender's own attempts after it.
    pub resend_h: Option<Resend>,
    /// Largest body that the sender documents; absent where it does not say. Bytes.
    pub body_bytes_max: Option<u32>,
    /// Most events that the sender puts into one request; absent where it does not say, or where the number is small.
    pub events_n_max: Option<u32>,
    /// Time within which the sender wants its answer. Milliseconds.
    pub answer_within_ms: u32,
    /// Method of requests with events. Of a GET the query is the body, as a form; its own body is ignored.
    #[serde(default)]
    pub method: EventMethod,
    /// The signature of a request.
    pub signature: SignatureSpec,
    /// Another way, which counts when its `when_header` is present.
    pub alternative: Option<SignatureSpec>,
    /// What stays open by the sender's design, in a sentence, where neither `weak`, nor `[whose]`, nor the signed time
    /// says it.
    pub open: Option<String>,
    /// Time after which the sender's tokens expire, where the kind's code checks that. Seconds; for words alone.
    pub token_life_s: Option<u32>,
    /// What binds an event to the operator's account; every kind whose key is public or fetched says so.
    pub whose: Option<WhoseSpec>,
    /// Which events act, where one secret signs those of a sandbox as well.
    pub accept: Option<AcceptSpec>,
    /// True when the kind's code checks the URL as the sender called it.
    #[serde(default)]
    pub signed_url: bool,
    /// Rules by which events are read; the first entry whose `when_header` is present (or that has none) counts.
    pub event: Vec<EventSpec>,
    /// Headers that handlers, templates and `when` see: only such as every signature of the kind covers.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The response that the sender expects instead of our JSON.
    pub answer: Option<AnswerSpec>,
    /// Requests that want an answer of their own instead of admission.
    #[serde(default)]
    pub handshake: Vec<HandshakeSpec>,
    /// Settings that a provider of this kind has besides secrets.
    #[serde(default)]
    pub setting: Vec<SettingSpec>,
    /// Keys that may be fetched from the sender's own hosts.
    #[serde(default)]
    pub fetch: Vec<FetchSpec>,
    /// True when its senders are programs of the operator's own, which choose keys themselves: what cannot be taken is
    /// refused with a reason, and a repetition gets the first answer.
    #[serde(default)]
    pub first_party: bool,
    /// Requests that want to be confirmed at the sender's own hosts.
    #[serde(default)]
    pub confirm: Vec<ConfirmSpec>,
    /// The event types that the sender names, by which a misspelt route is found; absent where they were not collected.
    pub event_types: Option<EventTypes>,
}

/// The event types of a sender. It may have more: senders add types without telling.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventTypes {
    /// Page or file where they were read: an address.
    pub source: String,
    /// The types, as routes and handlers name them; sorted.
    pub list: Vec<String>,
}

/// Methods by which senders send events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventMethod {
    /// The event is in the body.
    #[default]
    Post,
    /// The event is in the query.
    Get,
}

impl EventMethod {
    /// The method as a request line has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Get => "GET",
        }
    }
}

/// Degrees of confidence in the facts of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Read in the sender's own documentation, SDK or SDK tests.
    Official,
    /// Read in third parties' texts only.
    Secondary,
    /// The facts are not confirmed.
    Unsure,
}

impl Spec {
    /// True when the signature covers a time, so that an old request fails verification.
    pub fn has_signed_time(&self) -> bool {
        self.signature.tolerance_s.is_some()
    }

    /// True when every signature covers a time whose age is bounded; else a recorded request can be sent again for
    /// ever.
    pub fn bounds_signed_time(&self) -> bool {
        self.has_signed_time() && !self.signature.time_optional
    }

    /// Greatest age of a signed time by the kind's own rule, be it in one of two schemes. Seconds.
    pub fn tolerance_s(&self) -> Option<u32> {
        self.signatures().find_map(|one| one.tolerance_s)
    }

    /// True when it signs a time whose age is not bounded.
    pub fn is_age_unchecked(&self) -> bool {
        self.signatures().any(|one| one.age_unchecked)
    }

    /// The kind's signature, and its alternative where it has one.
    pub fn signatures(&self) -> impl Iterator<Item = &SignatureSpec> {
        std::iter::once(&self.signature).chain(&self.alternative)
    }

    /// The weakness of the kind's signatures: the alternative's where the kind's own has none.
    pub fn weakness(&self) -> Option<Weakness> {
        self.signatures().find_map(|one| one.weak)
    }

    /// True when a request has a header in which this kind looks for a signature.
    pub fn names_signature_header(&self, headers: &http::HeaderMap) -> bool {
        self.signatures().any(|one| {
            one.headers.iter().any(|name| match (one.scheme, name.strip_suffix('*')) {
                (Scheme::StandardWebhooks, _) => headers.contains_key(format!("{name}signature")),
                (_, Some(stem)) => headers.keys().any(|name| name.as_str().starts_with(stem)),
                (_, None) => headers.contains_key(name),
            })
        })
    }

    /// True as [`Spec::names_signature_header`] is, and for a kind that signs in no header, where it cannot be decided.
    pub fn has_signature_header(&self, headers: &http::HeaderMap) -> bool {
        self.signatures().all(|one| one.headers.is_empty()) || self.names_signature_header(headers)
    }

    /// True when a provider of this kind must have `secrets`.
    pub fn needs_secrets(&self) -> bool {
        self.signature.secrets_needed && self.takes_secrets()
    }

    /// True when `secrets` could be of use to a provider of this kind.
    pub fn takes_secrets(&self) -> bool {
        self.signature.keys.is_none() && !matches!(self.signature.scheme, Scheme::Basic | Scheme::Unsigned)
    }

    /// True when what was signed has to be known: where an id is not covered, and where a signal's window ends before a
    /// signed time does, it detects replays.
    pub fn needs_signed_text(&self) -> bool {
        let is_timed = self.tolerance_s().is_some();
        let mut identities = self.event.iter().flat_map(|event| &event.identity);
        identities.any(|identity| !identity.signed || (is_timed && identity.window_s.is_some()))
    }

    /// True when one signed body is an event of each type that an unsigned header may say: the types that the sender is
    /// configured to send have to be configured here, too.
    pub fn needs_types(&self) -> bool {
        let header = |source: &Source| matches!(source, Source::Header(_));
        self.event.iter().any(|event| {
            let mut with = event.identity.iter().flat_map(|identity| &identity.signed_with.0);
            with.any(|source| header(source) && event.event_type.0.contains(source))
        })
    }

    /// True when `serve --dev` and `sign` need keys that are generated.
    pub fn needs_generated_keys(&self) -> bool {
        self.setting.iter().any(|setting| setting.dev_key.is_some_and(DevKey::is_generated))
    }

    /// True when the signature covers the URL, so that `server.public_url` must be right.
    pub fn has_signed_url(&self) -> bool {
        self.signed_url || self.signature.has_signed_url()
    }

    /// The settings that are secrets, and their fewest bytes; the password of Basic is one.
    pub fn secret_settings(&self) -> impl Iterator<Item = (&str, usize)> {
        let is_password = |name: &str| self.signature.scheme == Scheme::Basic && name == "password";
        let floor = move |one: &SettingSpec| match one.bytes_min {
            0 if is_password(&one.name) => self.signature.secret_bytes_min,
            bytes_min => bytes_min,
        };
        self.setting.iter().map(move |one| (one.name.as_str(), floor(one))).filter(|(_, floor)| *floor > 0)
    }
}

/// The response that the sender expects instead of our JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSpec {
    /// Status of the answer, 200 to 299.
    #[serde(default = "ok")]
    pub status: u16,
    /// Body of the answer, as it is.
    pub body: String,
    /// Content type of that body.
    pub content_type: String,
    /// Name of a member of the request's body that the sender wants back: where it is there, the answer is an object
    /// with that member alone, as received, instead of `body`.
    pub echo: Option<String>,
}

/// The status of an answer that says none.
pub(crate) fn ok() -> u16 {
    200
}

/// Time for which a person, or a call to the sender's API, can have an event sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// Hours after it happened.
    Hours(u32),
    /// For as long as the sender has the event, and its documentation names no end.
    Unbounded,
}

impl Resend {
    pub fn check(self) -> Result<(), Mistake> {
        match self {
            Self::Hours(hours) => bounded("resend_h", hours, HORIZON_H_MAX).map_err(|mistake| {
                let why =
                    format!("{}, \"unbounded\", or leave it out where none is known", mistake.flaw.brief());
                Mistake::said(mistake.key, why, REMEDY)
            }),
            Self::Unbounded => Ok(()),
        }
    }
}

struct HoursOrUnbounded;

impl Visitor<'_> for HoursOrUnbounded {
    type Value = Resend;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of hours or \"unbounded\"")
    }

    fn visit_i64<E: Error>(self, hours: i64) -> Result<Resend, E> {
        let hours = u32::try_from(hours).map_err(|_| E::invalid_value(Unexpected::Signed(hours), &self))?;
        Ok(Resend::Hours(hours))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Resend, E> {
        match text {
            "unbounded" => Ok(Resend::Unbounded),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Resend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HoursOrUnbounded)
    }
}
