//! Private keys: the sender's side of public-key signatures, for `sign`, `send` and `serve --dev`; and the operator's
//! own, which signs responses for senders that require it.
//!
//! The keys and certificates in `published/` are no secrets: everybody has them. `serve --dev` alone trusts
//! them; a configuration that names them is refused ([`is_published`]).
//!
//! `rsa` computes where `ring` does not sign: with SHA-1, in constant time since its version 0.10, with blinding, and
//! with a check of each result (docs/adr/0094-answers-made-by-a-kind.md).

use std::fmt;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;
use rsa::traits::PublicKeyParts;
use sha1::Sha1;
use x509_parser::der_parser::der::parse_der;
use x509_parser::pem::Pem;

use super::encoding::{base64_text, key_base64};
use super::public::{PublicKey, PublicScheme, signed_p521};
use crate::spec::DevKey;

/// Fewest bytes of a modulus, as `ring` has it.
const MODULUS_BYTES_MIN: usize = 256;

/// A private RSA key. It does not print itself; clones share it.
#[derive(Clone)]
pub(crate) struct OwnKey(Arc<rsa::PrivateKey>);

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKey")
    }
}

impl OwnKey {
    /// Reads PEM, PKCS#8 or PKCS#1.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let pkcs1 = || rsa::PrivateKey::from_pkcs1_pem(text).ok();
        Self::of(rsa::PrivateKey::from_pkcs8_pem(text).ok().or_else(pkcs1)?)
    }

    /// Reads PKCS#8 in DER.
    fn of_pkcs8(der: &[u8]) -> Option<Self> {
        Self::of(rsa::PrivateKey::from_pkcs8_der(der).ok()?)
    }

    fn of(key: rsa::PrivateKey) -> Option<Self> {
        (key.size() >= MODULUS_BYTES_MIN).then(|| Self(Arc::new(key)))
    }

    /// The signature of `message`: PKCS#1 v1.5 with SHA-1. Equal messages have equal signatures.
    pub(crate) fn sign_sha1(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.pkcs1v15_sign::<Sha1>(message).ok()
    }
}

/// Published on purpose: senders that sign with RSA are played with it.
const RSA_KEY: &str = include_str!("published/rsa_key.pem");
const RSA_PUBLIC_KEY: &str = include_str!("published/rsa_public_key.pem");
/// Certificate of the same key, for senders that sign with a certificate.
const CERTIFICATE: &str = include_str!("published/certificate.pem");
/// Published as well, for senders that sign with ES512.
const P521_KEY: &str = include_str!("published/p521_key.pem");
const P521_PUBLIC_KEY: &str = include_str!("published/p521_public_key.pem");
/// A root, what it vouches for (first the certificate that signs, with the marks of Apple's), and the key of that one.
const CHAIN_ROOT: &str = include_str!("published/chain_root.pem");
const CHAIN: &str = include_str!("published/chain.pem");
const CHAIN_KEY: &str = include_str!("published/chain_key.pem");
/// Bytes before a point on P-256 in its `SubjectPublicKeyInfo`.
const P256_SPKI_HEAD: &str = "3059301306072a8648ce3d020106082a8648ce3d030107034200";
/// A PKCS#8 key in PEM.
const LABEL: &str = "PRIVATE KEY";

/// A private key of one of the kinds that senders use. It does not print itself.
#[derive(Clone)]
pub struct SigningKey(Arc<PrivateKey>);

