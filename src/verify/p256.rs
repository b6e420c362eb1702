//! ECDSA on P-256 with SHA-1, which `ring` lacks.

use ::p256::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};
use ::p256::ecdsa::{Signature, SigningKey, VerifyingKey};

use super::encoding::{Hash, digest};

/// True when `signature`, in DER, was made of `message` by the owner of `key`, an uncompressed point.
pub(super) fn verifies_sha1(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let (Ok(key), Ok(signature)) = (VerifyingKey::from_sec1_bytes(key), Signature::from_der(signature))
    else {
        return false;
    };
    key.verify_prehash(&digest(Hash::Sha1, &[message]), &signature).is_ok()
}

/// The signature of `message` by the private number `secret`.
pub(super) fn signed_sha1(secret: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let key = SigningKey::from_slice(secret).ok()?;
    let signature: Signature = key.sign_prehash(&digest(Hash::Sha1, &[message])).ok()?;
    Some(signature.to_der().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_with_sha_1_is_verified_and_nothing_else_is() {
        let secret = [&[0; 31][..], &[7]].concat();
        let key = SigningKey::from_slice(&secret).expect("a key").verifying_key().to_sec1_point(false);
        let signature = signed_sha1(&secret, b"which event is it?").expect("a signature");
        assert!(verifies_sha1(key.as_bytes(), b"which event is it?", &signature));
        assert!(!verifies_sha1(key.as_bytes(), b"which event is it!", &signature));
        for at in [5, 20, 36, 60] {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert!(!verifies_sha1(key.as_bytes(), b"which event is it?", &changed), "byte {at}");
        }
        assert!(!verifies_sha1(&key.as_bytes()[1..], b"which event is it?", &signature));
        // An empty signature, and halves of zero.
        assert!(
            !verifies_sha1(key.as_bytes(), b"x", b"")
                && !verifies_sha1(key.as_bytes(), b"x", b"\x30\x06\x02\x01\0\x02\x01\0")
        );
        assert_eq!(signed_sha1(&[0; 32], b"x"), None);
    }
}
