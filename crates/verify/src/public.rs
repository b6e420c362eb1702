//! Public keys as senders publish them, signatures by them, and chains of certificates that a request carries, such as
//! `x5c` of a JWS: whether they lead to a root that the settings name.
//!
//! Parsing is `x509-parser`, verification is `ring`, and `p521` for the curve that it lacks; nothing here computes.

use p521::ecdsa::signature::{Signer, Verifier};
use p521::ecdsa::{Signature, SigningKey, VerifyingKey};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::oid_registry::{
    OID_PKCS1_SHA256WITHRSA, OID_PKCS1_SHA384WITHRSA, OID_PKCS1_SHA512WITHRSA, OID_SIG_ECDSA_WITH_SHA256,
    OID_SIG_ECDSA_WITH_SHA384, Oid,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::encoding::{decode_base64url, decode_hex, key_base64};
use crate::spec::Scheme;
use hooklatch_core::json::text_of;

/// True when `signature`, r and s, was made of `message` by the owner of `key`, an uncompressed point: ECDSA on P-521
/// with SHA-512, which `ring` lacks.
fn verifies_p521(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let (Ok(key), Ok(signature)) = (VerifyingKey::from_sec1_bytes(key), Signature::from_slice(signature))
    else {
        return false;
    };
    key.verify(message, &signature).is_ok()
}

/// The signature of `message` by the private number `secret`.
pub(crate) fn signed_p521(secret: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let signature: Signature = SigningKey::from_slice(secret).ok()?.try_sign(message).ok()?;
    Some(signature.to_bytes().to_vec())
}

/// Bytes of an Ed25519 public key.
const ED25519_BYTES: usize = 32;

/// A way to make a signature by a private key, and to verify it by the public one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicScheme {
    /// Ed25519 as of RFC 8032.
    Ed25519,
    /// ECDSA on P-256 with SHA-256; the signature in DER.
    P256Der,
    /// ECDSA on P-256 with SHA-256; the signature is r and s.
    P256Fixed,
    /// ECDSA on P-384 with SHA-384; the signature is r and s.
    P384Fixed,
    /// ECDSA on P-521 with SHA-512; the signature is r and s.
    P521Fixed,
    /// RSA PKCS#1 v1.5 with SHA-256.
    RsaSha256,
    /// RSA PKCS#1 v1.5 with SHA-512.
    RsaSha512,
    /// RSA PKCS#1 v1.5 with SHA-1.
    RsaSha1,
    /// RSA with the padding PSS and SHA-512.
    RsaPssSha512,
}

impl Scheme {
    /// The way in which its public keys are used; `None` where it has none.
    pub fn public(self) -> Option<PublicScheme> {
        match self {
            Self::Ed25519 => Some(PublicScheme::Ed25519),
            Self::EcdsaP256 => Some(PublicScheme::P256Der),
            Self::RsaSha256 => Some(PublicScheme::RsaSha256),
            Self::RsaSha1 => Some(PublicScheme::RsaSha1),
            _ => None,
        }
    }
}

/// A public key, of a kind that decides which schemes it can verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// The 32 bytes of the key.
    Ed25519(Vec<u8>),
    /// An uncompressed point on P-256.
    P256(Vec<u8>),
    /// An uncompressed point on P-384.
    P384(Vec<u8>),
    /// An uncompressed point on P-521.
    P521(Vec<u8>),
    /// A PKCS#1 `RSAPublicKey` in DER.
    Rsa(Vec<u8>),
    /// Modulus and exponent, as a JWK has them.
    RsaParts(Vec<u8>, Vec<u8>),
}