enum PrivateKey {
    Ed25519(Ed25519KeyPair),
    /// One key, for either form of its signatures.
    P256(EcdsaKeyPair, Box<EcdsaKeyPair>),
    /// The private number of the published key, and its point.
    P521(Vec<u8>, Vec<u8>),
    /// An RSA key, and the same once more: `ring` does not sign with SHA-1, and some senders know nothing else.
    Rsa(RsaKeyPair, OwnKey),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

impl SigningKey {
    /// Reads a PKCS#8 key in PEM, or an Ed25519 key as Standard Webhooks writes it (`whsk_`).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(stem) = text.strip_prefix("whsk_") {
            let bytes = key_base64(stem)?;
            let (seed, public) = bytes.split_at_checked(32)?;
            let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public).ok()?;
            return Some(Self(Arc::new(PrivateKey::Ed25519(pair))));
        }
        if !text.contains("-----BEGIN") {
            return None;
        }
        let (pem, _) = Pem::read(std::io::Cursor::new(text.as_bytes())).ok()?;
        Self::of_pkcs8(&pem.contents).filter(|_| pem.label == LABEL)
    }

    fn of_pkcs8(der: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let p256 = |form| EcdsaKeyPair::from_pkcs8(form, der, &random).ok();
        let inner = if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            PrivateKey::Ed25519(pair)
        } else if let Some(pair) = p256(&signature::ECDSA_P256_SHA256_ASN1_SIGNING) {
            PrivateKey::P256(pair, Box::new(p256(&signature::ECDSA_P256_SHA256_FIXED_SIGNING)?))
        } else if let Some((number, point)) = p521_parts(der) {
            PrivateKey::P521(number, point)
        } else {
            PrivateKey::Rsa(RsaKeyPair::from_pkcs8(der).ok()?, OwnKey::of_pkcs8(der)?)
        };
        Some(Self(Arc::new(inner)))
    }

    /// The signature of `message`; `None` when this is a key of another kind.
    pub fn sign(&self, scheme: PublicScheme, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        let by_rsa = |pair: &RsaKeyPair, form: &'static dyn signature::RsaEncoding| {
            let mut bytes = vec![0; pair.public().modulus_len()];
            pair.sign(form, &random, message, &mut bytes).ok()?;
            Some(bytes)
        };
        let by_p256 = |pair: &EcdsaKeyPair| Some(pair.sign(&random, message).ok()?.as_ref().to_vec());
        match (&*self.0, scheme) {
            (PrivateKey::Ed25519(pair), PublicScheme::Ed25519) => Some(pair.sign(message).as_ref().to_vec()),
            (PrivateKey::P256(der, _), PublicScheme::P256Der) => by_p256(der),
            (PrivateKey::P256(_, fixed), PublicScheme::P256Fixed) => by_p256(fixed),
            (PrivateKey::Rsa(pair, _), PublicScheme::RsaSha256) => by_rsa(pair, &signature::RSA_PKCS1_SHA256),
            (PrivateKey::P521(number, _), PublicScheme::P521Fixed) => signed_p521(number, message),
            (PrivateKey::Rsa(pair, _), PublicScheme::RsaSha512) => by_rsa(pair, &signature::RSA_PKCS1_SHA512),
            (PrivateKey::Rsa(pair, _), PublicScheme::RsaPssSha512) => {
                by_rsa(pair, &signature::RSA_PSS_SHA512)
            }
            (PrivateKey::Rsa(_, own), PublicScheme::RsaSha1) => own.sign_sha1(message),
            _ => None,
        }
    }

    /// The public half of this key.
    fn public(&self) -> PublicKey {
        match &*self.0 {
            PrivateKey::Ed25519(pair) => PublicKey::Ed25519(pair.public_key().as_ref().to_vec()),
            PrivateKey::P256(pair, _) => PublicKey::P256(pair.public_key().as_ref().to_vec()),
            PrivateKey::P521(_, point) => PublicKey::P521(point.clone()),
            PrivateKey::Rsa(pair, _) => PublicKey::Rsa(pair.public().as_ref().to_vec()),
        }
    }

    /// The public key as a setting holds it: 32 bytes in hexadecimal for Ed25519, else a SPKI in base64. `None`
    /// for RSA and P-521, whose published keys have texts of their own.
    pub fn public_text(&self) -> Option<String> {
        let point = |pair: &EcdsaKeyPair| {
            let head = hex::decode(P256_SPKI_HEAD).unwrap_or_default();
            base64_text(&[head.as_slice(), pair.public_key().as_ref()].concat())
        };
        match &*self.0 {
            PrivateKey::Ed25519(pair) => Some(hex::encode(pair.public_key())),
            PrivateKey::P256(pair, _) => Some(point(pair)),
            PrivateKey::P521(..) | PrivateKey::Rsa(..) => None,
        }
    }
}

