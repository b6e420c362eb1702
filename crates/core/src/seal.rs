//! Encryption at rest: bodies, their headers and captured answers are sealed before they are written, and opened when
//! they are read. Pure: bytes in, bytes out. What is sealed where is the store's business.
//!
//! AES-256-GCM under a key of its own for every value, which HKDF-SHA256 makes of a key of the ring and of 32 random
//! bytes that are stored with the value. So no key is used twice, no nonce has to be counted by several nodes, and the
//! number of values that one key of the ring may seal has no bound worth naming
//! (docs/adr/0054-encryption-at-rest.md). The place of a value is part of what is authenticated: its table, column and
//! number, and provider and id of its event. A value that is copied to another row does not open there, nor in its own
//! row under the id of another event.
//!
//! A database keeps a check value for each key id, so that no other key is used under that id.
//!
//! Search ids are found by keyed digests: HMAC-SHA-256 under a key that HKDF makes of a key of the ring, so `reseal`
//! writes them again for another key.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Reason why a value could not be sealed or opened. No variant quotes anything of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The ring does not have the key that sealed it: it opens once the configuration has that key again.
    #[error(
        "it is sealed with the key `{key_id}`, which is not in [encryption] keys: add that key again, with this id"
    )]
    NoKey {
        /// Id of the key that is missing.
        key_id: String,
    },
    /// The key is there and does not open it: its bytes were changed or moved, or those of its event's id or provider.
    #[error(
        "it does not open with the key `{key_id}`: it was damaged, or the row, the provider or the id of its event was changed"
    )]
    NotOpened {
        /// Id of the key that it says it was sealed with.
        key_id: String,
    },
    /// It was written without a key, and the configuration wants none of those.
    #[error(
        "it is in clear, and encryption.clear = \"refuse\": if it is genuine, encrypt it with `hooklatch keys reseal --clear` under encryption.clear = \"accept\""
    )]
    Clear,
    /// The system gave no random bytes, or the value is too long.
    #[error("it could not be sealed with the key `{key_id}`")]
    NotSealed {
        /// Id of the key that was to seal it.
        key_id: String,
    },
}

/// Length of a key. Bytes.
const KEY_BYTES: usize = 32;

/// A key that seals and opens, under the id that is stored beside what it sealed. Its `Debug` does not show it.
#[derive(Clone)]
pub struct SealKey {
    id: Box<str>,
    bytes: [u8; KEY_BYTES],
    /// Makes the digests of search ids; derived of `bytes`.
    search: hmac::Key,
    /// Proves to a database that it is the same key under the same id; derived of both.
    check: hmac::Tag,
}

/// Reason why a text is not a key. It quotes nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealKeyError {
    /// The text is neither hexadecimal nor base64 of the right length.
    #[error("is not a key: wanted 32 bytes as 64 hexadecimal digits or as 44 characters of base64")]
    Form,
    /// All bytes are alike: an example that was copied.
    #[error("is a key of equal bytes, which nobody made at random")]
    Plain,
}

impl SealKey {
    /// Reads 32 bytes, as 64 hexadecimal digits or as standard base64 with its padding.
    pub fn parse(id: &str, text: &str) -> Result<Self, SealKeyError> {
        let text = text.trim();
        let bytes = match text.len() {
            64 => hex::decode(text).ok(),
            44 => STANDARD.decode(text).ok(),
            _ => None,
        };
        let bytes: [u8; KEY_BYTES] =
            bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(SealKeyError::Form)?;
        if bytes.windows(2).all(|pair| pair.first() == pair.last()) {
            return Err(SealKeyError::Plain);
        }
        let derived = |salt: &[u8], info: &[u8]| derived(&bytes, salt, info).ok_or(SealKeyError::Form);
        let search = derived(b"hooklatch search ids", b"hooklatch search key 1")?;
        let check = hmac::sign(&derived(b"hooklatch key check", b"hooklatch key check 1")?, id.as_bytes());
        Ok(Self { id: id.into(), bytes, search, check })
    }

    /// The id that is stored beside what it sealed.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The value that a database keeps under its id: equal for the same key under the same id, and opens nothing.
    pub fn check_value(&self) -> &[u8] {
        self.check.as_ref()
    }

    /// True when both are the same 32 bytes; used to check a list of keys.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.bytes.as_slice(), other.bytes.as_slice()).into()
    }
}

