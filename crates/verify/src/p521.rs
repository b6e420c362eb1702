//! ECDSA on P-521 with SHA-512, which `ring` lacks.

use ::p521::ecdsa::signature::{Signer, Verifier};
use ::p521::ecdsa::{Signature, SigningKey, VerifyingKey};

/// True when `signature`, r and s, was made of `message` by the owner of `key`, an uncompressed point.
pub(crate) fn verifies(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let (Ok(key), Ok(signature)) = (VerifyingKey::from_sec1_bytes(key), Signature::from_slice(signature))
    else {
        return false;
    };
    key.verify(message, &signature).is_ok()
}

/// The signature of `message` by the private number `secret`.
pub(crate) fn signed(secret: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let signature: Signature = SigningKey::from_slice(secret).ok()?.try_sign(message).ok()?;
    Some(signature.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode_hex;

    /// Made with Node 20.20 (`crypto.generateKeyPairSync("ec", { namedCurve: "secp521r1" })`, `crypto.sign` with
    /// `dsaEncoding: "ieee-p1363"`).
    const KEY: &str = "0401dcaee298d4a431f48e4ada0d7e25478f5364363cd032ca8b0d5cd69d0dccb03686f5b87ec5e71d331dc06094c8f05892ee60fe82d0bc7f98a30eff50e26a6101d500a454d3caf2bcb0a6bcecd42f068a6144fd57f997593b5e34a5bdfc2889c703638df5d385b5b83ea27bc7f2644ab084e6ae960fccb432c0c7fcca94f51c165091da";
    const SIGNATURE: &str = "016e36eb853385002f7f80b2ebd1af26986dbc4c7192fe05e289e6e9787ab3bf8b838c598843f6bd8e7460c77f2c24cd079d4aabc2c34faa841b2edc1098ae1cf28a01f1a8bf16d14c880394f1346116148bc55b4141a1124afd5d0cb71a01526d292c79fbe55688fcd2203906101c3bc9682b4ed77e587917ba44feb6dde400a3e69414";
    const MESSAGE: &[u8] = b"which event is it?";

    fn bytes(hex: &str) -> Vec<u8> {
        decode_hex(hex).expect("hexadecimal")
    }

    #[test]
    fn a_signature_of_another_library_is_verified_and_nothing_else_is() {
        let (key, signature) = (bytes(KEY), bytes(SIGNATURE));
        assert!(verifies(&key, MESSAGE, &signature));
        assert!(!verifies(&key, b"which event is it!", &signature));
        for at in [0, 1, 40, 65, 66, 67, 100, 131] {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert!(!verifies(&key, MESSAGE, &changed), "byte {at} of the signature");
            let mut changed = key.clone();
            changed[at + 1] ^= 1;
            assert!(!verifies(&changed, MESSAGE, &signature), "byte {at} of the key");
        }
        assert!(!verifies(&key, MESSAGE, &signature[..131]) && !verifies(&key, MESSAGE, b""));
        assert!(!verifies(&key[..132], MESSAGE, &signature) && !verifies(b"", MESSAGE, &signature));
    }

    #[test]
    fn halves_out_of_range_are_refused() {
        let (key, signature) = (bytes(KEY), bytes(SIGNATURE));
        let (r, s) = signature.split_at(66);
        let (zero, most) = ([0; 66], [0xff; 66]);
        for (r, s) in [(&zero[..], s), (r, &zero[..]), (&zero, &zero), (&most, s), (r, &most[..])] {
            assert!(!verifies(&key, MESSAGE, &[r, s].concat()));
        }
    }

    #[test]
    fn what_is_signed_is_verified() {
        let secret = [&[0; 65][..], &[7]].concat();
        let key = SigningKey::from_slice(&secret).expect("a key").verifying_key().to_sec1_point(false);
        let signature = signed(&secret, MESSAGE).expect("a signature");
        assert!(verifies(key.as_bytes(), MESSAGE, &signature));
        assert!(!verifies(key.as_bytes(), b"another", &signature));
        assert_eq!(signed(&[0; 66], MESSAGE), None);
    }
}
