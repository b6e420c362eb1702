//! Configured secrets made ready: HMAC states that already took in the key, public keys, and what the kind's
//! settings say besides.

use std::borrow::Cow;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

use super::encoding::{Short, key_base64, same};
use super::private::SigningKey;
use super::public::{PublicKey, PublicScheme};
use super::sign::SignError;
use crate::config::{KindSettings, Secret};
use crate::spec::{Scheme, SecretFormat, SignatureSpec, Spec};

/// Why configured secrets are no keys. Never says what they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing to verify with.
    #[error("no secret is configured: everything would be refused")]
    NoSecrets,
    /// A setting that the scheme cannot do without.
    #[error("setting `{0}` is missing")]
    NoSetting(String),
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
    /// Whoever has it could sign; a receiver needs the public half alone.
    #[error("a secret is a private key, which only its sender should have: configure the public one")]
    Private,
    /// Shorter than its scheme allows.
    #[error("secret {position} has {bytes_n} bytes of key, and fewer than {min_n} can be guessed")]
    TooShort {
        /// From 1, as in the config.
        position: usize,
        /// What it has.
        bytes_n: usize,
        /// What it needs.
        min_n: usize,
    },
    /// A setting that is a secret, and shorter than it may be.
    #[error("has {bytes_n} bytes, and fewer than {min_n} can be guessed")]
    SettingTooShort {
        /// Its name.
        name: String,
        /// What it has.
        bytes_n: usize,
        /// What it needs.
        min_n: usize,
    },
}

/// Where keys come from that no setting holds, such as a sender's certificate by its URL or a key by its id.
/// It answers from what it has fetched before: verification waits for nobody.
pub trait KeySource: Send + Sync {
    /// The key's text as [`PublicKey::parse`] or [`super::Certificate::parse`] reads it.
    fn key(&self, wanted: &KeyWanted<'_>) -> Option<String>;
}

/// Which key a [`KeySource`] is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyWanted<'a> {
    /// The setting that would hold it.
    pub setting: &'a str,
    /// The id or URL that the request names; the kind has checked that it may be asked.
    pub id: &'a str,
}

/// The keys of one provider, newest first, and its settings.
#[derive(Clone)]
pub struct Keys {
    list: Vec<NamedKey>,
    secrets: Vec<Secret>,
    settings: KindSettings,
    source: Option<Arc<dyn KeySource>>,
    /// With what to sign as the sender does, where that takes a private key.
    signer: Option<SigningKey>,
    /// How old a signed time may be, and how far ahead. Seconds.
    tolerance_s: (u32, u32),
}

#[derive(Clone)]
struct NamedKey {
    id: Option<String>,
    key: Key,
}

#[derive(Clone)]
enum Key {
    Sha1(Hmac<Sha1>, usize),
    Sha256(Hmac<Sha256>, usize),
    Sha384(Hmac<Sha384>, usize),
    Sha512(Hmac<Sha512>, usize),
    Public(PublicKey),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.list.len())
    }
}

impl Keys {
    /// Makes keys of `secrets`, newest first, and of the setting that the spec names.
    pub(crate) fn new(
        spec: &SignatureSpec,
        secrets: &[Secret],
        settings: &KindSettings,
    ) -> Result<Self, KeyError> {
        let secrets: Vec<Secret> = secrets.iter().flat_map(|secret| taken_apart(spec, secret)).collect();
        let signer = secrets.iter().find_map(|secret| SigningKey::parse(secret.reveal()));
        if let Some(n) = secrets.iter().position(|secret| secret.reveal().trim().is_empty()) {
            return Err(KeyError::Empty(n + 1));
        }
        let named = spec.keys.iter().flat_map(|name| settings.all(name));
        let named = named.map(|setting| (setting.id.clone(), setting.value.reveal()));
        let texts: Vec<_> = secrets.iter().map(|secret| (None, secret.reveal())).chain(named).collect();
        match (&spec.keys, spec.scheme) {
            (_, Scheme::Basic) => {
                let missing = ["username", "password"].into_iter().find(|name| !settings.has(name));
                missing.map_or(Ok(()), |name| Err(KeyError::NoSetting(name.to_owned())))?;
            }
            (Some(name), _) if texts.is_empty() && !spec.keys_fetched => {
                return Err(KeyError::NoSetting(name.clone()));
            }
            (None, _) if texts.is_empty() && spec.secrets_needed => return Err(KeyError::NoSecrets),
            _ => {}
        }
        let list = match spec.scheme {
            Scheme::Token | Scheme::Basic | Scheme::Unsigned => Vec::new(),
            _ => {
                let numbered = texts.into_iter().enumerate();
                let made = numbered.map(|(n, (id, text))| Ok(NamedKey { id, key: key(spec, n + 1, text)? }));
                made.collect::<Result<_, _>>()?
            }
        };
        let tolerance_s = spec.tolerances_s();
        Ok(Self { list, secrets, settings: settings.clone(), source: None, signer, tolerance_s })
    }

