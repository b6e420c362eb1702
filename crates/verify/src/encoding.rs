//! Signatures as text, digests, MACs and ciphers. Decoding is strict: one text for one signature, except where a sender
//! is known to write either case.
//!
//! AES-GCM is for senders that encrypt what they send, AES-CBC and 3DES-CBC for senders that make checksums or keys
//! with them.

use aes::Aes128;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use des::TdesEde3;
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

use crate::spec::Encoding;

/// Longest signature text that is looked at: RSA-4096 in base64 fits four times.
const TEXT_BYTES_MAX: usize = 4_096;

/// Copied secrets often lose their padding.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Signature bytes; `None` for anything but the canonical text of the encoding.
pub(crate) fn decoded(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    match encoding {
        // Senders write lower case; two texts for one signature would be one too many.
        Encoding::Hex if text.bytes().any(|byte| byte.is_ascii_uppercase()) => None,
        Encoding::Hex | Encoding::HexAny => hex_bytes(text.as_bytes()),
        Encoding::Base64 => STANDARD.decode(text).ok(),
        Encoding::Base64Url => URL_SAFE_NO_PAD.decode(text).ok(),
        Encoding::Base64Hex => decoded(Encoding::Hex, str::from_utf8(&STANDARD.decode(text).ok()?).ok()?),
    }
}

/// Decodes hexadecimal of either case. Nothing is decided from one digit to the next: every request has some.
fn hex_bytes(text: &[u8]) -> Option<Vec<u8>> {
    /// What is no digit has bits beyond the four of one.
    fn digit(byte: u8) -> u8 {
        match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => u8::MAX,
        }
    }
    let (pairs, rest) = text.as_chunks::<2>();
    let mut seen = 0;
    let mut bytes = vec![0; pairs.len()];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let (high, low) = (digit(*high), digit(*low));
        seen |= high | low;
        *byte = (high << 4) | low;
    }
    (rest.is_empty() && seen <= 0x0f).then_some(bytes)
}

/// The canonical text of signature bytes.
pub(crate) fn encoded(encoding: Encoding, bytes: &[u8]) -> String {
    match encoding {
        Encoding::Hex | Encoding::HexAny => hex::encode(bytes),
        Encoding::Base64 => STANDARD.encode(bytes),
        Encoding::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
        Encoding::Base64Hex => STANDARD.encode(hex::encode(bytes)),
    }
}

/// Key bytes from base64 with or without its padding.
pub(crate) fn key_base64(text: &str) -> Option<Vec<u8>> {
    UNPADDED.decode(text.trim()).ok()
}

/// Standard base64 with padding, canonical; `None` for anything else.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::Base64, text)
}

/// Decodes as [`decode_base64`] does, a content instead of a signature: of any length, and with line breaks in it.
pub fn decode_base64_long(text: &str) -> Option<Vec<u8>> {
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD.decode(joined).ok()
}

/// URL-safe base64 without padding, canonical, as in JWS; `None` for anything else.
pub fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::Base64Url, text)
}

/// Decodes as [`decode_base64url`] does, a content instead of a signature: of any length.
pub fn decode_base64url_long(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Hexadecimal of either case; `None` for anything else.
pub fn decode_hex(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::HexAny, text)
}

/// Standard base64 with padding.
pub fn base64_text(bytes: &[u8]) -> String {
    encoded(Encoding::Base64, bytes)
}

/// URL-safe base64 without padding.
pub fn base64url_text(bytes: &[u8]) -> String {
    encoded(Encoding::Base64Url, bytes)
}

/// Hexadecimal in lower case.
pub fn hex_text(bytes: &[u8]) -> String {
    hex::encode(bytes)
}

/// A digest that some sender uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// MD5, only where a sender offers nothing else.
    Md5,
    /// SHA-1, only where a sender offers nothing else.
    Sha1,
    /// The SHA-2 digest of 256 bits.
    Sha256,
    /// The SHA-2 digest of 384 bits.
    Sha384,
    /// The SHA-2 digest of 512 bits.
    Sha512,
}

/// The digest of `parts`, one after the other.
pub fn digest(hash: Hash, parts: &[&[u8]]) -> Vec<u8> {
    fn of<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
        let mut digest = D::new();
        for part in parts {
            digest.update(part);
        }
        digest.finalize().to_vec()
    }
    match hash {
        Hash::Md5 => of::<md5::Md5>(parts),
        Hash::Sha1 => of::<Sha1>(parts),
        Hash::Sha256 => of::<Sha256>(parts),
        Hash::Sha384 => of::<Sha384>(parts),
        Hash::Sha512 => of::<Sha512>(parts),
    }
}

