//! The signatures of a call: Standard Webhooks, or an HMAC in a header of the destination's choosing.
//!
//! The text that an `hmac` covers is a template around the bytes of the body. A template gives text, and a body need
//! not be text. So `{{ body }}` is not a value of the template: the text is taken apart at it, what is between is a
//! template of its own, and the bytes of the body go to the digest as they are. That leaves one rule that Jinja does
//! not have: the body stands alone, `{{ body }}`, and no filter or condition sees it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha512};
use std::cell::LazyCell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::headers::value;
use hooklatch_core::config::{DestinationConfig, HmacAlgorithm, HmacConfig, HmacEncoding, Secret};
use hooklatch_core::template::{self, Escape, Limits, Template};
use hooklatch_store::LeasedMessage;

/// The values of one message.
pub(crate) fn of_message(message: &LeasedMessage) -> Value {
    json!({
        "idempotency_key": message.idempotency_key,
        "event": {
            "provider": message.key.provider.as_str(), "id": message.key.event_id, "type": message.event_type,
        },
        "message": { "id": message.message_id.to_string(), "name": message.effect_name },
    })
}

/// The values of two messages that were made up, of two runs of one event: what is filled in with them when the program
/// starts is what will be filled in later.
pub(crate) fn samples() -> [Value; 2] {
    ["1", "2"].map(|n| {
        json!({
            "idempotency_key": format!("key-{n}"),
            "event": { "provider": "provider-1", "id": "event-1", "type": "type-1" },
            "message": { "id": n, "name": "name-1" },
        })
    })
}

/// The text that is signed, taken apart: each piece is a template, or `None` for the body.
#[derive(Debug)]
pub(crate) struct HmacTemplate(Vec<Option<Template>>);

impl HmacTemplate {
    /// Takes `text` apart; the error says where a template in it is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let (mut begin, mut rest) = (text, text);
        while let Some((_, tag)) = rest.split_once("{{") {
            let Some((inside, after)) = tag.split_once("}}") else { break };
            if inside.trim() == "body" {
                let before = begin.len() - tag.len() - 2;
                pieces.extend(between(begin.get(..before).unwrap_or_default())?.map(Some));
                pieces.push(None);
                begin = after;
            }
            rest = after;
        }
        pieces.extend(between(begin)?.map(Some));
        Ok(Self(pieces))
    }

    /// True when the body is signed.
    pub(crate) fn has_body(&self) -> bool {
        self.0.iter().any(Option::is_none)
    }

    /// Passes what is signed at `now_s` (unix seconds) to `update`, piece by piece. `values` are those of the message.
    pub(crate) fn each(
        &self,
        now_s: i64,
        values: impl FnOnce() -> Value,
        body: &[u8],
        mut update: impl FnMut(&[u8]),
    ) -> Result<(), String> {
        let values = LazyCell::new(|| {
            let mut values = values();
            if let Value::Object(values) = &mut values {
                values.insert("timestamp".to_owned(), Value::from(now_s));
            }
            template::values(&values)
        });
        for piece in &self.0 {
            match piece {
                Some(text) => {
                    update(text.render(&values, Limits::head()).map_err(|error| error.why)?.as_bytes());
                }
                None => update(body),
            }
        }
        Ok(())
    }

    /// The bytes that would be signed at `now_s` (unix seconds) of a message that was made up.
    pub(crate) fn sample(&self, now_s: i64) -> Result<Vec<u8>, String> {
        let [values, _] = samples();
        let mut all = Vec::new();
        self.each(now_s, || values, b"{}", |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }
}

/// The piece before, between or behind bodies, if there is any.
fn between(text: &str) -> Result<Option<Template>, String> {
    (!text.is_empty()).then(|| Template::parse_to_the_letter(text, Escape::Nothing)).transpose()
}

/// The signatures of one destination, keyed once.
#[derive(Default)]
pub(crate) struct Signers {
    /// Each of them gives a signature; the destination accepts a call when it knows one of the secrets.
    standard: Vec<Hmac<Sha256>>,
    header: Option<HeaderSigner>,
}

/// An HMAC in a header of the destination's choosing.
struct HeaderSigner {
    config: HmacConfig,
    signed: HmacTemplate,
    key: HeaderKey,
}

enum HeaderKey {
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

/// HMAC takes keys of any length; the error exists for other MACs.
fn keyed<M: KeyInit>(key: &[u8]) -> Result<M, String> {
    M::new_from_slice(key).map_err(|error| error.to_string())
}

impl Signers {
    /// The error says what is wrong with the template of what is signed.
    pub(crate) fn new(config: &DestinationConfig) -> Result<Self, String> {
        let keys = config.sign_secrets.iter().map(|secret| keyed(&sign_key(secret)));
        let standard = keys.collect::<Result<_, _>>()?;
        let header = config.http.hmac.clone().map(HeaderSigner::new).transpose()?;
        Ok(Self { standard, header })
    }