    /// With these bounds of a signed time.
    #[must_use]
    pub(crate) fn with_tolerance_s(mut self, tolerance_s: (u32, u32)) -> Self {
        self.tolerance_s = tolerance_s;
        self
    }

    /// How old a signed time may be and how far ahead, as the kind's `provider.toml` or the operator says. Seconds; nothing
    /// at all where the file has no `tolerance_s`. For kinds that verify with code.
    pub fn tolerance_s(&self) -> (u32, u32) {
        self.tolerance_s
    }

    /// The configured secrets as texts, newest first.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(Secret::reveal)
    }

    /// The text of a setting, or the error that says it is missing.
    pub fn setting(&self, name: &str) -> Result<&str, super::VerifyError> {
        let missing = || super::VerifyError::NoKey(format!("setting `{name}` is missing"));
        self.settings.text(name).ok_or_else(missing)
    }
}

#[doc(hidden)]
impl Keys {
    /// Whether anybody bounds the age of a signed time: the kind's `provider.toml`, or the operator.
    pub fn is_age_bounded(&self) -> bool {
        self.tolerance_s != (0, 0)
    }

    /// Asks `source` for keys that no setting holds.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn KeySource>) -> Self {
        self.source = Some(source);
        self
    }

    /// Signs with `signer`, whose public half is among the keys.
    #[must_use]
    pub(crate) fn with_signer(mut self, signer: Option<SigningKey>) -> Self {
        self.signer = signer.or(self.signer);
        self
    }

    /// Refuses private keys, and what is shorter than the kind's floors; not [`Keys::new`], which takes short vectors too.
    pub fn check_strength(&self, spec: &Spec) -> Result<(), KeyError> {
        if self.signer.is_some() {
            return Err(KeyError::Private);
        }
        let min_n = spec.signature.secret_bytes_min;
        let of_key = |named: &NamedKey| match &named.key {
            Key::Sha1(_, n) | Key::Sha256(_, n) | Key::Sha384(_, n) | Key::Sha512(_, n) => Some(*n),
            Key::Public(_) => None,
        };
        // Of tokens no keys are made.
        let lengths: Vec<Option<usize>> = match self.list.as_slice() {
            [] => self.secrets().map(|secret| Some(secret.len())).collect(),
            list => list.iter().map(of_key).collect(),
        };
        let short =
            |(n, bytes_n): (usize, &Option<usize>)| Some((n, (*bytes_n).filter(|bytes_n| *bytes_n < min_n)?));
        if let Some((n, bytes_n)) = lengths.iter().enumerate().find_map(short) {
            return Err(KeyError::TooShort { position: n + 1, bytes_n, min_n });
        }
        for (name, min_n) in spec.secret_settings() {
            let lengths = self.settings.all(name).map(|one| secret_bytes(one.value.reveal()));
            if let Some(bytes_n) = lengths.min().filter(|bytes_n| *bytes_n < min_n) {
                return Err(KeyError::SettingTooShort { name: name.to_owned(), bytes_n, min_n });
            }
        }
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len().max(self.secrets.len())
    }

    /// Whether there is neither key nor secret.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the operator wrote under `settings`.
    pub fn settings(&self) -> &KindSettings {
        &self.settings
    }

    /// The key with this id: from the setting, else from the source.
    pub fn key_text(&self, setting: &str, id: &str) -> Option<Cow<'_, str>> {
        let fetched = || self.source.as_ref()?.key(&KeyWanted { setting, id }).map(Cow::Owned);
        self.settings.of_id(setting, id).map(Cow::Borrowed).or_else(fetched)
    }

    /// The key with this id from the source alone.
    pub(super) fn fetched(&self, setting: &str, id: &str) -> Option<String> {
        self.source.as_ref()?.key(&KeyWanted { setting, id })
    }

    /// Which key signed `parts`, one after the other, as `signature`. Constant-time for each key.
    pub fn mac_matches<P: AsRef<[u8]>>(&self, parts: &[P], signature: &[u8]) -> Option<usize> {
        self.macs(parts).matches(None, signature)
    }

    /// What every key makes of `parts`, for requests that carry several signatures: computed once, compared often.
    pub(super) fn macs<P: AsRef<[u8]>>(&self, parts: &[P]) -> Macs<'_> {
        let made = self.list.iter().map(|named| (named, mac_by(&named.key, parts)));
        Macs(made.collect())
    }

    /// Which public key signed `message` as `signature`.
    pub fn public_matches(
        &self,
        scheme: PublicScheme,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Option<usize> {
        self.list.iter().position(|named| {
            is_asked(named, id)
                && matches!(&named.key, Key::Public(key) if key.verifies(scheme, message, signature))
        })
    }

    /// Which secret `token` is. Every secret is compared, each in constant time.
    pub fn token_matches(&self, token: &[u8]) -> Option<usize> {
        let matches = self.secrets().map(|secret| same(secret.as_bytes(), token));
        matches.enumerate().filter(|(_, is_same)| *is_same).fold(None, |first, (n, _)| first.or(Some(n)))
    }

    /// The base64 signature of `message` by the newest key that can sign; for kinds that sign with code.
    pub fn sign_base64(&self, message: &[u8]) -> Option<String> {
        self.mac(&[message]).map(|mac| super::encoding::base64_text(&mac))
    }

    /// The signature of `parts` by the newest key that can sign.
    pub fn mac<P: AsRef<[u8]>>(&self, parts: &[P]) -> Option<Vec<u8>> {
        self.list.iter().find_map(|named| mac_by(&named.key, parts)).map(|mac| mac.to_vec())
    }

    /// The signature of `message` by the private key, where there is one of that kind.
    pub fn sign_public(&self, scheme: PublicScheme, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let signer = self.signer.as_ref().ok_or(SignError::NoSigningKey)?;
        signer.sign(scheme, message).ok_or(SignError::NoSigningKey)
    }

    /// The id under which a setting holds its first key; for kinds that sign with code.
    pub fn id_of(&self, setting: &str) -> Result<&str, SignError> {
        let id = self.settings.all(setting).find_map(|one| one.id.as_deref());
        id.ok_or(SignError::NoSigningKey)
    }

    /// The id of the newest key, where keys have ids.
    pub(super) fn first_id(&self) -> Option<&str> {
        self.list.iter().find_map(|named| named.id.as_deref())
    }
}