/// Private number and public point of a PKCS#8 key on P-521 (RFC 5915).
fn p521_parts(pkcs8: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    /// The curve `secp521r1` in DER.
    const CURVE: [u8; 7] = [6, 5, 43, 129, 4, 0, 35];
    /// 1 + twice 66.
    const POINT_BYTES: usize = 133;
    let (_, outer) = parse_der(pkcs8).ok()?;
    let inner = outer.as_sequence().ok()?.get(2)?.as_slice().ok()?;
    let (_, key) = parse_der(inner).ok()?;
    let number = key.as_sequence().ok()?.get(1)?.as_slice().ok()?.to_vec();
    let point = inner.len().checked_sub(POINT_BYTES).and_then(|from| inner.get(from..))?.to_vec();
    let is_p521 = pkcs8.windows(CURVE.len()).any(|window| window == CURVE) && point.first() == Some(&4);
    is_p521.then_some((number, point))
}

/// The keys that `serve --dev` trusts: those that were generated on this machine, and the published one.
#[derive(Debug, Clone, Default)]
pub struct DevKeys {
    ed25519: Option<SigningKey>,
    p256: Option<SigningKey>,
}

impl DevKeys {
    /// New keys as one PEM text; `None` when the system has no random numbers.
    pub fn generate() -> Option<String> {
        let random = SystemRandom::new();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).ok()?;
        let p256 = EcdsaKeyPair::generate_pkcs8(&signature::ECDSA_P256_SHA256_ASN1_SIGNING, &random).ok()?;
        Some([ed25519.as_ref(), p256.as_ref()].map(pem).concat())
    }

    /// Reads what [`DevKeys::generate`] made; `None` when a key is missing or cannot be read.
    pub fn parse(text: &str) -> Option<Self> {
        let mut keys = Self::default();
        for pem in Pem::iter_from_buffer(text.as_bytes()) {
            let key = SigningKey::of_pkcs8(&pem.ok()?.contents)?;
            match &*key.0 {
                PrivateKey::Ed25519(_) => keys.ed25519 = Some(key),
                PrivateKey::P256(..) => keys.p256 = Some(key),
                PrivateKey::P521(..) | PrivateKey::Rsa(..) => return None,
            }
        }
        (keys.ed25519.is_some() && keys.p256.is_some()).then_some(keys)
    }

    /// The private key of this sort.
    pub fn signing(&self, sort: DevKey) -> Option<SigningKey> {
        match sort {
            DevKey::Ed25519 => self.ed25519.clone(),
            DevKey::P256 => self.p256.clone(),
            DevKey::P521 => SigningKey::parse(P521_KEY),
            DevKey::Chain => SigningKey::parse(CHAIN_KEY),
            DevKey::Rsa | DevKey::RsaPrivate | DevKey::Certificate => SigningKey::parse(RSA_KEY),
        }
    }

    /// The text that a setting holds of this sort of key.
    pub fn setting(&self, sort: DevKey) -> Option<String> {
        match sort {
            DevKey::Ed25519 | DevKey::P256 => self.signing(sort)?.public_text(),
            DevKey::Rsa => Some(RSA_PUBLIC_KEY.to_owned()),
            DevKey::RsaPrivate => Some(RSA_KEY.to_owned()),
            DevKey::Certificate => Some(CERTIFICATE.to_owned()),
            DevKey::P521 => Some(P521_PUBLIC_KEY.to_owned()),
            DevKey::Chain => Some(CHAIN_ROOT.to_owned()),
        }
    }
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN {LABEL}-----\n{}\n-----END {LABEL}-----\n", base64_text(der))
}

/// The published certificates that vouch for each other, base64 of DER, from the one that signs to the root.
pub(crate) fn published_chain() -> Vec<String> {
    let pems = [CHAIN, CHAIN_ROOT].into_iter().flat_map(|text| Pem::iter_from_buffer(text.as_bytes()));
    pems.filter_map(Result::ok).map(|pem| base64_text(&pem.contents)).collect()
}

