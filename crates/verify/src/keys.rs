//! Configured secrets prepared for use: HMAC states that are initialized with the key, public keys, and the other
//! settings of the kind.

use std::borrow::Cow;
use std::sync::Arc;

use super::encoding::{Hash, MacKey, digest, key_base64, mac, mac_key, same};
use super::error::{KeyError, SignError, VerifyError};
use super::private::{OwnKey, SigningKey};
use super::public::{PublicKey, PublicScheme};
use crate::spec::{Scheme, SecretFormat, SignatureSpec, Spec};
use hooklatch_core::config::{KindSettings, Secret};

/// A key, and its id where the setting gives it one.
#[derive(Clone)]
struct NamedKey {
    id: Option<String>,
    key: Key,
}

/// A key as its scheme uses it.
#[derive(Clone)]
enum Key {
    /// The state of an HMAC behind the secret, and the length of the secret in bytes.
    Mac(Box<MacKey>, usize),
    /// A plain hash, and the secret that stands in front of the text or behind it.
    Hash {
        hash: Hash,
        secret: Vec<u8>,
        is_first: bool,
    },
    Public(PublicKey),
}

/// A key whose id is known is tried only when the request names it; one without an id always.
fn is_requested(named: &NamedKey, id: Option<&str>) -> bool {
    match (&named.id, id) {
        (Some(known), Some(asked)) => known == asked,
        _ => true,
    }
}

/// The MACs of one text by every key that makes them.
pub(crate) struct Macs<'a>(Vec<(&'a NamedKey, Option<Vec<u8>>)>);

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
fn mac_by<P: AsRef<[u8]>>(key: &Key, parts: &[P]) -> Option<Vec<u8>> {
    match key {
        Key::Mac(key, _) => Some(mac(key, parts)),
        Key::Hash { hash, secret, is_first } => {
            let (before, behind): (&[u8], &[u8]) = if *is_first { (secret, b"") } else { (b"", secret) };
            let text = parts.iter().map(AsRef::as_ref);
            let all: Vec<&[u8]> = [before].into_iter().chain(text).chain([behind]).collect();
            Some(digest(*hash, &all))
        }
        Key::Public(_) => None,
    }
}

/// Parses the key of one configured text, in the format of its kind. `position` is from 1, as in the config.
fn key(spec: &SignatureSpec, position: usize, text: &str) -> Result<Key, KeyError> {
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
    let hash = spec.scheme.hash();
    if spec.scheme.is_hash() {
        return Ok(Key::Hash { hash, secret: bytes, is_first: spec.is_secret_first() });
    }
    let key = mac_key(hash, &bytes).ok_or(undecodable("a key of this scheme"))?;
    Ok(Key::Mac(Box::new(key), bytes.len()))
}

/// A source of keys that no setting holds, such as a sender's certificate by its URL or a key by its id.
/// It answers from what it has fetched before: verification never waits for a fetch.
pub trait KeySource: Send + Sync {
    /// The text of the key with this id, as [`PublicKey::parse`] or [`super::Certificate::parse`] reads it. `setting`
    /// is the name of the setting that would hold it; `id` is the id or URL that the request names, which the kind has
    /// checked.
    fn key(&self, setting: &str, id: &str) -> Option<String>;
}

/// The entry of a setting that allows every account.
const EVERY_ACCOUNT: &str = "*";

/// The keys of one provider, newest first, and its settings.
#[derive(Clone)]
pub struct Keys {
    list: Vec<NamedKey>,
    secrets: Vec<Secret>,
    settings: KindSettings,
    source: Option<Arc<dyn KeySource>>,
    /// The key to sign with as the sender does, where that takes a private key.
    signer: Option<SigningKey>,
    /// The operator's own key, by which answers are signed.
    own: Option<OwnKey>,
    /// Largest age of a signed time, and its largest distance ahead. Seconds.
    tolerance_s: (u32, u32),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.list.len())
    }
}

impl Keys {
    /// Largest age of a signed time and its largest distance ahead, as the kind's `provider.toml` or the operator says.
    /// Seconds; nothing at all where the file has no `tolerance_s`. For kinds that verify with code.
    pub fn tolerance_s(&self) -> (u32, u32) {
        self.tolerance_s
    }

