//! What vouches for a call: Standard Webhooks, or an HMAC in a header of the destination's choosing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Sha256, Sha512};

use super::headers::value;
use crate::config::{DestinationConfig, HmacAlgorithm, HmacConfig, HmacEncoding, Secret};
use crate::store::LeasedMessage;

/// The signatures of one destination, keyed once.
#[derive(Default)]
pub(super) struct Signers {
    standard: Option<Hmac<Sha256>>,
    header: Option<(HmacConfig, Keyed)>,
}

#[derive(Clone)]
enum Keyed {
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

impl Signers {
    pub(super) fn new(config: &DestinationConfig) -> Self {
        let standard =
            config.sign_secret.as_ref().and_then(|secret| Hmac::new_from_slice(&sign_key(secret)).ok());
        let header = config.http.hmac.as_ref().and_then(|hmac| Some((hmac.clone(), Keyed::new(hmac)?)));
        Self { standard, header }
    }

    /// Adds the signatures of `message`, sent at `now_s` (unix seconds).
    pub(super) fn sign(
        &self,
        message: &LeasedMessage,
        now_s: i64,
        headers: &mut HeaderMap,
    ) -> Result<(), String> {
        if let Some(mac) = &self.standard {
            standard(mac.clone(), message, now_s, headers)?;
        }
        if let Some((config, keyed)) = &self.header {
            in_header(config, keyed.clone(), message, now_s, headers)?;
        }
        Ok(())
    }
}

impl Keyed {
    fn new(config: &HmacConfig) -> Option<Self> {
        let key = config.secret.reveal().as_bytes();
        match config.algorithm {
            HmacAlgorithm::Sha256 => Hmac::new_from_slice(key).ok().map(Self::Sha256),
            HmacAlgorithm::Sha512 => Hmac::new_from_slice(key).ok().map(Self::Sha512),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(mac) => mac.update(bytes),
            Self::Sha512(mac) => mac.update(bytes),
        }
    }

    fn finalize(self) -> Vec<u8> {
        match self {
            Self::Sha256(mac) => mac.finalize().into_bytes().to_vec(),
            Self::Sha512(mac) => mac.finalize().into_bytes().to_vec(),
        }
    }
}

/// The key bytes of a `sign_secret`: the base64 after `whsec_`, as Standard Webhooks writes it, else the text.
fn sign_key(secret: &Secret) -> Vec<u8> {
    let encoded = secret.reveal().strip_prefix("whsec_");
    let decoded = encoded.and_then(|text| STANDARD.decode(text).ok());
    decoded.unwrap_or_else(|| secret.reveal().as_bytes().to_vec())
}

/// Standard Webhooks v1 (standardwebhooks.com): over id, time and body. The id is the idempotency key; the
/// time is that of the attempt, so that a late one is believed, too.
fn standard(
    mut mac: Hmac<Sha256>,
    message: &LeasedMessage,
    now_s: i64,
    headers: &mut HeaderMap,
) -> Result<(), String> {
    mac.update(format!("{}.{now_s}.", message.idempotency_key).as_bytes());
    mac.update(&message.body);
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    headers.insert("webhook-id", value("webhook-id", &message.idempotency_key)?);
    headers.insert("webhook-timestamp", HeaderValue::from(now_s));
    headers.insert("webhook-signature", value("webhook-signature", &format!("v1,{signature}"))?);
    Ok(())
}

fn in_header(
    config: &HmacConfig,
    mut mac: Keyed,
    message: &LeasedMessage,
    now_s: i64,
    headers: &mut HeaderMap,
) -> Result<(), String> {
    let mut rest = config.signed.as_str();
    while let Some((literal, tail)) = rest.split_once('{') {
        mac.update(literal.as_bytes());
        let (name, tail) = tail.split_once('}').unwrap_or((tail, ""));
        match name {
            "timestamp" => mac.update(now_s.to_string().as_bytes()),
            "idempotency_key" => mac.update(message.idempotency_key.as_bytes()),
            _ => mac.update(&message.body),
        }
        rest = tail;
    }
    mac.update(rest.as_bytes());
    let signature = match config.encoding {
        HmacEncoding::Hex => hex::encode(mac.finalize()),
        HmacEncoding::Base64 => STANDARD.encode(mac.finalize()),
    };
    headers.insert(name(&config.header)?, value(&config.header, &format!("{}{signature}", config.prefix))?);
    if let Some(header) = &config.timestamp_header {
        headers.insert(name(header)?, HeaderValue::from(now_s));
    }
    Ok(())
}

fn name(text: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("`{text}` is not a header name"))
}
