//! Configured secrets made ready: HMAC states that already took in the key, and Ed25519 public keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use crate::config::Secret;
use crate::spec::{Scheme, SecretFormat, SignatureSpec};

/// Why configured secrets are no keys. Never says what they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing to verify with.
    #[error("no secret is configured: everything would be refused")]
    NoSecrets,
    /// An empty or blank secret would verify anybody's requests.
    #[error("secret {0} is empty")]
    Empty(usize),
    /// Not in the format its kind uses.
    #[error("secret {position} is not {wanted}")]
    Undecodable {
        /// From 1, as in the config.
        position: usize,
        /// What the kind uses.
        wanted: &'static str,
    },
    /// Shorter than its scheme allows.
    #[error("secret {position} has {bytes_n} bytes of key, its scheme wants at least {min_n}")]
    TooShort {
        /// From 1, as in the config.
        position: usize,
        /// What it has.
        bytes_n: usize,
        /// What it needs.
        min_n: usize,
    },
}

/// The keys of one provider, newest first.
#[derive(Clone)]
pub struct Keys(Vec<Key>);

#[derive(Clone)]
pub(super) enum Key {
    Sha1(Hmac<Sha1>, usize),
    Sha256(Hmac<Sha256>, usize),
    Sha512(Hmac<Sha512>, usize),
    /// 32 bytes of an Ed25519 public key.
    Ed25519(Vec<u8>),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    /// Makes keys of `secrets`, newest first.
    pub fn new(spec: &SignatureSpec, secrets: &[Secret]) -> Result<Self, KeyError> {
        if secrets.is_empty() {
            return Err(KeyError::NoSecrets);
        }
        let numbered = secrets.iter().enumerate();
        numbered.map(|(n, secret)| key(spec, n + 1, secret.reveal())).collect::<Result<_, _>>().map(Self)
    }

    /// Refuses keys shorter than the kind's floor. Not part of [`Keys::new`], so that published test
    /// vectors with short secrets can be judged.
    pub fn check_strength(&self, spec: &SignatureSpec) -> Result<(), KeyError> {
        for (n, key) in self.0.iter().enumerate() {
            let bytes_n = match key {
                Key::Sha1(_, n) | Key::Sha256(_, n) | Key::Sha512(_, n) => *n,
                Key::Ed25519(_) => continue,
            };
            if bytes_n < spec.secret_bytes_min {
                return Err(KeyError::TooShort { position: n + 1, bytes_n, min_n: spec.secret_bytes_min });
            }
        }
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never true for keys that [`Keys::new`] made.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which key signed `parts`, one after the other, as `signature`. Constant-time for each key.
    pub fn mac_matches(&self, parts: &[&[u8]], signature: &[u8]) -> Option<usize> {
        self.0.iter().position(|key| match key {
            Key::Sha1(mac, _) => fed(mac.clone(), parts).verify_slice(signature).is_ok(),
            Key::Sha256(mac, _) => fed(mac.clone(), parts).verify_slice(signature).is_ok(),
            Key::Sha512(mac, _) => fed(mac.clone(), parts).verify_slice(signature).is_ok(),
            Key::Ed25519(_) => false,
        })
    }

    /// Which Ed25519 key signed `message` as `signature`.
    pub(super) fn ed25519_matches(&self, message: &[u8], signature: &[u8]) -> Option<usize> {
        self.0.iter().position(|key| match key {
            Key::Ed25519(public) => {
                let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public);
                key.verify(message, signature).is_ok()
            }
            _ => false,
        })
    }

    /// The base64 signature of `message` by the newest key that can sign; for kinds that sign with code.
    pub fn sign_base64(&self, message: &[u8]) -> Option<String> {
        self.mac(&[message]).map(|mac| STANDARD.encode(mac))
    }

    /// The signature of `parts` by the newest key that can sign.
    pub(super) fn mac(&self, parts: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.iter().find_map(|key| match key {
            Key::Sha1(mac, _) => Some(fed(mac.clone(), parts).finalize().into_bytes().to_vec()),
            Key::Sha256(mac, _) => Some(fed(mac.clone(), parts).finalize().into_bytes().to_vec()),
            Key::Sha512(mac, _) => Some(fed(mac.clone(), parts).finalize().into_bytes().to_vec()),
            Key::Ed25519(_) => None,
        })
    }
}

fn fed<M: Mac>(mut mac: M, parts: &[&[u8]]) -> M {
    for part in parts {
        mac.update(part);
    }
    mac
}

fn key(spec: &SignatureSpec, position: usize, text: &str) -> Result<Key, KeyError> {
    if text.trim().is_empty() {
        return Err(KeyError::Empty(position));
    }
    let undecodable = |wanted| KeyError::Undecodable { position, wanted };
    if let (SecretFormat::Whsec, Some(public)) = (spec.secret, text.strip_prefix("whpk_")) {
        let public = STANDARD.decode(public).ok().filter(|bytes| bytes.len() == 32);
        return public.map(Key::Ed25519).ok_or(undecodable("`whpk_` and the base64 of 32 bytes"));
    }
    let bytes = match spec.secret {
        SecretFormat::Text => text.as_bytes().to_vec(),
        SecretFormat::Hex => hex::decode(text).map_err(|_| undecodable("hexadecimal"))?,
        SecretFormat::Base64 => STANDARD.decode(text).map_err(|_| undecodable("base64"))?,
        SecretFormat::Whsec => {
            let stem = text.strip_prefix("whsec_").unwrap_or(text);
            STANDARD.decode(stem).map_err(|_| undecodable("base64 behind an optional `whsec_`"))?
        }
    };
    if bytes.is_empty() {
        return Err(KeyError::Empty(position));
    }
    let n = bytes.len();
    // HMAC takes keys of any length; the error exists for other MACs.
    let made = match spec.scheme {
        Scheme::HmacSha1 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha1(mac, n)),
        Scheme::HmacSha512 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha512(mac, n)),
        Scheme::HmacSha256 | Scheme::StandardWebhooks | Scheme::Code => {
            Hmac::new_from_slice(&bytes).map(|mac| Key::Sha256(mac, n))
        }
    };
    made.map_err(|_| undecodable("a key of this scheme"))
}