/// How many bytes a setting has, which may say that its text is base64.
fn secret_bytes(text: &str) -> usize {
    match text.strip_prefix("base64:") {
        Some(stem) => key_base64(stem).map_or(0, |bytes| bytes.len()),
        None => text.len(),
    }
}

/// A key whose id is known is tried only when it is asked for; one without an id always.
fn is_asked(named: &NamedKey, id: Option<&str>) -> bool {
    match (&named.id, id) {
        (Some(own), Some(asked)) => own == asked,
        _ => true,
    }
}

/// The MACs of one text by every key that makes them.
pub(super) struct Macs<'a>(Vec<(&'a NamedKey, Option<Short>)>);

impl Macs<'_> {
    /// Which key made `signature`, of those with this id; one without an id always counts. Constant-time for each.
    pub(super) fn matches(&self, id: Option<&str>, signature: &[u8]) -> Option<usize> {
        self.0.iter().position(|(named, mac)| {
            is_asked(named, id) && mac.as_ref().is_some_and(|mac| same(mac, signature))
        })
    }
}

fn mac_by<P: AsRef<[u8]>>(key: &Key, parts: &[P]) -> Option<Short> {
    match key {
        Key::Sha1(mac, _) => Some(Short::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Sha256(mac, _) => Some(Short::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Sha384(mac, _) => Some(Short::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Sha512(mac, _) => Some(Short::of(&fed(mac.clone(), parts).finalize().into_bytes())),
        Key::Public(_) => None,
    }
}

fn fed<M: Mac, P: AsRef<[u8]>>(mut mac: M, parts: &[P]) -> M {
    for part in parts {
        mac.update(part.as_ref());
    }
    mac
}

/// What a sender shows as one text may be several secrets, each with something before it.
fn taken_apart(spec: &SignatureSpec, secret: &Secret) -> Vec<Secret> {
    let strip = |text: &str| {
        let prefix = spec.secret_strip.as_deref().unwrap_or_default();
        Secret::new(text.strip_prefix(prefix).unwrap_or(text))
    };
    match spec.secret_separator {
        Some(separator) => secret.reveal().split(separator).map(|one| strip(one.trim())).collect(),
        None => vec![strip(secret.reveal())],
    }
}

fn key(spec: &SignatureSpec, position: usize, text: &str) -> Result<Key, KeyError> {
    let undecodable = |wanted| KeyError::Undecodable { position, wanted };
    let is_public = spec.scheme.is_public()
        || (spec.scheme == Scheme::StandardWebhooks
            && (text.starts_with("whpk_") || text.starts_with("whsk_")));
    if is_public {
        if let Some(own) = SigningKey::parse(text).and_then(|key| PublicKey::parse(&key.public_text()?)) {
            return Ok(Key::Public(own));
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
    // HMAC takes keys of any length; the error exists for other MACs.
    let made = match spec.scheme {
        Scheme::HmacSha1 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha1(mac, n)),
        Scheme::HmacSha384 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha384(mac, n)),
        Scheme::HmacSha512 => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha512(mac, n)),
        _ => Hmac::new_from_slice(&bytes).map(|mac| Key::Sha256(mac, n)),
    };
    made.map_err(|_| undecodable("a key of this scheme"))
}
