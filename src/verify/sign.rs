//! The other side, for `sign` and `send`: makes the headers that a sender would send. Offline, with the
//! newest secret that can sign.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Keys;
use super::hmac::{Filled, parts};
use super::standard::Family;
use crate::spec::{Encoding, Scheme, SignatureSpec, Source, Spec};

/// When and as what a request is signed.
#[derive(Debug, Clone)]
pub struct SignAt {
    /// Unix seconds.
    pub now_s: i64,
    /// The URL the request goes to, as the sender knows it.
    pub url: String,
    /// The id for kinds that carry it in a header.
    pub id: String,
    /// The type for kinds that carry it in a header.
    pub event_type: String,
}

/// A request that its kind believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Names and values, in the order to send them.
    pub headers: Vec<(String, String)>,
    /// The bytes to send; other than what was given only where the signature is inside.
    pub body: Vec<u8>,
}

/// Why nothing was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Only public keys are configured.
    #[error("none of the configured secrets can sign")]
    NoSigningKey,
    /// The kind signs fields that this body does not have.
    #[error("body cannot be signed: {0}")]
    Body(String),
    /// The kind's code verifies but does not sign.
    #[error("kind `{0}` cannot be signed offline")]
    Unsupported(String),
}

/// Signs `body` as the sender of `spec` would.
pub fn sign(spec: &Spec, keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let timestamp = at.now_s.to_string();
    let signature = &spec.signature;
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    match signature.scheme {
        Scheme::Code => return Err(SignError::Unsupported(spec.kind.clone())),
        Scheme::StandardWebhooks => {
            let family = Family::of(signature.headers.first().map_or("webhook-", String::as_str));
            let parts: [&[u8]; 5] = [at.id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
            let mac = keys.mac(&parts).ok_or(SignError::NoSigningKey)?;
            headers.push((family.id, at.id.clone()));
            headers.push((family.timestamp, timestamp));
            headers.push((family.signature, format!("v1,{}", STANDARD.encode(mac))));
        }
        Scheme::HmacSha1 | Scheme::HmacSha256 | Scheme::HmacSha512 => {
            let filled = Filled { timestamp: &timestamp, url: &at.url, body };
            let mac = keys.mac(&parts(&signature.signed, &filled)).ok_or(SignError::NoSigningKey)?;
            let text = encoded(signature, &mac);
            let value = signature.layout.replace("{timestamp}", &timestamp).replace("{signature}", &text);
            headers.extend(signature.headers.first().map(|name| (name.clone(), value)));
            headers.extend(signature.timestamp_header.iter().map(|name| (name.clone(), timestamp.clone())));
        }
    }
    headers.extend(unsigned_headers(spec, at));
    Ok(Signed { headers, body: body.to_vec() })
}

fn encoded(signature: &SignatureSpec, mac: &[u8]) -> String {
    match signature.encoding {
        Encoding::Hex => hex::encode(mac),
        Encoding::Base64 => STANDARD.encode(mac),
    }
}

/// Ids and types that the kind carries in headers of their own.
fn unsigned_headers(spec: &Spec, at: &SignAt) -> Vec<(String, String)> {
    let Some(event) = spec.event.last().filter(|_| spec.signature.scheme != Scheme::StandardWebhooks) else {
        return Vec::new();
    };
    let mut headers: Vec<(String, String)> = Vec::new();
    let types = event.event_type.0.iter().map(|source| (source, &at.event_type));
    let ids = event.id.0.iter().map(|source| (source, &at.id));
    for (source, text) in types.chain(ids) {
        if let Source::Header(names) = source {
            let name = names.split('|').next().unwrap_or_default();
            if !headers.iter().any(|(known, _)| known == name) {
                headers.push((name.to_owned(), text.clone()));
            }
        }
    }
    headers
}
