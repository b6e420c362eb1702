//! The key ring: the first key seals, all of them open.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;

use super::error::SealError;
use super::key::SealKey;
use super::place::SealedPlace;
use super::sealed::{opened, sealed};

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

    /// The same ring, which opens nothing that is stored in the clear if `is_clear_refused`.
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

    /// The bytes to store at `place`: sealed, or as they are when encryption is off.
    pub fn seal<'a>(&self, place: &SealedPlace<'_>, clear: &'a [u8]) -> Result<Cow<'a, [u8]>, SealError> {
        let Some(key) = self.keys().first() else { return Ok(Cow::Borrowed(clear)) };
        let whole = sealed(key, place, clear).map(Cow::Owned);
        whole.ok_or_else(|| SealError::NotSealed { key_id: key.id().to_owned() })
    }

    /// Does the same for a column of texts, in base64.
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

    /// Does the same for a column of texts.
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
    let digest = hmac::sign(key.search(), id.as_bytes());
    format!("H:{}", URL_SAFE_NO_PAD.encode(digest.as_ref().get(..SEARCH_DIGEST_BYTES).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::super::SEALED_MORE_BYTES;
    use super::*;

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