fn derived(bytes: &[u8], salt: &[u8], info: &[u8]) -> Option<hmac::Key> {
    let prk = Salt::new(HKDF_SHA256, salt).extract(bytes);
    prk.expand(&[info], hmac::HMAC_SHA256).ok().map(Into::into)
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Words that begin everything that is authenticated beside a value: another format begins otherwise.
const FORMAT: &[u8] = b"hooklatch sealed 1";

/// The place of a value: what is sealed for one opens at no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedPlace<'a> {
    table: &'static str,
    column: &'static str,
    number: i64,
    attempt_n: u32,
    /// Provider and id of the event that it belongs to; empty where its row is not read with that of the event.
    event: (&'a str, &'a str),
}

impl<'a> SealedPlace<'a> {
    /// What was received with the event of this number, provider and id: `headers`, `body`, `whole` or `search_ids` of
    /// `webhook_payloads`.
    pub fn of_event(column: &'static str, event_seq: i64, event: (&'a str, &'a str)) -> Self {
        Self { table: "webhook_payloads", column, number: event_seq, attempt_n: 0, event }
    }

    /// The content of the message with this number, which follows from this event: `headers` or `body` of
    /// `outbox_contents`.
    pub fn of_message(column: &'static str, message_id: i64, event: (&'a str, &'a str)) -> Self {
        Self { table: "outbox_contents", column, number: message_id, attempt_n: 0, event }
    }

    /// The piece of the answer to one attempt of a message.
    pub fn of_answer(message_id: i64, attempt_n: u32) -> Self {
        Self { table: "outbox_attempts", column: "response", number: message_id, attempt_n, event: ("", "") }
    }

    /// A key of a sender, by a number made of its digest: `content` of `fetched_keys`.
    pub fn of_fetched_key(number: i64) -> Self {
        Self { table: "fetched_keys", column: "content", number, attempt_n: 0, event: ("", "") }
    }

    /// Its bytes: no two places have the same, because names hold no zero, numbers have one length, and the event's id
    /// is last.
    pub fn bytes(&self) -> Vec<u8> {
        let (provider, event_id) = self.event;
        let parts = [
            FORMAT,
            self.table.as_bytes(),
            self.column.as_bytes(),
            &self.number.to_be_bytes(),
            &self.attempt_n.to_be_bytes(),
            provider.as_bytes(),
            event_id.as_bytes(),
        ];
        parts.join(&0)
    }
}

/// First byte of a sealed value.
const VERSION: u8 = 1;
/// Random bytes of each value. 2^128 values under one key of the ring before two are likely to share them.
const SALT_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

/// Bytes that a sealed value is longer than the clear one, before a text column makes four characters of each three.
const SEALED_MORE_BYTES: usize = 1 + SALT_BYTES + TAG_BYTES;

/// The key of one value. Its nonce may be constant, because nothing else is ever sealed with it.
fn own_key(key: &SealKey, salt: &[u8]) -> Option<LessSafeKey> {
    let info = [b"hooklatch value".as_slice()];
    let prk = Salt::new(HKDF_SHA256, salt).extract(&key.bytes);
    let unbound: UnboundKey = prk.expand(&info, &AES_256_GCM).ok()?.into();
    Some(LessSafeKey::new(unbound))
}

/// The nonce of every value.
const NONCE: [u8; 12] = [0; 12];

/// Seals a value for its place; `None` when the system gives no random bytes.
fn sealed(key: &SealKey, place: &SealedPlace<'_>, clear: &[u8]) -> Option<Vec<u8>> {
    let mut salt = [0; SALT_BYTES];
    SystemRandom::new().fill(&mut salt).ok()?;
    let mut whole = Vec::with_capacity(clear.len() + SEALED_MORE_BYTES);
    whole.push(VERSION);
    whole.extend_from_slice(&salt);
    whole.extend_from_slice(clear);
    let in_place = whole.get_mut(1 + SALT_BYTES..)?;
    let (nonce, aad) = (Nonce::assume_unique_for_key(NONCE), Aad::from(place.bytes()));
    let tag = own_key(key, &salt)?.seal_in_place_separate_tag(nonce, aad, in_place).ok()?;
    whole.extend_from_slice(tag.as_ref());
    Some(whole)
}