impl PublicKey {
    /// Reads PEM (a public key or a certificate), base64 of a SPKI, a JWK, or the 32 bytes of an Ed25519 key
    /// in hexadecimal or base64.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with('{') {
            return Self::of_jwk(text.as_bytes());
        }
        if text.contains("-----BEGIN") {
            return Self::of_pem(text);
        }
        let stem = text.strip_prefix("whpk_").unwrap_or(text);
        if let Some(bytes) = decode_hex(stem).filter(|bytes| bytes.len() == ED25519_BYTES) {
            return Some(Self::Ed25519(bytes));
        }
        let bytes = key_base64(stem)?;
        if bytes.len() == ED25519_BYTES { Some(Self::Ed25519(bytes)) } else { Self::of_spki(&bytes) }
    }

    fn of_pem(text: &str) -> Option<Self> {
        let (pem, _) = Pem::read(std::io::Cursor::new(text.as_bytes())).ok()?;
        match pem.label.as_str() {
            "PUBLIC KEY" => Self::of_spki(&pem.contents),
            "RSA PUBLIC KEY" => Some(Self::Rsa(pem.contents)),
            "CERTIFICATE" => {
                let (_, certificate) = X509Certificate::from_der(&pem.contents).ok()?;
                Self::of_parsed(certificate.public_key())
            }
            _ => None,
        }
    }

    fn of_spki(der: &[u8]) -> Option<Self> {
        let (rest, spki) = SubjectPublicKeyInfo::from_der(der).ok()?;
        rest.is_empty().then(|| Self::of_parsed(&spki)).flatten()
    }

    pub(crate) fn of_parsed(spki: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let bytes = spki.subject_public_key.data.to_vec();
        match spki.parsed().ok()? {
            Parsed::RSA(_) => Some(Self::Rsa(bytes)),
            Parsed::EC(point) => match point.key_size() {
                256 => Some(Self::P256(bytes)),
                384 => Some(Self::P384(bytes)),
                // The length is rounded up to whole bytes.
                528 => Some(Self::P521(bytes)),
                _ => None,
            },
            Parsed::Unknown(_) if spki.algorithm.algorithm == x509_parser::oid_registry::OID_SIG_ED25519 => {
                Some(Self::Ed25519(bytes)).filter(|_| spki.subject_public_key.data.len() == ED25519_BYTES)
            }
            _ => None,
        }
    }

    /// A JSON Web Key; `None` for private or symmetric ones.
    fn of_jwk(jwk: &[u8]) -> Option<Self> {
        let part = |pointer: &str| decode_base64url(&text_of(jwk, pointer).ok()?);
        match (text_of(jwk, "/kty").ok()?.as_str(), text_of(jwk, "/crv").ok().as_deref()) {
            ("RSA", _) => Some(Self::RsaParts(part("/n")?, part("/e")?)),
            ("EC", Some("P-256")) => Some(Self::P256([vec![4], part("/x")?, part("/y")?].concat())),
            ("EC", Some("P-384")) => Some(Self::P384([vec![4], part("/x")?, part("/y")?].concat())),
            ("EC", Some("P-521")) => Some(Self::P521([vec![4], part("/x")?, part("/y")?].concat())),
            ("OKP", Some("Ed25519")) => part("/x").map(Self::Ed25519),
            _ => None,
        }
    }

    /// True when `signature` over `message` was made by the owner of this key. The key's kind decides: a scheme
    /// of another kind never matches.
    pub fn verifies(&self, scheme: PublicScheme, message: &[u8], signature: &[u8]) -> bool {
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
        };
        match (self, scheme) {
            (Self::Ed25519(key), PublicScheme::Ed25519) => by(&signature::ED25519, key),
            (Self::P256(key), PublicScheme::P256Der) => by(&signature::ECDSA_P256_SHA256_ASN1, key),
            (Self::P256(key), PublicScheme::P256Fixed) => by(&signature::ECDSA_P256_SHA256_FIXED, key),
            (Self::P384(key), PublicScheme::P384Fixed) => by(&signature::ECDSA_P384_SHA384_FIXED, key),
            (Self::P521(key), PublicScheme::P521Fixed) => verifies_p521(key, message, signature),
            (Self::Rsa(key), scheme) => rsa(scheme).is_some_and(|algorithm| by(algorithm, key)),
            (Self::RsaParts(n, e), scheme) => rsa(scheme).is_some_and(|algorithm| {
                signature::RsaPublicKeyComponents { n, e }.verify(algorithm, message, signature).is_ok()
            }),
            _ => false,
        }
    }
}

fn rsa(scheme: PublicScheme) -> Option<&'static signature::RsaParameters> {
    match scheme {
        PublicScheme::RsaSha256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        PublicScheme::RsaSha512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        PublicScheme::RsaSha1 => Some(&signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY),
        PublicScheme::RsaPssSha512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

/// A certificate: for whom it is, when it counts, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name and its alternative DNS names.
    pub names: Vec<String>,
    /// First moment at which it counts. Unix seconds.
    pub not_before_s: i64,
    /// Last moment at which it counts. Unix seconds.
    pub not_after_s: i64,
    /// The key that it certifies.
    pub key: PublicKey,
}