/// The HMAC of `parts` under `key`. Empty for digests that no sender uses in an HMAC, which matches nothing.
pub fn hmac(hash: Hash, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    mac_key(hash, key).map_or_else(Vec::new, |key| mac(&key, parts))
}

/// The state of an HMAC behind its key.
#[derive(Clone)]
pub(crate) enum MacKey {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
}

/// The state of an HMAC behind `key`, which may have any length.
pub(crate) fn mac_key(hash: Hash, key: &[u8]) -> Option<MacKey> {
    match hash {
        Hash::Md5 => None,
        Hash::Sha1 => Hmac::new_from_slice(key).ok().map(MacKey::Sha1),
        Hash::Sha256 => Hmac::new_from_slice(key).ok().map(MacKey::Sha256),
        Hash::Sha384 => Hmac::new_from_slice(key).ok().map(MacKey::Sha384),
        Hash::Sha512 => Hmac::new_from_slice(key).ok().map(MacKey::Sha512),
    }
}

/// The HMAC of `parts`, one after the other.
pub(crate) fn mac<P: AsRef<[u8]>>(key: &MacKey, parts: &[P]) -> Vec<u8> {
    fn of<M: Mac, P: AsRef<[u8]>>(mut mac: M, parts: &[P]) -> Vec<u8> {
        for part in parts {
            mac.update(part.as_ref());
        }
        mac.finalize().into_bytes().to_vec()
    }
    match key {
        MacKey::Sha1(mac) => of(mac.clone(), parts),
        MacKey::Sha256(mac) => of(mac.clone(), parts),
        MacKey::Sha384(mac) => of(mac.clone(), parts),
        MacKey::Sha512(mac) => of(mac.clone(), parts),
    }
}

/// The CRC-32 (IEEE) of `bytes`: no digest, but some sender signs it.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// True when two texts are the same, in a time that does not depend on where they differ. Nothing equals
/// nothing: an empty secret or signature never matches.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && bool::from(one.ct_eq(other))
}

/// The plain text of `sealed`, AES-128-CBC with the padding of PKCS#7; `None` where it has none. That says nothing
/// about who sealed it.
pub fn open_aes_128_cbc(key: &[u8], iv: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    cbc::Decryptor::<Aes128>::new_from_slices(key, iv).ok()?.decrypt_padded_vec_mut::<Pkcs7>(sealed).ok()
}

/// Encrypts what [`open_aes_128_cbc`] decrypts, for kinds that sign.
pub fn seal_aes_128_cbc(key: &[u8], iv: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    Some(cbc::Encryptor::<Aes128>::new_from_slices(key, iv).ok()?.encrypt_padded_vec_mut::<Pkcs7>(plain))
}

/// `plain` filled up with zeros and encrypted by 3DES-CBC with an IV of zeros: how a sender makes the key of an order.
/// It hides nothing. `None` when the key is not of 24 bytes.
pub fn seal_3des_cbc_zeros(key: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    const BLOCK_BYTES: usize = 8;
    let mut filled = plain.to_vec();
    filled.resize(plain.len().next_multiple_of(BLOCK_BYTES), 0);
    let cipher = cbc::Encryptor::<TdesEde3>::new_from_slices(key, &[0; BLOCK_BYTES]).ok()?;
    Some(cipher.encrypt_padded_vec_mut::<NoPadding>(&filled))
}

fn aes_key(key: &[u8]) -> Option<LessSafeKey> {
    // The length decides: an official SDK's tests use half of the documented 32 bytes.
    let algorithm = if key.len() == AES_128_GCM.key_len() { &AES_128_GCM } else { &AES_256_GCM };
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}

fn nonce(bytes: &[u8]) -> Option<Nonce> {
    <[u8; NONCE_LEN]>::try_from(bytes).ok().map(Nonce::assume_unique_for_key)
}

/// The plain text of `sealed`, which ends in its tag; `None` when key, nonce or bytes are others.
pub fn open_aes_gcm(
    key_bytes: &[u8],
    nonce_bytes: &[u8],
    associated: &[u8],
    sealed: &[u8],
) -> Option<Vec<u8>> {
    let mut bytes = sealed.to_vec();
    let plain =
        aes_key(key_bytes)?.open_in_place(nonce(nonce_bytes)?, Aad::from(associated), &mut bytes).ok()?;
    Some(plain.to_vec())
}

