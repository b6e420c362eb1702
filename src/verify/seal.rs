//! AES-GCM, for senders that encrypt what they send.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

fn key(key: &[u8]) -> Option<LessSafeKey> {
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
    let plain = key(key_bytes)?.open_in_place(nonce(nonce_bytes)?, Aad::from(associated), &mut bytes).ok()?;
    Some(plain.to_vec())
}

/// The other way, for kinds that sign. A nonce must not be used twice with one key.
pub fn seal_aes_gcm(
    key_bytes: &[u8],
    nonce_bytes: &[u8],
    associated: &[u8],
    plain: &[u8],
) -> Option<Vec<u8>> {
    let mut bytes = plain.to_vec();
    let sealed =
        key(key_bytes)?.seal_in_place_append_tag(nonce(nonce_bytes)?, Aad::from(associated), &mut bytes);
    sealed.ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
