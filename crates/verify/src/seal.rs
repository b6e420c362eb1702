//! AES-GCM, for senders that encrypt what they send, and AES-CBC and 3DES-CBC for senders that make checksums or keys
//! with them.

use aes::Aes128;
use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use des::TdesEde3;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// The plain text of `sealed`, AES-128-CBC with the padding of PKCS#7; `None` where it has none. That says nothing
/// about who sealed it.
pub fn open_aes_128_cbc(key: &[u8], iv: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    cbc::Decryptor::<Aes128>::new_from_slices(key, iv).ok()?.decrypt_padded_vec_mut::<Pkcs7>(sealed).ok()
}

/// The other way, for kinds that sign.
pub fn seal_aes_128_cbc(key: &[u8], iv: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    Some(cbc::Encryptor::<Aes128>::new_from_slices(key, iv).ok()?.encrypt_padded_vec_mut::<Pkcs7>(plain))
}

/// `plain` filled up with zeros and encrypted by 3DES-CBC with an IV of zeros: how a sender makes the key of an order. It
/// hides nothing. `None` when the key is not of 24 bytes.
pub fn seal_3des_cbc_zeros(key: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    const BLOCK_BYTES: usize = 8;
    let mut filled = plain.to_vec();
    filled.resize(plain.len().next_multiple_of(BLOCK_BYTES), 0);
    let cipher = cbc::Encryptor::<TdesEde3>::new_from_slices(key, &[0; BLOCK_BYTES]).ok()?;
    Some(cipher.encrypt_padded_vec_mut::<NoPadding>(&filled))
}

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