    /// True when keys that no setting holds can be fetched.
    pub(crate) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// The configured secrets as texts, newest first.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(Secret::reveal)
    }

    /// The text of a setting, or the error that it is missing.
    pub fn setting(&self, name: &str) -> Result<&str, VerifyError> {
        self.settings.text(name).ok_or_else(|| VerifyError::NoKey(format!("setting `{name}` is missing")))
    }

    /// The text of the key with this id from the source alone, or the error that it has to be fetched.
    pub(crate) fn fetched(&self, setting: &str, id: &str) -> Result<String, VerifyError> {
        let fetched = self.source.as_ref().and_then(|source| source.key(setting, id));
        fetched.ok_or_else(|| VerifyError::wanted(setting, id))
    }

    /// The MACs of `parts` by every key, for requests that carry several signatures: computed once, compared often.
    pub(crate) fn macs<P: AsRef<[u8]>>(&self, parts: &[P]) -> Macs<'_> {
        let made = self.list.iter().map(|named| (named, mac_by(&named.key, parts)));
        Macs(made.collect())
    }

    /// Position of the public key that signed `message` as `signature`.
    pub(crate) fn public_matches(
        &self,
        scheme: PublicScheme,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Option<usize> {
        self.list.iter().position(|named| {
            is_requested(named, id)
                && matches!(&named.key, Key::Public(key) if key.verifies(scheme, message, signature))
        })
    }

    /// The id of the newest key, where keys have ids.
    pub(crate) fn first_id(&self) -> Option<&str> {
        self.list.iter().find_map(|named| named.id.as_deref())
    }
}

/// What the built-in kinds, and the crates that prepare keys for them, do with keys besides: not a part of what users
/// of the library see.
pub trait KeysExt: Sized {
    /// Builds keys of `secrets`, newest first, and of the setting that the spec names.
    fn new(spec: &SignatureSpec, secrets: &[Secret], settings: &KindSettings) -> Result<Self, KeyError>;

    /// Reads the operator's own key from the setting that the spec names for it, if it names one.
    fn with_own_key(self, spec: &Spec) -> Result<Self, KeyError>;

    /// The signature of `message` by the operator's own key: RSA PKCS#1 v1.5 with SHA-1. For answers that a sender
    /// wants signed; equal messages have equal signatures.
    fn sign_answer_rsa_sha1(&self, message: &[u8]) -> Option<Vec<u8>>;

    /// Sets these bounds of a signed time, in seconds.
    #[must_use]
    fn with_tolerance_s(self, past_s: u32, future_s: u32) -> Self;

    /// True when the age of a signed time is bounded: by the kind's `provider.toml`, or by the operator.
    fn is_age_bounded(&self) -> bool;

    /// Uses `source` for keys that no setting holds.
    #[must_use]
    fn with_source(self, source: Arc<dyn KeySource>) -> Self;

    /// Signs with `signer`, whose public half is among the keys.
    #[must_use]
    fn with_signer(self, signer: Option<SigningKey>) -> Self;

    /// Refuses private keys, and secrets, tokens and settings shorter than the kind's floors. Not part of
    /// [`Keys::new`], so that published test vectors with short secrets can be judged.
    fn check_strength(&self, spec: &Spec) -> Result<(), KeyError>;

    /// Number of keys, or of secrets that are no keys.
    fn len(&self) -> usize;

    /// True when there is neither key nor secret.
    fn is_empty(&self) -> bool;

    /// The settings that the operator wrote.
    fn settings(&self) -> &KindSettings;

    /// The text of the key with this id, from the setting or else from the source. Where neither has it, the error says
    /// which key is wanted: give it back, so that the key can be fetched.
    fn key_text(&self, setting: &str, id: &str) -> Result<Cow<'_, str>, VerifyError>;

    /// Returns the text of [`Keys::key_text`] as a public key.
    fn public_key(&self, setting: &str, id: &str) -> Result<PublicKey, VerifyError>;

    /// Position of the key that signed `parts`, one after the other, as `signature`. Constant-time for each key.
    fn mac_matches<P: AsRef<[u8]>>(&self, parts: &[P], signature: &[u8]) -> Option<usize>;

    /// Position of the secret that `token` is. Every secret is compared, each in constant time.
    fn token_matches(&self, token: &[u8]) -> Option<usize>;

    /// The signature of `parts` by the newest key that can sign.
    fn mac<P: AsRef<[u8]>>(&self, parts: &[P]) -> Option<Vec<u8>>;

    /// The signature of `message` by the private key, where there is one of that kind.
    fn sign_public(&self, scheme: PublicScheme, message: &[u8]) -> Result<Vec<u8>, SignError>;

    /// The id under which a setting holds its first key; for kinds that sign with code.
    fn id_of(&self, setting: &str) -> Result<&str, SignError>;

    /// Refuses an account that `setting` does not list. The entry `*` allows every account; a missing setting none.
    fn check_account(&self, setting: &str, account: Option<&str>) -> Result<(), VerifyError>;
}

impl KeysExt for Keys {
    fn new(spec: &SignatureSpec, secrets: &[Secret], settings: &KindSettings) -> Result<Self, KeyError> {
        let secrets: Vec<Secret> = secrets.iter().flat_map(|secret| split_secret(spec, secret)).collect();
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
        Ok(Self { list, secrets, settings: settings.clone(), source: None, signer, own: None, tolerance_s })
    }