/// Opens a value at its place; `None` when it is not what this key sealed for it.
fn opened(key: &SealKey, place: &SealedPlace<'_>, mut stored: Vec<u8>) -> Option<Vec<u8>> {
    let (head, in_place) = stored.split_at_mut_checked(1 + SALT_BYTES)?;
    let (version, salt) = head.split_first()?;
    if *version != VERSION {
        return None;
    }
    let (nonce, aad) = (Nonce::assume_unique_for_key(NONCE), Aad::from(place.bytes()));
    let clear_n = own_key(key, salt)?.open_in_place(nonce, aad, in_place).ok()?.len();
    stored.drain(..=SALT_BYTES);
    stored.truncate(clear_n);
    Some(stored)
}

/// The keys of `[encryption]`, newest first. An empty one is encryption that is off: it seals nothing, and costs
/// nothing. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Option<Arc<[SealKey]>>,
    is_clear_refused: bool,
}

impl KeyRing {
    /// A ring whose first key seals.
    pub fn new(keys: &[SealKey]) -> Self {
        Self { keys: (!keys.is_empty()).then(|| keys.into()), is_clear_refused: false }
    }

    /// Makes the ring open nothing that is stored in the clear if `is_clear_refused`.
    #[must_use]
    pub fn refusing_clear(self, is_clear_refused: bool) -> Self {
        Self { is_clear_refused, ..self }
    }

    /// True when nothing that is stored in the clear opens.
    pub fn refuses_clear(&self) -> bool {
        self.is_clear_refused
    }

    /// True when it has the key of this id, or for `None` when it takes what is stored in the clear.
    pub fn has(&self, key_id: Option<&str>) -> bool {
        key_id.map_or(!self.is_clear_refused, |key_id| self.key_ids().any(|one| one == key_id))
    }

    /// Id of the key that seals; `None` when encryption is off.
    pub fn key_id(&self) -> Option<&str> {
        self.keys().first().map(SealKey::id)
    }

    /// Ids of all keys that open, newest first.
    pub fn key_ids(&self) -> impl Iterator<Item = &str> {
        self.keys().iter().map(SealKey::id)
    }

    /// True when what is written is sealed.
    pub fn is_on(&self) -> bool {
        self.keys.is_some()
    }

    /// The text by which a table has a search id, which is in lower case: itself, or its digest under the newest key.
    pub fn search_key<'a>(&self, id: &'a str) -> Cow<'a, str> {
        self.keys().first().map_or(Cow::Borrowed(id), |key| search_digest(key, id).into())
    }

    /// All texts by which a table may have it: rows are older than the newest key, or, unless those are refused, than
    /// encryption.
    pub fn search_keys(&self, id: &str) -> Vec<String> {
        let digests = self.keys().iter().map(|key| search_digest(key, id));
        let clear = (!self.is_clear_refused).then(|| id.to_owned());
        clear.into_iter().chain(digests).collect()
    }

    /// The keys, newest first.
    pub fn keys(&self) -> &[SealKey] {
        self.keys.as_deref().unwrap_or_default()
    }

    /// Length of what is stored in `stored_n` bytes, once it is opened: known without the key.
    pub fn clear_bytes_n(is_sealed: bool, stored_n: u64) -> u64 {
        if is_sealed { stored_n.saturating_sub(SEALED_MORE_BYTES as u64) } else { stored_n }
    }

    /// The bytes to store at `place`: sealed, or as they are when encryption is off.
    pub fn seal<'a>(&self, place: &SealedPlace<'_>, clear: &'a [u8]) -> Result<Cow<'a, [u8]>, SealError> {
        let Some(key) = self.keys().first() else { return Ok(Cow::Borrowed(clear)) };
        let whole = sealed(key, place, clear).map(Cow::Owned);
        whole.ok_or_else(|| SealError::NotSealed { key_id: key.id().to_owned() })
    }

    /// The text to store at `place` of a column of texts: sealed and in base64, or as it is when encryption is off.
    pub fn seal_text<'a>(&self, place: &SealedPlace<'_>, clear: &'a str) -> Result<Cow<'a, str>, SealError> {
        Ok(match self.seal(place, clear.as_bytes())? {
            Cow::Borrowed(_) => Cow::Borrowed(clear),
            Cow::Owned(whole) => Cow::Owned(STANDARD.encode(whole)),
        })
    }

    /// The clear bytes of what is stored at `place`, where its row says with which key it was sealed.
    pub fn open(
        &self,
        key_id: Option<&str>,
        place: &SealedPlace<'_>,
        stored: Vec<u8>,
    ) -> Result<Vec<u8>, SealError> {
        let Some(key_id) = key_id else { return self.clear(stored) };
        let key = self.keys().iter().find(|key| key.id() == key_id);
        let key = key.ok_or_else(|| SealError::NoKey { key_id: key_id.to_owned() })?;
        opened(key, place, stored).ok_or_else(|| SealError::NotOpened { key_id: key_id.to_owned() })
    }

    /// The clear text of what is stored at `place` of a column of texts.
    pub fn open_text(
        &self,
        key_id: Option<&str>,
        place: &SealedPlace<'_>,
        stored: String,
    ) -> Result<String, SealError> {
        let Some(id) = key_id else { return self.clear(stored) };
        let not_opened = || SealError::NotOpened { key_id: id.to_owned() };
        let whole = STANDARD.decode(stored).map_err(|_| not_opened())?;
        String::from_utf8(self.open(key_id, place, whole)?).map_err(|_| not_opened())
    }

    fn clear<T>(&self, stored: T) -> Result<T, SealError> {
        if self.is_clear_refused { Err(SealError::Clear) } else { Ok(stored) }
    }
}

