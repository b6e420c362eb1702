//! One value under one key: a version, a salt, the sealed bytes, a tag.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use super::key::SealKey;
use super::place::SealedPlace;

/// First byte of a sealed value.
const VERSION: u8 = 1;
/// Random bytes of each value. 2^128 values under one key of the ring before two are likely to share them.
const SALT_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

/// Bytes that a sealed value is longer than the clear one, before a text column makes four characters of each three.
pub const SEALED_MORE_BYTES: usize = 1 + SALT_BYTES + TAG_BYTES;

/// The key of one value. Its nonce may be constant, because nothing else is ever sealed with it.
fn own_key(key: &SealKey, salt: &[u8]) -> Option<LessSafeKey> {
    let info = [b"hooklatch value".as_slice()];
    let prk = Salt::new(HKDF_SHA256, salt).extract(key.bytes());
    let unbound: UnboundKey = prk.expand(&info, &AES_256_GCM).ok()?.into();
    Some(LessSafeKey::new(unbound))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Seals a value for its place; `None` when the system gives no random bytes.
pub(crate) fn sealed(key: &SealKey, place: &SealedPlace<'_>, clear: &[u8]) -> Option<Vec<u8>> {
    let mut salt = [0; SALT_BYTES];
    SystemRandom::new().fill(&mut salt).ok()?;
    let mut whole = Vec::with_capacity(clear.len() + SEALED_MORE_BYTES);
    whole.push(VERSION);
    whole.extend_from_slice(&salt);
    whole.extend_from_slice(clear);
    let in_place = whole.get_mut(1 + SALT_BYTES..)?;
    let tag =
        own_key(key, &salt)?.seal_in_place_separate_tag(nonce(), Aad::from(place.bytes()), in_place).ok()?;
    whole.extend_from_slice(tag.as_ref());
    Some(whole)
}

/// Opens a value at its place; `None` when it is not what this key sealed for it.
pub(crate) fn opened(key: &SealKey, place: &SealedPlace<'_>, mut stored: Vec<u8>) -> Option<Vec<u8>> {
    let (head, in_place) = stored.split_at_mut_checked(1 + SALT_BYTES)?;
    let (version, salt) = head.split_first()?;
    if *version != VERSION {
        return None;
    }
    let clear_n = own_key(key, salt)?.open_in_place(nonce(), Aad::from(place.bytes()), in_place).ok()?.len();
    stored.drain(..=SALT_BYTES);
    stored.truncate(clear_n);
    Some(stored)
}
