//! One key: how a configured text becomes one, and the signature that it computes of a message.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

use super::encoding::{Hash, ShortBytes, digest, key_base64, same};
use super::error::KeyError;
use super::private::SigningKey;
use super::public::PublicKey;
use crate::spec::{Scheme, SecretFormat, SignatureSpec};

/// A key, and its id where the setting gives it one.
#[derive(Clone)]
pub(super) struct NamedKey {
    pub id: Option<String>,
    pub key: Key,
}

/// A key as its scheme uses it; of an HMAC its state behind the secret, and the length of the secret in bytes.
#[derive(Clone)]
pub(crate) enum Key {
    Sha1(Hmac<Sha1>, usize),
    Sha256(Hmac<Sha256>, usize),
    Sha384(Hmac<Sha384>, usize),
    Sha512(Hmac<Sha512>, usize),
    /// A plain hash, and the secret that stands in front of the text or behind it.
    Hash {
        hash: Hash,
        secret: Vec<u8>,
        is_first: bool,
    },
    Public(PublicKey),
}

/// A key whose id is known is tried only when the request names it; one without an id always.
pub(crate) fn is_requested(named: &NamedKey, id: Option<&str>) -> bool {
    match (&named.id, id) {
        (Some(known), Some(asked)) => known == asked,
        _ => true,
    }
}

/// The MACs of one text by every key that makes them.
pub(super) struct Macs<'a>(pub(super) Vec<(&'a NamedKey, Option<ShortBytes>)>);

impl Macs<'_> {
    /// Position of the key that made `signature`, among those with this id; a key without an id always counts. Each is
    /// compared in constant time.
    pub(crate) fn matches(&self, id: Option<&str>, signature: &[u8]) -> Option<usize> {
        self.0.iter().position(|(named, mac)| {
            is_requested(named, id) && mac.as_ref().is_some_and(|mac| same(mac, signature))
        })
    }
}

/// The MAC of `parts`, one after the other, by `key`; `None` for a public key.
pub(super) fn mac_by<P: AsRef<[u8]>>(key: &Key, parts: &[P]) -> Option<ShortBytes> {
    match key {
        Key::Sha1(mac, _) => Some(ShortBytes::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Sha256(mac, _) => Some(ShortBytes::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Sha384(mac, _) => Some(ShortBytes::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Sha512(mac, _) => Some(ShortBytes::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Hash { hash, secret, is_first } => {
            let (before, behind): (&[u8], &[u8]) = if *is_first { (secret, b"") } else { (b"", secret) };
            let text = parts.iter().map(AsRef::as_ref);
            let all: Vec<&[u8]> = [before].into_iter().chain(text).chain([behind]).collect();
            Some(ShortBytes::of(&digest(*hash, &all)))
        }
        Key::Public(_) => None,
    }
}

fn fed<M: Mac, P: AsRef<[u8]>>(mut mac: M, parts: &[P]) -> M {
    for part in parts {
        mac.update(part.as_ref());
    }
    mac
}

/// Parses the key of one configured text, in the format of its kind. `position` is from 1, as in the config.
pub(crate) fn key(spec: &SignatureSpec, position: usize, text: &str) -> Result<Key, KeyError> {
    let undecodable = |wanted| KeyError::Undecodable { position, wanted };
    let is_public = spec.scheme.is_public()
        || (spec.scheme == Scheme::StandardWebhooks
            && (text.starts_with("whpk_") || text.starts_with("whsk_")));
    if is_public {
        if let Some(public) = SigningKey::parse(text).and_then(|key| PublicKey::parse(&key.public_text()?)) {
            return Ok(Key::Public(public));
        }
        let wanted = "a public key: PEM, base64 of its SPKI, or 32 bytes for Ed25519";
        return PublicKey::parse(text).map(Key::Public).ok_or(undecodable(wanted));
    }
    let bytes = match (spec.secret, text.strip_prefix("whsec_")) {
        (SecretFormat::Text, _) | (SecretFormat::WhsecOrText, None) => text.as_bytes().to_vec(),
        (SecretFormat::Hex, _) => hex::decode(text).map_err(|_| undecodable("hexadecimal"))?,
        (SecretFormat::Base64, _) => key_base64(text).ok_or(undecodable("base64"))?,
        (SecretFormat::Whsec | SecretFormat::WhsecOrText, stem) => {
            key_base64(stem.unwrap_or(text)).ok_or(undecodable("base64 behind an optional `whsec_`"))?
        }
    };
    if bytes.is_empty() {
        return Err(KeyError::Empty(position));
    }
    let n = bytes.len();
    let hash = match spec.scheme {
        Scheme::HashSha256 => Some(Hash::Sha256),
        Scheme::HashSha512 => Some(Hash::Sha512),
        _ => None,
    };
    if let Some(hash) = hash {
        return Ok(Key::Hash { hash, secret: bytes, is_first: spec.is_secret_first() });
    }
    // HMAC takes keys of any length; the error exists for other MACs.
    let made = match spec.scheme {
        Scheme::HmacSha1 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha1(mac, n)),
        Scheme::HmacSha384 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha384(mac, n)),
        Scheme::HmacSha512 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha512(mac, n)),
        _ => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha256(mac, n)),
    };
    made.map_err(|_| undecodable("a key of this scheme"))
}
