//! The operator's own private key, which signs responses for senders that require it. `rsa` computes here because
//! `ring` does not sign with SHA-1: in constant time since its version 0.10, with blinding, and with a check of each
//! result (docs/adr/0094-answers-made-by-a-kind.md).

use std::fmt;
use std::sync::Arc;

use rsa::PrivateKey;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;
use rsa::traits::PublicKeyParts;
use sha1::Sha1;

/// Fewest bytes of a modulus, as `ring` has it.
const MODULUS_BYTES_MIN: usize = 256;

/// A private RSA key. It does not print itself; clones share it.
#[derive(Clone)]
pub(super) struct OwnKey(Arc<PrivateKey>);

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKey")
    }
}

impl OwnKey {
    /// Reads PEM, PKCS#8 or PKCS#1.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::of(PrivateKey::from_pkcs8_pem(text).ok().or_else(|| PrivateKey::from_pkcs1_pem(text).ok())?)
    }

    /// Reads PKCS#8 in DER.
    pub(super) fn of_pkcs8(der: &[u8]) -> Option<Self> {
        Self::of(PrivateKey::from_pkcs8_der(der).ok()?)
    }

    fn of(key: PrivateKey) -> Option<Self> {
        (key.size() >= MODULUS_BYTES_MIN).then(|| Self(Arc::new(key)))
    }

    /// The signature of `message`: PKCS#1 v1.5 with SHA-1. Equal messages have equal signatures.
    pub(super) fn sign_sha1(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.pkcs1v15_sign::<Sha1>(message).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PublicKey, PublicScheme, base64_text};

    /// Made for these tests by OpenSSL 3 (`openssl genrsa 2048`); the same key as PKCS#1, and keys of other sorts.
    const KEY: &str = include_str!("../../../tests/it/keys/own_key.pem");
    const KEY_PKCS1: &str = include_str!("../../../tests/it/keys/own_key_pkcs1.pem");
    const PUBLIC: &str = include_str!("../../../tests/it/keys/own_public_key.pem");
    const SHORT: &str = include_str!("../../../tests/it/keys/own_short_key.pem");
    const MESSAGE: &[u8] = b"credit258a2184-2842-b485-25ca-293525152425statusOK";
    /// `openssl dgst -sha1 -sign` of the message by that key.
    const SIGNATURE: &str = "ZazSf1+WTHwx+TP1k2nfgtpNe0GKfMDlQOAyg+WkzfNb63KnFe6HC/A2qZvEbko2DIk5mksAnOTw41N1Z3nVfN1MIW6ri1mx2JSqOht6dL2jiB+5HM3g6u56gw7sgD9HURvEdcbXh/G231k6LzX79lprJjsMuwaQC5HgTQrD6BTmiyuJ/ze1UxHuqDEtzaESlUFmJ3fkUxXwPebFJM5R3D1fi9Ao4VXLZ/DjyYk1mxOdvhVuLCwLw8kQJ1CqjHL72I2YoLOrVvB5zBg+WrV4mrFp5KeHk/mMKBbuVTKPcRPirjgmlXlexAiVcTZpfQv58MFVTO3P8RcezgvMKvCWbg==";

    #[test]
    fn an_answer_has_the_signature_that_another_library_makes_of_it_each_time() {
        for pem in [KEY, KEY_PKCS1] {
            let key = OwnKey::parse(pem).expect("a key");
            for _ in 0..2 {
                let signature = key.sign_sha1(MESSAGE).expect("a signature");
                assert_eq!(base64_text(&signature), SIGNATURE, "whatever blinds it");
            }
        }
        let public = PublicKey::parse(PUBLIC).expect("a key");
        let signature = OwnKey::parse(KEY).and_then(|key| key.sign_sha1(MESSAGE)).expect("a signature");
        assert!(public.verifies(PublicScheme::RsaSha1, MESSAGE, &signature));
    }

    #[test]
    fn what_is_no_private_rsa_key_of_2048_bits_is_refused() {
        for text in
            [PUBLIC, SHORT, "", "secret", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            assert!(OwnKey::parse(text).is_none(), "{text}");
        }
        assert_eq!(format!("{:?}", OwnKey::parse(KEY)), "Some(OwnKey)");
    }
}