/// Bytes of the digest of a search id.
const SEARCH_DIGEST_BYTES: usize = 16;

/// No id in lower case begins as this does.
fn search_digest(key: &SealKey, id: &str) -> String {
    let digest = hmac::sign(&key.search, id.as_bytes());
    format!("H:{}", URL_SAFE_NO_PAD.encode(digest.as_ref().get(..SEARCH_DIGEST_BYTES).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_in_hex_or_base64_and_is_not_shown() {
        let hex = hex::encode((0..32).collect::<Vec<u8>>());
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let id = "2026-11";
        let read = |text: &str| SealKey::parse(id, text).map(|key| hex::encode(key.bytes));
        for good in [&hex, &hex.to_uppercase(), &format!(" {hex}\n"), base64] {
            assert_eq!(read(good), Ok(hex.clone()), "{good}");
        }
        for bad in ["", "secret", "00", &format!("{hex}00"), &hex.replace('0', "g"), &format!("a{base64}")] {
            assert_eq!(read(bad), Err(SealKeyError::Form), "{bad}");
        }
        assert_eq!(read(&"00".repeat(32)), Err(SealKeyError::Plain));
        let key = SealKey::parse(id, &hex).expect("a key");
        assert!(key.is_same_as(&SealKey::parse(id, base64).expect("a key")));
        let (same, renamed) = (SealKey::parse(id, base64), SealKey::parse("2026-12", base64));
        assert_eq!(key.check_value(), same.expect("a key").check_value());
        assert_ne!(
            key.check_value(),
            renamed.expect("a key").check_value(),
            "no reader sees that it is the same"
        );
        let said = format!("{key:?}");
        assert!(said.contains("2026-11") && !said.contains("1f") && !said.contains("31"), "{said}");
    }

    fn key(id: &str, byte: u8) -> SealKey {
        let hex = format!("{byte:02x}{}", "5a".repeat(31));
        SealKey::parse(id, &hex).expect("a key")
    }

    fn place(event_seq: i64) -> SealedPlace<'static> {
        SealedPlace::of_event("body", event_seq, ("stripe", "evt_1"))
    }

    #[test]
    fn what_is_sealed_opens_at_its_place_and_nowhere_else() {
        let ring = KeyRing::new(&[key("new", 1), key("old", 2)]);
        let large = vec![0xff; 70_000];
        for clear in [b"".as_slice(), b"{\"amount\":500}", &large] {
            let whole = ring.seal(&place(7), clear).expect("sealed").into_owned();
            assert_eq!(whole.len(), clear.len() + SEALED_MORE_BYTES);
            assert!(clear.is_empty() || !whole.windows(clear.len()).any(|part| part == clear));
            let open = |at: &SealedPlace<'_>, whole: &[u8]| ring.open(Some("new"), at, whole.to_vec());
            assert_eq!(open(&place(7), &whole), Ok(clear.to_vec()));
            let elsewhere = [
                place(8),
                SealedPlace::of_event("whole", 7, ("stripe", "evt_1")),
                SealedPlace::of_event("body", 7, ("stripe", "evt_2")),
                SealedPlace::of_event("body", 7, ("shop", "evt_1")),
                SealedPlace::of_message("body", 7, ("stripe", "evt_1")),
                SealedPlace::of_answer(7, 0),
            ];
            for other in elsewhere {
                let error = open(&other, &whole).expect_err("it is not its place");
                assert_eq!(error, SealError::NotOpened { key_id: "new".to_owned() });
            }
            // Any byte of it: version, salt, text, tag.
            for at in [0, 1, 32, 33, whole.len() - 1] {
                let mut changed = whole.clone();
                changed[at] ^= 1;
                assert!(open(&place(7), &changed).is_err(), "byte {at}");
            }
            assert!(open(&place(7), &whole[..whole.len() - 1]).is_err());
            assert!(open(&place(7), &[]).is_err() && open(&place(7), &[1; 33]).is_err());
        }
    }

    #[test]
    fn the_first_key_seals_and_all_open_by_their_id() {
        let (new, old) = (KeyRing::new(&[key("new", 1), key("old", 2)]), KeyRing::new(&[key("old", 2)]));
        assert_eq!((new.key_id(), old.key_id()), (Some("new"), Some("old")));
        let text = |ring: &KeyRing| ring.seal_text(&place(1), "{}").expect("sealed").into_owned();
        assert_eq!(new.open_text(Some("old"), &place(1), text(&old)), Ok("{}".to_owned()));
        assert_eq!(new.open_text(Some("new"), &place(1), text(&new)), Ok("{}".to_owned()));
        let error = old.open_text(Some("new"), &place(1), text(&new)).expect_err("no such key");
        assert_eq!(error, SealError::NoKey { key_id: "new".to_owned() });
        let other = KeyRing::new(&[key("new", 9)]);
        let error = other.open_text(Some("new"), &place(1), text(&new)).expect_err("another key");
        assert_eq!(error, SealError::NotOpened { key_id: "new".to_owned() });
        assert_ne!(text(&new), text(&new), "each has a salt of its own");
    }

    #[test]
    fn a_search_id_has_one_digest_under_each_key_and_is_itself_without_one() {
        let (new, both) = (KeyRing::new(&[key("new", 1)]), KeyRing::new(&[key("old", 2), key("new", 1)]));
        let digest = new.search_key("pi_3mtw").into_owned();
        assert!(digest.starts_with("H:") && digest.len() == 24 && !digest.contains("3mtw"), "{digest}");
        assert_eq!(new.search_keys("pi_3mtw"), ["pi_3mtw".to_owned(), digest.clone()]);
        assert_ne!(new.search_key("pi_3mtx"), digest);
        let all = both.search_keys("pi_3mtw");
        assert_eq!((all.len(), &all[2]), (3, &digest), "the older key finds what it was written with");
        assert_eq!(both.search_key("pi_3mtw"), all[1]);
        assert_eq!(KeyRing::new(&[]).search_key("pi_3mtw"), "pi_3mtw");
    }

    #[test]
    fn without_keys_nothing_changes_and_nothing_is_copied() {
        let off = KeyRing::new(&[]);
        assert!(!off.is_on() && off.key_ids().next().is_none());
        assert!(matches!(off.seal(&place(1), b"x"), Ok(Cow::Borrowed(b"x"))));
        assert!(matches!(off.seal_text(&place(1), "x"), Ok(Cow::Borrowed("x"))));
        let ring = KeyRing::new(&[key("new", 1)]);
        assert_eq!(ring.open(None, &place(1), b"x".to_vec()), Ok(b"x".to_vec()), "written in the clear");
    }

    #[test]
    fn what_is_in_the_clear_does_not_open_where_that_is_refused() {
        let ring = KeyRing::new(&[key("new", 1)]).refusing_clear(true);
        assert_eq!(ring.open(None, &place(1), b"x".to_vec()), Err(SealError::Clear));
        assert_eq!(ring.open_text(None, &place(1), "x".to_owned()), Err(SealError::Clear));
        let sealed = ring.seal(&place(1), b"x").expect("sealed").into_owned();
        assert_eq!(ring.open(Some("new"), &place(1), sealed), Ok(b"x".to_vec()));
        assert_eq!((ring.has(None), ring.has(Some("new")), ring.has(Some("old"))), (false, true, false));
        assert_eq!(ring.search_keys("pi_1").len(), 1, "its digest alone");
    }
}