/// True when a published key is in this text, in whatever form: everybody can sign with it.
pub fn is_published(text: &str) -> bool {
    const BEGIN: &str = "-----BEGIN";
    let ours = [RSA_PUBLIC_KEY, P521_PUBLIC_KEY, CHAIN_ROOT, CHAIN]
        .map(|text| PublicKey::parse(text).map(comparable));
    let is_ours = |text: &str| {
        let key = PublicKey::parse(text).or_else(|| Some(SigningKey::parse(text)?.public()));
        key.is_some_and(|key| ours.contains(&Some(comparable(key))))
    };
    let mut blocks = text.split(BEGIN).skip(1).map(|rest| format!("{BEGIN}{rest}"));
    is_ours(text) || blocks.any(|block| is_ours(&block))
}

/// An RSA key as its modulus alone, whatever its form was; any other as it is.
fn comparable(key: PublicKey) -> PublicKey {
    let modulus =
        |der: &[u8]| Some(parse_der(der).ok()?.1.as_sequence().ok()?.first()?.as_slice().ok()?.to_vec());
    let without_zeros = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    match key {
        PublicKey::Rsa(der) => PublicKey::RsaParts(without_zeros(modulus(&der).unwrap_or(der)), Vec::new()),
        PublicKey::RsaParts(modulus, _) => PublicKey::RsaParts(without_zeros(modulus), Vec::new()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use crate::{PublicKey, PublicScheme, base64_text};

    use super::*;

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

    const SCHEMES: [PublicScheme; 8] = [
        PublicScheme::Ed25519,
        PublicScheme::P256Der,
        PublicScheme::P256Fixed,
        PublicScheme::P521Fixed,
        PublicScheme::RsaSha256,
        PublicScheme::RsaSha512,
        PublicScheme::RsaSha1,
        PublicScheme::RsaPssSha512,
    ];

    #[test]
    fn what_a_key_signs_its_public_half_verifies_and_no_other() {
        let keys = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("readable");
        let other = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("readable");
        for scheme in SCHEMES {
            let sort = match scheme {
                PublicScheme::Ed25519 => DevKey::Ed25519,
                PublicScheme::P256Der | PublicScheme::P256Fixed => DevKey::P256,
                PublicScheme::P521Fixed => DevKey::P521,
                _ => DevKey::Rsa,
            };
            let signature = keys.signing(sort).and_then(|key| key.sign(scheme, b"message")).expect("signed");
            let public =
                |keys: &DevKeys| PublicKey::parse(&keys.setting(sort).expect("a text")).expect("a key");
            assert!(public(&keys).verifies(scheme, b"message", &signature), "{scheme:?}");
            assert!(!public(&keys).verifies(scheme, b"messagf", &signature), "{scheme:?}");
            if !matches!(sort, DevKey::Rsa | DevKey::P521) {
                assert!(!public(&other).verifies(scheme, b"message", &signature), "{scheme:?}");
            }
        }
    }

    const APPLE_ROOT: &str = include_str!("../../../providers/apple_app_store/apple_root_ca_g3.pem");

    #[test]
    fn the_published_key_is_known_in_every_form() {
        let ours =
            [RSA_KEY, RSA_PUBLIC_KEY, CERTIFICATE, P521_KEY, P521_PUBLIC_KEY, CHAIN_ROOT, CHAIN, CHAIN_KEY];
        for text in ours {
            assert!(is_published(text), "{text}");
            assert!(is_published(&format!("{APPLE_ROOT}{text}")), "behind another");
        }
        assert!(!is_published(APPLE_ROOT));
        let stem: String = RSA_PUBLIC_KEY.lines().filter(|line| !line.starts_with('-')).collect();
        assert!(is_published(&stem), "base64 alone");
        let keys = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("readable");
        assert!(!is_published(&keys.setting(DevKey::P256).expect("a text")) && !is_published("text"));
    }

    #[test]
    fn a_private_key_of_standard_webhooks_is_read() {
        // The seed and key of RFC 8032, section 7.1, test 1.
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let bytes = hex::decode(format!("{seed}{public}")).expect("hex");
        let key = SigningKey::parse(&format!("whsk_{}", base64_text(&bytes))).expect("a key");
        assert_eq!(key.public_text().as_deref(), Some(public));
        assert!(SigningKey::parse("whsk_AAAA").is_none());
    }
}
