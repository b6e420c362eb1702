//! Public keys as senders publish them, and signatures by them. Parsing is `x509-parser`, verification is
//! `ring`, and `p521.rs` for the curve that it lacks; nothing here computes.

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::encoding::{decode_base64url, decode_hex, key_base64};
use super::p521;
use crate::spec::Scheme;
use hooklatch_core::json::text_of;

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

    pub(super) fn of_parsed(spki: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
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
            (Self::P521(key), PublicScheme::P521Fixed) => p521::verifies(key, message, signature),
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