/// Encrypts what [`open_aes_gcm`] decrypts, for kinds that sign. A nonce must not be used twice with one key.
pub fn seal_aes_gcm(
    key_bytes: &[u8],
    nonce_bytes: &[u8],
    associated: &[u8],
    plain: &[u8],
) -> Option<Vec<u8>> {
    let (mut bytes, nonce) = (plain.to_vec(), nonce(nonce_bytes)?);
    aes_key(key_bytes)?
        .seal_in_place_append_tag(nonce, Aad::from(associated), &mut bytes)
        .ok()
        .map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_stands_for_one_signature() {
        #[track_caller]
        fn check(encoding: Encoding, text: &str, want: Option<&[u8]>) {
            assert_eq!(decoded(encoding, text).as_deref(), want, "{encoding:?} {text}");
        }
        check(Encoding::Hex, "00ff7a", Some(&[0, 255, 0x7a]));
        check(Encoding::HexAny, "00Ff7A", Some(&[0, 255, 0x7a]));
        for bad in ["", "0", "0g", "FF", "fF", " 00", "0x00", "00 ", "é0", "/0", ":0", "`0"] {
            check(Encoding::Hex, bad, None);
        }
        for bad in ["0G", "@0", "000"] {
            check(Encoding::HexAny, bad, None);
        }
        check(Encoding::Base64, "AP96", Some(&[0, 255, 0x7a]));
        check(Encoding::Base64, "AA==", Some(&[0]));
        check(Encoding::Base64Url, "AA", Some(&[0]));
        for bad in ["AA", "AB==", "A===", "AP9\n", "-_=="] {
            check(Encoding::Base64, bad, None);
        }
        check(Encoding::Base64Hex, "MDBmZg==", Some(&[0, 255]));
        for bytes_n in [1, 20, 32, 47, 48, 49, 63, 64, 65, 256, 512] {
            let bytes: Vec<u8> = (0..bytes_n).map(|n| u8::try_from(n % 251).unwrap_or_default()).collect();
            for encoding in [Encoding::Hex, Encoding::HexAny, Encoding::Base64, Encoding::Base64Url] {
                check(encoding, &encoded(encoding, &bytes), Some(&bytes));
            }
        }
    }

    #[test]
    fn what_is_sealed_is_opened_with_the_same_of_everything_alone() {
        let (key, nonce) = ([7; 32], [1; 12]);
        let sealed = seal_aes_gcm(&key, &nonce, b"a", b"plain").expect("sealed");
        assert_eq!(open_aes_gcm(&key, &nonce, b"a", &sealed).as_deref(), Some(b"plain".as_slice()));
        assert_eq!(open_aes_gcm(&[8; 32], &nonce, b"a", &sealed), None);
        assert_eq!(open_aes_gcm(&key, &[2; 12], b"a", &sealed), None);
        assert_eq!(open_aes_gcm(&key, &nonce, b"b", &sealed), None);
        assert_eq!(open_aes_gcm(&key, &nonce, b"a", &sealed[1..]), None);
        assert_eq!(open_aes_gcm(&key[..31], &nonce, b"a", &sealed), None);
        assert_eq!(open_aes_gcm(&key, &nonce[..11], b"a", b""), None);
    }

    #[test]
    fn aes_cbc_is_that_of_another_library() {
        // openssl enc -aes-128-cbc -K 30313233343536373839616263646566 -iv 40404040262626262323232324242424
        let (key, iv) = (b"0123456789abcdef", b"@@@@&&&&####$$$$");
        let sealed = crate::decode_base64("vOyni+dT0Gvb2bc3kXSiDUexx79tH0/dUAer++sJN6M=").expect("base64");
        assert_eq!(seal_aes_128_cbc(key, iv, b"which event is it?").as_ref(), Some(&sealed));
        assert_eq!(open_aes_128_cbc(key, iv, &sealed).as_deref(), Some(b"which event is it?".as_slice()));
        assert_eq!(open_aes_128_cbc(b"0123456789abcdeg", iv, &sealed), None);
        assert_eq!(open_aes_128_cbc(key, iv, &sealed[1..]), None);
        assert_eq!(open_aes_128_cbc(key, iv, b""), None);
        assert_eq!(open_aes_128_cbc(&key[1..], iv, &sealed), None);
    }

    #[test]
    fn triple_des_is_that_of_another_library() {
        // printf '1234567890\0\0\0\0\0\0' | openssl enc -des-ede3-cbc -nopad -iv 0000000000000000 -provider legacy
        let key = crate::decode_base64("sq7HjrUOBfKmC576ILgskD5srU870gJ7").expect("base64");
        let sealed = seal_3des_cbc_zeros(&key, b"1234567890").map(|sealed| crate::hex_text(&sealed));
        assert_eq!(sealed.as_deref(), Some("9ed56b24fc69db196c7ad5956a33e5d2"));
        assert_eq!(
            seal_3des_cbc_zeros(&key, b"12345678").map(|sealed| sealed.len()),
            Some(8),
            "no block is added"
        );
        assert_eq!(seal_3des_cbc_zeros(&key[1..], b"1234567890"), None);
    }
}