impl Certificate {
    /// Reads the first certificate of a PEM text. Its own signature is not checked: that is for the code that fetched
    /// it, before it is trusted.
    pub fn parse(text: &str) -> Option<Self> {
        let (pem, _) = Pem::read(std::io::Cursor::new(text.trim().as_bytes())).ok()?;
        let (_, certificate) = X509Certificate::from_der(&pem.contents).ok()?;
        let mut names: Vec<String> = certificate
            .subject()
            .iter_common_name()
            .filter_map(|name| Some(name.as_str().ok()?.to_owned()))
            .collect();
        if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
            names.extend(alternative.value.general_names.iter().filter_map(|name| match name {
                x509_parser::extensions::GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            }));
        }
        Some(Self {
            names,
            not_before_s: certificate.validity().not_before.timestamp(),
            not_after_s: certificate.validity().not_after.timestamp(),
            key: PublicKey::of_parsed(certificate.public_key())?,
        })
    }

    /// True when it counts at this time.
    pub fn is_valid_at(&self, now_s: i64) -> bool {
        (self.not_before_s..=self.not_after_s).contains(&now_s)
    }
}

/// Algorithms that certificates may be signed with. SHA-1 is not one of them.
const ALGORITHMS: [Oid<'static>; 5] = [
    OID_SIG_ECDSA_WITH_SHA256,
    OID_SIG_ECDSA_WITH_SHA384,
    OID_PKCS1_SHA256WITHRSA,
    OID_PKCS1_SHA384WITHRSA,
    OID_PKCS1_SHA512WITHRSA,
];
/// Longest certificate that is read. Bytes.
const CERTIFICATE_BYTES_MAX: usize = 8_192;

/// The key of a certificate that a root vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateChain {
    /// The key that is vouched for.
    pub key: PublicKey,
    /// First moment at which every certificate is valid, the root's included. Unix seconds.
    pub from_s: i64,
    /// Last moment at which every certificate is valid. Unix seconds.
    pub until_s: i64,
}

impl CertificateChain {
    /// True when every certificate was valid at this time, or `skew_s` before or after.
    pub fn is_valid_at(&self, at_s: i64, skew_s: i64) -> bool {
        (self.from_s.saturating_sub(skew_s)..=self.until_s.saturating_add(skew_s)).contains(&at_s)
    }
}

/// The key of the first certificate in `chain` (DER), or why the chain is not trusted. Each is signed by the next, and
/// the last by one of the `roots` (PEM, one after the other). Each must have its mark, the object identifier of an
/// extension that its authority gives to certificates of that purpose alone: there are as many certificates as `marks`,
/// the root not counted; it may stand behind them, and is not looked at.
pub fn vouched(chain: &[Vec<u8>], roots: &str, marks: &[&str]) -> Result<CertificateChain, &'static str> {
    let chain = chain.get(..marks.len()).ok_or("the chain is too short")?;
    let chain: Vec<X509Certificate<'_>> =
        chain.iter().map(|der| parsed(der)).collect::<Option<_>>().ok_or("a certificate cannot be read")?;
    let has_mark = |(certificate, mark): (&X509Certificate<'_>, &&str)| {
        certificate.extensions().iter().any(|one| one.oid.to_id_string() == **mark)
    };
    if !chain.iter().zip(marks).all(has_mark) {
        return Err("a certificate is for another purpose");
    }
    let pems: Vec<Pem> = Pem::iter_from_buffer(roots.as_bytes()).filter_map(Result::ok).collect();
    let roots: Vec<X509Certificate<'_>> = pems.iter().filter_map(|pem| parsed(&pem.contents)).collect();
    let (leaf, last) = chain.first().zip(chain.last()).ok_or("the chain is empty")?;
    // The last link first: a stranger can have made all others.
    let root =
        roots.iter().find(|root| is_issued(last, root)).ok_or("no known root vouches for the chain")?;
    let mut authorities = chain.iter().skip(1).chain([root]).enumerate();
    if !authorities.all(|(depth, issuer)| is_authority(issuer, depth)) {
        return Err("a certificate that vouches for another may not");
    }
    let is_link = |pair: &[X509Certificate<'_>]| matches!(pair, [certificate, issuer] if is_issued(certificate, issuer));
    if !chain.windows(2).rev().all(is_link) {
        return Err("a certificate was not issued by the next");
    }
    let validities = || chain.iter().chain([root]).map(|one| one.validity());
    Ok(CertificateChain {
        key: PublicKey::of_parsed(leaf.public_key()).ok_or("the key of the certificate cannot be read")?,
        from_s: validities().map(|one| one.not_before.timestamp()).max().unwrap_or(i64::MAX),
        until_s: validities().map(|one| one.not_after.timestamp()).min().unwrap_or(i64::MIN),
    })
}

