//! The signatures of a call: Standard Webhooks, or an HMAC in a header of the destination's choosing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Sha256, Sha512};

use super::headers::value;
use super::signed::{Attempted, HmacTemplate};
use super::values;
use hooklatch_core::config::{DestinationConfig, HmacAlgorithm, HmacConfig, HmacEncoding, Secret};
use hooklatch_store::LeasedMessage;

/// The signatures of one destination, keyed once.
#[derive(Default)]
pub(super) struct Signers {
    /// Each of them gives a signature; the destination accepts a call when it knows one of the secrets.
    standard: Vec<Hmac<Sha256>>,
    header: Option<HeaderSigner>,
}

/// An HMAC in a header of the destination's choosing.
struct HeaderSigner {
    config: HmacConfig,
    signed: HmacTemplate,
    keyed: KeyedMac,
}

/// An HMAC that has its key and waits for what is signed.
#[derive(Clone)]
enum KeyedMac {
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

impl Signers {
    /// The error says what is wrong with the template of what is signed.
    pub(crate) fn new(config: &DestinationConfig) -> Result<Self, String> {
        let keyed = |secret| Hmac::new_from_slice(&sign_key(secret)).ok();
        let standard = config.sign_secrets.iter().filter_map(keyed).collect();
        let header = match &config.http.hmac {
            Some(hmac) => {
                let signed = HmacTemplate::parse(&hmac.signed)?;
                KeyedMac::new(hmac).map(|keyed| HeaderSigner { config: hmac.clone(), signed, keyed })
            }
            None => None,
        };
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

impl KeyedMac {
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
/// time is that of the attempt, so that a late one is believed, too. Signatures by several secrets stand side by side, with
/// a space between them.
fn standard(
    macs: &[Hmac<Sha256>],
    message: &LeasedMessage,
    now_s: i64,
    headers: &mut HeaderMap,
) -> Result<(), String> {
    let begin = format!("{}.{now_s}.", message.idempotency_key);
    let signature = |mac: &Hmac<Sha256>| {
        let signed = mac.clone().chain_update(begin.as_bytes()).chain_update(&message.body);
        format!("v1,{}", STANDARD.encode(signed.finalize().into_bytes()))
    };
    let signatures: Vec<String> = macs.iter().map(signature).collect();
    headers.insert("webhook-id", value("webhook-id", &message.idempotency_key)?);
    headers.insert("webhook-timestamp", HeaderValue::from(now_s));
    headers.insert("webhook-signature", value("webhook-signature", &signatures.join(" "))?);
    Ok(())
}

impl HeaderSigner {
    fn sign(&self, message: &LeasedMessage, now_s: i64, headers: &mut HeaderMap) -> Result<(), String> {
        let (config, mut mac) = (&self.config, self.keyed.clone());
        let attempted = Attempted { now_s, idempotency_key: &message.idempotency_key, body: &message.body };
        self.signed
            .each(&attempted, || values::of_message(message), |bytes| mac.update(bytes))
            .map_err(|why| format!("hmac.signed: {why}"))?;
        let signature = match config.encoding {
            HmacEncoding::Hex => hex::encode(mac.finalize()),
            HmacEncoding::Base64 => STANDARD.encode(mac.finalize()),
        };
        let signature = format!("{}{signature}", config.prefix);
        headers.insert(name(&config.header)?, value(&config.header, &signature)?);
        if let Some(header) = &config.timestamp_header {
            headers.insert(name(header)?, HeaderValue::from(now_s));
        }
        Ok(())
    }
}

fn name(text: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("`{text}` is not a header name"))
}
