//! Signatures as text, and plain digests. Decoding is strict: one text for one signature, except where a
//! sender is known to write either case.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

use crate::spec::Encoding;

/// Longest signature text that is looked at: RSA-4096 in base64 fits four times.
const TEXT_BYTES_MAX: usize = 4_096;

/// Secrets that people copy lose their padding.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Signature bytes; `None` for anything but the canonical text of the encoding.
pub(super) fn decoded(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    match encoding {
        // Senders write lower case; two texts for one signature would be one too many.
        Encoding::Hex if text.bytes().any(|b| b.is_ascii_uppercase()) => None,
        Encoding::Hex | Encoding::HexAny => hex::decode(text).ok(),
        Encoding::Base64 => STANDARD.decode(text).ok(),
        Encoding::Base64Url => URL_SAFE_NO_PAD.decode(text).ok(),
        Encoding::Base64Hex => {
            decoded(Encoding::Hex, std::str::from_utf8(&STANDARD.decode(text).ok()?).ok()?)
        }
    }
}

/// The canonical text of signature bytes.
pub(super) fn encoded(encoding: Encoding, bytes: &[u8]) -> String {
    match encoding {
        Encoding::Hex | Encoding::HexAny => hex::encode(bytes),
        Encoding::Base64 => STANDARD.encode(bytes),
        Encoding::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
        Encoding::Base64Hex => STANDARD.encode(hex::encode(bytes)),
    }
}

/// Key bytes from base64 with or without its padding.
pub(super) fn key_base64(text: &str) -> Option<Vec<u8>> {
    UNPADDED.decode(text.trim()).ok()
}

/// Standard base64 with padding, canonical; `None` for anything else.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::Base64, text)
}

/// As [`decode_base64`], of a content instead of a signature: of any length, and with line breaks in it.
pub fn decode_base64_long(text: &str) -> Option<Vec<u8>> {
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD.decode(joined).ok()
}

/// URL-safe base64 without padding, canonical, as in JWS; `None` for anything else.
pub fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::Base64Url, text)
}

/// As [`decode_base64url`], of a content instead of a signature: of any length.
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

/// Lower-case hexadecimal.
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
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
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
    fn of<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        // HMAC takes keys of any length; the error exists for other MACs.
        let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().to_vec()
    }
    match hash {
        Hash::Md5 => Vec::new(),
        Hash::Sha1 => of::<Hmac<Sha1>>(key, parts),
        Hash::Sha256 => of::<Hmac<Sha256>>(key, parts),
        Hash::Sha384 => of::<Hmac<Sha384>>(key, parts),
        Hash::Sha512 => of::<Hmac<Sha512>>(key, parts),
    }
}

/// The CRC-32 (IEEE) of `bytes`: no digest, but some sender signs it.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Whether two texts are the same, in a time that does not depend on where they differ. Nothing equals
/// nothing: an empty secret or signature never matches.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && bool::from(one.ct_eq(other))
}
