//! One key of the ring, as a person wrote it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac;

/// Length of a key. Bytes.
pub(super) const KEY_BYTES: usize = 32;

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

    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    pub fn search(&self) -> &hmac::Key {
        &self.search
    }

    /// True when both are the same 32 bytes; used to check a list of keys.
    pub fn is_same_as(&self, other: &Self) -> bool {
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
            "nobody sees that it is the same"
        );
        let said = format!("{key:?}");
        assert!(said.contains("2026-11") && !said.contains("1f") && !said.contains("31"), "{said}");
    }
}