/// A certificate and nothing behind it, without unknown critical extensions.
fn parsed(der: &[u8]) -> Option<X509Certificate<'_>> {
    if der.len() > CERTIFICATE_BYTES_MAX {
        return None;
    }
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    let is_unknown = |one: &x509_parser::extensions::X509Extension<'_>| {
        let parsed = one.parsed_extension();
        one.critical && (parsed.unsupported() || parsed.error().is_some())
    };
    (rest.is_empty() && !certificate.extensions().iter().any(is_unknown)).then_some(certificate)
}

fn is_issued(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    let algorithm = &certificate.signature_algorithm;
    certificate.issuer().as_raw() == issuer.subject().as_raw()
        && ALGORITHMS.contains(&algorithm.algorithm)
        && certificate.tbs_certificate.signature.algorithm == algorithm.algorithm
        && certificate.verify_signature(Some(issuer.public_key())).is_ok()
}

/// True when it may sign certificates, with `depth` authorities below it.
fn is_authority(certificate: &X509Certificate<'_>, depth: usize) -> bool {
    let Ok(Some(constraints)) = certificate.basic_constraints() else { return false };
    let limit = constraints.value.path_len_constraint;
    let is_deep = limit.is_some_and(|limit| usize::try_from(limit).is_ok_and(|limit| depth > limit));
    let may_sign = match certificate.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true,
        Err(_) => false,
    };
    constraints.value.ca && !is_deep && may_sign
}

#[cfg(test)]
mod tests {
    use crate::{decode_base64_long, decode_hex};