    /// Adds the signatures of `message`, sent at `now_s` (unix seconds).
    pub(crate) fn sign(
        &self,
        message: &LeasedMessage,
        now_s: i64,
        headers: &mut HeaderMap,
    ) -> Result<(), String> {
        if !self.standard.is_empty() {
            standard(&self.standard, message, now_s, headers)?;
        }
        if let Some(header) = &self.header {
            header.sign(message, now_s, headers)?;
        }
        Ok(())
    }
}

/// The key bytes of a `sign_secret`: the base64 after `whsec_`, as Standard Webhooks writes it, else the text.
fn sign_key(secret: &Secret) -> Vec<u8> {
    let encoded = secret.reveal().strip_prefix("whsec_");
    let decoded = encoded.and_then(|text| STANDARD.decode(text).ok());
    decoded.unwrap_or_else(|| secret.reveal().as_bytes().to_vec())
}

/// Standard Webhooks v1 (standardwebhooks.com): over id, time and body. The id is the idempotency key; the
/// time is that of the attempt, so that a late one is accepted, too. Signatures by several secrets stand side by side,
/// with a space between them.
fn standard(
    keys: &[Hmac<Sha256>],
    message: &LeasedMessage,
    now_s: i64,
    headers: &mut HeaderMap,
) -> Result<(), String> {
    let begin = format!("{}.{now_s}.", message.idempotency_key);
    let signature = |key: &Hmac<Sha256>| {
        let mac = key.clone().chain_update(&begin).chain_update(&message.body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    };
    let signatures: Vec<String> = keys.iter().map(signature).collect();
    headers.insert("webhook-id", value("webhook-id", &message.idempotency_key)?);
    headers.insert("webhook-timestamp", HeaderValue::from(now_s));
    headers.insert("webhook-signature", value("webhook-signature", &signatures.join(" "))?);
    Ok(())
}

impl HeaderSigner {
    fn new(config: HmacConfig) -> Result<Self, String> {
        let secret = config.secret.reveal().as_bytes();
        let key = match config.algorithm {
            HmacAlgorithm::Sha256 => HeaderKey::Sha256(keyed(secret)?),
            HmacAlgorithm::Sha512 => HeaderKey::Sha512(keyed(secret)?),
        };
        Ok(Self { signed: HmacTemplate::parse(&config.signed)?, key, config })
    }

    fn sign(&self, message: &LeasedMessage, now_s: i64, headers: &mut HeaderMap) -> Result<(), String> {
        let config = &self.config;
        let mac = match &self.key {
            HeaderKey::Sha256(key) => self.mac(key.clone(), message, now_s)?,
            HeaderKey::Sha512(key) => self.mac(key.clone(), message, now_s)?,
        };
        let signature = match config.encoding {
            HmacEncoding::Hex => hex::encode(mac),
            HmacEncoding::Base64 => STANDARD.encode(mac),
        };
        let signature = format!("{}{signature}", config.prefix);
        headers.insert(name(&config.header)?, value(&config.header, &signature)?);
        if let Some(header) = &config.timestamp_header {
            headers.insert(name(header)?, HeaderValue::from(now_s));
        }
        Ok(())
    }

    fn mac<M: Mac>(&self, mut mac: M, message: &LeasedMessage, now_s: i64) -> Result<Vec<u8>, String> {
        self.signed
            .each(now_s, || of_message(message), &message.body, |bytes| mac.update(bytes))
            .map_err(|why| format!("hmac.signed: {why}"))?;
        Ok(mac.finalize().into_bytes().to_vec())
    }
}

fn name(text: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("`{text}` is not a header name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::message;

    #[test]
    fn a_message_that_was_made_up_has_the_names_of_a_real_one() {
        fn names(value: &Value) -> Vec<String> {
            let Value::Object(values) = value else { return Vec::new() };
            let inner = values.iter().map(|(name, value)| (name, names(value)));
            inner.flat_map(|(name, below)| std::iter::once(name.clone()).chain(below)).collect()
        }
        for sample in samples() {
            assert_eq!(names(&sample), names(&of_message(&message())));
        }
    }

    fn signed(text: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let [values, _] = samples();
        let mut all = Vec::new();
        let template = HmacTemplate::parse(text)?;
        template.each(7, || values, body, |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }

    #[test]
    fn what_is_signed_is_the_template_with_the_body_to_the_byte() {
        #[track_caller]
        fn check(text: &str, body: &[u8], want: &[u8]) {
            assert_eq!(signed(text, body).unwrap(), want, "{text}");
        }
        check("{{ body }}", b"{\"a\":1}", b"{\"a\":1}");
        check("{{body}}", b"\xff\x00\xfe", b"\xff\x00\xfe");
        check("{{ timestamp }}.{{ body }}", b"\xc3", b"7.\xc3");
        check("{{ timestamp }}\n{{ body }}\n", b"b", b"7\nb\n");
        check("v0:{{ idempotency_key }}:{{ body }}:{{ body }}", b"b", b"v0:key-1:b:b");
        check("{{ timestamp + 0 }}\n{{ idempotency_key | upper }}\n{{ body }}", b"b", b"7\nKEY-1\nb");
        check("{% if timestamp %}{{ timestamp }}{% endif %}.{{ body }}", b"b", b"7.b");
        check("{{ event.id }}/{{ message.id }}{{ body }}", b"<&\"", b"event-1/1<&\"");
        check("{\"t\":{{ timestamp }},\"b\":{{ body }}}", b"1", b"{\"t\":7,\"b\":1}");
        // What looks like a template in a body stays what it is.
        check("{{ body }}", b"{{ timestamp }}", b"{{ timestamp }}");
    }

    #[test]
    fn a_body_that_does_not_stand_alone_is_an_error() {
        for text in [
            "{{ body | upper }}",
            "{{ timestamp }}{{ body ~ 'x' }}",
            "{% if body %}x{% endif %}",
            "{{ 'body' }}{{ nothing }}",
        ] {
            assert!(signed(text, b"b").is_err(), "{text}");
        }
        assert!(HmacTemplate::parse("{% if timestamp %}{{ body }}{% endif %}").is_err());
        assert!(!HmacTemplate::parse("{{ timestamp }}").unwrap().has_body());
    }
}