    fn with_own_key(mut self, spec: &Spec) -> Result<Self, KeyError> {
        let Some(setting) = spec.setting.iter().find(|setting| setting.signs_answers) else {
            return Ok(self);
        };
        let Some(text) = self.settings.text(&setting.name) else {
            return Err(KeyError::NoSetting(setting.name.clone()));
        };
        let unreadable = || KeyError::NoPrivateKey { name: setting.name.clone() };
        self.own = Some(OwnKey::parse(text).ok_or_else(unreadable)?);
        Ok(self)
    }

    fn sign_answer_rsa_sha1(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.own.as_ref()?.sign_sha1(message)
    }

    fn with_tolerance_s(mut self, past_s: u32, future_s: u32) -> Self {
        self.tolerance_s = (past_s, future_s);
        self
    }

    fn is_age_bounded(&self) -> bool {
        self.tolerance_s != (0, 0)
    }

    fn with_source(mut self, source: Arc<dyn KeySource>) -> Self {
        self.source = Some(source);
        self
    }

    fn with_signer(mut self, signer: Option<SigningKey>) -> Self {
        self.signer = signer.or(self.signer);
        self
    }

    fn check_strength(&self, spec: &Spec) -> Result<(), KeyError> {
        if self.signer.is_some() {
            return Err(KeyError::Private);
        }
        let min_n = spec.signature.secret_bytes_min;
        let of_key = |named: &NamedKey| match &named.key {
            Key::Mac(_, n) => Some(*n),
            Key::Hash { secret, .. } => Some(secret.len()),
            Key::Public(_) => None,
        };
        // No keys are made of tokens.
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

    fn len(&self) -> usize {
        self.list.len().max(self.secrets.len())
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn settings(&self) -> &KindSettings {
        &self.settings
    }

    fn key_text(&self, setting: &str, id: &str) -> Result<Cow<'_, str>, VerifyError> {
        match self.settings.of_id(setting, id) {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.fetched(setting, id).map(Cow::Owned),
        }
    }

    fn public_key(&self, setting: &str, id: &str) -> Result<PublicKey, VerifyError> {
        let unreadable = || VerifyError::NoKey("the key that it names cannot be read".to_owned());
        PublicKey::parse(&self.key_text(setting, id)?).ok_or_else(unreadable)
    }

    fn mac_matches<P: AsRef<[u8]>>(&self, parts: &[P], signature: &[u8]) -> Option<usize> {
        self.macs(parts).matches(None, signature)
    }

    fn token_matches(&self, token: &[u8]) -> Option<usize> {
        let matches = self.secrets().map(|secret| same(secret.as_bytes(), token));
        matches.enumerate().filter(|(_, is_same)| *is_same).fold(None, |first, (n, _)| first.or(Some(n)))
    }

    fn mac<P: AsRef<[u8]>>(&self, parts: &[P]) -> Option<Vec<u8>> {
        self.list.iter().find_map(|named| mac_by(&named.key, parts))
    }

    fn sign_public(&self, scheme: PublicScheme, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let signer = self.signer.as_ref().ok_or(SignError::NoSigningKey)?;
        signer.sign(scheme, message).ok_or(SignError::NoSigningKey)
    }

    fn id_of(&self, setting: &str) -> Result<&str, SignError> {
        let id = self.settings.all(setting).find_map(|one| one.id.as_deref());
        id.ok_or(SignError::NoSigningKey)
    }

    fn check_account(&self, setting: &str, account: Option<&str>) -> Result<(), VerifyError> {
        let mut own = self.settings.all(setting).flat_map(|one| one.value.reveal().split(','));
        let is_own = |own: &str| own == EVERY_ACCOUNT || Some(own) == account;
        if own.any(|own| is_own(own.trim())) {
            Ok(())
        } else {
            Err(VerifyError::foreign_account(setting, account))
        }
    }
}

impl VerifyError {
    /// Signed with none of these keys.
    pub fn mismatch(keys: &Keys) -> Self {
        Self::Mismatch { keys_n: keys.len().max(1) }
    }
}

/// Length of a setting in bytes; its text may be marked as base64.
fn secret_bytes(text: &str) -> usize {
    match text.strip_prefix("base64:") {
        Some(stem) => key_base64(stem).map_or(0, |bytes| bytes.len()),
        None => text.len(),
    }
}

/// The secrets in one text: some senders show several as one, each with something before it.
fn split_secret(spec: &SignatureSpec, secret: &Secret) -> Vec<Secret> {
    let strip = |text: &str| {
        let prefix = spec.secret_strip.as_deref().unwrap_or_default();
        Secret::new(text.strip_prefix(prefix).unwrap_or(text))
    };
    match spec.secret_separator {
        Some(separator) => secret.reveal().split(separator).map(|one| strip(one.trim())).collect(),
        None => vec![strip(secret.reveal())],
    }
}