    use super::*;

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
        assert!(verifies_p521(&key, MESSAGE, &signature));
        assert!(!verifies_p521(&key, b"which event is it!", &signature));
        for at in [0, 1, 40, 65, 66, 67, 100, 131] {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert!(!verifies_p521(&key, MESSAGE, &changed), "byte {at} of the signature");
            let mut changed = key.clone();
            changed[at + 1] ^= 1;
            assert!(!verifies_p521(&changed, MESSAGE, &signature), "byte {at} of the key");
        }
        assert!(!verifies_p521(&key, MESSAGE, &signature[..131]) && !verifies_p521(&key, MESSAGE, b""));
        assert!(!verifies_p521(&key[..132], MESSAGE, &signature) && !verifies_p521(b"", MESSAGE, &signature));
    }

    #[test]
    fn halves_out_of_range_are_refused() {
        let (key, signature) = (bytes(KEY), bytes(SIGNATURE));
        let (r, s) = signature.split_at(66);
        let (zero, most) = ([0; 66], [0xff; 66]);
        for (r, s) in [(&zero[..], s), (r, &zero[..]), (&zero, &zero), (&most, s), (r, &most[..])] {
            assert!(!verifies_p521(&key, MESSAGE, &[r, s].concat()));
        }
    }

    #[test]
    fn what_is_signed_is_verified() {
        let secret = [&[0; 65][..], &[7]].concat();
        let key = SigningKey::from_slice(&secret).expect("a key").verifying_key().to_sec1_point(false);
        let signature = signed_p521(&secret, MESSAGE).expect("a signature");
        assert!(verifies_p521(key.as_bytes(), MESSAGE, &signature));
        assert!(!verifies_p521(key.as_bytes(), b"another", &signature));
        assert_eq!(signed_p521(&[0; 66], MESSAGE), None);
    }

    /// Apple's own test chain, and its real one: npm @apple/app-store-server-library 3.1.0,
    /// dist/tests/unit-tests/jws_verification.test.js.
    const ROOT: &str = "MIIBgjCCASmgAwIBAgIJALUc5ALiH5pbMAoGCCqGSM49BAMDMDYxCzAJBgNVBAYTAlVTMRMwEQYDVQQIDApDYWxpZm9ybmlhMRIwEAYDVQQHDAlDdXBlcnRpbm8wHhcNMjMwMTA1MjEzMDIyWhcNMzMwMTAyMjEzMDIyWjA2MQswCQYDVQQGEwJVUzETMBEGA1UECAwKQ2FsaWZvcm5pYTESMBAGA1UEBwwJQ3VwZXJ0aW5vMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEc+/Bl+gospo6tf9Z7io5tdKdrlN1YdVnqEhEDXDShzdAJPQijamXIMHf8xWWTa1zgoYTxOKpbuJtDplz1XriTaMgMB4wDAYDVR0TBAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwMDRwAwRAIgemWQXnMAdTad2JDJWng9U4uBBL5mA7WI05H7oH7c6iQCIHiRqMjNfzUAyiu9h6rOU/K+iTR0I/3Y/NSWsXHX+acc";
    const INTERMEDIATE: &str = "MIIBnzCCAUWgAwIBAgIBCzAKBggqhkjOPQQDAzA2MQswCQYDVQQGEwJVUzETMBEGA1UECAwKQ2FsaWZvcm5pYTESMBAGA1UEBwwJQ3VwZXJ0aW5vMB4XDTIzMDEwNTIxMzEwNVoXDTMzMDEwMTIxMzEwNVowRTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xFTATBgNVBAoMDEludGVybWVkaWF0ZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBUN5V9rKjfRiMAIojEA0Av5Mp0oF+O0cL4gzrTF178inUHugj7Et46NrkQ7hKgMVnjogq45Q1rMs+cMHVNILWqjNTAzMA8GA1UdEwQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMBAGCiqGSIb3Y2QGAgEEAgUAMAoGCCqGSM49BAMDA0gAMEUCIQCmsIKYs41ullssHX4rVveUT0Z7Is5/hLK1lFPTtun3hAIgc2+2RG5+gNcFVcs+XJeEl4GZ+ojl3ROOmll+ye7dynQ=";
    const LEAF: &str = "MIIBoDCCAUagAwIBAgIBDDAKBggqhkjOPQQDAzBFMQswCQYDVQQGEwJVUzELMAkGA1UECAwCQ0ExEjAQBgNVBAcMCUN1cGVydGlubzEVMBMGA1UECgwMSW50ZXJtZWRpYXRlMB4XDTIzMDEwNTIxMzEzNFoXDTMzMDEwMTIxMzEzNFowPTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xDTALBgNVBAoMBExlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATitYHEaYVuc8g9AjTOwErMvGyPykPa+puvTI8hJTHZZDLGas2qX1+ErxgQTJgVXv76nmLhhRJH+j25AiAI8iGsoy8wLTAJBgNVHRMEAjAAMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNIADBFAiBX4c+T0Fp5nJ5QRClRfu5PSByRvNPtuaTsk0vPB3WAIAIhANgaauAj/YP9s0AkEhyJhxQO/6Q2zouZ+H1CIOehnMzQ";
    const LEAF_OF_OTHER_MARK: &str = "MIIBoDCCAUagAwIBAgIBDzAKBggqhkjOPQQDAzBFMQswCQYDVQQGEwJVUzELMAkGA1UECAwCQ0ExEjAQBgNVBAcMCUN1cGVydGlubzEVMBMGA1UECgwMSW50ZXJtZWRpYXRlMB4XDTIzMDEwNTIxMzczMVoXDTMzMDEwMTIxMzczMVowPTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xDTALBgNVBAoMBExlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATitYHEaYVuc8g9AjTOwErMvGyPykPa+puvTI8hJTHZZDLGas2qX1+ErxgQTJgVXv76nmLhhRJH+j25AiAI8iGsoy8wLTAJBgNVHRMEAjAAMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsCBAIFADAKBggqhkjOPQQDAwNIADBFAiAb+7S3i//bSGy7skJY9+D4VgcQLKFeYfIMSrUCmdrFqwIhAIMVwzD1RrxPRtJyiOCXLyibIvwcY+VS73HYfk0O9lgz";
    const INTERMEDIATE_OF_OTHER_MARK: &str = "MIIBnjCCAUWgAwIBAgIBDTAKBggqhkjOPQQDAzA2MQswCQYDVQQGEwJVUzETMBEGA1UECAwKQ2FsaWZvcm5pYTESMBAGA1UEBwwJQ3VwZXJ0aW5vMB4XDTIzMDEwNTIxMzYxNFoXDTMzMDEwMTIxMzYxNFowRTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xFTATBgNVBAoMDEludGVybWVkaWF0ZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBUN5V9rKjfRiMAIojEA0Av5Mp0oF+O0cL4gzrTF178inUHugj7Et46NrkQ7hKgMVnjogq45Q1rMs+cMHVNILWqjNTAzMA8GA1UdEwQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMBAGCiqGSIb3Y2QGAgIEAgUAMAoGCCqGSM49BAMDA0cAMEQCIFROtTE+RQpKxNXETFsf7Mc0h+5IAsxxo/X6oCC/c33qAiAmC5rn5yCOOEjTY4R1H1QcQVh+eUwCl13NbQxWCuwxxA==";
    const LEAF_BELOW_IT: &str = "MIIBnzCCAUagAwIBAgIBDjAKBggqhkjOPQQDAzBFMQswCQYDVQQGEwJVUzELMAkGA1UECAwCQ0ExEjAQBgNVBAcMCUN1cGVydGlubzEVMBMGA1UECgwMSW50ZXJtZWRpYXRlMB4XDTIzMDEwNTIxMzY1OFoXDTMzMDEwMTIxMzY1OFowPTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xDTALBgNVBAoMBExlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATitYHEaYVuc8g9AjTOwErMvGyPykPa+puvTI8hJTHZZDLGas2qX1+ErxgQTJgVXv76nmLhhRJH+j25AiAI8iGsoy8wLTAJBgNVHRMEAjAAMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNHADBEAiAUAs+gzYOsEXDwQquvHYbcVymyNqDtGw9BnUFp2YLuuAIgXxQ3Ie9YU0cMqkeaFd+lyo0asv9eyzk6stwjeIeOtTU=";
    const REAL_ROOT: &str = "MIICQzCCAcmgAwIBAgIILcX8iNLFS5UwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwSQXBwbGUgUm9vdCBDQSAtIEczMSYwJAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcNMTQwNDMwMTgxOTA2WhcNMzkwNDMwMTgxOTA2WjBnMRswGQYDVQQDDBJBcHBsZSBSb290IENBIC0gRzMxJjAkBgNVBAsMHUFwcGxlIENlcnRpZmljYXRpb24gQXV0aG9yaXR5MRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzB2MBAGByqGSM49AgEGBSuBBAAiA2IABJjpLz1AcqTtkyJygRMc3RCV8cWjTnHcFBbZDuWmBSp3ZHtfTjjTuxxEtX/1H7YyYl3J6YRbTzBPEVoA/VhYDKX1DyxNB0cTddqXl5dvMVztK517IDvYuVTZXpmkOlEKMaNCMEAwHQYDVR0OBBYEFLuw3qFYM4iapIqZ3r6966/ayySrMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMDA2gAMGUCMQCD6cHEFl4aXTQY2e3v9GwOAEZLuN+yRhHFD/3meoyhpmvOwgPUnPWTxnS4at+qIxUCMG1mihDK1A3UT82NQz60imOlM27jbdoXt2QfyFMm+YhidDkLF1vLUagM6BgD56KyKA==";
    const REAL_INTERMEDIATE: &str = "MIIDFjCCApygAwIBAgIUIsGhRwp0c2nvU4YSycafPTjzbNcwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwSQXBwbGUgUm9vdCBDQSAtIEczMSYwJAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcNMjEwMzE3MjAzNzEwWhcNMzYwMzE5MDAwMDAwWjB1MUQwQgYDVQQDDDtBcHBsZSBXb3JsZHdpZGUgRGV2ZWxvcGVyIFJlbGF0aW9ucyBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTELMAkGA1UECwwCRzYxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVTMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEbsQKC94PrlWmZXnXgtxzdVJL8T0SGYngDRGpngn3N6PT8JMEb7FDi4bBmPhCnZ3/sq6PF/cGcKXWsL5vOteRhyJ45x3ASP7cOB+aao90fcpxSv/EZFbniAbNgZGhIhpIo4H6MIH3MBIGA1UdEwEB/wQIMAYBAf8CAQAwHwYDVR0jBBgwFoAUu7DeoVgziJqkipnevr3rr9rLJKswRgYIKwYBBQUHAQEEOjA4MDYGCCsGAQUFBzABhipodHRwOi8vb2NzcC5hcHBsZS5jb20vb2NzcDAzLWFwcGxlcm9vdGNhZzMwNwYDVR0fBDAwLjAsoCqgKIYmaHR0cDovL2NybC5hcHBsZS5jb20vYXBwbGVyb290Y2FnMy5jcmwwHQYDVR0OBBYEFD8vlCNR01DJmig97bB85c+lkGKZMA4GA1UdDwEB/wQEAwIBBjAQBgoqhkiG92NkBgIBBAIFADAKBggqhkjOPQQDAwNoADBlAjBAXhSq5IyKogMCPtw490BaB677CaEGJXufQB/EqZGd6CSjiCtOnuMTbXVXmxxcxfkCMQDTSPxarZXvNrkxU3TkUMI33yzvFVVRT4wxWJC994OsdcZ4+RGNsYDyR5gmdr0nDGg=";
    const REAL_LEAF: &str = "MIIEMTCCA7agAwIBAgIQR8KHzdn554Z/UoradNx9tzAKBggqhkjOPQQDAzB1MUQwQgYDVQQDDDtBcHBsZSBXb3JsZHdpZGUgRGV2ZWxvcGVyIFJlbGF0aW9ucyBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTELMAkGA1UECwwCRzYxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVTMB4XDTI1MDkxOTE5NDQ1MVoXDTI3MTAxMzE3NDcyM1owgZIxQDA+BgNVBAMMN1Byb2QgRUNDIE1hYyBBcHAgU3RvcmUgYW5kIGlUdW5lcyBTdG9yZSBSZWNlaXB0IFNpZ25pbmcxLDAqBgNVBAsMI0FwcGxlIFdvcmxkd2lkZSBEZXZlbG9wZXIgUmVsYXRpb25zMRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNnVvhcv7iT+7Ex5tBMBgrQspHzIsXRi0Yxfek7lv8wEmj/bHiWtNwJqc2BoHzsQiEjP7KFIIKg4Y8y0/nynuAmjggIIMIICBDAMBgNVHRMBAf8EAjAAMB8GA1UdIwQYMBaAFD8vlCNR01DJmig97bB85c+lkGKZMHAGCCsGAQUFBwEBBGQwYjAtBggrBgEFBQcwAoYhaHR0cDovL2NlcnRzLmFwcGxlLmNvbS93d2RyZzYuZGVyMDEGCCsGAQUFBzABhiVodHRwOi8vb2NzcC5hcHBsZS5jb20vb2NzcDAzLXd3ZHJnNjAyMIIBHgYDVR0gBIIBFTCCAREwggENBgoqhkiG92NkBQYBMIH+MIHDBggrBgEFBQcCAjCBtgyBs1JlbGlhbmNlIG9uIHRoaXMgY2VydGlmaWNhdGUgYnkgYW55IHBhcnR5IGFzc3VtZXMgYWNjZXB0YW5jZSBvZiB0aGUgdGhlbiBhcHBsaWNhYmxlIHN0YW5kYXJkIHRlcm1zIGFuZCBjb25kaXRpb25zIG9mIHVzZSwgY2VydGlmaWNhdGUgcG9saWN5IGFuZCBjZXJ0aWZpY2F0aW9uIHByYWN0aWNlIHN0YXRlbWVudHMuMDYGCCsGAQUFBwIBFipodHRwOi8vd3d3LmFwcGxlLmNvbS9jZXJ0aWZpY2F0ZWF1dGhvcml0eS8wHQYDVR0OBBYEFIFioG4wMMVA1ku9zJmGNPAVn3eqMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNpADBmAjEA+qXnREC7hXIWVLsLxznjRpIzPf7VHz9V/CTm8+LJlrQepnmcPvGLNcX6XPnlcgLAAjEA5IjNZKgg5pQ79knF4IbTXdKv8vutIDMXDmjPVT3dGvFtsGRwXOywR2kZCdSrfeot";
    const MARKS: [&str; 2] = ["1.2.840.113635.100.6.11.1", "1.2.840.113635.100.6.2.1"];
    fn der(text: &str) -> Vec<u8> {
        decode_base64_long(text).expect("base64")
    }

    #[track_caller]
    fn judged(chain: &[&str], root: &str) -> Result<CertificateChain, &'static str> {
        let chain: Vec<Vec<u8>> = chain.iter().map(|text| der(text)).collect();
        vouched(&chain, &format!("-----BEGIN CERTIFICATE-----\n{root}\n-----END CERTIFICATE-----\n"), &MARKS)
    }

    #[test]
    fn the_chains_of_apples_own_tests_are_judged_as_there() {
        let key = judged(&[LEAF, INTERMEDIATE, ROOT], ROOT);
        let wanted = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE4rWBxGmFbnPIPQI0zsBKzLxsj8pD2vqbr0yPISUx2WQyxmrNql9fhK8YEEyYFV7++p5i4YUSR/o9uQIgCPIhrA==";
        assert_eq!(key.ok().map(|chain| chain.key), PublicKey::parse(wanted));
        assert!(judged(&[REAL_LEAF, REAL_INTERMEDIATE, REAL_ROOT], REAL_ROOT).is_ok());
        let two_roots =
            format!("{ROOT}\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n{REAL_ROOT}");
        assert!(judged(&[REAL_LEAF, REAL_INTERMEDIATE], &two_roots).is_ok(), "the second of two roots");
        for (chain, root, why) in [
            ([LEAF_OF_OTHER_MARK, INTERMEDIATE], ROOT, "another purpose"),
            ([LEAF_BELOW_IT, INTERMEDIATE_OF_OTHER_MARK], ROOT, "another purpose"),
            ([LEAF, INTERMEDIATE], REAL_ROOT, "no known root"),
            ([LEAF, INTERMEDIATE], "", "no known root"),
            ([REAL_LEAF, INTERMEDIATE], ROOT, "not issued by the next"),
            ([LEAF, REAL_INTERMEDIATE], REAL_ROOT, "not issued by the next"),
            ([INTERMEDIATE, LEAF], ROOT, "another purpose"),
        ] {
            let error = judged(&chain, root).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_chain_counts_while_all_of_it_is_valid_and_at_its_whole_length() {
        let chain = judged(&[LEAF, INTERMEDIATE], ROOT).expect("a chain");
        // The leaf is valid from 2023-01-05 21:31:34 on, the intermediate until 2033-01-01 21:31:05.
        assert_eq!((chain.from_s, chain.until_s), (1_672_954_294, 1_988_227_865));
        assert!(chain.is_valid_at(1_672_954_234, 60) && !chain.is_valid_at(1_672_954_233, 60));
        assert!(chain.is_valid_at(1_988_227_925, 60) && !chain.is_valid_at(1_988_227_926, 60));
        assert_eq!(judged(&[LEAF], ROOT).err(), Some("the chain is too short"));
        assert_eq!(judged(&["MA==", INTERMEDIATE], ROOT).err(), Some("a certificate cannot be read"));
        let trailing = [der(LEAF), vec![0]].concat();
        assert!(judged(&[&crate::base64_text(&trailing), INTERMEDIATE], ROOT).is_err());
    }

    #[test]
    fn a_certificate_that_may_not_sign_certificates_is_not_trusted_as_an_issuer() {
        let roots = format!("-----BEGIN CERTIFICATE-----\n{INTERMEDIATE}\n-----END CERTIFICATE-----\n");
        let of_intermediate = vouched(&[der(LEAF)], &roots, &MARKS[..1]);
        assert!(of_intermediate.is_ok(), "an authority of path length 0 may sign a leaf");
        let (leaf, intermediate) = (der(LEAF), der(INTERMEDIATE));
        let (_, leaf) = X509Certificate::from_der(&leaf).expect("a certificate");
        let (_, intermediate) = X509Certificate::from_der(&intermediate).expect("a certificate");
        assert!(!is_authority(&leaf, 0));
        assert!(is_authority(&intermediate, 0) && !is_authority(&intermediate, 1));
    }
}
