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

/// Bytes of the longest MAC.
const SHORT_BYTES: usize = 64;
/// No digit has it.
const NO_DIGIT: u8 = 0x80;

/// Copied secrets often lose their padding.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes of a signature: those of every MAC take no memory of their own.
pub(super) enum ShortBytes {
    /// The bytes and their number; what follows them means nothing.
    Here([u8; SHORT_BYTES], usize),
    /// Bytes that are more than fit.
    Elsewhere(Vec<u8>),
}

impl ShortBytes {
    /// A copy of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut here = [0; SHORT_BYTES];
        match here.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Self::Here(here, bytes.len())
            }
            None => Self::Elsewhere(bytes.to_vec()),
        }
    }

    /// A buffer of `bytes_n`, filled by `fill`; `None` when `fill` returns `None`.
    fn filled(bytes_n: usize, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Self> {
        let mut here = [0; SHORT_BYTES];
        if let Some(place) = here.get_mut(..bytes_n) {
            let filled_n = fill(place)?;
            return Some(Self::Here(here, filled_n));
        }
        let mut elsewhere = vec![0; bytes_n];
        let filled_n = fill(&mut elsewhere)?;
        elsewhere.truncate(filled_n);
        Some(Self::Elsewhere(elsewhere))
    }
}

impl std::ops::Deref for ShortBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Here(bytes, n) => bytes.get(..*n).unwrap_or_default(),
            Self::Elsewhere(bytes) => bytes,
        }
    }
}

/// Signature bytes; `None` for anything but the canonical text of the encoding.
pub(crate) fn decoded(encoding: Encoding, text: &str) -> Option<ShortBytes> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let of_base64 = |engine: &GeneralPurpose| {
        let bytes_n = base64::decoded_len_estimate(text.len());
        ShortBytes::filled(bytes_n, |place| engine.decode_slice(text, place).ok())
    };
    match encoding {
        Encoding::Hex => of_hex(text, &LOWER),
        Encoding::HexAny => of_hex(text, &EITHER),
        Encoding::Base64 => of_base64(&STANDARD),
        Encoding::Base64Url => of_base64(&URL_SAFE_NO_PAD),
        Encoding::Base64Hex => {
            decoded(Encoding::Hex, std::str::from_utf8(&STANDARD.decode(text).ok()?).ok()?)
        }
    }
}

/// The digit that each byte stands for; bytes that are no digit have a high bit.
type Digits = [u8; 256];

/// Senders write lower case; two texts for one signature would be one too many.
static LOWER: Digits = digits(false);
/// Digits of senders that are known to write either case.
static EITHER: Digits = digits(true);

const fn digits(is_upper_too: bool) -> Digits {
    let mut digits = [NO_DIGIT; 256];
    let mut n: u8 = 0;
    #[expect(clippy::indexing_slicing, reason = "while it is compiled")]
    while n < 16 {
        digits[b"0123456789abcdef"[n as usize] as usize] = n;
        if is_upper_too {
            digits[b"0123456789ABCDEF"[n as usize] as usize] = n;
        }
        n += 1;
    }
    digits
}

/// Reads all of it before it returns, without a branch for each digit.
fn of_hex(text: &str, digits: &Digits) -> Option<ShortBytes> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| digits.get(usize::from(byte)).copied().unwrap_or(NO_DIGIT);
    ShortBytes::filled(pairs.len(), |place| {
        let mut all = 0;
        for ([high, low], byte) in pairs.iter().zip(place) {
            let (high, low) = (digit(*high), digit(*low));
            all |= high | low;
            *byte = (high << 4) | (low & 0x0f);
        }
        (all & NO_DIGIT == 0).then_some(pairs.len())
    })
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
pub(super) fn key_base64(text: &str) -> Option<Vec<u8>> {
    UNPADDED.decode(text.trim()).ok()
}

/// Standard base64 with padding, canonical; `None` for anything else.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::Base64, text).map(|bytes| bytes.to_vec())
}

/// Decodes as [`decode_base64`] does, a content instead of a signature: of any length, and with line breaks in it.
pub fn decode_base64_long(text: &str) -> Option<Vec<u8>> {
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD.decode(joined).ok()
}

/// URL-safe base64 without padding, canonical, as in JWS; `None` for anything else.
pub fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::Base64Url, text).map(|bytes| bytes.to_vec())
}

/// Decodes as [`decode_base64url`] does, a content instead of a signature: of any length.
pub fn decode_base64url_long(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Hexadecimal of either case; `None` for anything else.
pub fn decode_hex(text: &str) -> Option<Vec<u8>> {
    decoded(Encoding::HexAny, text).map(|bytes| bytes.to_vec())
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
    #[doc(hidden)]
    Md5,
    /// SHA-1, only where a sender offers nothing else.
    Sha1,
    /// The SHA-2 digest of 256 bits.
    Sha256,
    /// The SHA-2 digest of 384 bits.
    #[doc(hidden)]
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

/// True when two texts are the same, in a time that does not depend on where they differ. Nothing equals
/// nothing: an empty secret or signature never matches.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && bool::from(one.ct_eq(other))
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
            assert_eq!(*ShortBytes::of(&bytes), bytes);
        }
    }
}
